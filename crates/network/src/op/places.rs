//! Operations on positions: largest elements, cumulative sums, images assembled from columns or sampled by a grid.

use super::attributes::Window;
use super::effects::{AuxiliaryResult, BackwardNeeds, BackwardTraffic, GradientFlow, MemoryTraffic, ResultStorage};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use super::pooling::image;
use super::two_inputs;
use crate::Shape;

/// The index of the largest or smallest element along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgMax {
    /// The axis.
    pub axis: usize,
    /// Whether it stays as an axis of length 1.
    pub keep: bool,
    /// Whether it is the largest element, otherwise the smallest.
    pub largest: bool,
}

impl ArgMax {
    /// A position has no gradient.
    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        let coupling = ChannelCoupling::Reduced { axes: std::slice::from_ref(&self.axis), keep: self.keep };
        let traffic = MemoryTraffic::new(at.input(0).elements() as f64 + 2.0 * at.outputs(), 0.0);
        OperationFacts {
            traffic,
            storage: ResultStorage::Needed,
            ..OperationFacts::new(OperationNature::Pooling(None), coupling, GradientFlow::Ends)
        }
    }
}

/// The largest or smallest elements along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopK {
    /// The axis.
    pub axis: usize,
    /// How many elements are kept.
    pub count: usize,
    /// Whether they are the largest elements, otherwise the smallest.
    pub largest: bool,
    /// Whether the result is their indices, otherwise the elements themselves.
    pub places: bool,
}

impl TopK {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let mut dims = input.dims().to_vec();
        let dim = dims.get_mut(self.axis).ok_or(format!("has no axis {} in {input}", self.axis))?;
        if self.count > *dim {
            return Err(format!("takes {} of an axis of {dim}", self.count));
        }
        *dim = self.count;
        Ok(Shape::new(dims))
    }

    /// The searched axis is copied and sorted; backward puts the gradient into zeros (value_selecting_reduction_backward).
    pub(super) fn facts<'a>(&self, at: NodePosition) -> OperationFacts<'a> {
        let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
        let coupling = ChannelCoupling::OtherAxes { axis: self.axis };
        if self.places {
            let traffic = MemoryTraffic::new(2.0 * inputs + 2.0 * outputs, 0.0);
            let storage = ResultStorage::Needed;
            return OperationFacts {
                traffic,
                storage,
                ..OperationFacts::new(OperationNature::Pooling(None), coupling, GradientFlow::Ends)
            };
        }
        let traffic = MemoryTraffic::new(2.0 * inputs + 3.0 * outputs, inputs + 3.0 * outputs);
        OperationFacts {
            traffic,
            auxiliary: Some(AuxiliaryResult::Indices),
            ..OperationFacts::new(OperationNature::Pooling(None), coupling, GradientFlow::Made)
        }
    }
}

/// Cumulative sums; backward sums the gradient from the other end, which flips it twice (cumsum_backward).
pub(super) fn cumulative_sum<'a>(at: NodePosition) -> OperationFacts<'a> {
    let outputs = at.outputs();
    let traffic = MemoryTraffic::new(2.0 * outputs, 6.0 * outputs);
    OperationFacts {
        traffic,
        ..OperationFacts::new(OperationNature::Pooling(None), ChannelCoupling::Same, GradientFlow::Made)
    }
}

/// Assembles an image from columns, each of which is a window of it; overlapping windows are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Height and width of the image.
    pub image: [usize; 2],
    /// The windows; their padding is cut off.
    pub window: Window,
}

impl Fold {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let area = self.window.kernel[0].saturating_mul(self.window.kernel[1]);
        let [height, width] = self.window.positions(self.image)?;
        match *input.dims() {
            [rows, columns] if area > 0 && rows.is_multiple_of(area) && columns == height.saturating_mul(width) => {
                Ok(Shape::new([rows / area, self.image[0], self.image[1]]))
            }
            _ => Err(format!("cannot lay {input} as {height} x {width} windows of {area}")),
        }
    }

    /// Every element is read and added to the image; backward extracts the columns again (im2col).
    pub(super) fn facts<'a>(&self, at: NodePosition) -> OperationFacts<'a> {
        let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
        let backward = BackwardTraffic::Once(inputs + outputs);
        let traffic = MemoryTraffic { strided: true, backward, ..MemoryTraffic::new(2.0 * inputs + outputs, 0.0) };
        OperationFacts {
            traffic,
            ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Lost, GradientFlow::Made)
        }
    }
}

/// How an image is sampled at the positions of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSample {
    /// The interpolation between pixels.
    pub interpolation: super::Interpolation,
    /// The values beyond the edge.
    pub beyond: OutsideValues,
    /// Whether the corners of the grid are the centres of the corner pixels, else their edges.
    pub corners: bool,
}

/// Values beyond the edge of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideValues {
    /// Zeros.
    Zeros,
    /// The edge, repeated.
    Edge,
    /// The image, mirrored.
    Reflect,
}

/// Every pair in the grid gives all channels at one position.
pub(super) fn sampled_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    let [source, grid] = two_inputs(inputs)?;
    let [channels, ..] = image(source)?;
    match *grid.dims() {
        [height, width, 2] => Ok(Shape::new([channels, height, width])),
        _ => Err(format!("needs a grid of height x width x 2, got {grid}")),
    }
}

/// Backward needs both operands (grid_sampler_2d in derivatives.yaml) and adds into zeros.
pub(super) fn grid_sample<'a>(sample: &GridSample, at: NodePosition) -> OperationFacts<'a> {
    let [inputs, grid, outputs] = [at.input(0).elements() as f64, at.input(1).elements() as f64, at.outputs()];
    let read = sample.interpolation.pixels() * outputs;
    let traffic = MemoryTraffic {
        strided: true,
        backward: BackwardTraffic::Each(vec![inputs + outputs + 2.0 * read, outputs + read + 2.0 * grid]),
        ..MemoryTraffic::new(read + grid + outputs, 0.0)
    };
    OperationFacts {
        needs: BackwardNeeds::Inputs,
        traffic,
        ..OperationFacts::new(OperationNature::Pooling(None), ChannelCoupling::Image, GradientFlow::Made)
    }
}
