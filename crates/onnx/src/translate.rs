//! Turns ONNX nodes, one by one, into nodes of a network.

use super::batch::{Batch, SYMBOLIC_BATCH};
use super::call::{Call, Misfit, Outcome};
use super::curves::Curves;
use super::exporter::{Exporter, Told};
use super::fold;
use super::operators;
use super::operators::normalisation::Normalised;
use super::operators::sizing::Padding;
use super::order;
use super::partly::{self, HeldPartly, Partly};
use super::refused;
use super::schema::NodeProto;
use super::source;
use super::tensor::Constant;
use super::value::{Feature, Held, Table, Value, View, Weight, elements};
use hashbrown::{HashMap, HashSet};
use perf4sight_network::{Binary, NetworkBuilder, NodeId, Op, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Where the filters of a layer lie.
pub(super) struct Filters {
    /// The name of their tensor.
    pub tensor: String,
    /// The axis along which they lie one behind the other.
    pub axis: usize,
}

/// The network as far as it has been read.
pub(super) struct Translation<'a> {
    pub builder: NetworkBuilder,
    /// The batch size as the file's own arithmetic sees it; where it is symbolic, a number no other dimension has.
    pub batch: u64,
    pub opset: i64,
    /// Whether the file was written by us, who name what they take apart.
    pub ours: bool,
    /// The operator sets of other domains than ONNX's own.
    pub domains: HashMap<&'a str, i64>,
    pub values: HashMap<&'a str, Value>,
    /// The shapes the file declares for values.
    pub declared: HashMap<&'a str, Vec<Option<u64>>>,
    /// What PyTorch's exporter notes.
    pub exporter: &'a Exporter<'a>,
    /// Batch normalisations that the exporter folded and its notes give back.
    pub unfolded: usize,
    /// How many nodes read a value.
    pub readers: HashMap<&'a str, usize>,
    /// The layers whose filters lie in a tensor as they are, by node name.
    pub filters: BTreeMap<String, Filters>,
    pub curves: Curves,
    /// The values whose batch lies elsewhere in memory than their axes say, by name.
    pub moved: HashSet<String>,
    /// Scaled layer normalisations that only lack their shift.
    pub normalised: HashMap<NodeId, Normalised>,
    /// Normalisations of groups that lack their view back: of what, and how many groups.
    pub grouped: HashMap<NodeId, (Feature, usize)>,
    /// Paddings that the following convolution or pooling may take over.
    pub paddings: HashMap<NodeId, Padding>,
    /// The first node that uses a weight.
    pub owners: HashMap<String, NodeId>,
    /// What the biases of layers are called.
    pub biases: HashMap<NodeId, Rc<str>>,
    /// The weights that two layers read in different shapes.
    pub twice: BTreeSet<String>,
    /// The layers that read a part of a parameter, by the tensor that they have it from.
    pub parts: BTreeMap<String, BTreeSet<String>>,
    /// The attentions that read features which lie apart, where the file does not tell of copies.
    pub apart: BTreeSet<String>,
    /// The parameters that are no layer's and of which something reads a part.
    pub partly: BTreeMap<Rc<str>, Partly>,
    /// What is read of tensors that modules hold and nobody trains, by their names in the file.
    pub held: BTreeMap<Rc<str>, HeldPartly>,
    /// The nodes that see all of one, by its name and the shape they see it as.
    pub tables: HashMap<(Rc<str>, Shape), NodeId>,
    /// How many elements of each weight have been counted.
    pub claimed: HashMap<Rc<str>, u64>,
    /// Where the file declares other shapes than its operators give.
    pub contradicted: Vec<String>,
    /// The nodes whose shape is a guess, as messages name them.
    pub guessed: Vec<String>,
}

