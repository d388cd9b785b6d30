//! Reads a graph node by node: resolves each node's inputs, translates its operator, stores its outputs.

use super::batch::BatchAxis;
use super::call::{CallResult, NodeCall, NodeMisfit};
use super::curves::NodeCurves;
use super::exporter::{ExporterNotes, NotedOperand};
use super::file::{Initializer, OnnxFile};
use super::keeping::SharedExpressions;
use super::ledger::{LayerFilters, ParameterLedger};
use super::no_grad::{self, TracedAgain};
use super::number::BatchNumber;
use super::pending_pattern::PendingPatterns;
use super::schema::{GraphProto, ModelProto, NodeProto, TensorProto};
use super::source::{self, FileProblem, GraphInput, node_text};
use super::tensor::{self, KnownTensor};
use super::translate::{GraphTranslation, TranslationNotes};
use super::value::{Feature, FixedTensor, Value, WeightTensor, elements};
use super::values::GraphValues;
use super::warning::{MergedTensors, ShapeContradiction, Warning};
use super::{PRODUCER, evaluation_mode, fold, keeping, operators, order, refused};
use hashbrown::HashMap;
use perf4sight_network::{
    BorrowedMemory, ChannelsLast, FollowedModule, FollowedPass, KeptReading, Network, NetworkBuilder, NodeId, Op,
    OperatorKind,
};
use perf4sight_step::workload::{Precision, Stage, Step, Trainable};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// The name, in our files, of the numbers that modules hold but no operation does.
pub(super) const UNREAD: &str = "unread.buffer";

/// The key of our Python module's note, which names buffers.
const BUFFERS: &str = "perf4sight.buffers";

/// The key of its note of what passes of the module take: a line of stage, precision and trained weights, then
/// a line for every number of samples ([`followed_pass`]).
const FOLLOWED: &str = "perf4sight.followed";

/// A value of the graph as the network has it.
pub(super) struct ReadValue {
    /// The name of the node that makes it.
    pub node: String,
    /// Where its batch is; none where it is the same for every sample.
    pub batch: Option<BatchAxis>,
}

pub(super) struct GraphReading {
    pub network: Network,
    /// Where the filters of its layers are stored, by node name.
    pub filters: BTreeMap<String, LayerFilters>,
    /// The nodes that make the values of the graph.
    pub values: BTreeMap<String, ReadValue>,
    /// Number of batch normalisations that the exporter folded and its notes restored.
    pub restored: usize,
    pub has_notes: bool,
    /// Whether the file can be read as networks of different memory.
    pub leaves_open: bool,
    pub warnings: Vec<Warning>,
}

