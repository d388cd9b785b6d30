//! Notices exports whose batch-norm was folded into the convolutions.
//!
//! `model.eval()` makes the older exporter do that, and the default one (`dynamo=True`) does it in training mode too. What is left
//! infers as fast, but trains otherwise than the network it came from: no batch statistics, no saved inputs of the normalisation. A folded
//! network looks like one that never had a batch-norm, and AlexNet, VGG and SqueezeNet never had one. The signs of folding are therefore
//! - what the default exporter notes beside the nodes it rewrites, or how it calls the biases that folding makes;
//! - weights of convolutions that lost their names (`onnx::Conv_498`): the older exporter computed them while folding;
//! - no normalisation of any kind in a network with residual sums, depthwise convolutions or squeeze-and-excite products: all
//!   published families with these train with one. (The rare ones that do without get a warning too many.) Not so where PyTorch's older
//!   exporter names all convolutions and their filters: what it folds into it renames, as in the second sign. What was fused by hand before the
//!   export keeps its names; where every convolution has a bias a softer warning says so.
//! - our own note, in files written from a network that was folded.

use super::exporter::holds_batch_norm;
use super::schema::{GraphProto, ModelProto, NodeProto, StringStringEntryProto};
use super::translate::Filters;
use perf4sight_base::units::counted;
use perf4sight_network::{Activation, Binary, Nature, Network, Node, NodeId, Op, Reduction};
use std::collections::BTreeMap;

/// The export that keeps batch-norm, weightless and with a symbolic batch.
const EXPORT: &str = "torch.onnx.export(model.train(), torch.randn(1, 3, 224, 224), \"network.onnx\", export_params=False, \
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False, \
                      input_names=[\"input\"], dynamic_axes={\"input\": {0: \"batch\"}})";

/// What files of ours say of batch-norm: that it was folded, or that there never was one although it looks so.
const KEY: &str = "perf4sight.batch_norm";
const FOLDED: &str = "folded";
const NONE: &str = "none";

/// The note for a file of ours, where it is needed.
pub(super) fn note(network: &Network) -> Option<StringStringEntryProto> {
    let value = match network.is_folded() {
        true => Some(FOLDED),
        false => is_bare(network).then_some(NONE),
    };
    value.map(|value| StringStringEntryProto { key: Some(KEY.into()), value: Some(value.into()) })
}

/// What the exporter noted of batch normalisations.
#[derive(Clone, Copy)]
pub(super) struct Notes {
    /// How many its notes gave back.
    pub unfolded: usize,
    /// Whether it notes where nodes come from, so that none was folded that it does not tell of.
    pub noted: bool,
}

/// Whether a network looks folded; `filters` say where the weights of its layers lie.
pub(super) fn is_folded(
    model: &ModelProto,
    graph: &GraphProto,
    network: &Network,
    filters: &BTreeMap<String, Filters>,
    Notes { unfolded, noted }: Notes,
) -> bool {
    if let Some(note) = model.metadata_props.iter().find(|note| note.key() == KEY) {
        return note.value() == FOLDED;
    }
    let renamed = filters.values().any(|filters| filters.tensor.starts_with("onnx::Conv_"));
    let held = graph.node.iter().filter(|node| holds_batch_norm(node)).count();
    renamed || held > unfolded || (!noted && !is_named(graph) && is_bare(network))
}

/// Whether every convolution is called as PyTorch's older exporter does, `/blocks.0/conv/Conv`, and its filters as PyTorch does.
fn is_named(graph: &GraphProto) -> bool {
    let filters = |node: &NodeProto| node.input.get(1).is_some_and(|filters| filters.ends_with(".weight"));
    let mut layers = graph.node.iter().filter(|node| matches!(node.op_type(), "Conv" | "ConvTranspose")).peekable();
    layers.peek().is_some() && layers.all(|node| node.name().starts_with('/') && filters(node))
}

/// What to tell of a network that looks folded but for the names of its tensors, which tell that no exporter folded it. Folding by hand before the
/// export (ultralytics' `model.fuse()`, `torch.ao.quantization.fuse_modules`) keeps those, and gives every convolution a bias.
pub(super) fn maybe_fused(model: &ModelProto, graph: &GraphProto, network: &Network) -> Option<String> {
    let told = model.metadata_props.iter().any(|note| note.key() == KEY);
    let mut layers = graph.node.iter().filter(|node| matches!(node.op_type(), "Conv" | "ConvTranspose")).peekable();
    let biased = |node: &NodeProto| node.input.get(2).is_some_and(|bias| !bias.is_empty());
    (!told && !network.is_folded() && is_bare(network) && layers.peek().is_some() && layers.all(biased)).then(|| {
        "nothing in it is normalised, though networks of such sums or products mostly are: if batch-norm was fused into its convolutions before \
         the export (model.fuse(), fuse_modules), its parameters are not the network's, and what it costs to train comes out too low; export \
         the network as it is trained then"
            .to_owned()
    })
}

