//! One computation of a step: its arithmetic and memory traffic as functions of the batch size.

use perf4sight_network::{Activation, NodeId};
use serde::{Deserialize, Serialize};

/// A quantity that grows with the batch size: `fixed + sample x batch`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BatchQuantity {
    /// The part that is independent of the batch size.
    pub fixed: f64,
    /// The part that every sample adds.
    pub sample: f64,
}

perf4sight_base::words! {
    /// The kind of operation that a kernel belongs to; times are learned and reported by it.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum KernelClass {
        Pointwise = "1x1 convolution",
        Conv3x3 = "3x3 convolution",
        ConvLarge = "larger convolution",
        Grouped = "grouped convolution",
        /// Convolution whose filters read one channel each.
        Depthwise = "depthwise convolution",
        /// Fully connected layer.
        Linear = "linear",
        MatMul = "matrix product",
        Normalisation = "normalisation",
        /// Element-wise function.
        Activation = "activation",
        /// A random number for every element, and the elements that are kept.
        Dropout = "dropout",
        /// Element-wise arithmetic, and the sum of gradients at a fork.
        Arithmetic = "arithmetic",
        /// Tensors copied together, apart or into another order.
        Copy = "copies",
        /// Windows or whole images reduced to a number.
        Pooling = "pooling",
        Softmax = "softmax",
        Loss = "loss",
        Update = "optimizer",
        /// An operation that this crate does not support, treated as element-wise unless its products are known.
        Unknown = "unknown",
    }
}

/// Which part of a step a kernel runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelPass {
    /// The result.
    Forward,
    /// The loss and the gradient it starts.
    Loss,
    /// The gradient of the inputs.
    InputGradient,
    /// The gradient of the weights.
    WeightGradient,
    /// The sum of gradients where the graph forks.
    Fork,
    /// zero_grad and the optimizer.
    Update,
}

impl KernelPass {
    /// The number of passes; the update is the last.
    pub const COUNT: usize = KernelPass::Update as usize + 1;
}

/// The memory access pattern of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessPattern {
    /// Every operand once, element after element.
    Contiguous,
    /// A value per channel is combined with an image, or a tensor is written in pieces.
    Strided,
    /// Every output reads a window that overlaps with those of its neighbours.
    Windowed,
}

/// A matrix product `rows x inner` times `inner x columns`, `blocks` of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixProduct {
    /// Rows of the first operand and of the result.
    pub rows: BatchQuantity,
    /// Columns of the second operand and of the result.
    pub columns: BatchQuantity,
    /// The axis that is summed over.
    pub inner: BatchQuantity,
    /// Products of this size that are independent: the groups of a convolution, the heads of an attention.
    pub blocks: BatchQuantity,
}

/// The geometry of a convolution; pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FilterGeometry {
    /// Channels of the input and of the output.
    pub channels: [f64; 2],
    /// Blocks of channels that are independent of each other.
    pub groups: usize,
    /// Rows and columns of the input.
    pub image: [usize; 2],
    /// Image of the result.
    pub positions: [usize; 2],
    /// Rows and columns of the filter.
    pub kernel: [usize; 2],
    /// Step between positions.
    pub stride: [usize; 2],
    /// Distance between elements of the kernel.
    pub dilation: [usize; 2],
    /// Rows and columns added before the image.
    pub padding: [usize; 2],
    /// Whether the image it reads is channels-last: with a single sample, and with several.
    pub channels_last: [bool; 2],
}

/// One computation of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// The node it belongs to; the network's output for the loss.
    pub node: NodeId,
    /// What its operation is counted under.
    pub class: KernelClass,
    /// When it runs.
    pub pass: KernelPass,
    /// The matrix product it computes, if any.
    pub product: Option<MatrixProduct>,
    /// None for operations that are no convolutions of images.
    pub filter: Option<FilterGeometry>,
    /// Bytes of one element of its inputs and results.
    pub element: f64,
    /// Bytes it reads and writes, every operand once.
    pub traffic: BatchQuantity,
    /// Bytes it reads where nothing is kept between neighbouring windows; none where it has no windows.
    pub windows: BatchQuantity,
    /// The order in which it reads and writes memory.
    pub access: AccessPattern,
    /// Bytes of its result; none where it works in place.
    pub result: BatchQuantity,
    /// Channels, and pixels of a channel, in one sample of the node's result.
    pub images: [f64; 2],
    /// Elements that are normalised, reduced, generated or moved together, such as those of a row; none where every
    /// element is independent, or where the number covers all samples.
    pub row: f64,
    /// The function it computes of every element, if any.
    pub function: Option<Activation>,
    /// Bytes of all weights of the network and of their training state: a cache must hold these for the next step to
    /// hit.
    pub held: f64,
    /// How many operations the processor launches on the device for it.
    pub launches: f64,
    /// Repetitions in a step, each on a share of the samples.
    pub repeats: f64,
}

