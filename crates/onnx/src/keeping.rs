//! What the code of a module may keep for backward otherwise than its file shows: expressions that exporters merge, gated units,
//! activations in place, results in a list and in variables.

use super::call::NodeCall;
use super::notes;
use super::schema::NodeProto;
use super::translate::GraphTranslation;
use super::value::{Feature, Value};
use super::warning::UnsureReason;
use hashbrown::HashMap;
use perf4sight_network::{
    Activation, BackwardNeeds, BinaryFunction, KeptReading, Network, Node, NodeId, Op, OperationNature, PytorchRun,
    ReductionKind, ResultStorage,
};
use std::borrow::Cow;

/// Lists that keep less than one in so many elements of all results do not matter.
const SMALL: u64 = 100;

/// How the names of PyTorch's variances begin, of which exporters write the steps.
const VARIANCES: [&str; 3] = ["torch.ops.prims.var.", "torch.ops.aten.var.", "torch.ops.aten.std."];

/// Operands of a list: two are more often two variables.
const LIST: usize = 3;

/// The results that may have been computed several times: exporters merge equal expressions of one module (`_jit_pass_cse`).
#[derive(Debug, Default)]
pub(super) struct SharedExpressions<'a> {
    /// The module of the node that makes a value.
    makers: HashMap<&'a str, &'a str>,
    /// The nodes of the same module that read it, so far.
    readers: HashMap<&'a str, usize>,
    /// The merged results that notes name, by their names there.
    pub restored: HashMap<String, Feature>,
}

impl<'a> SharedExpressions<'a> {
    pub fn record_made(&mut self, node: &'a NodeProto) {
        if let Some(module) = module(node) {
            self.makers.extend(node.output.iter().map(|output| (&**output, module)));
        }
    }

    /// Whether a node reads a value that another node of the module in which it is made has read before.
    fn is_read_again(&mut self, node: &'a NodeProto, name: &'a str) -> bool {
        let is_within = module(node).is_some_and(|module| self.makers.get(name) == Some(&module));
        let readers = self.readers.entry(name).or_default();
        *readers += usize::from(is_within);
        is_within && *readers > 1
    }
}

/// The modules in whose calls a node runs, the outermost first, where its file records them.
pub(super) fn calls(node: &NodeProto) -> Option<Cow<'_, str>> {
    notes::calls(node).map(Cow::Owned).or_else(|| module(node).map(Cow::Borrowed))
}

/// The module of a node in files of PyTorch's older exporter, which name nodes by it: `/layers.0/norm/Sub_1`.
fn module(node: &NodeProto) -> Option<&str> {
    node.name().strip_prefix('/').map(|name| name.rsplit_once('/').map_or("", |(module, _)| module))
}

impl<'a> GraphTranslation<'a> {
    /// The operands of a node, in the reading that keeps most with expressions computed as often as they are read in their module.
    pub fn computed_again(&mut self, node: &'a NodeProto, mut operands: Vec<Value>) -> Vec<Value> {
        // The shape of a tensor is no reading of it.
        let inputs = if self.ours || node.op_type() == "Shape" { &[][..] } else { &node.input };
        for (place, name) in inputs.iter().enumerate() {
            let Some(&Value::Feature(feature)) = operands.get(place) else { continue };
            let is_first = !node.input[..place].contains(name);
            if is_first && is_expression(self.builder.node(feature.id)) {
                operands[place] = Value::Feature(self.own_copy(node, place, feature));
            }
        }
        operands
    }

    /// The operands of a node, those without a gradient that its program detached: the default exporter names them in its notes and leaves the operation out. The older
    /// one does not tell.
    pub fn detached_operands(&mut self, node: &'a NodeProto, mut operands: Vec<Value>) -> Vec<Value> {
        if self.ours || node.op_type() == "Shape" {
            return operands;
        }
        for (place, noted) in notes::read(node).into_iter().enumerate().filter(|(_, noted)| noted.starts_with("detach"))
        {
            let (Some(name), Some(&Value::Feature(feature))) = (node.input.get(place), operands.get(place)) else {
                continue;
            };
            // A further node of the same operation reads what the first one made.
            let is_of_operation = name.starts_with("val_") || name == noted;
            let detached = if is_of_operation { None } else { self.without_gradient(noted, feature) };
            operands[place] = Value::Feature(detached.unwrap_or(feature));
        }
        operands
    }

