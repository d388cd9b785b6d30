//! Operations without arithmetic: concatenation, slices, padding, broadcasting, transposition, reshapes.

use super::effects::{BackwardTraffic, GradientFlow, MemoryTraffic, ResultStorage};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use crate::{Op, Shape};

pub(super) fn concat_shape(inputs: &[&Shape], axis: usize) -> Result<Shape, String> {
    let first = inputs.first().ok_or("has no inputs")?;
    let mut dims = first.dims().to_vec();
    if axis >= dims.len() {
        return Err(format!("has no axis {axis} in {first}"));
    }
    dims[axis] = 0;
    for input in inputs {
        let fits = input.rank() == dims.len() && (0..dims.len()).all(|i| i == axis || input.dims()[i] == dims[i]);
        if !fits {
            return Err(format!("cannot join {first} and {input} along axis {axis}"));
        }
        dims[axis] = dims[axis].saturating_add(input.dims()[axis]);
    }
    Ok(Shape::new(dims))
}

pub(super) fn concat<'a>(axis: usize, at: NodePosition) -> OperationFacts<'a> {
    let outputs = at.outputs();
    // Its gradients are views into the incoming one, but operations that read these are slower by as much.
    let traffic = copy_traffic(outputs);
    OperationFacts {
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Joined { axis }, GradientFlow::Passed)
    }
}

/// The same elements on other axes; on a single one if the target is empty.
pub(super) fn reshape_shape(target: &Shape, input: &Shape) -> Result<Shape, String> {
    if target.elements() != input.elements() {
        return Err(format!("cannot view {input} as {target}"));
    }
    Ok(target.clone())
}

pub(super) fn reshape<'a>() -> OperationFacts<'a> {
    OperationFacts {
        storage: ResultStorage::View,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Regrouped, GradientFlow::Passed)
    }
}

pub(super) fn transpose_shape(order: &[usize], input: &Shape) -> Result<Shape, String> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted != (0..input.rank()).collect::<Vec<_>>() {
        return Err(format!("{order:?} is not an order of the axes of {input}"));
    }
    Ok(Shape::new(order.iter().map(|&axis| input.dims()[axis]).collect::<Vec<_>>()))
}

/// A view. Its cost is that of the copy which the next operation makes of it.
pub(super) fn transpose<'a>(order: &'a [usize], at: NodePosition) -> OperationFacts<'a> {
    let (storage, traffic) = (ResultStorage::Needed, copy_traffic(at.outputs()));
    OperationFacts {
        storage,
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Permuted(order), GradientFlow::Made)
    }
}

pub(super) fn contiguous_shape(batch: usize, input: &Shape) -> Result<Shape, String> {
    if batch <= input.rank() { Ok(input.clone()) } else { Err(format!("has no {batch} axes in {input}")) }
}

/// A copy; it counts at the transposition, if there was one. Its gradient cannot be viewed as the transposition's input, and so
/// is copied.
pub(super) fn contiguous<'a>(at: NodePosition) -> OperationFacts<'a> {
    let is_counted = matches!(at.nodes[at.node.inputs[0].index()].op, Op::Transpose { .. });
    let traffic = copy_traffic(if is_counted { 0.0 } else { at.outputs() });
    OperationFacts {
        storage: ResultStorage::Needed,
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Kept, GradientFlow::Made)
    }
}

pub(super) fn slice_shape([axis, start, length]: [usize; 3], input: &Shape) -> Result<Shape, String> {
    let mut dims = input.dims().to_vec();
    let dim = dims.get_mut(axis).ok_or(format!("has no axis {axis} in {input}"))?;
    if start.checked_add(length).is_none_or(|end| end > *dim) {
        return Err(format!("cannot take {length} from {start} of an axis of {dim}"));
    }
    *dim = length;
    Ok(Shape::new(dims))
}

/// A view whose backward fills a whole tensor with zeros around the gradient (slice_backward).
pub(super) fn slice<'a>([axis, start, length]: [usize; 3], at: NodePosition) -> OperationFacts<'a> {
    let backward = at.input(0).elements() as f64 + 2.0 * at.outputs();
    let traffic = MemoryTraffic { backward: BackwardTraffic::Once(backward), ..copy_traffic(0.0) };
    let coupling = ChannelCoupling::Part { axis, start, length };
    OperationFacts {
        storage: ResultStorage::View,
        traffic,
        ..OperationFacts::new(OperationNature::Movement, coupling, GradientFlow::Made)
    }
}

