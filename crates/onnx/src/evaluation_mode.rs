//! Detects exports in evaluation mode, which train differently from the original network.
//!
//! `model.eval()` makes the older exporter fold batch-norm into the convolutions; the default one (`dynamo=True`) does it in
//! training mode too. The result infers as fast, but has no batch statistics and saves no inputs of the normalisation. A folded
//! network looks like one that never had a batch-norm, such as AlexNet, VGG and SqueezeNet. The signs of folding are therefore
//! - the default exporter's notes on the nodes it rewrites, or the names of the biases that folding creates;
//! - weights of convolutions that lost their names (`onnx::Conv_498`): the older exporter computed them while folding;
//! - no normalisation of any kind in a network with residual sums, depthwise convolutions or squeeze-and-excite products: all
//!   published families with these train with one. (The rare ones without get a false warning.) This sign is not used if all
//!   convolutions and their filters have the names of PyTorch's older exporter, which renames what it folds (second sign). Layers
//!   fused by hand before the export keep their names; if every convolution has a bias, a softer warning says so.
//! - our own note, in files written from a folded network.
//!
//! Files of our Python module have none of these signs, whatever they look like.
//!
//! Dropout and stochastic depth vanish in evaluation mode. Most networks of tokens have one or the other, whose masks take a good
//! part of their memory. If the older exporter keeps the weights of products as they are, it was called with training=TRAINING;
//! if it transposed them ahead (`onnx::MatMul_498`), it most likely was not. The default one leaves no such sign.

use super::notes::holds_batch_norm;
use super::reader::GraphReading;
use super::schema::{GraphProto, ModelProto, NodeProto, StringStringEntryProto};
use super::warning::Warning;
use perf4sight_network::{Activation, BinaryFunction, Network, Node, NodeId, Op, OperationNature, ReductionKind};

#[cfg(test)]
mod tests;

/// The note on batch-norm in our files: that it was folded, or that there never was one although it looks so.
const KEY: &str = "perf4sight.batch_norm";
const FOLDED: &str = "folded";
/// The note of our Python module, which exports what a module runs in the asked mode: nothing is missing that the module has.
const MODULE: &str = "perf4sight.module";
const NONE: &str = "none";

/// The note for a file that we write, if it needs one.
pub(super) fn note(network: &Network) -> Option<StringStringEntryProto> {
    let value = match network.is_folded() {
        true => Some(FOLDED),
        false => is_bare(network).then_some(NONE),
    };
    value.map(|value| StringStringEntryProto { key: Some(KEY.into()), value: Some(value.into()) })
}

fn metadata_note<'a>(model: &'a ModelProto, key: &str) -> Option<&'a str> {
    model.metadata_props.iter().find(|note| note.key() == key).map(|note| note.value())
}

/// Whether our Python module exported a file.
pub(super) fn is_of_module(model: &ModelProto) -> bool {
    metadata_note(model, MODULE).is_some()
}

pub(super) fn is_batch_norm_folded(model: &ModelProto, graph: &GraphProto, reading: &GraphReading) -> bool {
    if is_of_module(model) {
        return false;
    }
    if let Some(note) = metadata_note(model, KEY) {
        return note == FOLDED;
    }
    let renamed = reading.filters.values().any(|filters| filters.tensor.starts_with("onnx::Conv_"));
    let held = graph.node.iter().filter(|node| holds_batch_norm(node)).count();
    renamed || held > reading.restored || (!reading.has_notes && !is_named(graph) && is_bare(&reading.network))
}

/// Warnings about what evaluation mode may have removed; whether the batch-norm is folded is already set in the network.
pub(super) fn warnings(model: &ModelProto, graph: &GraphProto, reading: &GraphReading) -> Vec<Warning> {
    if is_of_module(model) {
        return Vec::new();
    }
    let batch_norm = match reading.restored {
        _ if reading.network.is_folded() => Some(Warning::FoldedBatchNorm),
        0 => (!reading.has_notes && metadata_note(model, KEY).is_none() && is_fused(graph, &reading.network))
            .then_some(Warning::MaybeFusedBatchNorm),
        restored => Some(Warning::RestoredBatchNorm(restored)),
    };
    let dropout = lacks_dropout(graph, reading).then_some(Warning::NoDropout);
    batch_norm.into_iter().chain(dropout).collect()
}