    fn without_gradient(&mut self, noted: &'a str, feature: Feature) -> Option<Feature> {
        if let Some(known) = self.expressions.restored.get(noted) {
            return Some(*known);
        }
        let shape = self.builder.shape(feature.id).clone();
        let id = self.builder.insert(&self.free(noted), Op::Reshape(shape), &[feature.id]).ok()?;
        self.builder.set_runs(id, PytorchRun::Detached);
        let detached = Feature { id, ..feature };
        self.expressions.restored.insert(noted.to_owned(), detached);
        Some(detached)
    }

    /// What a node reads in PyTorch: by the notes of the default exporter, else perhaps a result of its own.
    fn own_copy(&mut self, node: &'a NodeProto, place: usize, feature: Feature) -> Feature {
        if self.exporter.has_notes() {
            return self.restored_result(node, place, feature).unwrap_or(feature);
        }
        if !self.expressions.is_read_again(node, &node.input[place]) {
            return feature;
        }
        self.noticed.unsure(UnsureReason::Merged);
        let copy = if self.keeping == KeptReading::Most { self.copy_of(feature) } else { None };
        copy.unwrap_or(feature)
    }

    /// The result that a note names, `sub_1`, where the file has only `sub`, with which the exporter merged it.
    fn restored_result(&mut self, node: &'a NodeProto, place: usize, feature: Feature) -> Option<Feature> {
        let noted = notes::arguments(node).get(place)?.strip_prefix('%')?;
        let name = &node.input[place];
        if noted == name || without_number(noted) != without_number(name) || self.values.get(noted).is_some() {
            return None;
        }
        if let Some(known) = self.expressions.restored.get(noted) {
            return Some(*known);
        }
        let copy = self.copy_of(feature)?;
        self.expressions.restored.insert(noted.to_owned(), copy);
        Some(copy)
    }

    fn copy_of(&mut self, feature: Feature) -> Option<Feature> {
        let Node { name, op, inputs, .. } = self.builder.node(feature.id).clone();
        let id = self.builder.insert(&self.free(&format!("{name}_again")), op, &inputs).ok()?;
        Some(Feature { id, ..feature })
    }

    /// Makes the sigmoid of a gated linear unit a part of it, where the unit is PyTorch's `glu`, which keeps its input alone
    /// (tools/autograd/derivatives.yaml); without a note it may be.
    pub fn join_gate(&mut self, call: &NodeCall, binary: BinaryFunction, [value, gate]: [Feature; 2]) {
        if self.ours || binary != BinaryFunction::Mul || !self.is_gated(value.id, gate.id) {
            return;
        }
        let operation = notes::operation(call.node);
        let is_open = operation.is_empty();
        if is_open {
            self.noticed.unsure(UnsureReason::Gate);
        }
        if operation.contains("glu") || is_open && self.keeping == KeptReading::Least {
            self.builder.set_runs(gate.id, PytorchRun::WithReader);
        }
    }

    /// Marks a maximum whose place PyTorch keeps in place of what it reads (`max` of one axis); without a note it may.
    pub fn keep_places(&mut self, call: &NodeCall, node: NodeId, axes: usize) {
        let operation = notes::operation(call.node);
        let is_open = operation.is_empty() && axes == 1;
        if self.ours || !(is_open || operation.ends_with(".dim")) {
            return;
        }
        if is_open {
            self.noticed.unsure(UnsureReason::Places);
        }
        if !is_open || self.keeping != KeptReading::Most {
            self.builder.set_runs(node, PytorchRun::WithPlaces);
        }
    }