/// The values of padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaddingFill {
    /// Zeros.
    Zeros,
    /// Another number.
    Constant,
    /// The elements inside the edge, mirrored.
    Reflect,
    /// The edge, repeated.
    Edge,
    /// The elements at the other end.
    Wrap,
}

pub(super) fn pad_shape(sides: &[[i64; 2]], input: &Shape) -> Result<Shape, String> {
    if sides.len() != input.rank() {
        return Err(format!("pads {} axes of {input}", sides.len()));
    }
    let padded =
        input.dims().iter().zip(sides).map(|(&dim, &[before, after])| {
            dim.checked_add_signed(before as isize)?.checked_add_signed(after as isize)
        });
    let padded: Option<Vec<usize>> = padded.collect();
    padded.map(Shape::new).ok_or_else(|| format!("pads {input} by {sides:?}"))
}

/// A padded copy (constant_pad_nd, reflection_pad2d, ...), whose backward cuts the gradient.
pub(super) fn pad<'a>(at: NodePosition) -> OperationFacts<'a> {
    let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
    let traffic = MemoryTraffic { strided: true, ..MemoryTraffic::new(inputs + outputs, inputs + outputs) };
    OperationFacts {
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Kept, GradientFlow::Made)
    }
}

pub(super) fn expand_shape(target: &Shape, input: &Shape) -> Result<Shape, String> {
    let fits = target.rank() == input.rank()
        && input.dims().iter().zip(target.dims()).all(|(&dim, &wanted)| dim == wanted || dim == 1);
    if fits { Ok(target.clone()) } else { Err(format!("cannot stretch {input} to {target}")) }
}

/// A view whose backward sums the gradient over the broadcast axes.
pub(super) fn expand<'a>(at: NodePosition) -> OperationFacts<'a> {
    let backward = at.input(0).elements() as f64 + at.outputs();
    let traffic = MemoryTraffic { backward: BackwardTraffic::Once(backward), ..copy_traffic(0.0) };
    OperationFacts {
        storage: ResultStorage::View,
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Stretched, GradientFlow::Made)
    }
}

pub(super) fn every_shape([axis, start, step]: [usize; 3], input: &Shape) -> Result<Shape, String> {
    let mut dims = input.dims().to_vec();
    let dim = dims.get_mut(axis).ok_or(format!("has no axis {axis} in {input}"))?;
    if step == 0 {
        return Err("takes steps of 0".into());
    }
    *dim = dim.saturating_sub(start).div_ceil(step);
    Ok(Shape::new(dims))
}

/// A view whose backward fills a whole tensor with zeros around the gradient (slice_backward).
pub(super) fn strided_slice<'a>(axis: usize, at: NodePosition) -> OperationFacts<'a> {
    let backward = at.input(0).elements() as f64 + 2.0 * at.outputs();
    let traffic = MemoryTraffic { backward: BackwardTraffic::Once(backward), ..copy_traffic(0.0) };
    OperationFacts {
        storage: ResultStorage::View,
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::OtherAxes { axis }, GradientFlow::Made)
    }
}

/// Elements picked from an axis by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickedElements {
    /// The axis.
    pub axis: usize,
    /// How many elements are picked.
    pub count: usize,
    /// The indices; empty if the file does not contain them.
    pub places: Vec<usize>,
}

impl PickedElements {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let mut dims = input.dims().to_vec();
        let dim = dims.get_mut(self.axis).ok_or(format!("has no axis {} in {input}", self.axis))?;
        if self.places.iter().any(|place| place >= dim) || (!self.places.is_empty() && self.places.len() != self.count)
        {
            return Err(format!("cannot pick {:?} of an axis of {dim}", self.places));
        }
        *dim = self.count;
        Ok(Shape::new(dims))
    }

    /// A copy; backward adds the gradient into zeros (index_select_backward).
    pub(super) fn facts<'a>(&self, at: NodePosition) -> OperationFacts<'a> {
        let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
        let traffic =
            MemoryTraffic { backward: BackwardTraffic::Once(inputs + 2.0 * outputs), ..copy_traffic(outputs) };
        OperationFacts {
            traffic,
            ..OperationFacts::new(
                OperationNature::Movement,
                ChannelCoupling::OtherAxes { axis: self.axis },
                GradientFlow::Made,
            )
        }
    }
}

/// Reads and writes of this many elements, not in memory order.
fn copy_traffic(elements: f64) -> MemoryTraffic {
    MemoryTraffic { strided: true, ..MemoryTraffic::new(2.0 * elements, 2.0 * elements) }
}
