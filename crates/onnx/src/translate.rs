//! The network read so far, to which operators add nodes.

use super::batch::BatchAxis;
use super::call::{CallResult, NodeCall, NodeMisfit};
use super::curves::NodeCurves;
use super::exporter::ExporterNotes;
use super::keeping::SharedExpressions;
use super::ledger::ParameterLedger;
use super::no_grad::TracedAgain;
use super::number::{BatchNumber, TensorDims, numbers};
use super::pending_pattern::PendingPatterns;
use super::schema::NodeProto;
use super::tensor::KnownTensor;
use super::value::{Feature, Value, WeightTensor, WeightView, elements};
use super::values::GraphValues;
use super::warning::{ShapeContradiction, UnsureReason, Warning};
use hashbrown::{HashMap, HashSet};
use perf4sight_network::{KeptReading, NetworkBuilder, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct GraphTranslation<'a> {
    pub builder: NetworkBuilder,
    /// The file's batch.
    pub samples: BatchNumber,
    pub opset: i64,
    /// Whether this crate wrote the file; it names the parts that an operation is split into.
    pub ours: bool,
    /// Whether our Python module exported the file, which names the copies that `contiguous` makes.
    pub of_module: bool,
    /// The operator sets of other domains than ONNX's own.
    pub domains: HashMap<&'a str, i64>,
    pub exporter: &'a ExporterNotes<'a>,
    pub values: GraphValues<'a>,
    pub ledger: ParameterLedger,
    pub curves: NodeCurves,
    pub pending: PendingPatterns,
    pub noticed: TranslationNotes,
    /// What this reading keeps for backward, of what the file leaves open.
    pub keeping: KeptReading,
    pub expressions: SharedExpressions<'a>,
    pub traced_again: TracedAgain<'a>,
}

#[derive(Default)]
pub(super) struct TranslationNotes {
    /// Number of batch normalisations that the exporter folded and its notes restore.
    pub restored: usize,
    pub guessed: Vec<String>,
    /// Attentions that read non-contiguous features, if the file does not record whether they are copied.
    pub strided: BTreeSet<String>,
    pub contradicted: Vec<ShapeContradiction>,
    /// Activations that are written in steps, without a note on whether the program or the exporter took them apart; how many of each.
    pub in_steps: BTreeMap<&'static str, usize>,
    /// What memory depends on and the file does not tell, and how many times.
    pub unsure: BTreeMap<UnsureReason, usize>,
}

impl TranslationNotes {
    pub fn unsure(&mut self, of: UnsureReason) {
        *self.unsure.entry(of).or_default() += 1;
    }

    /// Whether the file can be read as networks of different memory.
    pub fn leaves_open(&self) -> bool {
        !(self.unsure.is_empty() && self.in_steps.is_empty() && self.strided.is_empty())
    }

    pub fn warnings(self) -> impl Iterator<Item = Warning> {
        let guessed = (!self.guessed.is_empty()).then_some(Warning::GuessedShapes(self.guessed));
        let strided = (!self.strided.is_empty()).then_some(Warning::StridedAttention(self.strided));
        let contradicted = (!self.contradicted.is_empty()).then_some(Warning::Contradicted(self.contradicted));
        let in_steps = (!self.in_steps.is_empty()).then_some(Warning::InSteps(self.in_steps));
        let unsure = (!self.unsure.is_empty()).then_some(Warning::Unsure(self.unsure));
        [guessed, strided, contradicted, in_steps, unsure].into_iter().flatten()
    }
}