/// Reads a graph as a network of this name.
///
/// # Errors
/// A graph that contradicts itself, or whose cost cannot be computed.
pub(super) fn read(
    file: &OnnxFile,
    graph: &GraphProto,
    name: &str,
    opset: i64,
    keeping: KeptReading,
) -> Result<GraphReading, FileProblem> {
    refused::check(graph)?;
    let data = source::data(graph, &file.initializers)?;
    let outputs = outputs(graph)?;
    let buffers = buffers(&file.model);
    let exporter = ExporterNotes::new(graph, &file.initializers, buffers.keys().copied());
    let mut known = source::initial_values(file, graph, &exporter, &data)?;
    let (builder, features) = begin(name, &data)?;
    known.extend(data.iter().map(|data| data.name.as_str()).zip(features.into_iter().map(Value::Feature)));
    known.reserve(graph.node.len());
    let order = order::order_nodes(&graph.node, &|name| known.contains_key(name), &outputs)?;
    if order.is_empty() {
        let help = "export a network that computes something";
        return Err(("holds no operation: its output is its input".into(), Some(help)));
    }
    let mut to = GraphTranslation {
        builder,
        samples: data[0].samples.map_or(BatchNumber::BATCH, BatchNumber::from),
        opset,
        ours: file.model.producer_name() == PRODUCER,
        of_module: evaluation_mode::is_of_module(&file.model),
        domains: domains(&file.model),
        exporter: &exporter,
        values: GraphValues::new(graph, known),
        ledger: ParameterLedger::default(),
        curves: NodeCurves::default(),
        pending: PendingPatterns::new(),
        noticed: TranslationNotes::default(),
        keeping,
        expressions: SharedExpressions::default(),
        traced_again: TracedAgain::default(),
    };
    for node in order {
        to.read(node).map_err(|why| (format!("{} {why}", node_text(node)), None))?;
    }
    to.join_variances();
    let results = results(&to, &outputs)?;
    let mut warnings = exporter.warnings(data[0].samples);
    warnings.extend(to.ledger.complete(&mut to.builder));
    warnings.extend(buffers_by_name(&exporter, &file.initializers));
    warnings.extend(merged_warning(graph, &file.initializers).filter(|_| !exporter.has_notes()));
    let unread = unread(&to, &buffers);
    let seen = |feature: Feature| ReadValue { node: to.builder.node(feature.id).name.clone(), batch: feature.batch };
    let values = to.values.features().map(|(name, feature)| (name.to_string(), seen(feature))).collect();
    let GraphTranslation { builder, ledger, mut noticed, ours, traced_again, .. } = to;
    let restored = noticed.restored;
    let parts = traced_again.names(&builder);
    let network = builder.finish_with(&results).holding(unread);
    let (network, open) = no_grad::without_gradients(network, &parts, keeping);
    open.into_iter().for_each(|of| noticed.unsure(of));
    let followed = read_followed(&file.model, &network);
    let network = network.following(followed).as_keeping(keeping);
    if !ours {
        keeping::unsure(&network).into_iter().for_each(|of| noticed.unsure(of));
    }
    let leaves_open = noticed.leaves_open() || keeping::has_recurrent(&network);
    if network.followed().is_some() {
        // Memory follows the module itself.
        noticed.in_steps.clear();
        noticed.unsure.clear();
    }
    warnings.extend(noticed.warnings());
    let (filters, has_notes) = (ledger.into_filters(), exporter.has_notes());
    Ok(GraphReading { network, filters, values, restored, has_notes, leaves_open, warnings })
}

fn domains(model: &ModelProto) -> HashMap<&str, i64> {
    let foreign = model.opset_import.iter().filter(|import| !matches!(import.domain(), "" | "ai.onnx"));
    foreign.map(|import| (import.domain(), import.version())).collect()
}

/// The builder of a network, with its inputs. A single input has the same name in every network; several are named as in their
/// file.
fn begin(network: &str, data: &[GraphInput]) -> Result<(NetworkBuilder, Vec<Feature>), FileProblem> {
    let (first, others) = data.split_first().expect("the source of a network names at least one input");
    let mut builder = match others {
        [] => NetworkBuilder::new(network, first.input.clone()),
        _ => NetworkBuilder::reading(network, &*first.name, first.input.clone()),
    };
    let mut ids = vec![builder.input()];
    for other in others {
        let added = builder.insert(&other.name, Op::Input(other.input.clone()), &[]);
        ids.push(added.map_err(|why| (format!("input \"{}\" {why}", other.name), None))?);
    }
    let feature = |(id, data): (NodeId, &GraphInput)| Feature { id, batch: Some(data.batch), guessed: false };
    let features = ids.into_iter().zip(data).map(feature).collect();
    Ok((builder, features))
}

fn outputs(graph: &GraphProto) -> Result<Vec<&str>, FileProblem> {
    let names: Vec<&str> = graph.output.iter().map(|output| output.name()).collect();
    match names.is_empty() {
        true => Err((
            "holds no graph with an output, so it is not an ONNX file or a damaged one".into(),
            Some("export the network again"),
        )),
        false => Ok(names),
    }
}