    /// Makes slices that are joined in another order parts of one operator, `roll` or `split`, whose gradients make one of the whole at once
    /// (tools/autograd/derivatives.yaml); without a note a program may have cut them out one by one.
    pub fn join_parts(&mut self, call: &NodeCall, parts: &[Feature]) {
        let operation = notes::operation(call.node);
        let is_open = !self.exporter.has_notes();
        let is_known = parts.iter().all(|part| self.builder.node(part.id).runs == PytorchRun::Part);
        let is_read_once = call.node.input.iter().all(|name| self.values.is_read_once(name));
        if is_known || !(is_open && is_read_once || operation.contains(".roll.")) {
            return;
        }
        if is_open {
            self.noticed.unsure(UnsureReason::Parts);
        }
        if !is_open || self.keeping != KeptReading::Most {
            parts.iter().for_each(|part| self.builder.set_runs(part.id, PytorchRun::Part));
        }
    }

    /// Marks the nodes from `first` on where they run within a `torch.autograd.Function`, which may keep what it reads alone.
    pub fn keep_inputs_of_function(&mut self, node: &NodeProto, first: usize) {
        let added = first..self.builder.node_count();
        if self.ours || added.is_empty() || !notes::is_in_function(node) {
            return;
        }
        self.noticed.unsure(UnsureReason::Function);
        if self.keeping != KeptReading::Most {
            self.builder.set_runs_from(first, PytorchRun::InFunction);
        }
    }

    /// Makes the sigmoid behind a logarithm a part of it, where both are PyTorch's `logsigmoid`, which keeps its input and a tensor as large
    /// (`log_sigmoid_forward`); without a note they may be.
    pub fn join_sigmoid(&mut self, call: &NodeCall, read: NodeId) {
        let is_sigmoid = matches!(self.builder.node(read).op, Op::Activation(Activation::Sigmoid));
        let is_alone = call.node.input.first().is_some_and(|name| self.values.is_read_once(name));
        let operation = notes::operation(call.node);
        if self.ours || !is_sigmoid || !is_alone || !(operation.is_empty() || operation.contains("log_sigmoid")) {
            return;
        }
        if operation.is_empty() {
            self.noticed.unsure(UnsureReason::LogSigmoid);
        }
        if !operation.is_empty() || self.keeping != KeptReading::Least {
            self.builder.set_runs(read, PytorchRun::WithReader);
        }
    }

    /// Marks the nodes from `first` on where a note tells that they are steps of PyTorch's `var`.
    pub fn keep_input_of_variance(&mut self, node: &NodeProto, first: usize) {
        if !self.ours && VARIANCES.iter().any(|operator| notes::operation(node).starts_with(operator)) {
            self.builder.set_runs_from(first, PytorchRun::Variance);
        }
    }

    /// Marks the steps of means of squared differences from a mean, where nothing else reads these: `var`, which a program may spell out, too.
    pub fn join_variances(&mut self) {
        if self.ours || self.exporter.has_notes() {
            return;
        }
        let ids: Vec<NodeId> = self.builder.ids().collect();
        let mut reads = vec![0; ids.len()];
        ids.iter().flat_map(|id| &self.builder.node(*id).inputs).for_each(|read| reads[read.index()] += 1);
        for id in ids {
            let Some(steps) = self.variance(id) else { continue };
            let [_, _, differences, squares, _] = steps;
            if [reads[differences.index()], reads[squares.index()]] != [2, 1] {
                continue;
            }
            self.noticed.unsure(UnsureReason::Variance);
            if self.keeping != KeptReading::Most {
                steps[1..].iter().for_each(|step| self.builder.set_runs(*step, PytorchRun::Variance));
            }
        }
    }

