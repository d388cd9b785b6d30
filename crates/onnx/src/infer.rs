//! Output shapes of ONNX operators by the rules of their specification, whether or not this crate has an operation for them.
//!
//! Shapes are those of whole tensors, batch included. The rules are evaluated with the batch as a symbol to find the axis of a
//! result that holds it: see [`unknown`](super::operators::unknown).

mod lookup;
mod product;
mod spatial;

use super::call::{NodeCall, axis};
use super::number::{BatchNumber, TensorDims, product};
use super::operator_names;
use super::rearrange;

/// The shapes of all outputs of a call with these input shapes (`None`: left out, or unknown).
///
/// `None` if the rule needs unknown values, or if there is no such operator.
pub(super) fn outputs(call: &NodeCall, inputs: &[Option<TensorDims>]) -> Option<Vec<TensorDims>> {
    infer_by_rule(call, inputs).filter(|shapes| shapes.iter().flatten().all(|dim| dim.is_length()))
}

fn infer_by_rule(call: &NodeCall, inputs: &[Option<TensorDims>]) -> Option<Vec<TensorDims>> {
    let first = || inputs.first().cloned().flatten();
    let operator = call.node.op_type();
    Some(match operator {
        "BatchNormalization" => {
            let statistics = inputs.get(1).cloned().flatten()?;
            std::iter::once(first()?).chain(std::iter::repeat_n(statistics, 4)).collect()
        }
        "ArgMax" | "ArgMin" => vec![without(&first()?, &[call.int("axis").unwrap_or(0)], keeps_axes(call))?],
        "Concat" => vec![concatenated_dims(call, inputs)?],
        "Split" => split_dims(call, &first()?)?,
        "Slice" => vec![sliced_dims(call, first()?)?],
        "Reshape" | "Squeeze" | "Unsqueeze" => vec![rearrange::view(call, &first()?)?],
        "Flatten" => {
            let dims = first()?;
            let (outer, inner) = dims.split_at(rearrange::bound(call.int("axis").unwrap_or(1), dims.len()));
            vec![vec![product(outer), product(inner)]]
        }
        "Transpose" => {
            let dims = first()?;
            vec![rearrange::order(call, dims.len()).ok()?.into_iter().map(|from| dims[from]).collect()]
        }
        "Expand" => vec![broadcast(&first()?, &call.constant(1)?.values)?],
        "Tile" => {
            let repeats = &call.constant(1)?.values;
            vec![first()?.into_iter().zip(repeats).map(|(dim, &times)| dim * times).collect()]
        }
        "Shape" => vec![vec![first()?.len().into()]],
        "Size" => vec![vec![]],
        "Range" => vec![vec![range_length(call)?]],
        "ConstantOfShape" => vec![call.constant(0)?.values.clone()],
        "Gather" | "GatherElements" | "GatherND" | "OneHot" | "TopK" => lookup::outputs(call, inputs)?,
        "MatMul" | "Gemm" | "Einsum" | "LSTM" | "GRU" | "RNN" => product::outputs(call, inputs)?,
        _ if keeps_shape(operator) => vec![first()?],
        _ if is_broadcast(operator) => {
            vec![inputs.iter().try_fold(vec![], |all, dims| broadcast(&all, dims.as_ref()?))?]
        }
        _ if operator.starts_with("Reduce") => vec![reduced_dims(call, &first()?)?],
        _ => vec![spatial::output(call, inputs)?],
    })
}

pub(super) fn terms(call: &NodeCall, operands: &[TensorDims; 2]) -> Option<TensorDims> {
    product::lengths(call.text("equation"), operands)
}

fn range_length(call: &NodeCall) -> Option<BatchNumber> {
    let number = |place| -> Option<BatchNumber> { call.constant(place)?.values.first().copied() };
    Some(((number(1)? - number(0)?) / number(2)?).map(f64::ceil))
}

