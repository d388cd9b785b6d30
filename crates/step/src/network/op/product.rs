//! Convolutions, fully connected layers and products of two tensors: what multiplies matrices.

use super::facts::{At, Coupling, Facts, Gradient, Nature, Needs, Spans, Weight};
use super::pooling::{Window, image};
use super::two;
use crate::network::Shape;

/// Attributes of a 2-D convolution; pairs are height, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv {
    /// Filters.
    pub out_channels: usize,
    /// Kernel, stride, padding and dilation.
    pub window: Window,
    /// Blocks of channels that do not see each other.
    pub groups: usize,
    /// Whether each filter has a bias.
    pub bias: bool,
}

/// Attributes of a fully connected layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    /// Length of the last axis of the result.
    pub out_features: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Conv {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let [channels, height, width] = image(input)?;
        let divides = |channels: usize| self.groups > 0 && channels.is_multiple_of(self.groups);
        if !divides(channels) || !divides(self.out_channels) {
            return Err(format!(
                "cannot split {channels} input and {} output channels into {} groups",
                self.out_channels, self.groups
            ));
        }
        let [height, width] = self.window.positions([height, width])?;
        Ok(Shape::new([self.out_channels, height, width]))
    }

    pub(super) fn facts<'a>(&'a self, at: At) -> Facts<'a> {
        let [height, width] = self.window.kernel;
        let seen = at.input(0).channels() / self.groups;
        let filter = Shape::new([seen, height, width]).elements();
        let dims = Shape::new([self.out_channels, seen, height, width]);
        let filters = Weight { dims, spans: Spans::Filters { input: 0 } };
        let bias =
            self.bias.then(|| Weight { dims: Shape::new([self.out_channels]), spans: Spans::Result { first: 0 } });
        Facts {
            weights: [filters].into_iter().chain(bias).collect(),
            macs: filter.saturating_mul(at.output().elements()),
            needs: Needs::Inputs,
            ..Facts::of(Nature::Convolution(self), Coupling::Filters(self), Gradient::Made)
        }
    }

    /// Whether each of so many input channels has filters of its own.
    pub fn is_depthwise(&self, inputs: usize) -> bool {
        self.groups > 1 && self.groups == inputs
    }
}

impl Linear {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let mut dims = input.dims().to_vec();
        *dims.last_mut().ok_or("needs at least one axis")? = self.out_features;
        Ok(Shape::new(dims))
    }

    pub(super) fn facts<'a>(&'a self, at: At) -> Facts<'a> {
        let (inputs, last) = (at.input(0).features(), at.input(0).rank().saturating_sub(1));
        let matrix = Weight { dims: Shape::new([self.out_features, inputs]), spans: Spans::Filters { input: last } };
        let bias =
            self.bias.then(|| Weight { dims: Shape::new([self.out_features]), spans: Spans::Result { first: last } });
        Facts {
            weights: [matrix].into_iter().chain(bias).collect(),
            macs: at.output().elements().saturating_mul(inputs as u64),
            needs: Needs::Inputs,
            ..Facts::of(Nature::Linear(self), Coupling::Features(self), Gradient::Made)
        }
    }
}

pub(super) fn matmul_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    let [a, b] = two(inputs)?;
    let fits = a.rank() >= 2
        && a.rank() == b.rank()
        && a.dims()[..a.rank() - 2] == b.dims()[..b.rank() - 2]
        && a.dims()[a.rank() - 1] == b.dims()[b.rank() - 2];
    if !fits {
        return Err(format!("cannot multiply {a} by {b}"));
    }
    let mut dims = a.dims().to_vec();
    dims[a.rank() - 1] = b.dims()[b.rank() - 1];
    Ok(Shape::new(dims))
}

pub(super) fn matmul<'a>(at: At) -> Facts<'a> {
    let macs = at.output().elements().saturating_mul(at.input(0).features() as u64);
    Facts { macs, needs: Needs::Inputs, ..Facts::of(Nature::MatMul, Coupling::Multiplied, Gradient::Made) }
}
