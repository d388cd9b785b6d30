//! Operations on positions: largest elements, cumulative sums, images assembled from columns or sampled by a grid.

use super::attributes::Window;
use super::effects::{Auxiliary, Backward, Gradient, Needs, Storage, Traffic};
use super::facts::{At, Coupling, Facts, Nature};
use super::pooling::image;
use super::two;
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
    pub(super) fn facts<'a>(&'a self, at: At) -> Facts<'a> {
        let coupling = Coupling::Reduced { axes: std::slice::from_ref(&self.axis), keep: self.keep };
        let traffic = Traffic::new(at.input(0).elements() as f64 + 2.0 * at.outputs(), 0.0);
        Facts { traffic, storage: Storage::Needed, ..Facts::new(Nature::Pooling(None), coupling, Gradient::Ends) }
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
    pub(super) fn facts<'a>(&self, at: At) -> Facts<'a> {
        let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
        let coupling = Coupling::OtherAxes { axis: self.axis };
        if self.places {
            let traffic = Traffic::new(2.0 * inputs + 2.0 * outputs, 0.0);
            let storage = Storage::Needed;
            return Facts { traffic, storage, ..Facts::new(Nature::Pooling(None), coupling, Gradient::Ends) };
        }
        let traffic = Traffic::new(2.0 * inputs + 3.0 * outputs, inputs + 3.0 * outputs);
        Facts {
            traffic,
            auxiliary: Some(Auxiliary::Indices),
            ..Facts::new(Nature::Pooling(None), coupling, Gradient::Made)
        }
    }
}

/// Cumulative sums; backward sums the gradient from the other end, which flips it twice (cumsum_backward).
pub(super) fn cumulated<'a>(at: At) -> Facts<'a> {
    let outputs = at.outputs();
    let traffic = Traffic::new(2.0 * outputs, 6.0 * outputs);
    Facts { traffic, ..Facts::new(Nature::Pooling(None), Coupling::Same, Gradient::Made) }
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
    pub(super) fn facts<'a>(&self, at: At) -> Facts<'a> {
        let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
        let backward = Backward::Once(inputs + outputs);
        let traffic = Traffic { strided: true, backward, ..Traffic::new(2.0 * inputs + outputs, 0.0) };
        Facts { traffic, ..Facts::new(Nature::Movement, Coupling::Lost, Gradient::Made) }
    }
}

/// How an image is sampled at the positions of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSample {
    /// The interpolation between pixels.
    pub interpolation: super::Interpolation,
    /// The values beyond the edge.
    pub beyond: Beyond,
    /// Whether the corners of the grid are the centres of the corner pixels, else their edges.
    pub corners: bool,
}

/// Values beyond the edge of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// Zeros.
    Zeros,
    /// The edge, repeated.
    Edge,
    /// The image, mirrored.
    Reflect,
}

/// Every pair in the grid gives all channels at one position.
pub(super) fn sampled_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    let [source, grid] = two(inputs)?;
    let [channels, ..] = image(source)?;
    match *grid.dims() {
        [height, width, 2] => Ok(Shape::new([channels, height, width])),
        _ => Err(format!("needs a grid of height x width x 2, got {grid}")),
    }
}

/// Backward needs both operands (grid_sampler_2d in derivatives.yaml) and adds into zeros.
pub(super) fn sampled<'a>(sample: &GridSample, at: At) -> Facts<'a> {
    let [inputs, grid, outputs] = [at.input(0).elements() as f64, at.input(1).elements() as f64, at.outputs()];
    let read = sample.interpolation.pixels() * outputs;
    let traffic = Traffic {
        strided: true,
        backward: Backward::Each(vec![inputs + outputs + 2.0 * read, outputs + read + 2.0 * grid]),
        ..Traffic::new(read + grid + outputs, 0.0)
    };
    Facts { needs: Needs::Inputs, traffic, ..Facts::new(Nature::Pooling(None), Coupling::Image, Gradient::Made) }
}