/// Whether a network of tokens has no dropout, and nothing shows that it was exported in training mode.
fn lacks_dropout(graph: &GraphProto, GraphReading { network, has_notes, .. }: &GraphReading) -> bool {
    let turned = graph.node.iter().any(|node| node.input.get(1).is_some_and(|read| read.starts_with("onnx::MatMul_")));
    let mut natures = network.nodes().iter().map(|node| network.facts(node).nature);
    let has_tokens = network.nodes().iter().any(|node| matches!(node.op, Op::Attention | Op::LayerNorm { .. }));
    (*has_notes || turned) && has_tokens && !natures.any(|nature| matches!(nature, OperationNature::Dropout))
}

fn layers(graph: &GraphProto) -> impl Iterator<Item = &NodeProto> {
    graph.node.iter().filter(|node| matches!(node.op_type(), "Conv" | "ConvTranspose"))
}

/// Whether all convolutions have names of PyTorch's older exporter, `/blocks.0/conv/Conv`, and their filters names of PyTorch.
fn is_named(graph: &GraphProto) -> bool {
    let filters = |node: &NodeProto| node.input.get(1).is_some_and(|filters| filters.ends_with(".weight"));
    layers(graph).next().is_some() && layers(graph).all(|node| node.name().starts_with('/') && filters(node))
}

/// Whether a network looks folded although the names of its tensors show that no exporter folded it. Folding by hand before the
/// export (ultralytics' `model.fuse()`, `torch.ao.quantization.fuse_modules`) keeps the names, and gives every convolution a
/// bias.
fn is_fused(graph: &GraphProto, network: &Network) -> bool {
    let has_bias = |node: &NodeProto| node.input.get(2).is_some_and(|bias| !bias.is_empty());
    is_bare(network) && layers(graph).next().is_some() && layers(graph).all(has_bias)
}

/// Whether nothing is normalised in a network of convolutions that could not be trained without a normalisation.
fn is_bare(network: &Network) -> bool {
    let any = |is: fn(&Network, &Node) -> bool| network.nodes().iter().any(|node| is(network, node));
    !normalises(network) && any(is_convolution) && any(needs_normalisation)
}

/// Whether a batch normalisation can be folded into it; layers on vectors do not count.
fn is_convolution(network: &Network, node: &Node) -> bool {
    matches!(
        network.facts(node).nature,
        OperationNature::Convolution(_) | OperationNature::Volume(_) | OperationNature::Transposed(_)
    )
}

/// Whether anything is normalised, also filters, by a root of a mean that is written out, or by learned factors: a normalisation with fixed statistics, or what is in place
/// of one (ReZero, SkipInit).
fn normalises(network: &Network) -> bool {
    network.nodes().iter().any(|node| {
        let nature = network.facts(node).nature;
        let is_unknown =
            matches!(nature, OperationNature::Unknown(unknown) if unknown.op_type.contains("Normalization"));
        let has_filters = node.trained.is_some() && is_convolution(network, node);
        let is_scaled = nature == OperationNature::Arithmetic(BinaryFunction::Mul) && reads_parameter(network, node);
        nature == OperationNature::Normalisation
            || is_unknown
            || has_filters
            || is_scaled
            || is_root_of_mean(network, node)
    })
}

fn reads_parameter(network: &Network, node: &Node) -> bool {
    node.inputs.iter().any(|id| matches!(network.node(*id).op, Op::Parameter(_)))
}

/// Whether it is `sqrt(mean(...) + epsilon)`, as in normalisations without an operator of their own.
fn is_root_of_mean(network: &Network, node: &Node) -> bool {
    let read = |node: &Node| node.inputs.first().map(|&id| network.node(id));
    let is_mean = |node: &Node| matches!(node.op, Op::Reduce { reduction: ReductionKind::Mean, .. });
    // A correction of the mean and the epsilon may come in between.
    let behind = || std::iter::successors(read(node), |node| read(node)).take(4);
    matches!(node.op, Op::Activation(Activation::Sqrt)) && behind().any(is_mean)
}

/// Whether it is a sign that the network needs normalisation: a residual sum, a depthwise convolution, a product of an image with
/// one factor per channel.
fn needs_normalisation(network: &Network, node: &Node) -> bool {
    let nature = network.facts(node).nature;
    let channels = || network.input_of(node, 0).channels();
    if let OperationNature::Convolution(conv) = nature {
        return conv.is_depthwise(channels());
    }
    if let OperationNature::Volume(conv) = nature {
        return conv.is_depthwise(channels());
    }
    let is_factor = |id: &NodeId| network.node(*id).shape.image() == [1, 1];
    let is_residual = nature == OperationNature::Arithmetic(BinaryFunction::Add) && node.inputs.len() == 2;
    let is_excitation = nature == OperationNature::Arithmetic(BinaryFunction::Mul) && node.inputs.iter().any(is_factor);
    node.shape.rank() == 3 && (is_residual || is_excitation)
}
