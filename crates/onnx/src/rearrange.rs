//! Rearranges the elements of constants: views, transpositions, slices, lookups, concatenations, copies.

use super::call::{NodeCall, NodeMisfit, axis};
use super::number::{BatchNumber, TensorDims, product};
use super::tensor::KnownTensor;

/// More elements than shape or scalar arithmetic ever has; larger results stay unknown.
pub(super) const MAX_ELEMENTS: usize = 1 << 12;

/// The shape that an operation which keeps all elements gives to a tensor of shape `dims`.
pub(super) fn view(call: &NodeCall, dims: &[BatchNumber]) -> Option<TensorDims> {
    match call.node.op_type() {
        "Reshape" => resolve_target(dims, &call.numbers("shape", 1)?, call.flag("allowzero")).ok(),
        "Unsqueeze" => {
            let axes = call.integers("axes", 1)?;
            let rank = dims.len() + axes.len();
            let axes: Vec<usize> = axes.iter().map(|&one| axis(one, rank).ok()).collect::<Option<_>>()?;
            let mut old = dims.iter().copied();
            (0..rank).map(|axis| if axes.contains(&axis) { Some(1.into()) } else { old.next() }).collect()
        }
        "Squeeze" => {
            let axes = call.integers("axes", 1).map(|axes| axes.iter().map(|&one| axis(one, dims.len())).collect());
            let axes: Vec<usize> = axes.transpose().ok()?.unwrap_or_else(|| (0..dims.len()).collect());
            let kept = dims.iter().enumerate().filter(|(axis, dim)| **dim != 1 || !axes.contains(axis));
            Some(kept.map(|(_, &dim)| dim).collect())
        }
        _ => None,
    }
}

/// The target of a reshape with its placeholders filled in: 0 keeps an axis, -1 takes the remaining elements.
pub(super) fn resolve_target(
    from: &[BatchNumber],
    target: &[BatchNumber],
    zero_is_zero: bool,
) -> Result<TensorDims, NodeMisfit> {
    let wrong = || NodeMisfit::Wrong(format!("cannot view {from:?} as {target:?}"));
    let filled = target.iter().enumerate().map(|(i, &dim)| match dim {
        _ if dim == 0 && !zero_is_zero => from.get(i).copied().ok_or_else(wrong),
        _ if dim == -1 => Ok(1.into()),
        _ => Ok(dim),
    });
    let mut dims = filled.collect::<Result<TensorDims, _>>()?;
    if let Some(open) = target.iter().position(|&dim| dim == -1) {
        dims[open] = product(from) / product(&dims);
    }
    match product(&dims) == product(from) && dims.iter().all(|dim| dim.is_length()) {
        true => Ok(dims),
        false => Err(wrong()),
    }
}