fn keeps_shape(operator: &str) -> bool {
    const KEEP: &str = "Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Cosh CumProd CumSum DequantizeLinear \
        Dropout EyeLike GroupNormalization Hardmax Identity InstanceNormalization IsInf IsNaN LRN \
        LayerNormalization LogSoftmax LpNormalization MeanVarianceNormalization PRelu QuantizeLinear \
        RMSNormalization RandomNormalLike RandomUniformLike ReverseSequence RotaryEmbedding Scatter \
        ScatterElements ScatterND Shrink Sinh Softmax Softsign Tan TensorScatter ThresholdedRelu Trilu";
    operator_names::activation(operator).is_some() || KEEP.split(' ').any(|name| name == operator)
}

fn is_broadcast(operator: &str) -> bool {
    const BROADCAST: &str = "BitShift BitwiseAnd BitwiseOr BitwiseXor Mean Where";
    operator_names::binary(operator).is_some() || BROADCAST.split(' ').any(|name| name == operator)
}

/// The shape two tensors broadcast to: axes are aligned at the last, and those of length 1 are broadcast.
pub(super) fn broadcast<D: Copy + PartialEq + From<u8>>(a: &[D], b: &[D]) -> Option<Vec<D>> {
    let (rank, one) = (a.len().max(b.len()), D::from(1));
    let dim = |dims: &[D], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(one, |axis| dims[axis]);
    let stretched = |axis| match (dim(a, axis), dim(b, axis)) {
        (x, y) if x == y || y == one => Some(x),
        (x, y) => (x == one).then_some(y),
    };
    (0..rank).map(stretched).collect()
}

fn keeps_axes(call: &NodeCall) -> bool {
    call.int("keepdims").unwrap_or(1) != 0
}

fn reduced_dims(call: &NodeCall, dims: &[BatchNumber]) -> Option<TensorDims> {
    let axes = match call.integers("axes", 1) {
        Some(axes) if !axes.is_empty() => axes,
        None if !call.is_absent(1) => return None,
        _ if call.flag("noop_with_empty_axes") => return Some(dims.to_vec()),
        _ => (0..dims.len() as i64).collect(),
    };
    without(dims, &axes, keeps_axes(call))
}

/// The dimensions without some axes, or with a length of 1 in their place.
fn without(dims: &[BatchNumber], axes: &[i64], keep: bool) -> Option<TensorDims> {
    let axes: Vec<usize> = axes.iter().map(|&one| axis(one, dims.len()).ok()).collect::<Option<_>>()?;
    let left = dims.iter().enumerate().filter_map(|(at, &dim)| match axes.contains(&at) {
        true => keep.then_some(1.into()),
        false => Some(dim),
    });
    Some(left.collect())
}

fn concatenated_dims(call: &NodeCall, inputs: &[Option<TensorDims>]) -> Option<TensorDims> {
    let parts: Vec<&TensorDims> = inputs.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let mut dims = (*parts.first()?).clone();
    let along = axis(call.int("axis")?, dims.len()).ok()?;
    dims[along] = parts.iter().try_fold(BatchNumber::from(0), |sum, part| Some(sum + *part.get(along)?))?;
    Some(dims)
}

fn split_dims(call: &NodeCall, dims: &[BatchNumber]) -> Option<Vec<TensorDims>> {
    let along = axis(call.int("axis").unwrap_or(0), dims.len()).ok()?;
    let parts = call.node.output.len();
    let lengths = match call.numbers("split", 1) {
        Some(lengths) => lengths,
        None if !call.is_absent(1) => return None,
        None => {
            let part = (dims[along] / parts.max(1)).map(f64::ceil);
            (0..parts).map(|index| part.min(dims[along] - part * index).max(0)).collect()
        }
    };
    let part = |length| {
        let mut dims = dims.to_vec();
        dims[along] = length;
        dims
    };
    Some(lengths.into_iter().map(part).collect())
}

fn sliced_dims(call: &NodeCall, mut dims: TensorDims) -> Option<TensorDims> {
    for cut in rearrange::cuts(call).ok()? {
        let along = axis(cut.axis, dims.len()).ok()?;
        dims[along] = rearrange::span(&cut, dims[along])?.1;
    }
    Some(dims)
}