impl<'a> Translation<'a> {
    /// Reads one node, whose inputs have been read.
    ///
    /// # Errors
    /// One clause that says how the node contradicts what it reads.
    pub fn read(&mut self, node: &'a NodeProto) -> Result<(), String> {
        let call = Call { node, inputs: self.operands(node), opset: self.opset };
        if node.op_type() == "If" {
            let outputs = self.branch(&call)?;
            self.values.extend(node.output.iter().map(String::as_str).zip(outputs));
            return Ok(());
        }
        let outputs = match self.outputs(&call) {
            Ok(outputs) => outputs,
            Err(Misfit::Wrong(problem)) if !call.features().any(|feature| feature.guessed) => return Err(problem),
            Err(_) => operators::unknown::load(self, &call)?,
        };
        for (name, value) in node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
            self.contradicted.extend(self.contradiction(node, name, &value));
            self.values.insert(name, value);
        }
        Ok(())
    }

    /// What to tell where the file declares another shape for what a node gives than its operator does; the batch is open in any case.
    fn contradiction(&self, node: &NodeProto, name: &str, value: &Value) -> Option<String> {
        let Value::Feature(feature @ Feature { batch: Some(batch), guessed: false, .. }) = value else { return None };
        // Samples that meet each other are as many as the batch in both of its axes.
        if self.builder.is_across(feature.id) {
            return None;
        }
        let (declared, made) = (self.declared.get(name)?, self.dims(*feature));
        let open = |axis: usize| axis == batch.axis;
        let fits = |(axis, (declared, made)): (usize, (&Option<u64>, &u64))| {
            open(axis) || declared.is_none_or(|dim| dim == *made)
        };
        if declared.len() == made.len() && declared.iter().zip(&made).enumerate().all(fits) {
            return None;
        }
        let dim = |dim: &Option<u64>| dim.map_or("?".to_string(), |dim| dim.to_string());
        let of_samples = |(axis, made): (usize, &u64)| if open(axis) { "batch".to_string() } else { made.to_string() };
        let declared = declared.iter().map(dim).collect::<Vec<_>>().join(", ");
        let made = made.iter().enumerate().map(of_samples).collect::<Vec<_>>().join(", ");
        Some(format!("[{declared}] for \"{name}\", which {} makes [{made}]", source::described(node)))
    }

    /// What a node reads.
    fn operands(&self, node: &NodeProto) -> Vec<Value> {
        let told = node.input.iter().enumerate().map(|(place, name)| self.operand(node, place, name));
        let mut told: Vec<Value> = told.collect();
        // Of two tensors of the file the exporter's word is about the bias, which is the smaller one.
        if let [Value::Weight(a), Value::Weight(b)] = told.as_slice()
            && a.tensor == b.tensor
            && a.stored != b.stored
        {
            let larger = usize::from(b.elements > a.elements);
            told[larger] = self.values.get(node.input[larger].as_str()).cloned().unwrap_or(Value::Absent);
        }
        told
    }

    /// One of them: a tensor of the file as the parameter that the exporter says it is here.
    fn operand(&self, node: &NodeProto, place: usize, name: &str) -> Value {
        let value = self.values.get(name).cloned().unwrap_or(Value::Absent);
        match value {
            Value::Weight(weight) if *weight.stored == *name => match self.exporter.told(node, place) {
                Told::Parameter(parameter) => {
                    Value::Weight(Weight { tensor: parameter.into(), certain: true, ..weight })
                }
                Told::Constant => Value::Opaque(Table::made(weight.dims)),
                Told::Nothing => match self.exporter.called(node, name) {
                    Some(name) => Value::Weight(Weight { tensor: name.into(), ..weight }),
                    None => Value::Weight(weight),
                },
            },
            // The one slope of a PReLU, which an exporter gave the axes of what it multiplies.
            Value::Constant(slope) if node.op_type() == "PRelu" && place == 1 => {
                match self.exporter.told(node, place) {
                    Told::Parameter(parameter) => source::weight(parameter, slope.dims.clone())
                        .map_or(Value::Constant(slope), |weight| Value::Weight(Weight { certain: true, ..weight })),
                    Told::Constant | Told::Nothing => Value::Constant(slope),
                }
            }
            other => other,
        }
    }

    /// The outputs of the graph that a condition chooses, read in place of the node.
    fn branch(&mut self, call: &Call<'a>) -> Result<Vec<Value>, String> {
        let condition = call.constant(0).and_then(Constant::uniform).ok_or(refused::BY_DATA)?;
        let graph = call.graph(if condition != 0.0 { "then_branch" } else { "else_branch" });
        let graph = graph.ok_or("lacks one of its two graphs")?;
        refused::check(graph).map_err(|(problem, _)| problem)?;
        for tensor in &graph.initializer {
            let value = source::stored(tensor, self.exporter).map_err(|(problem, _)| problem)?;
            self.values.insert(tensor.name(), value);
        }
        let outputs: Vec<&str> = graph.output.iter().map(|output| output.name()).collect();
        let known = |name: &str| self.values.contains_key(name);
        let order = order::ordered(&graph.node, &known, &outputs).map_err(|(problem, _)| problem)?;
        for node in order {
            self.read(node).map_err(|why| format!("holds {}, which {why}", source::described(node)))?;
        }
        Ok(outputs.into_iter().map(|name| self.values.get(name).cloned().unwrap_or(Value::Absent)).collect())
    }

    fn outputs(&mut self, call: &Call) -> Outcome {
        if let Some(constant) = fold::evaluate(call) {
            return Ok(vec![Value::constant(constant)]);
        }
        operators::dispatch(self, call)
    }

    /// Adds a node to the network.
    pub fn add(&mut self, name: &str, op: Op, inputs: &[Feature]) -> Result<NodeId, Misfit> {
        let ids: Vec<NodeId> = inputs.iter().map(|input| input.id).collect();
        Ok(self.builder.insert(&self.free(name), op, &ids)?)
    }

    /// Adds a node whose output holds the batch where its first input does.
    pub fn add_like(&mut self, name: &str, op: Op, inputs: &[Feature]) -> Result<Feature, Misfit> {
        let guessed = inputs.iter().any(|input| input.guessed);
        Ok(Feature { id: self.add(name, op, inputs)?, batch: inputs.first().and_then(|input| input.batch), guessed })
    }

    /// What a layer is called: after its weights, unless a layer is already (exporters merge equal weights), else as in the file.
    pub fn name(&self, call: &Call) -> String {
        let weights = call.inputs.iter().filter_map(|input| match input {
            Value::Weight(weight) => stem(&weight.tensor).or_else(|| stem_of_attention(weight)),
            _ => None,
        });
        weights.into_iter().next().filter(|stem| !self.builder.has(stem)).unwrap_or_else(|| own_name(call)).to_string()
    }

    /// A name like this one that no node has.
    pub fn free(&self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        std::iter::once(name.to_string()).chain(numbered).find(|name| !self.builder.has(name)).unwrap_or_default()
    }

    /// Whether the file leaves the batch open.
    pub fn is_symbolic(&self) -> bool {
        self.batch == SYMBOLIC_BATCH
    }

    /// The full ONNX shape of a feature.
    pub fn dims(&self, feature: Feature) -> Vec<u64> {
        let sample = self.builder.shape(feature.id);
        match feature.batch {
            Some(batch) => batch.tensor_dims(sample, self.batch),
            None => sample.dims().iter().map(|&dim| dim as u64).collect(),
        }
    }

    /// The full ONNX shape of any input, for so many samples.
    pub fn input_dims(&self, input: &Value, batch: u64) -> Option<Vec<u64>> {
        match input {
            Value::Feature(Feature { id, batch: Some(held), .. }) => {
                Some(held.tensor_dims(self.builder.shape(*id), batch))
            }
            Value::Feature(feature) => Some(self.dims(*feature)),
            other => other.fixed_dims().map(|dims| dims.iter().map(|&dim| dim as u64).collect()),
        }
    }

    /// The sample's axis for an ONNX axis that may be negative; unsupported for the one that holds the batch.
    pub fn axis(&self, feature: Feature, axis: i64) -> Result<usize, Misfit> {
        let axis = super::call::axis(axis, self.dims(feature).len())?;
        match feature.batch {
            Some(batch) => batch.sample_axis(axis).ok_or(Misfit::Unsupported),
            None => Ok(axis),
        }
    }

    /// Only images have the batch first and alone.
    pub fn image(&self, call: &Call) -> Result<Feature, Misfit> {
        let feature = call.feature(0)?;
        match feature.batch == Some(Batch::FIRST) && self.builder.shape(feature.id).rank() == 3 {
            true => Ok(feature),
            false => Err(Misfit::Unsupported),
        }
    }

    /// Whether the layer of a call has a bias: as the exporter notes, else if it reads one. PyTorch's default exporter gives one of zeros
    /// to those that have none.
    pub fn has_bias(&self, call: &Call) -> bool {
        let filters = if let Value::Weight(weight) = call.input(1) { &weight.tensor } else { "" };
        self.exporter.has_bias(call.node, filters).unwrap_or_else(|| match call.input(2) {
            Value::Weight(_) => true,
            Value::Constant(values) => values.uniform() != Some(0.0),
            _ => false,
        })
    }

    /// Notes that the filters of a layer lie in its second input, one behind the other along an axis of it, where that is a stored tensor.
    pub fn filters_lie(&mut self, node: NodeId, call: &Call, axis: usize) {
        self.filters_in(node, call.input(1), axis);
    }

    /// The same of any stored tensor.
    pub fn filters_in(&mut self, node: NodeId, value: &Value, axis: usize) {
        let Value::Weight(weight) = value else { return };
        let axis = match weight.view {
            View::Stored => axis,
            View::Turned => 1 - axis,
            View::Other => return,
        };
        let filters = Filters { tensor: weight.stored.to_string(), axis };
        self.filters.insert(self.builder.node(node).name.clone(), filters);
    }

    /// Notes which weights a layer with so many filters reads, and how many elements of them are trained. A layer that has its weight from
    /// another one but a bias of its own is the layer without a bias, and a sum.
    ///
    /// # Errors
    /// As for any node.
    pub fn filter(&mut self, layer: Feature, call: &Call, bias: Option<usize>) -> Result<Feature, Misfit> {
        let node = layer.id;
        let name = if let Value::Weight(bias) = call.input(2) { Some(bias.tensor.clone()) } else { None };
        self.biases.extend(name.clone().filter(|_| bias.is_some()).map(|name| (node, name)));
        let apart = self.earlier(node, call, 1).is_some_and(|owner| self.biases.get(&owner) != name.as_ref());
        if bias.is_some() && apart {
            self.builder.clear_bias(node);
        }
        let tie = self.tie(node, call, 1);
        let of_bias = match call.input(2) {
            _ if bias.is_some() && apart => 0,
            Value::Weight(_) if bias.is_some() => self.trained(call, call.input(2)),
            _ => bias.map_or(0, |filters| filters as u64),
        };
        let gain = if self.exporter.has_lost_gain(call.node) { self.builder.shape(node).channels() as u64 } else { 0 };
        let weights = if tie == Tie::Elsewhere { 0 } else { self.trained(call, call.input(1)) };
        if tie == Tie::None {
            self.notice_twice(call.input(1), weights);
            self.notice_part(node, call);
        }
        self.builder.set_trained(node, weights.saturating_add(of_bias).saturating_add(gain));
        match (call.input(2), bias.is_some() && apart) {
            (Value::Weight(bias), true) => self.added(layer, call, bias),
            _ => Ok(layer),
        }
    }

    /// The sum of a layer and its own bias.
    fn added(&mut self, layer: Feature, call: &Call, bias: &Weight) -> Result<Feature, Misfit> {
        let shape = self.builder.shape(layer.id);
        // An image has its channels first, anything else last.
        let features = matches!(self.builder.node(layer.id).op, Op::Linear(_));
        let along = if features { shape.rank() - 1 } else { 0 };
        let dims = (0..shape.rank()).map(|axis| if axis == along { shape.dims()[axis] } else { 1 });
        let leaf = self.leaf(call, bias, Shape::new(dims.collect::<Vec<_>>()))?;
        let name = format!("{}_sum", self.builder.node(layer.id).name);
        self.add_like(&name, Op::Binary(Binary::Add), &[layer, Feature { id: leaf, ..layer }])
    }

    /// The first node that read what this call reads at that place, where it is surely the same.
    fn earlier(&self, node: NodeId, call: &Call, place: usize) -> Option<NodeId> {
        let Value::Weight(weight) = call.input(place) else { return None };
        let owner = self.owners.get(&identity(weight, call, place)).copied();
        owner.filter(|&owner| owner != node && self.is_same(call, weight))
    }

    /// Whether a tensor that two nodes read under one name is one tensor. Exporters merge equal vectors; those that are told apart by the
    /// exporter's notes, or that a node of the module reads which they are of, are what they are called, and so are all in files of ours.
    fn is_same(&self, call: &Call, weight: &Weight) -> bool {
        weight.is_matrix()
            || self.ours
            || weight.certain
            || is_within(own_name(call), &weight.tensor)
            || self.exporter.is_own(call.node, &weight.tensor)
    }

    /// Remembers which node reads a weight first, and ties a later one to it.
    pub fn tie(&mut self, node: NodeId, call: &Call, place: usize) -> Tie {
        let Value::Weight(weight) = call.input(place) else { return Tie::None };
        match self.earlier(node, call, place) {
            None => {
                self.owners.entry(identity(weight, call, place)).or_insert(node);
                Tie::None
            }
            Some(owner) if self.builder.share(node, owner).is_ok() => Tie::Shared,
            Some(_) => {
                self.twice.insert(weight.tensor.to_string());
                Tie::Elsewhere
            }
        }
    }

    /// Gives a fully connected layer the bias that follows it.
    pub fn set_bias(&mut self, node: NodeId, call: &Call) {
        let bias = call.inputs.iter().find(|input| matches!(input, Value::Weight(_)));
        self.biases.extend(bias_name(call).map(|name| (node, name)));
        let trained: Option<u64> = bias.map(|input| self.trained(call, input));
        let features = self.builder.shape(node).features() as u64;
        self.builder.set_bias(node, trained.unwrap_or(features));
    }

    /// Whether a bias that follows a layer may be its own: of a layer that has its weights from another one only the other's can.
    pub fn may_have_bias(&self, node: NodeId, call: &Call) -> bool {
        let owner = self.builder.node(node).shares;
        owner.is_none_or(|owner| self.biases.get(&owner) == bias_name(call).as_ref())
    }

    /// Notes how many trained elements a node has that reads these weights.
    pub fn count(&mut self, node: NodeId, call: &Call, weights: &[&Value]) {
        let trained = weights.iter().map(|weight| self.trained(call, weight)).fold(0, u64::saturating_add);
        self.builder.set_trained(node, trained);
    }

    /// Trained elements that a value brings to the node that reads it: its own, or all it is computed from, none of them twice, were it in
    /// parts or other shapes. Of vectors that an exporter may have merged each counts.
    pub fn trained(&mut self, call: &Call, value: &Value) -> u64 {
        let Value::Weight(weight) = value else { return 0 };
        let seen = elements(&weight.dims);
        let whole = weight.computed || seen > weight.elements;
        let wanted = if whole { weight.elements } else { seen };
        let left = self.claim(&weight.tensor, wanted, weight.elements);
        let own = if whole || self.is_same(call, weight) { left } else { seen };
        let others = weight.others.iter();
        others.map(|(tensor, elements)| self.claim(tensor, *elements, *elements)).fold(own, u64::saturating_add)
    }

    /// Counts so many of a weight's elements, or those that are left of them.
    fn claim(&mut self, tensor: &Rc<str>, wanted: u64, elements: u64) -> u64 {
        let counted = self.claimed.entry(tensor.clone()).or_default();
        let left = wanted.min(elements.saturating_sub(*counted));
        *counted += left;
        left
    }

    /// Remembers a weight of which a layer reads elements that others have been counted with.
    fn notice_twice(&mut self, value: &Value, counted: u64) {
        if let Value::Weight(weight) = value
            && (counted == 0 || !weight.computed && counted < elements(&weight.dims))
        {
            self.twice.insert(weight.tensor.to_string());
        }
    }

    /// Remembers a layer whose filters are a part of a parameter, as the graph cuts it or its exporter did.
    fn notice_part(&mut self, node: NodeId, call: &Call) {
        let cut = |weight: &Weight| !weight.computed && elements(&weight.dims) < weight.elements;
        let tensor = match call.input(1) {
            Value::Weight(weight) if cut(weight) => Some(&*weight.tensor),
            _ => self.exporter.part(call.node),
        };
        if let Some(tensor) = tensor {
            let name = self.builder.node(node).name.clone();
            self.parts.entry(tensor.to_string()).or_default().insert(name);
        }
    }

    /// Whether a node is computed from one of the network's inputs.
    pub fn depends_on_data(&self, node: NodeId) -> bool {
        let mut open = vec![node];
        let mut seen = HashSet::new();
        while let Some(node) = open.pop() {
            if matches!(self.builder.node(node).op, Op::Input(_)) {
                return true;
            }
            if seen.insert(node) {
                open.extend(&self.builder.node(node).inputs);
            }
        }
        false
    }

    /// Numbers that nobody trains, as a node of their own that sees them beside one sample as `shape`; what they are `of` may hold more.
    pub fn table(&mut self, name: &str, shape: Shape, of: Option<&Held>) -> Result<NodeId, Misfit> {
        let whole = of.filter(|of| of.is_seen && of.elements == shape.elements());
        let place = whole.map(|of| (of.stored.clone(), shape.clone()));
        if let Some(&earlier) = place.as_ref().and_then(|place| self.tables.get(place)) {
            return Ok(earlier);
        }
        let seen = shape.elements();
        let node = self.add(name, Op::Parameter(shape), &[])?;
        self.builder.set_trained(node, 0);
        self.tables.extend(place.map(|place| (place, node)));
        self.hold(of, seen);
        Ok(node)
    }

    /// Notes that something reads what a module holds, and how much of it an operation holds by that.
    pub fn hold(&mut self, of: Option<&Held>, seen: u64) {
        let Some(Held { stored, elements, is_seen }) = of else { return };
        let held = self.held.entry(stored.clone()).or_insert(HeldPartly { elements: *elements, seen: 0 });
        held.seen += if *is_seen { seen } else { 0 };
    }

    /// Notes the tables that a call reads, of which no operation of the network holds anything; files of ours say how much there is of them.
    pub fn hold_tables(&mut self, call: &Call) {
        if self.ours {
            return;
        }
        for input in &call.inputs {
            if let Value::Opaque(table) = input {
                self.hold(table.of.as_ref(), 0);
            }
        }
    }

    /// A weight as a node of its own, seen beside one sample as `shape`.
    pub fn leaf(&mut self, call: &Call, weight: &Weight, shape: Shape) -> Result<NodeId, Misfit> {
        let whole = self.values.get(&*weight.stored).and_then(Value::fixed_dims);
        let rows = whole.and_then(|whole| partly::rows(whole, &weight.dims, &shape));
        let op = Op::Parameter(shape);
        let same = self.is_same(call, weight);
        let part = part_read(call, weight);
        let read = part.unwrap_or(&weight.tensor).to_string();
        let earlier = self.owners.get(&read).copied().filter(|_| same);
        if let Some(node) = earlier.filter(|&node| self.builder.node(node).op == op) {
            return Ok(node);
        }
        let name = stem(&weight.tensor).unwrap_or(&weight.tensor);
        let node = self.add(name, op, &[])?;
        self.count(node, call, &[&Value::Weight(weight.clone())]);
        if part.is_some() && !weight.is_made_up() {
            self.partly.entry(weight.tensor.clone()).or_insert_with(|| Partly::of(weight)).read(node, rows);
        }
        self.owners.entry(read).or_insert(node);
        Ok(node)
    }
}

