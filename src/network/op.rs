//! The operations a network is made of, with their attributes; sizes that follow from the input are not repeated here.

use super::shape::Shape;

/// One operation. Every operation has exactly one output; what has several in ONNX (Split) becomes several nodes.
///
/// Axes and shapes are per sample: the batch is not counted, axis 0 of an image is its channels.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// The network's input.
    Input(Shape),
    /// A trainable tensor that no layer owns: a class token, a position embedding, a layer scale. It has no inputs and is the
    /// same for every sample.
    Parameter(Shape),
    /// 2-D convolution; depthwise and grouped ones included. Input channels follow from the input.
    Conv(Conv),
    /// Fully connected layer on the last axis; input features follow from the input.
    Linear(Linear),
    /// Batch normalisation over channels, with scale, shift and two running statistics.
    BatchNorm,
    /// Layer normalisation over the axes from `axis` on, with scale and shift.
    LayerNorm {
        /// First normalised axis.
        axis: usize,
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
    /// Mean over an even split of the image into `output` cells; `[1, 1]` is the global mean.
    AdaptiveAvgPool {
        /// Height and width of the result.
        output: [usize; 2],
    },
    /// Element-wise arithmetic of two inputs of equal rank, axes of length 1 stretched, or of one input and a constant.
    Binary(Binary),
    /// Inputs one after the other along `axis`.
    Concat {
        /// The axis that grows.
        axis: usize,
    },
    /// All axes into one.
    Flatten,
    /// The same elements in another shape.
    Reshape(Shape),
    /// Axes in another order: output axis `i` is input axis `order[i]`.
    Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
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
    /// Matrix product of two inputs over their last two axes.
    MatMul,
    /// Softmax along `axis`.
    Softmax {
        /// The normalised axis.
        axis: usize,
    },
    /// Mean over `axes`.
    Mean {
        /// The axes that are averaged away.
        axes: Vec<usize>,
        /// Whether they stay as axes of length 1.
        keep: bool,
    },
    /// Dropout in training, nothing in inference.
    Dropout {
        /// Share of elements set to zero.
        rate: f32,
    },
    /// An operation this crate does not know: counted, named, never fatal.
    Unknown(Unknown),
}

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

/// Attributes of a fully connected layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    /// Length of the last axis of the result.
    pub out_features: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

/// Element-wise functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Activation {
    Relu,
    Relu6,
    LeakyRelu,
    Elu,
    Sigmoid,
    HardSigmoid,
    Tanh,
    Silu,
    HardSwish,
    Gelu,
    Mish,
    Softplus,
}

/// Element-wise arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
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
    /// The operation as its file has it, so that a file written from it does the same; `None` where that cannot be kept.
    pub original: Option<Box<Original>>,
}

/// An operation as an ONNX file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its attributes: a `NodeProto` with nothing else, encoded.
    pub attributes: Vec<u8>,
    /// The operator set it is of, at least that of the files we write.
    pub opset: i64,
    /// What it reads, in order.
    pub operands: Vec<Operand>,
    /// Which of its outputs this one is.
    pub output: usize,
    /// How many it has.
    pub outputs: usize,
    /// How its output lies in memory.
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

impl Unknown {
    /// An operation of which no more is known than what it costs.
    pub fn new(op_type: impl Into<String>, shape: Shape, parameters: u64) -> Self {
        Unknown { op_type: op_type.into(), shape, parameters, macs: 0, original: None }
    }
}

impl Window {
    /// A square kernel with equal stride and padding on all sides.
    pub fn square(kernel: usize, stride: usize, padding: usize) -> Self {
        Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 4], dilation: [1; 2], ceil: false }
    }

    /// The same with the number of positions rounded up.
    #[must_use]
    pub fn ceil(mut self) -> Self {
        self.ceil = true;
        self
    }
}

impl Op {
    /// The operation's name as layer tables and reports print it.
    pub fn kind(&self) -> &str {
        match self {
            Op::Input(_) => "input",
            Op::Parameter(_) => "parameter",
            Op::Conv(_) => "conv",
            Op::Linear(_) => "linear",
            Op::BatchNorm => "batch-norm",
            Op::LayerNorm { .. } => "layer-norm",
            Op::Activation(activation) => activation.name(),
            Op::MaxPool(_) => "max-pool",
            Op::AvgPool { .. } => "avg-pool",
            Op::AdaptiveAvgPool { .. } => "adaptive-avg-pool",
            Op::Binary(binary) => binary.name(),
            Op::Concat { .. } => "concat",
            Op::Flatten => "flatten",
            Op::Reshape(_) => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Slice { .. } => "slice",
            Op::MatMul => "matmul",
            Op::Softmax { .. } => "softmax",
            Op::Mean { .. } => "mean",
            Op::Dropout { .. } => "dropout",
            Op::Unknown(unknown) => &unknown.op_type,
        }
    }
}

impl Activation {
    /// Its name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Relu6 => "relu6",
            Activation::LeakyRelu => "leaky-relu",
            Activation::Elu => "elu",
            Activation::Sigmoid => "sigmoid",
            Activation::HardSigmoid => "hard-sigmoid",
            Activation::Tanh => "tanh",
            Activation::Silu => "silu",
            Activation::HardSwish => "hard-swish",
            Activation::Gelu => "gelu",
            Activation::Mish => "mish",
            Activation::Softplus => "softplus",
        }
    }
}

impl Binary {
    /// Its name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
        }
    }
}
