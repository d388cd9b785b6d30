//! Facts about an operation at its position in a network, for any device and framework. Costs, memory, time, pruning and the
//! workers read them.

use super::activations::{Activation, BinaryFunction};
use super::attributes::{Affine, Conv, ConvTranspose, Embedding, Linear, UnknownOperation, VolumeWindow, Window};
use super::effects::{AuxiliaryResult, BackwardNeeds, GradientFlow, MemoryTraffic, ResultStorage, TrainedTensor};
use super::recurrent::Recurrent;
use crate::{Node, Shape};

/// The facts about one operation; elements and multiply-accumulates are those of one sample.
#[derive(Debug, Clone)]
pub struct OperationFacts<'a> {
    /// The kind of its computation.
    pub nature: OperationNature<'a>,
    /// Its trained tensors, in the order in which frameworks create them.
    pub weights: Vec<TrainedTensor>,
    /// The shapes of its buffers, which persist from step to step and are not trained.
    pub buffers: Vec<Shape>,
    /// Multiply-accumulates of the forward pass.
    pub macs: u64,
    /// Whether `macs` is the cost for each sample of the batch that a sample is combined with, not the cost of the sample.
    pub across: bool,
    /// Its memory traffic, if it multiplies no matrices.
    pub traffic: MemoryTraffic,
    /// Where its result is stored.
    pub storage: ResultStorage,
    /// What backward needs of its operands.
    pub needs: BackwardNeeds,
    /// The additional tensor that forward makes for backward.
    pub auxiliary: Option<AuxiliaryResult>,
    /// How it computes the gradient of each of its inputs.
    pub gradient: GradientFlow,
    /// How its channels relate to those of its inputs.
    pub channels: ChannelCoupling<'a>,
}

/// Kinds of operations with a similar computation.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // the names are the documentation
pub enum OperationNature<'a> {
    Input,
    Parameter,
    Embedding(&'a Embedding),
    Convolution(&'a Conv),
    Volume(&'a Conv<VolumeWindow>),
    Transposed(&'a ConvTranspose),
    Linear(&'a Linear),
    MatMul,
    Attention,
    Normalisation,
    Softmax,
    Activation(Activation),
    Arithmetic(BinaryFunction),
    /// One of two, element by element.
    Choice,
    Dropout,
    /// Windows, whole images or axes reduced to a number, or resized images; the windows, if it has some.
    Pooling(Option<&'a Window>),
    Movement,
    Recurrent(&'a Recurrent),
    Unknown(&'a UnknownOperation),
}

/// How the channels of a result relate to those of the inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChannelCoupling<'a> {
    /// They are the network's own.
    Given,
    /// The channels of the other operand.
    Partner,
    /// A new one for every filter.
    Filters(&'a Conv),
    /// A new one for every filter.
    Volumes(&'a Conv<VolumeWindow>),
    /// A new one for every filter.
    Spread(&'a ConvTranspose),
    /// New ones on the last axis; channels on another axis pass.
    Features(&'a Linear),
    /// New ones on the last axis, one for every column of a table.
    Rows(&'a Embedding),
    /// The same.
    Same,
    /// The same, each normalised by itself.
    Each(Affine),
    /// The same, in groups that stay equally large.
    Grouped {
        /// How many.
        groups: usize,
    },
    /// The same, if they are the channels of an image or volume; those of a second input have no part in them.
    Image,
    /// The same of all inputs, element by element.
    Tied,
    /// The channels of the inputs one after the other, along an axis.
    Joined {
        /// The axis that grows.
        axis: usize,
    },
    /// The same elements in other axes.
    Regrouped,
    /// The same in another order of axes.
    Permuted(&'a [usize]),
    /// The same, on an axis that keeps its length; those on another are mixed.
    Kept,
    /// As kept, with the other axes broadcast to this length.
    Stretched,
    /// The same, if they are not on this axis, which is read in another order.
    OtherAxes {
        /// The axis.
        axis: usize,
    },
    /// Some of them.
    Part {
        /// The axis that shrinks.
        axis: usize,
        /// First element kept.
        start: usize,
        /// Elements kept.
        length: usize,
    },
    /// Without those axes.
    Reduced {
        /// The axes that go.
        axes: &'a [usize],
        /// Whether they stay with a length of 1.
        keep: bool,
    },
    /// Those of the axes before the last two of every input, which correspond; the last two are multiplied. Operands that are
    /// added to products are broadcast.
    Multiplied,
    /// Those of a recurrent layer, which keeps its sizes and those of its input.
    Remembered(&'a Recurrent),
    /// They are mixed.
    Lost,
    /// Unknown.
    Unknown(&'a UnknownOperation),
}

impl<'a> OperationFacts<'a> {
    /// The facts of an operation without weights that allocates its result, keeps nothing for backward and costs nothing; the
    /// caller changes what differs.
    pub(super) fn new(nature: OperationNature<'a>, channels: ChannelCoupling<'a>, gradient: GradientFlow) -> Self {
        OperationFacts {
            nature,
            weights: Vec::new(),
            buffers: Vec::new(),
            macs: 0,
            across: false,
            traffic: MemoryTraffic::new(0.0, 0.0),
            storage: ResultStorage::Own,
            needs: BackwardNeeds::Nothing,
            auxiliary: None,
            gradient,
            channels,
        }
    }
}

/// The position of an operation in its network.
#[derive(Clone, Copy)]
pub struct NodePosition<'a> {
    /// All nodes of the network.
    pub nodes: &'a [Node],
    /// The operation's own.
    pub node: &'a Node,
}

impl<'a> NodePosition<'a> {
    /// The shapes of its inputs.
    pub fn inputs(self) -> impl Iterator<Item = &'a Shape> {
        self.node.inputs.iter().map(move |id| &self.nodes[id.index()].shape)
    }

    /// The shape of one of its inputs.
    pub fn input(self, index: usize) -> &'a Shape {
        &self.nodes[self.node.inputs[index].index()].shape
    }

    /// The shape of its result.
    pub fn output(self) -> &'a Shape {
        &self.node.shape
    }

    /// Elements of the result.
    pub fn outputs(self) -> f64 {
        self.node.shape.elements() as f64
    }
}