/// Whether nothing is normalised in a network of convolutions that could not be trained so.
fn is_bare(network: &Network) -> bool {
    let any = |is: fn(&Network, &Node) -> bool| network.nodes().iter().any(|node| is(network, node));
    !normalises(network) && any(is_convolution) && any(needs_normalisation)
}

/// What a batch normalisation can be folded into, but for layers of vectors.
fn is_convolution(network: &Network, node: &Node) -> bool {
    matches!(network.facts(node).nature, Nature::Convolution(_) | Nature::Volume(_) | Nature::Transposed(_))
}

/// What to tell about a network.
pub(super) fn warning(network: &Network) -> Option<String> {
    network.is_folded().then(|| {
        format!(
            "its batch-norm is folded into the convolutions, as model.eval() and PyTorch's default exporter (dynamo=True) \
             export it: its parameters are not the network's, and what it costs to train cannot be trusted, time and memory \
             come out too low; export it with\n  {EXPORT}"
        )
    })
}

/// What to tell about a network whose batch normalisations were given back.
pub(super) fn restored(unfolded: usize) -> Option<String> {
    (unfolded > 0).then(|| {
        format!(
            "the exporter folded {} into the layers in front: what its notes say PyTorch has is counted and run",
            counted(unfolded as u64, "batch normalisation")
        )
    })
}

/// Whether anything is normalised, were it filters, or by the root of a mean that is spelled out.
fn normalises(network: &Network) -> bool {
    network.nodes().iter().any(|node| {
        is_root_of_mean(network, node)
            || match network.facts(node).nature {
                Nature::Normalisation => true,
                Nature::Convolution(_) | Nature::Volume(_) | Nature::Transposed(_) => node.trained.is_some(),
                Nature::Unknown(unknown) => unknown.op_type.contains("Normalization"),
                Nature::Input | Nature::Parameter | Nature::Linear(_) | Nature::MatMul | Nature::Softmax => false,
                Nature::Embedding(_) | Nature::Attention | Nature::Activation(_) | Nature::Arithmetic(_) => false,
                Nature::Choice | Nature::Dropout => false,
                Nature::Pooling(_) | Nature::Movement => false,
            }
    })
}

/// `sqrt(mean(...) + epsilon)`, as normalisations without an operator of their own have it.
fn is_root_of_mean(network: &Network, node: &Node) -> bool {
    let read = |node: &Node| node.inputs.first().map(|&id| network.node(id));
    let is_mean = |node: &Node| matches!(node.op, Op::Reduce { reduction: Reduction::Mean, .. });
    // A correction of the mean and what is added for safety may lie between.
    let behind = || std::iter::successors(read(node), |node| read(node)).take(4);
    matches!(node.op, Op::Activation(Activation::Sqrt)) && behind().any(is_mean)
}

/// Residual sums, depthwise convolutions, products of an image with one factor a channel.
fn needs_normalisation(network: &Network, node: &Node) -> bool {
    let is_image = node.shape.rank() == 3;
    let is_factor = |id: &NodeId| network.node(*id).shape.image() == [1, 1];
    match network.facts(node).nature {
        Nature::Convolution(conv) => conv.is_depthwise(network.input_of(node, 0).channels()),
        Nature::Volume(conv) => conv.is_depthwise(network.input_of(node, 0).channels()),
        Nature::Arithmetic(Binary::Add) => is_image && node.inputs.len() == 2,
        Nature::Arithmetic(Binary::Mul) => is_image && node.inputs.iter().any(is_factor),
        Nature::Arithmetic(_) | Nature::Choice | Nature::Activation(_) | Nature::Dropout => false,
        Nature::Input | Nature::Parameter | Nature::Linear(_) | Nature::MatMul | Nature::Softmax => false,
        Nature::Normalisation | Nature::Pooling(_) | Nature::Movement => false,
        Nature::Transposed(_) | Nature::Attention | Nature::Embedding(_) | Nature::Unknown(_) => false,
    }
}
