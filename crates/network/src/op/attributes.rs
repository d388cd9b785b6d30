//! The attributes of operations that have more than a number or two; sizes that follow from the input are not repeated here.

use crate::Shape;

/// Attributes of a convolution: of images, or of what else has windows; pairs are height, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv<W = Window> {
    /// Filters.
    pub out_channels: usize,
    /// Kernel, stride, padding and dilation.
    pub window: W,
    /// Blocks of channels that do not see each other.
    pub groups: usize,
    /// Whether each filter has a bias.
    pub bias: bool,
}

/// Attributes of a 2-D convolution turned around: what a convolution of this window makes of a result, it makes of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvTranspose {
    /// The convolution; its filters give the result's channels.
    pub conv: Conv,
    /// Rows and columns more at the bottom and on the right, where several sizes would be possible.
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

/// A trained table of which rows are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    /// How many rows it has: the words of a vocabulary.
    pub rows: usize,
    /// How long a row is.
    pub width: usize,
    /// Where the same rows are looked up for every sample, and the operation has no input: the shape of their numbers.
    pub fixed: Option<Shape>,
}

/// What is multiplied with and added to normalised values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Affine {
    None,
    Scale,
    ScaleAndShift,
}

/// An operation that was read but not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its name in the file, with the domain where it is not the standard one.
    pub op_type: String,
    /// Its output: as the file says it or its operator's rule, else the first input's.
    pub shape: Shape,
    /// Elements of the weights it reads.
    pub parameters: u64,
    /// Multiply-accumulates of one sample, where it is a product whose rule is known.
    pub macs: u64,
    /// Whether every sample meets all of its batch, so that a sample costs as often as much; its shape and cost are those of a batch of one.
    pub across: bool,
    /// The operation as its file has it, so that a file written from it does the same; `None` where that cannot be kept.
    pub original: Option<Box<Original>>,
}

/// An operation as an ONNX file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its attributes: a `NodeProto` with nothing else, encoded.
    pub attributes: Vec<u8>,
    /// The operator set of its domain that it is of; of ONNX's own at least that of the files we write.
    pub opset: i64,
    /// What it reads, in order.
    pub operands: Vec<Operand>,
    /// Which of its outputs this one is.
    pub output: usize,
    /// How many it has.
    pub outputs: usize,
    /// The layout of its output.
    pub layout: Layout,
}

/// What an operation reads at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// The next of the nodes it reads, laid out so.
    Node(Layout),
    /// A trained tensor of this shape.
    Weight(Vec<usize>),
    /// Numbers of this shape that nobody trains, such as running statistics.
    Buffer(Vec<usize>),
    /// Integers that are known: for each a number of batches and a number of its own.
    Integers(Vec<usize>, Vec<[i64; 2]>),
    /// Numbers that are known: an encoded `TensorProto`.
    Numbers(Vec<u8>),
    /// Nothing: it is optional.
    Absent,
}

/// Where a tensor of many samples has its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// In an axis of its own; the first in most.
    Alone(usize),
    /// In the first axis, together with the sample's first: all rows of all samples.
    Rows,
}
