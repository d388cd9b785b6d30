//! The operations of a network with their attributes; sizes that follow from the input are not repeated here.

mod activations;
mod attributes;
mod effects;
mod elementwise;
mod embedding;
mod facts;
mod input;
mod movement;
mod normalisation;
mod places;
mod pooling;
mod product;
mod recurrent;
mod unknown;
mod volume;

pub use activations::{Activation, BinaryFunction};
pub(crate) use activations::{AutocastTo, Overwrites};
pub use attributes::{
    Affine, BatchLayout, Conv, ConvTranspose, Embedding, Linear, OriginalOperand, OriginalOperation, UnknownOperation,
    VolumeWindow, Window,
};
pub use effects::{
    AuxiliaryResult, BackwardNeeds, BackwardTraffic, GradientFlow, MemoryTraffic, ResultStorage, TrainedTensor,
    WeightSpans,
};
pub use facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
pub use input::{ElementKind, NetworkInput};
pub use movement::{PaddingFill, PickedElements};
pub use places::{ArgMax, Fold, GridSample, OutsideValues, TopK};
pub use pooling::{Interpolation, ReductionKind};
pub use recurrent::{Recurrent, RecurrentKind};
pub use unknown::continued;

use super::shape::{MAX_ELEMENTS, Shape};