    /// What a variance reads, its mean, the differences, their squares, and the mean of those.
    fn variance(&self, of_squares: NodeId) -> Option<[NodeId; 5]> {
        let is_mean = |id: NodeId| {
            let op = self.parts(id).0;
            // Over the samples of a batch.
            let is_over_samples = matches!(op, Op::Unknown(unknown) if unknown.op_type == "ReduceMean");
            matches!(op, Op::Reduce { reduction: ReductionKind::Mean, .. }) || is_over_samples
        };
        let [squares] = self.parts(of_squares).1 else { return None };
        let (Op::Binary(BinaryFunction::Mul), [differences, again]) = self.parts(*squares) else { return None };
        let (Op::Binary(BinaryFunction::Sub), [read, mean]) = self.parts(*differences) else { return None };
        // Of the samples of a batch, it is seen without an axis for them.
        let mean = if let (Op::Flatten | Op::Reshape(_), [seen]) = self.parts(*mean) { *seen } else { *mean };
        let is_variance = differences == again && is_mean(of_squares) && is_mean(mean);
        (is_variance && self.parts(mean).1 == [*read]).then_some([*read, mean, *differences, *squares, of_squares])
    }

    /// Whether one is the first half of a tensor, and the other the sigmoid of its second half.
    fn is_gated(&self, value: NodeId, gate: NodeId) -> bool {
        let (Op::Activation(Activation::Sigmoid), &[opened]) = self.parts(gate) else { return false };
        let (Op::Slice { axis, start: 0, length }, whole) = self.parts(value) else { return false };
        let (Op::Slice { axis: along, start, length: other }, of) = self.parts(opened) else { return false };
        (axis, length, length, whole) == (along, start, other, of)
    }

    fn parts(&self, id: NodeId) -> (&Op, &[NodeId]) {
        let node = self.builder.node(id);
        (&node.op, &node.inputs)
    }
}

/// The name of an operation without its number: `sub` of `sub_1`.
fn without_number(name: &str) -> &str {
    let numbered = name.rsplit_once('_').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    numbered.map_or(name, |(name, _)| name)
}

/// Whether it is element-wise, a softmax or a reduction, of which programs write the same twice.
fn is_expression(node: &Node) -> bool {
    let is_one = matches!(
        node.op,
        Op::Activation(_) | Op::Binary(_) | Op::Where | Op::Softmax { .. } | Op::Reduce { .. } | Op::Resize { .. }
    );
    is_one && !node.inputs.is_empty()
}

/// Whether it has recurrent layers, whose memory is known of some sizes.
pub(super) fn has_recurrent(network: &Network) -> bool {
    network.nodes().iter().any(|node| matches!(network.facts(node).nature, OperationNature::Recurrent(_)))
}

/// What is open in a network as a whole.
pub(super) fn unsure(network: &Network) -> Vec<UnsureReason> {
    let count = |overwrites: Vec<bool>| overwrites.into_iter().filter(|yes| *yes).count();
    let in_place = count(network.clone().as_keeping(KeptReading::Least).in_place()) - count(network.in_place());
    let uses = network.use_counts();
    let is_kept_by_list = |id: &NodeId| {
        let facts = network.facts(network.node(*id));
        let is_kept = matches!(facts.needs, BackwardNeeds::Result | BackwardNeeds::All);
        let is_own = matches!(facts.storage, ResultStorage::Own | ResultStorage::Needed);
        uses[id.index()] == 1 && is_own && !is_kept && facts.nature != OperationNature::Dropout
    };
    let size = |id: &NodeId| network.node(*id).shape.elements();
    let all: u64 = network.nodes().iter().map(|node| node.shape.elements()).sum();
    let is_list = |node: &&Node| matches!(node.op, Op::Concat { .. }) && node.inputs.len() >= LIST;
    let kept = |node: &Node| node.inputs.iter().filter(|id| is_kept_by_list(id)).map(size).sum::<u64>();
    let kept: Vec<u64> = network.nodes().iter().filter(is_list).map(kept).filter(|kept| *kept > 0).collect();
    let lists = if SMALL * kept.iter().sum::<u64>() < all { 0 } else { kept.len() };
    std::iter::repeat_n(UnsureReason::InPlace, in_place).chain(std::iter::repeat_n(UnsureReason::List, lists)).collect()
}

#[cfg(test)]
mod tests {
    use crate::tests::{Draft, with};
    use perf4sight_network::{Activation, BinaryFunction, KeptReading, Network, Op, PytorchRun};