/// The results of the network: of several outputs, those that depend on its inputs.
fn results(to: &GraphTranslation, outputs: &[&str]) -> Result<Vec<NodeId>, FileProblem> {
    let result = |output: &&str| match to.values.get(output) {
        Some(Value::Feature(result)) if to.depends_on_data(result.id) => Some(result.id),
        _ => None,
    };
    let results: Vec<NodeId> = outputs.iter().filter_map(result).collect();
    match (results.as_slice(), outputs) {
        ([], [output]) => Err((format!("output \"{output}\" does not depend on the input"), None)),
        ([], _) => Err((format!("none of the outputs {} depends on the input", outputs.join(", ")), None)),
        _ => Ok(results),
    }
}

/// The buffers in our Python module's note, and the size of each.
fn buffers(model: &ModelProto) -> BTreeMap<&str, u64> {
    let lines = note(model, BUFFERS).lines().filter_map(|line| line.rsplit_once(' '));
    lines.filter_map(|(name, numbers)| Some((name, numbers.parse().ok()?))).collect()
}

fn note<'a>(model: &'a ModelProto, key: &str) -> &'a str {
    model.metadata_props.iter().find(|note| note.key() == key).map_or("", |note| note.value())
}

/// What passes of the module take, where our Python module followed them.
fn read_followed(model: &ModelProto, network: &Network) -> Option<FollowedModule> {
    let (kind, passes) = note(model, FOLLOWED).split_once('\n')?;
    let (stage, rest) = kind.split_once(' ')?;
    let (precision, trainable) = rest.split_once(' ')?;
    let step = Step {
        precision: Precision::parse(precision).ok()?,
        trainable: Trainable::parse(trainable).ok()?,
        ..Step::published(Stage::parse(stage).ok()?)
    };
    let (weights, passes) = passes.strip_prefix("weights ")?.split_once('\n')?;
    let (tensors, passes) = passes.strip_prefix("channels_last ")?.split_once('\n')?;
    let (convolutions, passes) = passes.strip_prefix("convolutions ")?.split_once('\n')?;
    let is_so = |name: &str| tensors.split(',').any(|one| one == name);
    let followed = FollowedModule::new(step, passes.lines().map(followed_pass).collect::<Option<_>>()?)?;
    let channels_last = ChannelsLast { images: is_so("images"), filters: is_so("filters") };
    let convolutions: Vec<BorrowedMemory> = numbers(convolutions)?.into_iter().map(borrows).collect::<Option<_>>()?;
    let followed = followed.with_weights(numbers(weights)?).with_channels_last(channels_last);
    Some(followed.with_convolutions(network, &convolutions))
}

fn borrows(number: u64) -> Option<BorrowedMemory> {
    [BorrowedMemory::Blocks, BorrowedMemory::ChannelsLast, BorrowedMemory::Columns]
        .get(usize::try_from(number).ok()?)
        .copied()
}

/// Numbers between commas.
fn numbers(list: &str) -> Option<Vec<u64>> {
    list.split(',').filter(|one| !one.is_empty()).map(|one| one.parse().ok()).collect()
}

/// `SAMPLES MOST LEFT SPREAD convolution=FORWARD,FORWARD/BACKWARD,BACKWARD attention=...`, all but the samples in bytes.
fn followed_pass(line: &str) -> Option<FollowedPass> {
    let mut words = line.split(' ');
    let [samples, most, left, spread] = [words.next()?, words.next()?, words.next()?, words.next()?].map(str::parse);
    let operators = words.map(|word| {
        let (kind, (forward, backward)) =
            word.split_once('=').and_then(|(kind, of)| Some((kind, of.split_once('/')?)))?;
        let kind = OperatorKind::ALL.into_iter().find(|known| known.name() == kind)?;
        Some((kind, [numbers(forward)?, numbers(backward)?]))
    });
    let operators = operators.collect::<Option<_>>()?;
    Some(FollowedPass { samples: samples.ok()?, most: most.ok()?, left: left.ok()?, spread: spread.ok()?, operators })
}

/// How many untrained numbers modules hold that no operation does.
fn unread(to: &GraphTranslation, buffers: &BTreeMap<&str, u64>) -> u64 {
    let left_out = buffers.iter().filter(|(name, _)| to.values.get(name).is_none()).map(|(_, numbers)| *numbers);
    let written = match to.values.get(UNREAD) {
        Some(Value::Opaque(table)) if to.ours => elements(&table.dims),
        _ => 0,
    };
    left_out.chain([written]).fold(to.ledger.unread(), u64::saturating_add)
}