/// One operation. Every operation has exactly one output; an ONNX operator with several (Split) becomes several nodes.
///
/// Axes and shapes are per sample: the batch is not counted, axis 0 of an image is its channels.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// One of the network's inputs.
    Input(NetworkInput),
    /// A trainable tensor outside any layer: a class token, a position embedding, a layer scale. It has no inputs and is the same
    /// for every sample.
    Parameter(Shape),
    /// Lookup of rows of a trained table.
    Embedding(Embedding),
    /// Conversion to this element type, such as integers or booleans to floating-point numbers, in memory of its own.
    Cast(ElementKind),
    /// 2-D convolution; depthwise and grouped ones included. Input channels follow from the input.
    Conv(Conv),
    /// 3-D convolution.
    Conv3d(Conv<VolumeWindow>),
    /// Transposed 2-D convolution, which enlarges images.
    ConvTranspose(ConvTranspose),
    /// Fully connected layer on the last axis; input features follow from the input.
    Linear(Linear),
    /// Batch normalisation over all samples, with scale, shift and two running statistics.
    BatchNorm {
        /// The axis whose elements are normalised independently: 0, the channels, in images; 1 if the samples are vectors in
        /// rows.
        axis: usize,
    },
    /// Layer normalisation over the axes from `axis` on.
    LayerNorm {
        /// First normalised axis.
        axis: usize,
        /// Scale and shift after the normalisation.
        affine: Affine,
    },
    /// Normalisation of groups of channels; of single channels if there are as many groups.
    GroupNorm {
        /// How many groups.
        groups: usize,
        /// Scale and shift after the normalisation.
        affine: Affine,
    },
    /// Element-wise function of one input.
    Activation(Activation),
    /// Maximum over windows.
    MaxPool(Window),
    /// Mean over windows.
    AvgPool {
        /// The windows.
        window: Window,
        /// Whether padding counts in the mean's denominator.
        count_include_pad: bool,
    },
    /// Maximum over windows of a volume.
    MaxPool3d(VolumeWindow),
    /// Mean over windows of a volume.
    AvgPool3d {
        /// The windows.
        window: VolumeWindow,
        /// Whether padding counts in the mean's denominator.
        count_include_pad: bool,
    },
    /// Mean over an even split of the image into `output` cells; `[1, 1]` is the global mean.
    AdaptiveAvgPool {
        /// Height and width of the result.
        output: [usize; 2],
    },
    /// Element-wise function of two inputs of equal rank, axes of length 1 broadcast, or of one input and a constant.
    Binary(BinaryFunction),
    /// The second input where the first is true, else the third; axes of length 1 are broadcast.
    Where,
    /// An image at another size.
    Resize {
        /// Height and width of the result.
        image: [usize; 2],
        /// The interpolation of its pixels.
        interpolation: Interpolation,
        /// Whether the corners of both images are aligned; otherwise their edges are.
        corners: bool,
    },
    /// Concatenation of the inputs along `axis`.
    Concat {
        /// The axis that grows.
        axis: usize,
    },
    /// Flattening of all axes into one.
    Flatten,
    /// The same elements in another shape.
    Reshape(Shape),
    /// Axes in another order: output axis `i` is input axis `order[i]`.
    Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
    },
    /// A contiguous copy.
    Contiguous {
        /// How many axes of a sample precede the batch in memory: PyTorch's recurrent networks and attention put the tokens
        /// first.
        batch: usize,
    },
    /// The elements `start..start + length` along `axis`.
    Slice {
        /// The axis that shrinks.
        axis: usize,
        /// First element kept.
        start: usize,
        /// Elements kept.
        length: usize,
    },
    /// Every `step`-th element along `axis`.
    Every {
        /// The axis that shrinks.
        axis: usize,
        /// First element kept.
        start: usize,
        /// Distance between kept elements.
        step: usize,
    },
    /// Elements along an axis by position.
    Pick(PickedElements),
    /// Padding around the input, or cropping at some sides.
    Pad {
        /// How many before and after, for every axis; negative where they are cut off.
        sides: Vec<[i64; 2]>,
        /// The values of the padding.
        fill: PaddingFill,
    },
    /// Axes of length 1 repeated up to this shape.
    Expand(Shape),
    /// Matrix product of two inputs over their last two axes; leading axes of length 1 are broadcast.
    MatMul,
    /// Fused attention: `softmax(query x key^T / sqrt(features)) x value`, each of heads, tokens, features; an optional fourth
    /// input is added to the scores.
    Attention,
    /// Softmax along `axis`.
    Softmax {
        /// The normalised axis.
        axis: usize,
    },
    /// Reduction of all elements along `axes` to one number.
    Reduce {
        /// The kind of reduction.
        reduction: ReductionKind,
        /// The reduced axes.
        axes: Vec<usize>,
        /// Whether they stay as axes of length 1.
        keep: bool,
    },
    /// Index of the largest or smallest element along an axis.
    ArgMax(ArgMax),
    /// The largest or smallest elements along an axis, or their indices.
    TopK(TopK),
    /// Cumulative sums along `axis`.
    CumSum {
        /// The axis.
        axis: usize,
    },
    /// An image assembled from columns, each of which is a window of it.
    Fold(Fold),
    /// The first input, an image, sampled at the positions in the second.
    GridSample(GridSample),
    /// Dropout in training, nothing in inference or with a rate of 0.
    Dropout {
        /// Share of elements set to zero.
        rate: f32,
    },
    /// Whole samples set to zero in training (stochastic depth), nothing in inference or with a rate of 0.
    DropPath {
        /// Share of samples set to zero.
        rate: f32,
    },
    /// A recurrent layer over the time steps of a sequence.
    Recurrent(Recurrent),
    /// An operation that this crate does not support: it is counted and named, and never an error.
    Unknown(UnknownOperation),
}

