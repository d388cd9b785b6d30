//! Fully connected layers and products of two features.

use crate::align::align_inputs;
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value};
use perf4sight_network::{Linear, Op};

pub(super) fn gemm(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let [rows, columns] = call.fixed(1)?;
    if call.flag("transA") {
        return Err(NodeMisfit::Unsupported);
    }
    let (sizes, axis) = if call.flag("transB") { ([columns, rows], 0) } else { ([rows, columns], 1) };
    if !call.is_absent(2) && call.input(2).fixed_dims().is_none() {
        return Err(NodeMisfit::Unsupported);
    }
    let bias = to.has_bias(call);
    layer(to, call, input, WeightMatrix { sizes, axis, bias })
}

pub(super) fn matmul(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match (call.input(0), call.fixed(1)) {
        (Value::Feature(left), Ok([inputs, outputs])) => {
            layer(to, call, *left, WeightMatrix { sizes: [inputs, outputs], axis: 1, bias: false })
        }
        _ => {
            let inputs = align_inputs(to, call)?;
            let &[a, b] = inputs.as_slice() else { return Err(NodeMisfit::Unsupported) };
            let [last, second] = [1, 2].map(|back| to.dims(a).len().saturating_sub(back));
            if a.batch != b.batch || a.batch.is_some_and(|batch| batch.axis == last || batch.axis == second) {
                return Err(NodeMisfit::Unsupported);
            }
            if let Some(attention) = super::attention::fuse_attention(to, call, a, b)? {
                return single(attention);
            }
            single(to.add_like(own_name(call), Op::MatMul, &[a, b])?)
        }
    }
}

struct WeightMatrix {
    sizes: [usize; 2],
    axis: usize,
    bias: bool,
}

/// A fully connected layer on the last axis.
fn layer(to: &mut GraphTranslation, call: &NodeCall, input: Feature, matrix: WeightMatrix) -> CallResult {
    let WeightMatrix { sizes: [inputs, outputs], axis, bias } = matrix;
    let rank = to.dims(input).len();
    if rank < 2 || input.batch.is_some_and(|batch: BatchAxis| batch.axis + 1 == rank) {
        return Err(NodeMisfit::Unsupported);
    }
    let features = to.builder.shape(input.id).dims().last().copied().unwrap_or(1);
    if features != inputs {
        return Err(NodeMisfit::Wrong(format!("reads {features} features, its weights {inputs}")));
    }
    let linear = Linear { out_features: outputs, bias };
    let input = super::contiguous::linear_input(to, call, input)?;
    let node = to.add_like(&to.name(call), Op::Linear(linear), &[input])?;
    to.store_filters(node.id, call.input(1), axis);
    let last = to.builder.shape(node.id).rank() - 1;
    let result = to.count_layer(node, call, bias.then_some(outputs))?;
    single(super::normalisation::restore_batch_norm(to, call, result, last)?)
}