    fn reading(draft: Draft, keeping: KeptReading) -> Network {
        let loaded = draft.output("y").load();
        assert!(!loaded.warnings.is_empty());
        let others = loaded.network.other_readings();
        others.iter().find(|one| one.keeping() == keeping).expect("another reading").clone()
    }

    fn count(network: &Network, op: &Op) -> usize {
        network.nodes().iter().filter(|node| node.op == *op).count()
    }

    fn halves(draft: Draft) -> Draft {
        draft.node("Split", &["x"], "value", vec![with::int("axis", 2)]).also(&["gate"])
    }

    /// `x * tanh(softplus(x))`: PyTorch keeps x, which softplus and the product need, and both operands of the product; `F.mish` x alone.
    #[test]
    fn an_activation_may_be_the_steps_that_the_file_has() {
        let mish = || {
            let draft = Draft::new().node("Softplus", &["x"], "a", vec![]).node("Tanh", &["a"], "b", vec![]);
            draft.node("Mul", &["x", "b"], "y", vec![])
        };
        let most = reading(mish(), KeptReading::Most);
        let steps =
            [Op::Activation(Activation::Softplus), Op::Activation(Activation::Tanh), Op::Binary(BinaryFunction::Mul)];
        assert_eq!(most.nodes()[1..].iter().map(|node| node.op.clone()).collect::<Vec<_>>(), steps);
        let least = reading(mish(), KeptReading::Least);
        assert_eq!(least.nodes()[1].op, Op::Activation(Activation::Mish));
    }

    /// `(x - m).pow(2)` and `(x - m) / s`: the power keeps one difference, the quotient another.
    #[test]
    fn an_expression_may_be_computed_as_often_as_its_module_reads_it() {
        let draft = Draft::new().node("ReduceMean", &["x"], "/norm/mean", vec![with::ints("axes", vec![1])]);
        let draft = draft.node("Sub", &["x", "/norm/mean"], "/norm/Sub", vec![]).number("2", 2.0);
        let draft = draft.node("Pow", &["/norm/Sub", "2"], "/norm/Pow", vec![]);
        let norm = draft.node("Div", &["/norm/Sub", "/norm/Pow"], "/norm/Div", vec![]).node(
            "Relu",
            &["/norm/Div"],
            "y",
            vec![],
        );
        let difference = Op::Binary(BinaryFunction::Sub);
        assert_eq!(count(&norm.clone().output("y").load().network, &difference), 1);
        assert_eq!(count(&reading(norm, KeptReading::Most), &difference), 2);
        // A residual sum is read by a module within.
        let draft = Draft::new().node("Abs", &["x"], "/block/Abs", vec![]).node(
            "Exp",
            &["/block/Abs"],
            "/block/act/Exp",
            vec![],
        );
        let residual = draft.node("Add", &["/block/Abs", "/block/act/Exp"], "y", vec![]).output("y").load();
        assert!(
            residual.warnings.is_empty() && residual.network.other_readings().is_empty(),
            "{:?}",
            residual.warnings
        );
    }

    fn runs(network: &Network, kind: PytorchRun) -> usize {
        network.nodes().iter().filter(|node| node.runs == kind).count()
    }

    /// `x.var(1, correction=0)`: PyTorch keeps x alone (tools/autograd/derivatives.yaml, var: self); the steps that exporters write keep the differences, too.
    #[test]
    fn a_variance_may_be_one_operator() {
        let mean = |draft: Draft, of: &str, into: &str| {
            draft.node("ReduceMean", &[of], into, vec![with::ints("axes", vec![1])])
        };
        let draft = mean(Draft::new(), "x", "mean").node("Sub", &["x", "mean"], "difference", vec![]);
        let draft = draft.node("Mul", &["difference", "difference"], "square", vec![]);
        let variance = || mean(draft.clone(), "square", "y");
        let loaded = variance().output("y").load();
        assert_eq!(runs(&loaded.network, PytorchRun::Variance), 4);
        assert_eq!(runs(&reading(variance(), KeptReading::Most), PytorchRun::Variance), 0);
        // A program that goes on with the difference computed it itself.
        let norm = mean(draft.clone(), "square", "variance").node("Div", &["difference", "variance"], "y", vec![]);
        assert_eq!(runs(&norm.output("y").load().network, PytorchRun::Variance), 0);
    }

