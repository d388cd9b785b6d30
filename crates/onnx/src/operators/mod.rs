//! Translates each ONNX operator, by topic.

mod attention;
mod composite;
mod contiguous;
mod convolution;
mod einsum;
mod elementwise;
mod embedding;
mod fixed;
mod in_steps;
mod linear;
mod movement;
pub(super) mod normalisation;
mod original;
mod padding;
mod places;
mod pooling;
mod recurrent;
mod sequence;
mod shapes;
mod shared_heads;
pub(super) mod sizing;
mod stack;
pub(super) mod unknown;
mod volume;
mod whole_attention;

use super::call::{CallResult, NodeCall, NodeMisfit};
use super::operator_names;
use super::translate::GraphTranslation;
use super::value::Value;

pub(super) fn dispatch(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    if !matches!(call.node.domain(), "" | "ai.onnx") {
        return unknown::own_operator(to, call);
    }
    if call.node.op_type() == "SequenceAt" {
        return movement::sequence_at(call);
    }
    if call.features().next().is_none() {
        return fixed::translate(to, call);
    }
    if let Some(whole) = in_steps::whole(to, call)? {
        return Ok(vec![Value::Feature(whole)]);
    }
    if let Some(reduction) = operator_names::reduction(call.node.op_type()) {
        return pooling::reduce(to, call, reduction);
    }
    match call.node.op_type() {
        "Conv" => convolution::conv(to, call),
        "ConvTranspose" => convolution::transposed(to, call),
        "Pad" => sizing::pad(to, call),
        "Resize" | "Upsample" => sizing::resize(to, call),
        "DepthToSpace" | "SpaceToDepth" => sizing::blocks(to, call),
        "Tile" => sizing::tile(to, call),
        "MaxPool" | "AveragePool" => pooling::window_of(to, call),
        "LpPool" => composite::power_pool(to, call),
        "LRN" => composite::local_response(to, call),
        "ArgMax" | "ArgMin" | "TopK" | "CumSum" | "Col2Im" | "GridSample" | "GatherND" => places::translate(to, call),
        "GlobalAveragePool" | "GlobalMaxPool" => pooling::global(to, call),
        "Gemm" => linear::gemm(to, call),
        "MatMul" => linear::matmul(to, call),
        "Einsum" => einsum::einsum(to, call),
        "Attention" => whole_attention::attention(to, call),
        "LSTM" | "GRU" | "RNN" => recurrent::translate(to, call),
        "BatchNormalization" => normalisation::batch(to, call),
        "LayerNormalization" => normalisation::layer(to, call),
        "RMSNormalization" => normalisation::root_mean_square(to, call),
        "InstanceNormalization" => normalisation::instance(to, call),
        "GroupNormalization" => normalisation::group(to, call),
        "Softmax" | "LogSoftmax" => normalisation::softmax(to, call),
        "Concat" => movement::concat(to, call),
        "Slice" => movement::slice(to, call),
        "ScatterND" => movement::scatter(to, call),
        "Split" => movement::split_axis(to, call),
        "SplitToSequence" => movement::split_to_sequence(to, call),
        "Gather" => movement::gather(to, call),
        "Transpose" => movement::transpose(to, call),
        "Reshape" => shapes::reshape(to, call),
        "Flatten" => shapes::flatten(to, call),
        "Squeeze" => shapes::squeeze(to, call),
        "Unsqueeze" => shapes::unsqueeze(to, call),
        "Expand" => sizing::expand(to, call),
        "Shape" => shapes::shape(to, call),
        "Size" => shapes::size(to, call),
        "Cast" => elementwise::cast(to, call),
        "Identity" => contiguous::identity(to, call),
        "CastLike" => call.inputs.first().cloned().map(|input| vec![input]).ok_or(NodeMisfit::Unsupported),
        "Dropout" => elementwise::dropout(to, call),
        "RandomUniformLike" | "RandomNormalLike" | "Bernoulli" => elementwise::random(to, call),
        _ => elementwise::translate(to, call),
    }
}