/// What a layer has to do with another one that reads the same weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// Nothing does.
    None,
    /// They are one layer.
    Shared,
    /// It reads the same elements in another shape.
    Elsewhere,
}

/// What the part of a parameter is called that a call reads, where it reads no more than that.
fn part_read<'c>(call: &Call<'c>, weight: &Weight) -> Option<&'c str> {
    let is_part = !weight.computed && elements(&weight.dims) < weight.elements;
    let reads = |input: &Value| matches!(input, Value::Weight(read) if read.tensor == weight.tensor);
    let place = call.inputs.iter().position(reads).filter(|_| is_part)?;
    call.node.input.get(place).map(String::as_str)
}

/// What tells a weight from others where a call reads it: the tensor, or which part of it.
fn identity(weight: &Weight, call: &Call, place: usize) -> String {
    match weight.view {
        View::Stored | View::Turned => weight.tensor.to_string(),
        // A whole vector, whatever axes of length 1 it has beside its own.
        View::Other if !weight.is_matrix() && !weight.computed && elements(&weight.dims) == weight.elements => {
            weight.tensor.to_string()
        }
        View::Other => call.node.input.get(place).cloned().unwrap_or_default(),
    }
}

/// The name of the tensor that is added.
fn bias_name(call: &Call) -> Option<Rc<str>> {
    call.inputs
        .iter()
        .find_map(|input| if let Value::Weight(weight) = input { Some(weight.tensor.clone()) } else { None })
}