    /// `F.logsigmoid` keeps its input and a buffer (log_sigmoid: self, buffer), `torch.log(torch.sigmoid(x))` the sigmoid.
    #[test]
    fn the_logarithm_of_a_sigmoid_may_be_one_operator() {
        let steps = || {
            let draft = Draft::new().node("Sigmoid", &["x"], "sigmoid", vec![]);
            draft.node("Log", &["sigmoid"], "y", vec![])
        };
        assert_eq!(runs(&steps().output("y").load().network, PytorchRun::WithReader), 1);
        assert_eq!(runs(&reading(steps(), KeptReading::Least), PytorchRun::WithReader), 0);
        let noted = |operator: &str| {
            let note = format!("%one : call_function[target=torch.ops.aten.{operator}.default](args = (%x,))");
            steps().noted("pkg.torch.onnx.fx_node", &note).output("y").load()
        };
        assert_eq!(["log_sigmoid", "log"].map(|one| runs(&noted(one).network, PytorchRun::WithReader)), [1, 0]);
        assert!(noted("log_sigmoid").network.other_readings().is_empty());
    }

    /// `F.glu` keeps its input alone (tools/autograd/derivatives.yaml, glu: self), the product of the file the sigmoid too.
    #[test]
    fn a_gated_unit_may_be_one_operator() {
        let draft = halves(Draft::new()).node("Sigmoid", &["gate"], "opened", vec![]);
        let unit = || draft.clone().node("Mul", &["value", "opened"], "y", vec![]);
        let joined = |network: &Network| network.nodes().iter().any(|node| node.runs == PytorchRun::WithReader);
        assert_eq!([KeptReading::Least, KeptReading::Most].map(|one| joined(&reading(unit(), one))), [true, false]);
        let noted = unit()
            .noted("pkg.torch.onnx.fx_node", "%glu : call_function[target=torch.ops.aten.glu.default](args = (%x, 2))");
        let noted = noted.output("y").load();
        assert!(joined(&noted.network) && noted.network.other_readings().is_empty());
        // The second half by the first one's sigmoid is no such unit.
        let draft = halves(Draft::new()).node("Sigmoid", &["value"], "opened", vec![]);
        let other = draft.node("Mul", &["gate", "opened"], "y", vec![]).output("y").load();
        assert!(other.network.other_readings().is_empty());
    }

    fn noted(draft: Draft, call: &str) -> Draft {
        draft.noted("pkg.torch.onnx.fx_node", &format!("%made : call_function[target=torch.ops.aten.{call})"))
    }

    /// `h(a(x).detach()) + a(x)`: the default exporter leaves `detach` out, and names it among the arguments.
    #[test]
    fn what_is_noted_as_detached_has_no_gradient() {
        let note = |draft: Draft, arguments: &str| {
            let linear = format!("%linear : call_function[target=torch.ops.aten.linear.default](args = ({arguments})");
            draft.noted("pkg.torch.onnx.fx_node", &linear)
        };
        let draft = Draft::new().weight("a.weight", [8, 8]).node("MatMul", &["x", "a.weight"], "linear", vec![]);
        let draft = note(draft, "%x, %p_a_weight").weight("h.weight", [8, 8]);
        let behind = note(draft.node("MatMul", &["linear", "h.weight"], "linear_1", vec![]), "%detach, %p_h_weight");
        let trained = |draft: Draft| draft.output("y").load().network.gradients()[1];
        assert!(!trained(behind.clone().node("Relu", &["linear_1"], "y", vec![])));
        let sum = behind.node("Add", &["linear_1", "linear"], "y", vec![]);
        assert!(trained(noted(sum, "add.Tensor](args = (%linear_1, %linear)")));
    }