fn is_float(tensor: &TensorProto) -> bool {
    tensor::kind(tensor).is_some_and(tensor::is_float)
}

/// Stored tensors that count as buffers by name only: an exporter without notes gives no other sign of what is a parameter.
fn buffers_by_name(exporter: &ExporterNotes, stored: &[Initializer]) -> Option<Warning> {
    let tensors = stored.iter().map(|one| &one.tensor).filter(|tensor| is_float(tensor));
    let tensors = tensors.filter(|tensor| exporter.is_buffer_by_name(tensor.name()));
    let tensors: Vec<_> = tensors.map(|tensor| (tensor.name().to_string(), elements(&tensor.dims))).collect();
    (!tensors.is_empty()).then_some(Warning::BuffersByName(tensors))
}

/// PyTorch's TorchScript exporter stores equal tensors once, and gives each of the others an Identity of its name: tied weights
/// as well as layers that merely began with the same values (`deduplicate_initializers`; outside of training mode it compares
/// values).
fn merged_warning(graph: &GraphProto, stored: &[Initializer]) -> Option<Warning> {
    // Vectors that were merged count each time anyway.
    let tensors = stored.iter().map(|one| &one.tensor).filter(|tensor| is_float(tensor) && tensor.dims.len() > 1);
    let tensors: BTreeSet<&str> = tensors.map(|tensor| tensor.name()).collect();
    let identities = graph.node.iter().filter(|node| node.op_type() == "Identity");
    let pairs = identities.filter_map(|node| Some((node.output.first()?, node.input.first()?)));
    let mut pairs = pairs.filter(|(_, stored_as)| tensors.contains(stored_as.as_str()));
    let (first, stored_as) = pairs.next()?;
    let count = 1 + pairs.count();
    Some(Warning::Merged(MergedTensors { first: first.clone(), stored_as: stored_as.clone(), count }))
}

