//! The attributes of operations that have more than a number or two; sizes that follow from the input are not repeated here.

use crate::Shape;

/// Attributes of a convolution of images or other inputs with windows; pairs are height, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv<W = Window> {
    /// Filters.
    pub out_channels: usize,
    /// Kernel, stride, padding and dilation.
    pub window: W,
    /// Groups of channels that are convolved separately.
    pub groups: usize,
    /// Whether each filter has a bias.
    pub bias: bool,
}

/// Attributes of a transposed 2-D convolution: a convolution of this window maps its output shape to its input shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvTranspose {
    /// The convolution; its filters make the result's channels.
    pub conv: Conv,
    /// Additional rows and columns at the bottom and on the right, if several sizes are possible.
    pub extra: [usize; 2],
}

/// Attributes of a fully connected layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    /// Length of the last axis of the result.
    pub out_features: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

/// How a kernel moves over an image; pairs are height, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Size of the kernel.
    pub kernel: [usize; 2],
    /// Step between positions.
    pub stride: [usize; 2],
    /// Rows and columns added around the image: top, left, bottom, right.
    pub padding: [usize; 4],
    /// Distance between kernel elements.
    pub dilation: [usize; 2],
    /// Round the number of positions up instead of down.
    pub ceil: bool,
}

/// How a kernel moves over a volume; triples are depth, height, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeWindow {
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

/// A trained table whose rows are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    /// How many rows it has: the words of a vocabulary.
    pub rows: usize,
    /// Length of a row.
    pub width: usize,
    /// The shape of the row numbers, if the same rows are looked up for every sample and the operation has no input.
    pub fixed: Option<Shape>,
}

/// Scale and shift after a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Affine {
    None,
    Scale,
    ScaleAndShift,
}

/// An operation that was read but is not supported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOperation {
    /// Its name in the file, with the domain if it is not the standard one.
    pub op_type: String,
    /// Its output shape: from the file or its operator's rule, otherwise the first input's.
    pub shape: Shape,
    /// Elements of the weights it reads.
    pub parameters: u64,
    /// Multiply-accumulates of one sample, if it is a product with a known rule.
    pub macs: u64,
    /// Whether it combines every sample with all others of the batch, so that a sample costs more in larger batches; its shape
    /// and cost are those of a batch of one.
    pub across: bool,
    /// The operation as in its file, so that a file written from it does the same; `None` if that cannot be kept.
    pub original: Option<Box<OriginalOperation>>,
}

/// An operation as stored in an ONNX file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalOperation {
    /// Its attributes: an encoded `NodeProto` with nothing else.
    pub attributes: Vec<u8>,
    /// The version of its domain's operator set; for ONNX's own at least that of the files we write.
    pub opset: i64,
    /// Its operands, in order.
    pub operands: Vec<OriginalOperand>,
    /// The index of this output.
    pub output: usize,
    /// The number of its outputs.
    pub outputs: usize,
    /// The layout of its output.
    pub layout: BatchLayout,
}

/// One operand of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginalOperand {
    /// The next of the nodes it reads, with this layout.
    Node(BatchLayout),
    /// A trained tensor of this shape.
    Weight(Vec<usize>),
    /// Untrained numbers of this shape, such as running statistics.
    Buffer(Vec<usize>),
    /// Known integers, each as a multiple of the batch size and a rest.
    Integers(Vec<usize>, Vec<[i64; 2]>),
    /// Numbers with known values: an encoded `TensorProto`.
    Numbers(Vec<u8>),
    /// Nothing: the operand is optional.
    Absent,
}

/// Where a tensor of many samples has its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchLayout {
    /// On an axis of its own, mostly the first.
    Alone(usize),
    /// On the first axis, together with the sample's first: all rows of all samples.
    Rows,
}
