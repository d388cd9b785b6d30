//! Output shapes of ONNX operators by the rules of their specification, whether or not this crate has an operation for them.
//!
//! Shapes are those of whole tensors, batch included. The rules are evaluated for two batch sizes to find the axis of a result
//! that holds the batch: see [`unknown`](super::operators::unknown).

mod lookup;
mod product;
mod spatial;

use super::call::{Call, axis};
use super::names;
use super::rearrange;
use super::tensor::Constant;
use perf4sight_network::MAX_ELEMENTS;

pub(super) type Dims = Vec<u64>;

/// The shapes of all outputs of a call with these input shapes (`None`: left out, or unknown).
///
/// `None` if the rule needs unknown values, or if there is no such operator.
pub(super) fn outputs(call: &Call, inputs: &[Option<Dims>]) -> Option<Vec<Dims>> {
    let first = || inputs.first().cloned().flatten();
    let operator = call.node.op_type();
    Some(match operator {
        "BatchNormalization" => {
            let statistics = inputs.get(1).cloned().flatten()?;
            std::iter::once(first()?).chain(std::iter::repeat_n(statistics, 4)).collect()
        }
        "ArgMax" | "ArgMin" => vec![without(&first()?, &[call.int("axis").unwrap_or(0)], keeps_axes(call))?],
        "Concat" => vec![joined(call, inputs)?],
        "Split" => split(call, &first()?)?,
        "Slice" => vec![sliced(call, first()?)?],
        "Reshape" | "Squeeze" | "Unsqueeze" => vec![viewed(call, &first()?)?],
        "Flatten" => {
            let dims = first()?;
            let (outer, inner) = dims.split_at(rearrange::bound(call.int("axis").unwrap_or(1), dims.len()));
            vec![vec![product_of(outer)?, product_of(inner)?]]
        }
        "Transpose" => {
            let dims = first()?;
            vec![rearrange::order(call, dims.len()).ok()?.into_iter().map(|from| dims[from]).collect()]
        }
        "Expand" => vec![broadcast(&first()?, &call.constant(1)?.sizes::<u64>()?)?],
        "Tile" => {
            let repeats = call.constant(1)?.sizes::<u64>()?;
            vec![first()?.iter().zip(repeats).map(|(&dim, times)| dim.checked_mul(times)).collect::<Option<_>>()?]
        }
        "Shape" => vec![vec![first()?.len() as u64]],
        "Size" => vec![vec![]],
        "Range" => vec![vec![counted(call)?]],
        "ConstantOfShape" => vec![call.constant(0)?.sizes::<u64>()?],
        "Gather" | "GatherElements" | "GatherND" | "OneHot" | "TopK" => lookup::outputs(call, inputs)?,
        "MatMul" | "Gemm" | "Einsum" | "LSTM" | "GRU" | "RNN" => product::outputs(call, inputs)?,
        _ if keeps_shape(operator) => vec![first()?],
        _ if is_broadcast(operator) => {
            vec![inputs.iter().try_fold(vec![], |all, dims| broadcast(&all, dims.as_ref()?))?]
        }
        _ if operator.starts_with("Reduce") => vec![reduced(call, &first()?)?],
        _ => vec![spatial::output(call, inputs)?],
    })
}

pub(super) fn terms(call: &Call, operands: &[Dims; 2]) -> Option<u64> {
    product_of(&product::lengths(call.text("equation"), operands)?)
}

fn counted(call: &Call) -> Option<u64> {
    let number = |place| call.constant(place).and_then(Constant::uniform);
    let steps = ((number(1)? - number(0)?) / number(2)?).ceil();
    (0.0..=MAX_ELEMENTS as f64).contains(&steps).then_some(steps as u64)
}

fn keeps_shape(operator: &str) -> bool {
    const KEEP: &str = "Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Cosh CumProd CumSum DequantizeLinear \
        Dropout EyeLike GroupNormalization Hardmax Identity InstanceNormalization IsInf IsNaN LRN \
        LayerNormalization LogSoftmax LpNormalization MeanVarianceNormalization PRelu QuantizeLinear \
        RMSNormalization RandomNormalLike RandomUniformLike ReverseSequence RotaryEmbedding Scatter \
        ScatterElements ScatterND Shrink Sinh Softmax Softsign Tan TensorScatter ThresholdedRelu Trilu";
    names::activation(operator).is_some() || KEEP.split(' ').any(|name| name == operator)
}

fn is_broadcast(operator: &str) -> bool {
    const BROADCAST: &str = "BitShift BitwiseAnd BitwiseOr BitwiseXor Mean Where";
    names::binary(operator).is_some() || BROADCAST.split(' ').any(|name| name == operator)
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

fn product_of(dims: &[u64]) -> Option<u64> {
    super::batch::product(dims)
}

fn keeps_axes(call: &Call) -> bool {
    call.int("keepdims").unwrap_or(1) != 0
}

fn reduced(call: &Call, dims: &[u64]) -> Option<Dims> {
    let axes = match call.integers("axes", 1) {
        Some(axes) if !axes.is_empty() => axes,
        None if !call.is_absent(1) => return None,
        _ if call.flag("noop_with_empty_axes") => return Some(dims.to_vec()),
        _ => (0..dims.len() as i64).collect(),
    };
    without(dims, &axes, keeps_axes(call))
}

/// The dimensions without some axes, or with a length of 1 in their place.
fn without(dims: &[u64], axes: &[i64], keep: bool) -> Option<Dims> {
    let axes: Vec<usize> = axes.iter().map(|&one| axis(one, dims.len()).ok()).collect::<Option<_>>()?;
    let left = dims.iter().enumerate().filter_map(|(at, &dim)| match axes.contains(&at) {
        true => keep.then_some(1),
        false => Some(dim),
    });
    Some(left.collect())
}

fn joined(call: &Call, inputs: &[Option<Dims>]) -> Option<Dims> {
    let parts: Vec<&Dims> = inputs.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let mut dims = (*parts.first()?).clone();
    let along = axis(call.int("axis")?, dims.len()).ok()?;
    dims[along] = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part.get(along)?))?;
    Some(dims)
}

fn split(call: &Call, dims: &[u64]) -> Option<Vec<Dims>> {
    let along = axis(call.int("axis").unwrap_or(0), dims.len()).ok()?;
    let parts = call.node.output.len() as u64;
    let lengths: Dims = match call.integers("split", 1) {
        Some(lengths) => lengths.into_iter().map(|length| u64::try_from(length).ok()).collect::<Option<_>>()?,
        None if !call.is_absent(1) => return None,
        None => {
            let part = dims[along].div_ceil(parts.max(1));
            (0..parts).map(|index| part.min(dims[along].saturating_sub(index.saturating_mul(part)))).collect()
        }
    };
    let part = |length| {
        let mut dims = dims.to_vec();
        dims[along] = length;
        dims
    };
    Some(lengths.into_iter().map(part).collect())
}

fn sliced(call: &Call, mut dims: Dims) -> Option<Dims> {
    let (starts, ends) = (call.integers("starts", 1)?, call.integers("ends", 2)?);
    let axes = call.integers("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.constant(4).map_or_else(|| vec![1; starts.len()], Constant::as_integers);
    for (((&start, &end), &along), &step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let along = axis(along, dims.len()).ok()?;
        dims[along] = rearrange::span(start, end, step, dims[along])?.1;
    }
    Some(dims)
}

fn viewed(call: &Call, dims: &[u64]) -> Option<Dims> {
    let sizes: Vec<usize> = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<_>>()?;
    Some(rearrange::view(call, &sizes)?.into_iter().map(|dim| dim as u64).collect())
}