/// Whether a node lies in the module that a tensor is of, by the names that PyTorch gives both: `/blocks.0/attn/Mul` and
/// `blocks.0.attn.scale`. Equal vectors of other modules, which exporters merge, are told from what is used twice by that.
fn is_within(node: &str, tensor: &str) -> bool {
    let module = tensor.rsplit_once('.').map_or("", |(module, _)| module);
    // Blocks are named with all that they lie in: `/stages/stages.0/blocks/blocks.1`; what runs again gets a number, as `/norm_1`.
    let scope = node.rsplit_once('/').map_or("", |(scope, _)| scope);
    let again = scope
        .rsplit_once('_')
        .filter(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let scope = again
        .map(|(first, _)| first)
        .filter(|first| first.rsplit(['/', '.']).next() == module.rsplit('.').next())
        .unwrap_or(scope);
    let place = scope.rsplit('/').take(module.matches('.').count() + 1).collect::<Vec<_>>();
    let place: Vec<&str> = place.into_iter().rev().collect();
    if module.is_empty() {
        // One of the network itself, in whose own nodes `/Mul` is.
        return scope.is_empty() && node.starts_with('/') && !tensor.contains("::");
    }
    scope.replace('/', ".").ends_with(module) || place.join(".").ends_with(module)
}

/// The layer a weight belongs to, by PyTorch's naming; `None` for names an exporter made up.
pub(super) fn stem(weight: &str) -> Option<&str> {
    weight.strip_suffix(".weight").filter(|stem| !stem.is_empty() && !stem.contains("::"))
}

/// What the projections of PyTorch's attention are called, whose one matrix lies in the attention itself: `attn.in_proj_weight`. Of its parts
/// none is all of it.
fn stem_of_attention(weight: &Weight) -> Option<&str> {
    weight.tensor.strip_suffix("_weight").filter(|_| weight.view != View::Other && weight.tensor.contains('.'))
}

/// What the file calls a node.
pub(super) fn own_name<'c>(call: &'c Call<'_>) -> &'c str {
    match call.node.name() {
        "" => call.node.output.first().map_or("node", String::as_str),
        name => name,
    }
}

/// One output.
pub(super) fn single(feature: Feature) -> Outcome {
    Ok(vec![Value::Feature(feature)])
}

/// One output that is a constant.
pub(super) fn known(constant: Constant) -> Outcome {
    Ok(vec![Value::constant(constant)])
}