impl GraphTranslation<'_> {
    pub fn add(&mut self, name: &str, op: Op, inputs: &[Feature]) -> Result<NodeId, NodeMisfit> {
        let ids: Vec<NodeId> = inputs.iter().map(|input| input.id).collect();
        Ok(self.builder.insert(&self.free(name), op, &ids)?)
    }

    /// Adds a node whose output has its batch where its first input has it.
    pub fn add_like(&mut self, name: &str, op: Op, inputs: &[Feature]) -> Result<Feature, NodeMisfit> {
        let guessed = inputs.iter().any(|input| input.guessed);
        Ok(Feature { id: self.add(name, op, inputs)?, batch: inputs.first().and_then(|input| input.batch), guessed })
    }

    /// The name of a layer: that of its weights, else of the module that runs it, unless another layer has it (exporters merge equal
    /// weights); otherwise that in the file.
    pub fn name(&self, call: &NodeCall) -> String {
        let weights = || {
            call.inputs.iter().filter_map(|input| if let Value::Weight(weight) = input { Some(weight) } else { None })
        };
        let layer = weights().find_map(|weight| stem(&weight.tensor).or_else(|| stem_of_attention(weight)));
        let name = layer.or_else(|| weights().find_map(parameter)).map(str::to_owned);
        match name.or_else(|| weights().next().and_then(|_| layer_in(call.node))) {
            Some(name) if !self.builder.has(&name) => name,
            _ => own_name(call).to_owned(),
        }
    }

    pub fn free(&self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        std::iter::once(name.to_string()).chain(numbered).find(|name| !self.builder.has(name)).unwrap_or_default()
    }

    pub fn dims(&self, feature: Feature) -> TensorDims {
        self.dims_for(feature, self.samples)
    }

    fn dims_for(&self, feature: Feature, samples: BatchNumber) -> TensorDims {
        let sample = self.builder.shape(feature.id);
        feature.batch.map_or_else(|| numbers(sample.dims()), |batch| batch.tensor_dims(sample, samples))
    }

    /// The full ONNX shape of any input, for so many samples.
    pub fn input_dims(&self, input: &Value, samples: BatchNumber) -> Option<TensorDims> {
        match input {
            Value::Feature(feature) => Some(self.dims_for(*feature, samples)),
            other => other.fixed_dims(),
        }
    }

    /// The sample's axis for an ONNX axis that may be negative; unsupported for the one that holds the batch.
    pub fn axis(&self, feature: Feature, axis: i64) -> Result<usize, NodeMisfit> {
        let axis = super::call::axis(axis, self.dims(feature).len())?;
        match feature.batch {
            Some(batch) => batch.sample_axis(axis).ok_or(NodeMisfit::Unsupported),
            None => Ok(axis),
        }
    }

    /// The first input as an image: only images have the batch first and alone.
    pub fn image(&self, call: &NodeCall) -> Result<Feature, NodeMisfit> {
        let feature = call.feature(0)?;
        match feature.batch == Some(BatchAxis::FIRST) && self.builder.shape(feature.id).rank() == 3 {
            true => Ok(feature),
            false => Err(NodeMisfit::Unsupported),
        }
    }

    /// Whether a tensor is numbers that are neither trained nor computed from the input.
    pub fn is_table(&self, feature: Feature) -> bool {
        let node = self.builder.node(feature.id);
        matches!(node.op, Op::Parameter(_)) && node.trained == Some(0)
    }

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
}

/// The layer of a weight, by PyTorch's naming; `None` for names that an exporter created.
pub(super) fn stem(weight: &str) -> Option<&str> {
    weight.strip_suffix(".weight").filter(|stem| !stem.is_empty() && !stem.contains("::"))
}

/// The name of the projections of PyTorch's attention, whose single matrix is stored in the attention itself:
/// `attn.in_proj_weight`. None for a part of the matrix.
fn stem_of_attention(weight: &WeightTensor) -> Option<&str> {
    weight.tensor.strip_suffix("_weight").filter(|_| weight.view != WeightView::Other && weight.tensor.contains('.'))
}

/// How the names begin of parameters that are a layer's: exporters merge equal biases of several, and compute weights from others (`weight_g`,
/// `parametrizations.weight.original0`).
const OF_LAYERS: [&str; 3] = ["weight", "bias", "original"];

/// The name of a parameter that is no layer's, such as the matrices of a low-rank adapter (`x @ self.A`): by it users select what is
/// trained. None for a part of one, and for names that an exporter created: older ones number tensors.
fn parameter(weight: &WeightTensor) -> Option<&str> {
    let is_part = !weight.computed && elements(&weight.dims) < weight.elements;
    let is_number = weight.tensor.bytes().all(|byte| byte.is_ascii_digit());
    let last = weight.tensor.rsplit('.').next().unwrap_or_default();
    let is_of_layer = OF_LAYERS.iter().any(|name| last.starts_with(name));
    Some(&*weight.tensor).filter(|_| !(is_part || is_number || is_of_layer || weight.is_made_up()))
}

/// The module that runs a node, by its own name as in `layers.0.attn`; none for the network's own code. PyTorch's older exporter names
/// nodes by the names of modules within theirs: `/layers/layers.0/attn/MatMul`.
fn layer_in(node: &NodeProto) -> Option<String> {
    let calls = super::keeping::calls(node)?;
    let mut path: Vec<&str> = Vec::new();
    for module in calls.split('/').filter(|module| !module.is_empty()) {
        let is_within = |around: &&str| module.strip_prefix(*around).is_some_and(|rest| rest.starts_with('.'));
        path.pop_if(|around| is_within(&&**around));
        path.push(module);
    }
    (!path.is_empty()).then(|| path.join("."))
}

pub(super) fn own_name<'c>(call: &'c NodeCall<'_>) -> &'c str {
    match call.node.name() {
        "" => call.node.output.first().map_or("node", String::as_str),
        name => name,
    }
}

pub(super) fn single(feature: Feature) -> CallResult {
    Ok(vec![Value::Feature(feature)])
}

pub(super) fn constant_value(constant: KnownTensor) -> CallResult {
    Ok(vec![Value::constant(constant)])
}
