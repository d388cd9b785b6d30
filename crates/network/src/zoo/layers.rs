//! A builder for the families: a cursor that appends one layer after the other.

use crate::{
    Activation, Affine, BinaryFunction, Conv, Linear, Network, NetworkBuilder, NodeId, Op, ReductionKind, Shape, Window,
};
use perf4sight_base::error::Result;

/// Appends layers after `at`; moving `at` back starts a branch.
pub(super) struct ZooLayers {
    builder: NetworkBuilder,
    /// The input of the next layer.
    pub at: NodeId,
}

pub(super) fn conv(filters: usize, kernel: usize, stride: usize, padding: usize) -> Conv {
    Conv { out_channels: filters, window: Window::square(kernel, stride, padding), groups: 1, bias: false }
}

pub(super) fn biased(filters: usize, kernel: usize, stride: usize, padding: usize) -> Conv {
    Conv { bias: true, ..conv(filters, kernel, stride, padding) }
}

/// One filter for every channel, padded so that only the stride shrinks the image.
pub(super) fn depthwise(channels: usize, kernel: usize, stride: usize) -> Conv {
    Conv { groups: channels, ..conv(channels, kernel, stride, kernel / 2) }
}

impl ZooLayers {
    pub fn new(name: &str, input: Shape) -> Self {
        let builder = NetworkBuilder::new(name, input);
        ZooLayers { at: builder.input(), builder }
    }

    pub fn finish(self) -> Network {
        self.builder.finish(self.at)
    }

    /// Channels of the next layer's input.
    pub fn channels(&self) -> usize {
        self.shape().channels()
    }

    /// Shape of the next layer's input.
    pub fn shape(&self) -> &Shape {
        self.builder.shape(self.at)
    }

    pub fn add(&mut self, name: impl Into<String>, op: Op) -> Result<&mut Self> {
        self.join(name, op, &[self.at])
    }

    pub fn join(&mut self, name: impl Into<String>, op: Op, inputs: &[NodeId]) -> Result<&mut Self> {
        self.at = self.builder.add(name, op, inputs)?;
        Ok(self)
    }

    pub fn conv(&mut self, name: impl Into<String>, conv: Conv) -> Result<&mut Self> {
        self.add(name, Op::Conv(conv))
    }

    pub fn batch_norm(&mut self, name: impl Into<String>) -> Result<&mut Self> {
        self.add(name, Op::BatchNorm { axis: 0 })
    }

    /// A convolution and its batch normalisation, at `index` of a module and behind it.
    pub fn conv_norm(&mut self, name: &str, index: usize, conv: Conv) -> Result<&mut Self> {
        self.conv(format!("{name}.{index}"), conv)?.batch_norm(format!("{name}.{}", index + 1))
    }

    /// The same with a function behind them, torchvision's `Conv2dNormActivation`.
    pub fn conv_norm_activation(&mut self, name: &str, conv: Conv, function: Activation) -> Result<&mut Self> {
        self.conv_norm(name, 0, conv)?.activation(format!("{name}.2"), function)
    }

    /// Normalises the last axis.
    pub fn layer_norm(&mut self, name: impl Into<String>) -> Result<&mut Self> {
        let axis = self.shape().rank() - 1;
        self.add(name, Op::LayerNorm { axis, affine: Affine::ScaleAndShift })
    }

    pub fn activation(&mut self, name: impl Into<String>, activation: Activation) -> Result<&mut Self> {
        self.add(name, Op::Activation(activation))
    }

    pub fn relu(&mut self, name: impl Into<String>) -> Result<&mut Self> {
        self.activation(name, Activation::Relu)
    }

    pub fn max_pool(&mut self, name: impl Into<String>, window: Window) -> Result<&mut Self> {
        self.add(name, Op::MaxPool(window))
    }

    /// Mean over an even split into `size` x `size` cells.
    pub fn average(&mut self, name: impl Into<String>, size: usize) -> Result<&mut Self> {
        self.add(name, Op::AdaptiveAvgPool { output: [size; 2] })
    }

    /// Mean over height and width, which are dropped.
    pub fn mean(&mut self) -> Result<&mut Self> {
        self.add("mean", Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false })
    }

    pub fn transpose(&mut self, name: impl Into<String>, order: &[usize]) -> Result<&mut Self> {
        self.add(name, Op::Transpose { order: order.to_vec() })
    }

    pub fn reshape(&mut self, name: impl Into<String>, dims: &[usize]) -> Result<&mut Self> {
        self.add(name, Op::Reshape(Shape::new(dims.to_vec())))
    }

    pub fn slice(&mut self, name: impl Into<String>, [axis, start, length]: [usize; 3]) -> Result<&mut Self> {
        self.add(name, Op::Slice { axis, start, length })
    }

    /// A trained tensor, which has no input.
    pub fn parameter(&mut self, name: impl Into<String>, dims: &[usize]) -> Result<NodeId> {
        self.builder.add(name, Op::Parameter(Shape::new(dims.to_vec())), &[])
    }

    pub fn flatten(&mut self) -> Result<&mut Self> {
        self.add("flatten", Op::Flatten)
    }

    pub fn dropout(&mut self, name: impl Into<String>, rate: f32) -> Result<&mut Self> {
        self.add(name, Op::Dropout { rate })
    }

    pub fn linear(&mut self, name: impl Into<String>, out_features: usize) -> Result<&mut Self> {
        self.add(name, Op::Linear(Linear { out_features, bias: true }))
    }

    /// Element-wise sum of `shortcut` and the previous layer.
    pub fn add_to(&mut self, name: impl Into<String>, shortcut: NodeId) -> Result<&mut Self> {
        self.join(name, Op::Binary(BinaryFunction::Add), &[self.at, shortcut])
    }

    /// Product of the previous layer and `other`.
    pub fn times(&mut self, name: impl Into<String>, other: NodeId) -> Result<&mut Self> {
        self.join(name, Op::Binary(BinaryFunction::Mul), &[self.at, other])
    }

    /// Squeeze and excitation (Hu et al. 2017, arXiv:1709.01507), as torchvision's `SqueezeExcitation` lays it out: multiplies
    /// every channel by a gate, which two 1x1 convolutions compute from the channels' means.
    pub fn squeeze_excite(&mut self, name: &str, squeezed: usize, [inner, gate]: [Activation; 2]) -> Result<&mut Self> {
        let (before, channels) = (self.at, self.channels());
        self.average(format!("{name}.avgpool"), 1)?.conv(format!("{name}.fc1"), biased(squeezed, 1, 1, 0))?;
        self.activation(format!("{name}.activation"), inner)?.conv(format!("{name}.fc2"), biased(channels, 1, 1, 0))?;
        self.activation(format!("{name}.scale_activation"), gate)?.times(format!("{name}.mul"), before)
    }

    /// Concatenation of all `branches` along the channels.
    pub fn concat(&mut self, name: impl Into<String>, branches: &[NodeId]) -> Result<&mut Self> {
        self.join(name, Op::Concat { axis: 0 }, branches)
    }
}
