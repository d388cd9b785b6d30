//! What each ONNX operator becomes, by topic.

mod convolution;
mod elementwise;
mod fixed;
mod linear;
mod movement;
pub(super) mod normalisation;
mod original;
mod pooling;
mod shapes;
pub(super) mod unknown;

use super::call::{Call, Misfit, Outcome};
use super::translate::Translation;

/// The node's outputs, by its operator.
pub(super) fn dispatch(to: &mut Translation, call: &Call) -> Outcome {
    if !matches!(call.node.domain(), "" | "ai.onnx") {
        return unknown::ours(to, call);
    }
    if call.node.op_type() == "SequenceAt" {
        return movement::sequence_at(call);
    }
    if call.features().next().is_none() {
        return fixed::translate(to, call);
    }
    match call.node.op_type() {
        "Conv" => convolution::conv(to, call),
        "Pad" => convolution::pad(to, call),
        "MaxPool" | "AveragePool" => pooling::windowed(to, call),
        "GlobalAveragePool" | "GlobalMaxPool" => pooling::global(to, call),
        "ReduceMean" => pooling::mean(to, call),
        "Gemm" => linear::gemm(to, call),
        "MatMul" => linear::matmul(to, call),
        "BatchNormalization" => normalisation::batch(to, call),
        "LayerNormalization" => normalisation::layer(to, call),
        "Softmax" | "LogSoftmax" => normalisation::softmax(to, call),
        "Concat" => movement::concat(to, call),
        "Slice" => movement::slice(to, call),
        "Split" => movement::split(to, call),
        "SplitToSequence" => movement::split_to_sequence(to, call),
        "Gather" => movement::gather(to, call),
        "Transpose" => movement::transpose(to, call),
        "Reshape" => shapes::reshape(to, call),
        "Flatten" => shapes::flatten(to, call),
        "Squeeze" => shapes::squeeze(to, call),
        "Unsqueeze" => shapes::unsqueeze(to, call),
        "Expand" => shapes::expand(to, call),
        "Shape" => shapes::shape(to, call),
        "Size" => shapes::size(to, call),
        "Identity" | "Cast" | "CastLike" => {
            call.inputs.first().cloned().map(|input| vec![input]).ok_or(Misfit::Unsupported)
        }
        "Dropout" => elementwise::dropout(to, call),
        "RandomUniformLike" | "RandomNormalLike" | "Bernoulli" => elementwise::random(call),
        _ => elementwise::translate(to, call),
    }
}