impl Kernel {
    /// Whether another kernel, of any node, does the same work.
    pub fn does_the_same(&self, other: &Kernel) -> bool {
        let work = |kernel: &Kernel| (kernel.class, kernel.pass, kernel.access, kernel.launches, kernel.element);
        work(self) == work(other)
            && (self.traffic, self.windows, self.result) == (other.traffic, other.windows, other.result)
            && (self.product, self.filter, self.images) == (other.product, other.filter, other.images)
            && (self.row, self.function, self.repeats) == (other.row, other.function, other.repeats)
    }

    /// Samples of each repetition for a step of `batch`.
    pub fn samples(&self, batch: f64) -> f64 {
        (batch / self.repeats).max(1.0)
    }
}

impl BatchQuantity {
    /// The same amount for any batch size.
    pub fn fixed(fixed: f64) -> Self {
        BatchQuantity { fixed, sample: 0.0 }
    }

    /// That much for every sample.
    pub fn per_sample(sample: f64) -> Self {
        BatchQuantity { fixed: 0.0, sample }
    }

    /// The amount for `batch` samples.
    pub fn for_batch(self, batch: f64) -> f64 {
        self.fixed + self.sample * batch
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        BatchQuantity { fixed: self.fixed + other.fixed, sample: self.sample + other.sample }
    }
}

impl FilterGeometry {
    /// Whether its stride and dilation are 1.
    pub fn moves_by_one(&self) -> bool {
        (self.stride, self.dilation) == ([1; 2], [1; 2])
    }

    /// Whether the image it reads is channels-last, at this number of samples.
    pub fn reads_channels_last(&self, batch: f64) -> bool {
        self.channels_last[usize::from(batch > 1.0)]
    }

    /// Pixels of the image it reads.
    pub fn pixels(&self) -> f64 {
        (self.image[0] * self.image[1]) as f64
    }

    /// Pixels of the image it writes.
    pub fn results(&self) -> f64 {
        (self.positions[0] * self.positions[1]) as f64
    }

    /// Rows times columns of the filter.
    pub fn area(&self) -> f64 {
        (self.kernel[0] * self.kernel[1]) as f64
    }

    /// Elements of one sample's windows laid out side by side (im2col).
    pub fn columns(&self) -> f64 {
        self.channels[0] * self.area() * self.results()
    }

    /// The share of its windows that is inside the image; the rest is padding.
    pub fn inside(&self) -> f64 {
        [0, 1].map(|axis| self.inside_along(axis)).iter().product()
    }

    fn inside_along(&self, axis: usize) -> f64 {
        let [image, positions, kernel, stride, dilation, padding] =
            [self.image, self.positions, self.kernel, self.stride, self.dilation, self.padding]
                .map(|sides| sides[axis]);
        let seen = |element: usize| {
            // Number of positions at which this element of the kernel is before a pixel, counted with the padding.
            let before =
                |end: usize| end.saturating_sub(element.saturating_mul(dilation)).div_ceil(stride).min(positions);
            (before(padding.saturating_add(image)) - before(padding)) as f64
        };
        (0..kernel).map(seen).sum::<f64>() / (positions as f64 * kernel as f64)
    }
}

impl KernelPass {
    /// Whether it is part of an operation's backward.
    pub fn is_gradient(self) -> bool {
        matches!(self, KernelPass::InputGradient | KernelPass::WeightGradient)
    }
}

impl MatrixProduct {
    /// Floating-point operations for `batch` samples: a multiplication and an addition per term.
    pub fn flops(&self, batch: f64) -> f64 {
        2.0 * [self.rows, self.columns, self.inner, self.blocks]
            .iter()
            .map(|amount| amount.for_batch(batch))
            .product::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_padding_is_no_part_of_a_window() {
        let inside = |kernel, stride, side, positions| {
            let filter = FilterGeometry {
                channels: [8.0; 2],
                groups: 1,
                image: [side; 2],
                positions: [positions; 2],
                kernel: [kernel; 2],
                stride: [stride; 2],
                dilation: [1; 2],
                padding: [kernel / 2; 2],
                channels_last: [false; 2],
            };
            (filter.inside() * 1e9).round() / 1e9
        };
        // 3x3 on one pixel covers it once of nine times; on 2x2 pixels two of three elements a side; on 8 pixels 22
        // of 24.
        assert_eq!(
            [inside(3, 1, 1, 1), inside(3, 1, 2, 2)],
            [1.0, 4.0].map(|seen: f64| (seen / 9.0 * 1e9).round() / 1e9)
        );
        assert_eq!(inside(3, 1, 8, 8), (22.0f64 * 22.0 / 576.0 * 1e9).round() / 1e9);
        // 7 elements every 2 pixels over 32: the first position misses 3, the second 1, the last 2 of 16 x 7.
        assert_eq!(inside(7, 2, 32, 16), (106.0f64 * 106.0 / 12544.0 * 1e9).round() / 1e9);
    }
}
