//! What PyTorch's default exporter (`dynamo=True`) leaves beside its nodes: from which operation of PyTorch each of them came.
//!
//! `pkg.torch.onnx.fx_node` is a line such as `%conv2d : call_function[target=torch.ops.aten.conv2d.default](args = (%x,
//! %p_conv1_weight, None))`: `p_` marks parameters, `b_` buffers, dots of their names being underscores. The graph has a signature
//! with a line for each, such as `p_conv1_weight: PARAMETER target='conv1.weight'`, those too that no node reads any more: equal biases are
//! merged, batch normalisations folded.

use super::file::Initializer;
use super::schema::{GraphProto, NodeProto, tensor_proto::DataType};
use super::source::is_buffer;
use super::tensor;
use std::collections::{HashMap, HashSet};

const SIGNATURE: &str = "pkg.torch.export.ExportedProgram.graph_signature";
const OPERATION: &str = "pkg.torch.onnx.fx_node";
const RULES: &str = "pkg.onnxscript.rewriter.rule_name";

/// What PyTorch's exporter says of the tensors of a graph.
pub(super) struct Exporter<'a> {
    /// Marked names, as in `p_conv1_weight`.
    marked: HashSet<&'a str>,
    /// The parameters' own names, as in `conv1.weight`, by their marked ones.
    parameters: HashMap<&'a str, &'a str>,
    /// The names of the signature's other tensors.
    buffers: HashSet<&'a str>,
}

impl<'a> Exporter<'a> {
    pub fn of(graph: &'a GraphProto) -> Self {
        let signature =
            graph.metadata_props.iter().find(|note| note.key() == SIGNATURE).map_or("", |note| note.value());
        let lines = || signature.lines().filter_map(signed);
        Exporter {
            marked: graph.node.iter().flat_map(marked).collect(),
            parameters: lines().filter(|line| line.kind == "PARAMETER").map(|line| (line.mark, line.target)).collect(),
            buffers: lines().filter(|line| line.kind == "BUFFER").map(|line| line.target).collect(),
        }
    }

    /// Whether a tensor is a parameter for certain.
    pub fn trains(&self, name: &str) -> bool {
        let mark = format!("p_{}", name.replace('.', "_"));
        self.marked.contains(mark.as_str()) || self.parameters.contains_key(mark.as_str())
    }

    /// Whether the layer of these filters has a bias, where that is told: of equal tensors exporters keep one, of zeros none.
    pub fn has_bias(&self, node: &NodeProto, filters: &str) -> Option<bool> {
        match filters.strip_suffix(".weight") {
            Some(layer) if self.trains(filters) && !self.parameters.is_empty() => {
                Some(self.trains(&format!("{layer}.bias")))
            }
            _ => {
                let product = ["conv", "linear", "addmm"].iter().any(|word| operation(node).contains(word));
                let parameters = marked(node).filter(|name| name.starts_with("p_")).count();
                (product && parameters > 0).then_some(parameters > 1)
            }
        }
    }

    /// The batch normalisation that was folded into a layer, where its parameters are told.
    pub fn folded(&self, node: &NodeProto) -> Option<Folded<'a>> {
        let mut parameters = marked(node).filter(|name| name.starts_with("p_"));
        let scale = parameters.next().filter(|_| operation(node).contains("batch_norm"))?;
        let name = self.parameters.get(scale).and_then(|name| name.strip_suffix(".weight"));
        Some(Folded { name, tensors: 1 + parameters.count() as u64 })
    }

    /// Whether a tensor is neither a parameter nor a buffer of the network, whose names have dots or are marked.
    fn computed(&self, Initializer { tensor, .. }: &Initializer) -> bool {
        let name = tensor.name();
        let named = name.contains('.') || name.starts_with("val_") || self.trains(name) || self.keeps(name);
        let float = DataType::try_from(tensor.data_type()).is_ok_and(tensor::is_float);
        float && !named && tensor.dims.iter().any(|&dim| dim > 1)
    }

    /// Whether a tensor is a buffer: nobody trains it.
    pub fn keeps(&self, name: &str) -> bool {
        is_buffer(name)
            || self.buffers.contains(name)
            || self.marked.contains(format!("b_{}", name.replace('.', "_")).as_str())
    }
}

/// A batch normalisation that an exporter folded.
pub(super) struct Folded<'a> {
    /// What PyTorch calls it.
    pub name: Option<&'a str>,
    /// How many trained vectors it has.
    pub tensors: u64,
}

/// A line of a signature.
struct Signed<'a> {
    mark: &'a str,
    kind: &'a str,
    target: &'a str,
}

fn signed(line: &str) -> Option<Signed<'_>> {
    let (mark, rest) = line.split_once(": ")?;
    let (kind, target) = rest.split_once(" target='")?;
    Some(Signed { mark, kind, target: target.split_once('\'')?.0 })
}

/// The operation of PyTorch that a node came from, as in `torch.ops.aten.conv2d.default`.
pub(super) fn operation(node: &NodeProto) -> &str {
    let call = note(node, OPERATION).split_once("[target=").map_or("", |(_, call)| call);
    call.split_once(']').map_or(call, |(target, _)| target)
}

/// What to tell of tensors that the exporter computed ahead from parameters: they are trained by other numbers than they have.
pub(super) fn computed_ahead(graph: &GraphProto, initializers: &[Initializer]) -> Option<String> {
    let exporter = Exporter::of(graph);
    // Random numbers are drawn in the shape of some tensor, whatever it holds.
    let readers = graph.node.iter().filter(|node| !node.op_type().starts_with("Random"));
    let read: HashSet<&str> = readers.flat_map(|node| node.input.iter().map(String::as_str)).collect();
    let computed: Vec<&str> = initializers
        .iter()
        .filter(|one| exporter.computed(one) && read.contains(one.tensor.name()))
        .map(|one| one.tensor.name())
        .collect();
    let first = computed.first().filter(|_| !exporter.marked.is_empty())?;
    Some(format!(
        "the exporter computed {} tensors ahead (\"{first}\" is one), so that its parameters are not the network's: export it with \
         dynamo=False, or with optimize=False",
        computed.len()
    ))
}

/// The parameters and buffers that the operation read which a node came from.
fn marked(node: &NodeProto) -> impl Iterator<Item = &str> {
    let names = note(node, OPERATION).split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '%'));
    names.filter_map(|name| name.strip_prefix('%')).filter(|name| name.starts_with("p_") || name.starts_with("b_"))
}

/// Whether the operation that a node came from read a parameter.
pub(super) fn reads_parameter(node: &NodeProto) -> bool {
    marked(node).any(|name| name.starts_with("p_"))
}

/// Whether a layer holds the batch normalisation that followed it.
pub(super) fn holds_batch_norm(node: &NodeProto) -> bool {
    let layer = matches!(node.op_type(), "Conv" | "ConvTranspose" | "Gemm" | "MatMul");
    // Without its notes the exporter is known by how it calls the bias that folding makes: after the filters.
    let filters = node.input.get(1).filter(|filters| filters.ends_with(".weight"));
    let named = filters.zip(node.input.get(2)).is_some_and(|(filters, bias)| *bias == format!("{filters}_bias"));
    layer && (named || note(node, RULES).contains("BatchNorm") || note(node, OPERATION).contains("batch_norm"))
}

fn note<'a>(node: &'a NodeProto, key: &str) -> &'a str {
    node.metadata_props.iter().find(|note| note.key() == key).map_or("", |note| note.value())
}