/// The order of axes of a transposition; the reverse order by default.
pub(super) fn order(call: &NodeCall, rank: usize) -> Result<Vec<usize>, NodeMisfit> {
    let order: Vec<usize> = match call.ints("perm") {
        Some(order) => order.iter().map(|&from| axis(from, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted == (0..rank).collect::<Vec<_>>() {
        true => Ok(order),
        false => Err(NodeMisfit::Wrong(format!("has {order:?} as the order of {rank} axes"))),
    }
}

pub(super) fn bound(place: i64, length: usize) -> usize {
    let from_front = if place < 0 { place.saturating_add(length as i64) } else { place };
    from_front.clamp(0, length as i64) as usize
}

/// What a slice takes along one axis.
pub(super) struct AxisSlice {
    pub axis: i64,
    pub start: BatchNumber,
    pub end: BatchNumber,
    pub step: i64,
}

pub(super) fn cuts(call: &NodeCall) -> Result<Vec<AxisSlice>, NodeMisfit> {
    let [starts, ends] = [("starts", 1), ("ends", 2)].map(|(name, index)| call.numbers(name, index));
    let (starts, ends) = (starts.ok_or(NodeMisfit::Unsupported)?, ends.ok_or(NodeMisfit::Unsupported)?);
    let axes = call.integers("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.constant(4).map_or_else(|| vec![1; starts.len()], KnownTensor::as_integers);
    if [ends.len(), axes.len(), steps.len()].iter().any(|&count| count != starts.len()) {
        return Err(NodeMisfit::Wrong("has starts, ends, axes and steps of different lengths".into()));
    }
    let ranges = starts.into_iter().zip(ends).zip(axes).zip(steps);
    Ok(ranges.map(|(((start, end), axis), step)| AxisSlice { axis, start, end, step }).collect())
}

/// A place that is the end of an axis however long it is: exporters write the largest number of 31 or 63 bits for the end of `x[:]`.
const THE_END: f64 = i32::MAX as f64;

/// The first element of a slice, and the number of elements; `None` for a step of 0.
pub(super) fn span(
    &AxisSlice { start, end, step, .. }: &AxisSlice,
    length: BatchNumber,
) -> Option<(BatchNumber, BatchNumber)> {
    let counted = |place: BatchNumber| match place {
        place if place < 0 => place + length,
        place if place.fixed_value().is_some_and(|place| place >= THE_END) => length,
        place => place,
    };
    let (first, taken) = match step {
        0 => return None,
        1.. => {
            let first = counted(start).max(0).min(length);
            (first, counted(end).max(0).min(length) - first)
        }
        // Backwards, the end is excluded too, so it is one before the last element taken.
        _ => {
            let first = counted(start).max(-1).min(length - 1);
            (first, first - counted(end).max(-1).min(length - 1))
        }
    };
    Some((first, (taken.max(0) / step.unsigned_abs()).map(f64::ceil)))
}

pub(super) fn transpose(call: &NodeCall, data: &KnownTensor) -> Option<KnownTensor> {
    let order = order(call, data.dims.len()).ok()?;
    let dims = order.iter().map(|&from| data.dims[from]).collect();
    let mut source = vec![0; order.len()];
    pick_elements(data, dims, |place| {
        order.iter().zip(place).for_each(|(&axis, &index)| source[axis] = index);
        offset(&data.dims, &source)
    })
}

pub(super) fn slice(call: &NodeCall, data: &KnownTensor) -> Option<KnownTensor> {
    let (mut dims, mut first, mut step) = (data.dims.clone(), vec![0i64; data.dims.len()], vec![1i64; data.dims.len()]);
    for cut in cuts(call).ok()? {
        let along = axis(cut.axis, data.dims.len()).ok()?;
        let (from, count) = span(&cut, data.dims[along].into())?;
        (first[along], dims[along], step[along]) = (from.as_integer()?, count.as_integer()?, cut.step);
    }
    let mut source = vec![0; dims.len()];
    pick_elements(data, dims, |place| {
        let places = place.iter().zip(&first).zip(&step).map(|((&i, first), step)| (first + i as i64 * step) as usize);
        source.clear();
        source.extend(places);
        offset(&data.dims, &source)
    })
}

pub(super) fn gather(call: &NodeCall, data: &KnownTensor, indices: &KnownTensor) -> Option<KnownTensor> {
    let along = axis(call.int("axis").unwrap_or(0), data.dims.len()).ok()?;
    let length = data.dims[along];
    let rows = indices.as_integers().into_iter();
    let rows: Vec<usize> = rows
        .map(|row| usize::try_from(if row < 0 { row.saturating_add(length as i64) } else { row }).ok())
        .map(|row| row.filter(|&row| row < length))
        .collect::<Option<_>>()?;
    let dims = [&data.dims[..along], &indices.dims, &data.dims[along + 1..]].concat();
    let behind = along + indices.dims.len();
    pick_elements(data, dims, |place| {
        let row = rows[offset(&indices.dims, &place[along..behind])];
        offset(&data.dims, &[&place[..along], &[row], &place[behind..]].concat())
    })
}

pub(super) fn concat(call: &NodeCall, parts: &[&KnownTensor]) -> Option<KnownTensor> {
    let first = parts.first()?;
    let along = axis(call.int("axis")?, first.dims.len()).ok()?;
    let fits = |part: &&KnownTensor| {
        part.dims.len() == first.dims.len() && (0..part.dims.len()).all(|i| i == along || part.dims[i] == first.dims[i])
    };
    let elements: usize = parts.iter().map(|part| part.values.len()).sum();
    if !parts.iter().all(fits) || elements > MAX_ELEMENTS {
        return None;
    }
    let outer: usize = first.dims[..along].iter().product();
    let rows = (0..outer).flat_map(|row| {
        parts.iter().flat_map(move |part| {
            let length = part.values.len() / outer;
            part.values[row * length..(row + 1) * length].iter().copied()
        })
    });
    let mut dims = first.dims.clone();
    dims[along] = parts.iter().map(|part| part.dims[along]).sum();
    Some(KnownTensor { dims, values: rows.collect(), integer: parts.iter().all(|part| part.integer) })
}

pub(super) fn expand_constant(data: &KnownTensor, target: &[usize]) -> Option<KnownTensor> {
    if data.dims == target {
        return Some(data.clone());
    }
    let ones = target.len().checked_sub(data.dims.len())?;
    let fits = data.dims.iter().zip(&target[ones..]).all(|(&dim, &wanted)| dim == wanted || dim == 1);
    let mut source = vec![0; data.dims.len()];
    pick_elements(data, target.to_vec(), |place| {
        let places = place[ones..].iter().zip(&data.dims).map(|(&index, &dim)| index.min(dim - 1));
        source.clear();
        source.extend(places);
        offset(&data.dims, &source)
    })
    .filter(|_| fits)
}

/// The offset of the element at `place` in a tensor of shape `dims`.
fn offset(dims: &[usize], place: &[usize]) -> usize {
    dims.iter().zip(place).fold(0, |offset, (&dim, &index)| offset * dim + index)
}

/// A constant of shape `dims`; `source` gives the offset in `data` of the element at each place.
fn pick_elements(
    data: &KnownTensor,
    dims: Vec<usize>,
    mut source: impl FnMut(&[usize]) -> usize,
) -> Option<KnownTensor> {
    let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
    if elements > MAX_ELEMENTS {
        return None;
    }
    let mut place = vec![0; dims.len()];
    let mut values = Vec::with_capacity(elements);
    for _ in 0..elements {
        values.push(*data.values.get(source(&place))?);
        for (index, &dim) in place.iter_mut().zip(&dims).rev() {
            *index += 1;
            if *index < dim {
                break;
            }
            *index = 0;
        }
    }
    Some(KnownTensor { dims, values, integer: data.integer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes as with;
    use crate::schema::NodeProto;
    use crate::value::Value;

    fn matrix(rows: usize, values: &[i64]) -> KnownTensor {
        KnownTensor { dims: vec![rows, values.len() / rows], ..KnownTensor::integers(values.iter().copied()) }
    }

    fn call<'a>(node: &'a NodeProto, inputs: &[KnownTensor]) -> NodeCall<'a> {
        NodeCall { node, inputs: inputs.iter().cloned().map(Value::constant).collect() }
    }

    #[test]
    fn paddings_as_pytorch_exports_them_come_out_in_onnx_order() {
        // torch.nn.functional.pad(x, (1, 2, 3, 4)): pairs from the last axis on, zeros for the others, reversed and transposed.
        let pairs = matrix(4, &[1, 2, 3, 4, 0, 0, 0, 0]);
        let node = NodeProto { op_type: Some("Slice".into()), ..Default::default() };
        let bounds = [[-1], [i64::MIN], [0], [-1]].map(KnownTensor::integers);
        let inputs: Vec<KnownTensor> = std::iter::once(pairs.clone()).chain(bounds).collect();
        let reversed = slice(&call(&node, &inputs), &pairs).unwrap();
        assert_eq!(reversed.values, [0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 1.0, 2.0]);
        let node = NodeProto { attribute: vec![with::ints("perm", vec![1, 0])], ..Default::default() };
        let pads = transpose(&call(&node, &[]), &reversed).unwrap();
        assert_eq!(pads.dims, [2, 4]);
        assert_eq!(pads.values, [0, 0, 3, 1, 0, 0, 4, 2]);
    }

    #[test]
    fn lookups_and_joins_follow_their_axis() {
        let data = matrix(2, &[1, 2, 3, 4, 5, 6]);
        let node = NodeProto { attribute: vec![with::int("axis", 1)], ..Default::default() };
        let last = gather(&call(&node, &[]), &data, &KnownTensor::integers([-1, 0])).unwrap();
        assert_eq!(last.dims, [2, 2]);
        assert_eq!(last.values, [3, 1, 6, 4]);
        let joined = concat(&call(&node, &[]), &[&data, &last]).unwrap();
        assert_eq!(joined.dims, [2, 5]);
        assert_eq!(joined.values[..5], [1, 2, 3, 3, 1]);
        assert_eq!(gather(&call(&node, &[]), &data, &KnownTensor::integers([3])), None);
    }

    #[test]
    fn copies_are_refused_where_shapes_do_not_broadcast_or_explode() {
        let row = matrix(1, &[7, 8]);
        assert_eq!(expand_constant(&row, &[2, 2]).unwrap().values, [7.0, 8.0, 7.0, 8.0]);
        assert_eq!(expand_constant(&row, &[2, 3]), None);
        assert_eq!(expand_constant(&row, &[1 << 40, 2]), None);
    }
}
