//! Builds calibration networks: branches that begin at the image and end in a vector each.

use crate::zoo::layers::{ZooLayers, biased};
use crate::{Activation, Affine, BinaryFunction, Conv, Linear, Network, NodeId, Op, ReductionKind, Shape};
use perf4sight_base::error::Result;

/// Height and width of the images, as most networks take them.
const SIDE: usize = 224;

/// So few classes that the cost of the classifier is negligible.
const CLASSES: usize = 10;

pub(super) struct CalibrationBuilder {
    layers: ZooLayers,
    image: NodeId,
    added: usize,
    /// The results of the branches so far.
    vectors: Vec<NodeId>,
}

impl CalibrationBuilder {
    pub fn build(name: &str, content: super::AddContent) -> Result<Network> {
        let layers = ZooLayers::new(name, Shape::new([3, SIDE, SIDE]));
        let mut network = CalibrationBuilder { image: layers.at, layers, added: 0, vectors: Vec::new() };
        content(&mut network)?;
        let vectors = std::mem::take(&mut network.vectors);
        network.join(Op::Concat { axis: 0 }, &vectors)?.linear(CLASSES)?;
        Ok(network.layers.finish())
    }

    /// The last operation, which the next one reads.
    pub fn last_node(&self) -> NodeId {
        self.layers.at
    }

    /// Goes back to an earlier operation; the next one reads it.
    pub fn back_to(&mut self, node: NodeId) -> &mut Self {
        self.layers.at = node;
        self
    }

    pub fn shape(&self) -> &Shape {
        self.layers.shape()
    }

    /// Adds an operation after the last.
    pub fn append(&mut self, op: Op) -> Result<&mut Self> {
        self.join(op, &[self.layers.at])
    }

    /// Adds an operation on earlier ones.
    pub fn join(&mut self, op: Op, inputs: &[NodeId]) -> Result<&mut Self> {
        let name = format!("{}_{}", op.kind(), self.added);
        self.added += 1;
        self.layers.join(name, op, inputs)?;
        Ok(self)
    }

    /// Adds a trained tensor, which has no input.
    pub fn parameter(&mut self, dims: &[usize]) -> Result<NodeId> {
        let before = self.last_node();
        let parameter = self.join(Op::Parameter(Shape::new(dims.to_vec())), &[])?.last_node();
        self.back_to(before);
        Ok(parameter)
    }

    /// Begins a branch: the image in square patches of `side` pixels, each a vector of length `width`.
    pub fn patches(&mut self, side: usize, width: usize) -> Result<&mut Self> {
        let image = self.image;
        self.back_to(image).append(Op::Conv(biased(width, side, side, 0)))
    }

    /// The same as rows, one for each patch.
    pub fn rows(&mut self, side: usize, width: usize) -> Result<&mut Self> {
        let patches = (SIDE / side).pow(2);
        self.patches(side, width)?.reshape(&[width, patches])?.transpose(&[1, 0])
    }

    pub fn end_images(&mut self) -> Result<()> {
        self.append(Op::AdaptiveAvgPool { output: [1; 2] })?.append(Op::Flatten)?;
        self.vectors.push(self.layers.at);
        Ok(())
    }

    pub fn end_rows(&mut self) -> Result<()> {
        let axes = (0..self.shape().rank() - 1).collect();
        self.append(Op::Reduce { reduction: ReductionKind::Mean, axes, keep: false })?;
        self.vectors.push(self.layers.at);
        Ok(())
    }

    pub fn conv(&mut self, conv: Conv) -> Result<&mut Self> {
        self.append(Op::Conv(conv))
    }

    pub fn linear(&mut self, out_features: usize) -> Result<&mut Self> {
        self.append(Op::Linear(Linear { out_features, bias: true }))
    }

    /// Adds a layer normalisation on the last axis.
    pub fn layer_norm(&mut self) -> Result<&mut Self> {
        let axis = self.shape().rank() - 1;
        self.append(Op::LayerNorm { axis, affine: Affine::ScaleAndShift })
    }

    pub fn batch_norm(&mut self) -> Result<&mut Self> {
        self.append(Op::BatchNorm { axis: 0 })
    }

    pub fn group_norm(&mut self, groups: usize) -> Result<&mut Self> {
        self.append(Op::GroupNorm { groups, affine: Affine::ScaleAndShift })
    }

    pub fn activation(&mut self, activation: Activation) -> Result<&mut Self> {
        self.append(Op::Activation(activation))
    }

    pub fn reshape(&mut self, dims: &[usize]) -> Result<&mut Self> {
        self.append(Op::Reshape(Shape::new(dims.to_vec())))
    }

    pub fn transpose(&mut self, order: &[usize]) -> Result<&mut Self> {
        self.append(Op::Transpose { order: order.to_vec() })
    }

    pub fn slice(&mut self, axis: usize, start: usize, length: usize) -> Result<&mut Self> {
        self.append(Op::Slice { axis, start, length })
    }

    /// Adds arithmetic with a constant.
    pub fn by_constant(&mut self, binary: BinaryFunction) -> Result<&mut Self> {
        self.append(Op::Binary(binary))
    }

    /// Adds arithmetic with an earlier result.
    pub fn with(&mut self, binary: BinaryFunction, other: NodeId) -> Result<&mut Self> {
        self.join(Op::Binary(binary), &[self.layers.at, other])
    }

    /// Adds arithmetic with a trained tensor.
    pub fn with_parameter(&mut self, binary: BinaryFunction, dims: &[usize]) -> Result<&mut Self> {
        let parameter = self.parameter(dims)?;
        self.with(binary, parameter)
    }

    /// Adds the two layers after a transformer's attention, and their residual sum.
    pub fn perceptron(&mut self, hidden: usize, activation: Activation) -> Result<&mut Self> {
        let (before, width) = (self.last_node(), self.shape().features());
        self.layer_norm()?.linear(hidden)?.activation(activation)?.linear(width)?.with(BinaryFunction::Add, before)
    }
}