impl<'a> GraphTranslation<'a> {
    /// Reads one node, whose inputs have been read.
    ///
    /// # Errors
    /// One clause that describes how the node contradicts its inputs.
    fn read(&mut self, node: &'a NodeProto) -> Result<(), String> {
        let operands = self.operands(node);
        self.builder.set_module(keeping::calls(node).as_deref().filter(|_| !self.ours));
        let operands = self.computed_again(node, operands);
        let call = NodeCall { node, inputs: self.detached_operands(node, operands) };
        self.expressions.record_made(node);
        if node.op_type() == "If" {
            let outputs = self.branch(&call)?;
            node.output.iter().zip(outputs).for_each(|(name, value)| self.values.set(name, value));
            return Ok(());
        }
        let before = self.builder.node_count();
        let outputs = match self.outputs(&call) {
            Ok(outputs) => outputs,
            Err(NodeMisfit::Wrong(problem)) if !call.features().any(|feature| feature.guessed) => return Err(problem),
            Err(_) => operators::unknown::load(self, &call)?,
        };
        self.keep_inputs_of_function(node, before);
        self.keep_input_of_variance(node, before);
        self.traced_again.record(node, before..self.builder.node_count());
        for (name, value) in node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
            self.noticed.contradicted.extend(self.contradiction(node, name, &value));
            self.values.set(name, value);
        }
        Ok(())
    }

    /// The declared shape of an output, if the operator makes another one; the batch is open in any case.
    fn contradiction(&self, node: &NodeProto, name: &str, value: &Value) -> Option<ShapeContradiction> {
        let Value::Feature(feature @ Feature { batch: Some(batch), guessed: false, .. }) = value else { return None };
        // If a node combines samples, both of its axes have the size of the batch.
        if self.builder.is_across(feature.id) {
            return None;
        }
        let (declared, made) = (self.values.declared_shape(name)?, self.dims(*feature));
        let open = |axis: usize| axis == batch.axis;
        let fits = |(axis, (declared, made)): (usize, (&Option<u64>, &BatchNumber))| {
            open(axis) || declared.is_none_or(|dim| *made == dim)
        };
        if declared.len() == made.len() && declared.iter().zip(&made).enumerate().all(fits) {
            return None;
        }
        let made = made.into_iter().enumerate().map(|(axis, dim)| dim.as_integer().filter(|_| !open(axis))).collect();
        Some(ShapeContradiction { value: name.into(), node: node_text(node), declared: declared.to_vec(), made })
    }

    fn operands(&self, node: &NodeProto) -> Vec<Value> {
        let operands = node.input.iter().enumerate().map(|(place, name)| self.operand(node, place, name));
        let mut operands: Vec<Value> = operands.collect();
        // If the exporter notes one parameter for two tensors of the file, it is the smaller one, the bias.
        if let [Value::Weight(a), Value::Weight(b)] = operands.as_slice()
            && a.tensor == b.tensor
            && a.stored != b.stored
        {
            let larger = usize::from(b.elements > a.elements);
            operands[larger] = self.values.get(&node.input[larger]).cloned().unwrap_or(Value::Absent);
        }
        operands
    }

    /// One operand: a tensor of the file becomes the parameter that the exporter notes here.
    fn operand(&self, node: &NodeProto, place: usize, name: &str) -> Value {
        let value = self.values.get(name).cloned().unwrap_or(Value::Absent);
        match value {
            Value::Weight(weight) if *weight.stored == *name => match self.exporter.operand_at(node, place) {
                NotedOperand::Parameter(parameter) => {
                    Value::Weight(WeightTensor { tensor: parameter.into(), certain: true, ..weight })
                }
                NotedOperand::Constant => Value::Opaque(FixedTensor::unheld(weight.dims)),
                NotedOperand::Nothing => match self.exporter.name_in_module(node, name) {
                    Some(name) => Value::Weight(WeightTensor { tensor: name.into(), ..weight }),
                    None => Value::Weight(weight),
                },
            },
            // The single slope of a PReLU, to which an exporter gave the axes of the other operand.
            Value::Constant(slope) if node.op_type() == "PRelu" && place == 1 => {
                match self.exporter.operand_at(node, place) {
                    NotedOperand::Parameter(parameter) => source::weight(parameter, slope.dims.clone())
                        .map_or(Value::Constant(slope), |weight| {
                            Value::Weight(WeightTensor { certain: true, ..weight })
                        }),
                    NotedOperand::Constant | NotedOperand::Nothing => Value::Constant(slope),
                }
            }
            other => other,
        }
    }

    /// The outputs of the branch that a condition selects, read in place of the node.
    fn branch(&mut self, call: &NodeCall<'a>) -> Result<Vec<Value>, String> {
        let condition = call.constant(0).and_then(KnownTensor::uniform).ok_or(refused::BY_DATA)?;
        let graph = call.graph(if condition != 0.0 { "then_branch" } else { "else_branch" });
        let graph = graph.ok_or("lacks one of its two graphs")?;
        refused::check(graph).map_err(|(problem, _)| problem)?;
        for tensor in &graph.initializer {
            let value = source::stored_value(tensor, self.exporter, false).map_err(|(problem, _)| problem)?;
            self.values.set(tensor.name(), value);
        }
        let outputs: Vec<&str> = graph.output.iter().map(|output| output.name()).collect();
        let known = |name: &str| self.values.get(name).is_some();
        let order = order::order_nodes(&graph.node, &known, &outputs).map_err(|(problem, _)| problem)?;
        for node in order {
            self.read(node).map_err(|why| format!("holds {}, which {why}", node_text(node)))?;
        }
        Ok(outputs.into_iter().map(|name| self.values.get(name).cloned().unwrap_or(Value::Absent)).collect())
    }

    fn outputs(&mut self, call: &NodeCall) -> CallResult {
        match fold::evaluate(call) {
            Some(constant) => Ok(vec![Value::constant(constant)]),
            None => operators::dispatch(self, call),
        }
    }
}