    /// `clamp` keeps its input, `relu` its result (tools/autograd/derivatives.yaml).
    #[test]
    fn a_clamp_that_is_noted_is_no_relu() {
        let clip = |call| {
            let draft = Draft::new().number("0", 0.0).number("6", 6.0).node("Clip", &["x", "0", "6"], "y", vec![]);
            noted(draft, call).output("y").load().network.nodes()[1].op.clone()
        };
        assert_eq!(clip("clamp.default](args = (%x, 0, 6)"), Op::Activation(Activation::Clip));
        assert_eq!(clip("hardtanh.default](args = (%x, 0.0, 6.0)"), Op::Activation(Activation::Relu6));
    }

    /// The steps of `F.softplus(x, beta=2)`: `x` where `2 x > 20`, else `log(1 + exp(2 x)) / 2`.
    #[test]
    fn a_softplus_that_is_noted_is_one_of_any_beta() {
        let note = |draft: Draft| noted(draft, "softplus.default](args = (%x, 2)");
        let draft = note(Draft::new().number("2", 2.0).number("20", 20.0).node("Mul", &["x", "2"], "a", vec![]));
        let draft = note(draft.node("Softplus", &["a"], "b", vec![]));
        let draft = note(note(draft.node("Div", &["b", "2"], "c", vec![])).node("Greater", &["a", "20"], "d", vec![]));
        let network = note(draft.node("Where", &["d", "x", "c"], "y", vec![])).output("y").load().network;
        let ops: Vec<&Op> = network.nodes()[1..].iter().map(|node| &node.op).collect();
        assert_eq!(ops, [&Op::Activation(Activation::Softplus)]);
    }

    /// `nn.LeakyReLU(inplace=True)` has no memory of its own.
    #[test]
    fn an_activation_may_overwrite_its_input() {
        let draft = Draft::new().weight("c", [4, 3, 3, 3]).node("Conv", &["x", "c"], "conv", vec![]);
        let leaky = || draft.clone().node("LeakyRelu", &["conv"], "y", vec![]);
        assert_eq!(
            [KeptReading::Least, KeptReading::Most].map(|one| reading(leaky(), one).in_place()[2]),
            [true, false]
        );
    }

    /// `a = abs(x); b = exp(a); return neg(b)`: the file does not record that a has a name, but in which module each ran.
    #[test]
    fn functions_may_hold_their_results() {
        let scopes = |module: &str| format!("['', 'act', '{module}', 'abs']");
        let noted = |draft: Draft| draft.noted("pkg.torch.onnx.name_scopes", &scopes("act.0"));
        let by_notes = noted(Draft::new().node("Abs", &["x"], "a", vec![]));
        let by_notes = noted(noted(by_notes.node("Exp", &["a"], "b", vec![])).node("Neg", &["b"], "y", vec![]));
        let by_names = Draft::new().node("Abs", &["x"], "/act/Abs", vec![]);
        let by_names = by_names.node("Exp", &["/act/Abs"], "/act/Exp", vec![]);
        let by_names =
            by_names.node("Neg", &["/act/Exp"], "/act/Neg", vec![]).node("Identity", &["/act/Neg"], "y", vec![]);
        for (draft, module) in [(by_notes, "act/act.0"), (by_names, "act")] {
            let network = draft.output("y").load().network;
            let [most] = network.other_readings() else { panic!("{:?}", network.other_readings()) };
            assert_eq!(most.nodes()[1].module.as_deref(), Some(module));
            assert_eq!(most.held_in_variables(), [None, Some(3), None, None]);
        }
    }

    #[test]
    fn a_network_of_plain_operators_is_read_in_one_way() {
        let draft = Draft::new().weight("c", [4, 3, 3, 3]).node("Conv", &["x", "c"], "conv", vec![]);
        assert!(draft.node("Relu", &["conv"], "y", vec![]).output("y").load().network.other_readings().is_empty());
    }
}
