//! Windows that move over volumes: images with a depth in front of their height.

use super::facts::{At, Backward, Beside, Coupling, Facts, Gradient, Nature, Needs, Traffic};
use super::pooling::Along;
use super::product::Conv;
use crate::Shape;

/// How a kernel moves over a volume; triples are depth, height, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Size of the kernel.
    pub kernel: [usize; 3],
    /// Step between positions.
    pub stride: [usize; 3],
    /// Added on both sides of every axis.
    pub padding: [usize; 3],
    /// Distance between kernel elements.
    pub dilation: [usize; 3],
    /// Round the number of positions up instead of down.
    pub ceil: bool,
}

impl Volume {
    /// A kernel with equal sides, strides and paddings.
    pub fn cube(kernel: usize, stride: usize, padding: usize) -> Self {
        Volume { kernel: [kernel; 3], stride: [stride; 3], padding: [padding; 3], dilation: [1; 3], ceil: false }
    }

    /// The volume that a pooling gives.
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        self.positions(input, volume(input)?[0])
    }

    /// So many channels at every position of the window.
    fn positions(&self, input: &Shape, channels: usize) -> Result<Shape, String> {
        let [_, sides @ ..] = volume(input)?;
        let mut dims = vec![channels];
        for (axis, size) in sides.into_iter().enumerate() {
            let along = Along {
                size,
                kernel: self.kernel[axis],
                stride: self.stride[axis],
                dilation: self.dilation[axis],
                padding: [self.padding[axis]; 2],
            };
            dims.push(along.positions(self.ceil)?);
        }
        Ok(Shape::new(dims))
    }

    fn elements(&self) -> f64 {
        self.kernel.iter().product::<usize>() as f64
    }
}

impl Conv<Volume> {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        self.divides(volume(input)?[0])?;
        self.window.positions(input, self.out_channels)
    }

    pub(super) fn facts<'a>(&'a self, at: At) -> Facts<'a> {
        self.filtering(&self.window.kernel, at, Nature::Volume(self), Coupling::Volumes(self))
    }
}

/// Channels, depth, height and width.
fn volume(shape: &Shape) -> Result<[usize; 4], String> {
    match *shape.dims() {
        [channels, depth, height, width] => Ok([channels, depth, height, width]),
        _ => Err(format!("needs a volume (channels x depth x height x width), got {shape}")),
    }
}

/// The maximum of every window, and where it was found.
pub(super) fn max<'a>(window: &Volume, at: At) -> Facts<'a> {
    let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
    let traffic = Traffic::of((window.elements() + 3.0) * outputs, 3.0 * outputs + 2.0 * inputs);
    Facts { beside: Some(Beside::Indices), traffic, ..pooled() }
}

/// The mean of every window.
pub(super) fn average<'a>(window: &Volume, at: At) -> Facts<'a> {
    let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
    let traffic =
        Traffic { backward: Backward::Once(inputs + outputs), ..Traffic::of((1.0 + window.elements()) * outputs, 0.0) };
    Facts { traffic, ..pooled() }
}

fn pooled<'a>() -> Facts<'a> {
    Facts { needs: Needs::Inputs, ..Facts::of(Nature::Pooling(None), Coupling::Image, Gradient::Made) }
}
