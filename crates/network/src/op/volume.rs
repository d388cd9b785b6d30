//! Windows over volumes: images with a depth axis before their height.

use super::attributes::{Conv, VolumeWindow};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use super::pooling::AxisWindow;
use crate::Shape;

impl VolumeWindow {
    /// A kernel with equal sides, strides and paddings.
    pub fn cube(kernel: usize, stride: usize, padding: usize) -> Self {
        VolumeWindow { kernel: [kernel; 3], stride: [stride; 3], padding: [padding; 3], dilation: [1; 3], ceil: false }
    }

    /// Whether it sees each plane by itself, as a convolution of images does.
    pub fn moves_by_frames(&self) -> bool {
        (self.kernel[0], self.stride[0], self.padding[0]) == (1, 1, 0)
    }

    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        self.positions(input, volume(input)?[0])
    }

    /// The shape of `channels` at every position of the window.
    fn positions(&self, input: &Shape, channels: usize) -> Result<Shape, String> {
        let [_, sides @ ..] = volume(input)?;
        let mut dims = vec![channels];
        for (axis, size) in sides.into_iter().enumerate() {
            let along = AxisWindow {
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
}

impl Conv<VolumeWindow> {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        self.divides(volume(input)?[0])?;
        self.window.positions(input, self.out_channels)
    }

    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        self.filtering(&self.window.kernel, at, OperationNature::Volume(self), ChannelCoupling::Volumes(self))
    }
}

fn volume(shape: &Shape) -> Result<[usize; 4], String> {
    match *shape.dims() {
        [channels, depth, height, width] => Ok([channels, depth, height, width]),
        _ => Err(format!("needs a volume (channels x depth x height x width), got {shape}")),
    }
}