impl Op {
    /// The name of the operation in layer tables and reports.
    pub fn kind(&self) -> &str {
        match self {
            Op::Input(_) => "input",
            Op::Embedding(_) => "embedding",
            Op::Cast(_) => "cast",
            Op::Parameter(_) => "parameter",
            Op::Conv(_) => "conv",
            Op::Conv3d(_) => "conv-3d",
            Op::ConvTranspose(_) => "conv-transpose",
            Op::Linear(_) => "linear",
            Op::BatchNorm { .. } => "batch-norm",
            Op::GroupNorm { .. } => "group-norm",
            Op::LayerNorm { .. } => "layer-norm",
            Op::Activation(activation) => activation.name(),
            Op::MaxPool(_) => "max-pool",
            Op::AvgPool { .. } => "avg-pool",
            Op::MaxPool3d(_) => "max-pool-3d",
            Op::AvgPool3d { .. } => "avg-pool-3d",
            Op::AdaptiveAvgPool { .. } => "adaptive-avg-pool",
            Op::Binary(binary) => binary.name(),
            Op::Concat { .. } => "concat",
            Op::Flatten => "flatten",
            Op::Reshape(_) => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Contiguous { .. } => "contiguous",
            Op::Slice { .. } => "slice",
            Op::MatMul => "matmul",
            Op::Attention => "attention",
            Op::Softmax { .. } => "softmax",
            Op::Reduce { reduction, .. } => reduction.name(),
            Op::Where => "where",
            Op::Resize { .. } => "resize",
            Op::Every { .. } => "every",
            Op::Pick(_) => "pick",
            Op::Pad { .. } => "pad",
            Op::Expand(_) => "expand",
            Op::ArgMax(_) => "arg-max",
            Op::TopK(_) => "top-k",
            Op::CumSum { .. } => "cum-sum",
            Op::Fold(_) => "fold",
            Op::GridSample(_) => "grid-sample",
            Op::Dropout { .. } => "dropout",
            Op::DropPath { .. } => "drop-path",
            Op::Recurrent(layer) => layer.cell.name(),
            Op::Unknown(unknown) => &unknown.op_type,
        }
    }

    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        match self {
            Op::Input(_) => NetworkInput::facts(),
            Op::Embedding(embedding) => embedding.facts(),
            Op::Cast(_) => elementwise::cast(at),
            Op::Parameter(shape) => OperationFacts {
                weights: vec![TrainedTensor { dims: shape.clone(), spans: WeightSpans::Result { first: 0 } }],
                storage: ResultStorage::Resident,
                ..OperationFacts::new(OperationNature::Parameter, ChannelCoupling::Partner, GradientFlow::Ends)
            },
            Op::Conv(conv) => conv.facts(at),
            Op::Conv3d(conv) => conv.facts(at),
            Op::ConvTranspose(transposed) => transposed.facts(at),
            Op::Linear(linear) => linear.facts(at),
            Op::BatchNorm { axis } => normalisation::batch(at, *axis),
            Op::LayerNorm { axis, affine } => normalisation::layer(at, *axis, *affine),
            Op::GroupNorm { groups, affine } => normalisation::group(at, *groups, *affine),
            Op::Activation(activation) => activation.facts(at),
            Op::MaxPool(window) => pooling::max(&window.kernel, Some(window), at),
            Op::AvgPool { window, .. } => pooling::average(&window.kernel, Some(window), at),
            Op::AdaptiveAvgPool { output } => pooling::adaptive(*output, at),
            Op::MaxPool3d(window) => pooling::max(&window.kernel, None, at),
            Op::AvgPool3d { window, .. } => pooling::average(&window.kernel, None, at),
            Op::Binary(binary) => binary.facts(at),
            Op::Concat { axis } => movement::concat(*axis, at),
            Op::Flatten | Op::Reshape(_) => movement::reshape(),
            Op::Transpose { order } => movement::transpose(order, at),
            Op::Contiguous { .. } => movement::contiguous(at),
            Op::Slice { axis, start, length } => movement::slice([*axis, *start, *length], at),
            Op::MatMul => product::matmul(at),
            Op::Attention => product::attention(at),
            Op::Softmax { .. } => normalisation::softmax(at),
            Op::Reduce { reduction, axes, keep } => pooling::reduction(*reduction, axes, *keep, at),
            Op::Where => elementwise::choice(at),
            Op::Resize { interpolation, .. } => pooling::resize(*interpolation, at),
            Op::Every { axis, .. } => movement::strided_slice(*axis, at),
            Op::Pick(pick) => pick.facts(at),
            Op::Pad { .. } => movement::pad(at),
            Op::Expand(_) => movement::expand(at),
            Op::ArgMax(place) => place.facts(at),
            Op::TopK(top) => top.facts(at),
            Op::CumSum { .. } => places::cumulative_sum(at),
            Op::Fold(fold) => fold.facts(at),
            Op::GridSample(sample) => places::grid_sample(sample, at),
            Op::Dropout { rate } => elementwise::dropout(*rate, at),
            Op::DropPath { rate } => elementwise::drop_path(*rate, at),
            Op::Recurrent(layer) => layer.facts(at),
            Op::Unknown(unknown) => unknown.facts(at),
        }
    }

    /// The shape of its result for `inputs`; the error is one clause that names the misfit.
    pub fn shape(&self, inputs: &[&Shape]) -> Result<Shape, String> {
        let shape = match self {
            Op::Input(NetworkInput { shape, .. }) | Op::Parameter(shape) => shape.clone(),
            Op::Embedding(embedding) => embedding.shape(inputs)?,
            Op::Conv(conv) => conv.shape(one_input(inputs)?)?,
            Op::Conv3d(conv) => conv.shape(one_input(inputs)?)?,
            Op::ConvTranspose(transposed) => transposed.shape(one_input(inputs)?)?,
            Op::MaxPool3d(window) | Op::AvgPool3d { window, .. } => window.shape(one_input(inputs)?)?,
            Op::Linear(linear) => linear.shape(one_input(inputs)?)?,
            Op::MaxPool(window) | Op::AvgPool { window, .. } => window.shape(one_input(inputs)?)?,
            Op::AdaptiveAvgPool { output } => pooling::adaptive_shape(*output, one_input(inputs)?)?,
            Op::Binary(_) => BinaryFunction::shape(inputs)?,
            Op::Concat { axis } => movement::concat_shape(inputs, *axis)?,
            Op::Flatten => Shape::new([one_input(inputs)?.elements() as usize]),
            Op::Reshape(target) => movement::reshape_shape(target, one_input(inputs)?)?,
            Op::Transpose { order } => movement::transpose_shape(order, one_input(inputs)?)?,
            Op::Contiguous { batch } => movement::contiguous_shape(*batch, one_input(inputs)?)?,
            Op::Slice { axis, start, length } => movement::slice_shape([*axis, *start, *length], one_input(inputs)?)?,
            Op::MatMul => product::matmul_shape(inputs)?,
            Op::Attention => product::attention_shape(inputs)?,
            Op::Reduce { axes, keep, .. } => pooling::reduced_shape(one_input(inputs)?, axes, *keep)?,
            Op::Where => elementwise::choice_shape(inputs)?,
            Op::Resize { image, .. } => pooling::adaptive_shape(*image, one_input(inputs)?)?,
            Op::Every { axis, start, step } => movement::every_shape([*axis, *start, *step], one_input(inputs)?)?,
            Op::Pick(pick) => pick.shape(one_input(inputs)?)?,
            Op::Pad { sides, .. } => movement::pad_shape(sides, one_input(inputs)?)?,
            Op::Expand(target) => movement::expand_shape(target, one_input(inputs)?)?,
            Op::ArgMax(place) => pooling::reduced_shape(one_input(inputs)?, &[place.axis], place.keep)?,
            Op::TopK(top) => top.shape(one_input(inputs)?)?,
            Op::Fold(fold) => fold.shape(one_input(inputs)?)?,
            Op::GridSample(_) => places::sampled_shape(inputs)?,
            Op::LayerNorm { axis, .. } | Op::Softmax { axis } | Op::CumSum { axis } => {
                normalisation::shape(*axis, one_input(inputs)?)?
            }
            Op::BatchNorm { axis } => normalisation::batch_shape(*axis, one_input(inputs)?)?,
            Op::GroupNorm { groups, .. } => normalisation::grouped_shape(*groups, one_input(inputs)?)?,
            Op::Activation(_) | Op::Cast(_) | Op::Dropout { .. } | Op::DropPath { .. } => one_input(inputs)?.clone(),
            Op::Recurrent(layer) => layer.shape(one_input(inputs)?)?,
            Op::Unknown(unknown) => unknown.shape.clone(),
        };
        if shape.dims().contains(&0) {
            return Err(format!("would give an empty {shape} result"));
        }
        if shape.elements() > MAX_ELEMENTS {
            return Err(format!("would give a {shape} result, more than any device holds"));
        }
        Ok(shape)
    }
}

fn one_input<'a>(inputs: &[&'a Shape]) -> Result<&'a Shape, String> {
    match inputs {
        [input] => Ok(input),
        _ => Err(format!("takes one input, has {}", inputs.len())),
    }
}

fn two_inputs<'a>(inputs: &[&'a Shape]) -> Result<[&'a Shape; 2], String> {
    match inputs {
        [a, b] => Ok([a, b]),
        _ => Err(format!("takes two inputs, has {}", inputs.len())),
    }
}
