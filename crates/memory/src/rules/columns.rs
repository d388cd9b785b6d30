//! Convolutions on a processor for which oneDNN has no special kernel: they use columns, a matrix of every window of an
//! image.
//!
//! The kernels step along a row by as many pixels as registers hold, and refuse windows that reach further beyond the image: dilated ones
//! on small images (`init_conf` of src/cpu/x64/jit_avx512_common_conv_kernel.cpp). What jit_gemm_convolution borrows instead was read off
//! PyTorch 2.11 with its profiler: images of 4 to 65 pixels, 32 to 2,048 channels, dilations up to 36, one and two threads.

use super::blocked::{BlockedConvolution, pixels};
use super::rule::RuleAction;
use super::rule::RuleAction::{Drop, InputGradient, Output, Take, WeightGradient};
use crate::amount::{BatchBytes, product};
use perf4sight_network::{Conv, Shape};

/// Registers that a kernel has for pixels, where it holds one block of channels.
const REGISTERS: usize = 28;

/// All registers for numbers but the one that each block of channels is multiplied from.
const ALL: usize = 31;

/// The widest kernel for which oneDNN has a weight gradient of its own.
const WIDEST: usize = 14;

/// The same for images that are read without a copy, in formats of fewer bits than single precision
/// (`ONEDNN_VERBOSE=1`: `jit_bf16` up to here with 1 to 8 channels, whatever the stride, `gemm:jit` from 25 on; with 16
/// and more from 15 on).
const WIDEST_OF_PLAIN: usize = 24;

/// From so many pixels for every thread on the threads share each image's weight gradient, instead of taking images of their own
/// (this and the next four are from `init_conf` of src/cpu/gemm_convolution_utils.cpp, where this is `outer_threading`).
const SHARED: u64 = 256;

/// The same for the gradient of the input, where filters have at least as many pixels.
const SHARED_INPUT: u64 = 512;
const WIDE_KERNEL: u64 = 64;

/// Products of a thread below which they compute faster apart (`gemm_thrld`).
const SMALL_PRODUCT: u64 = 64 << 10;

/// The largest scratchpad (`scratchpad_limit_by_absolute_value`).
const SCRATCHPAD: u64 = 1 << 30;

/// Of the pixels whose columns there is room for, those that are taken at a time.
const INPUT_SHARE: f64 = 0.1;
const FILTER_SHARE: f64 = 0.05;

/// Numbers of 4 bytes in a vector of 512 bits.
const VECTOR: u64 = 16;

/// The largest columns of the forward pass for every thread: the blocks that it cuts them into, 216 to 331 KiB as
/// measured.
const FORWARD: u64 = 331 << 10;

/// The same of several groups: 800,000 bytes were seen whole, 1,411,200 cut into halves.
const FORWARD_OF_GROUP: u64 = 800_000;

/// How a convolution moves along a row: the properties by which oneDNN chooses a kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowMovement {
    kernel: usize,
    stride: usize,
    dilation: usize,
    /// Rows and columns that a window spans.
    extent: [usize; 2],
    /// Above, left, below, right.
    padding: [usize; 4],
    image: [usize; 2],
    /// Pixels of a row of the result.
    width: usize,
    /// Channels read and made.
    channels: [usize; 2],
}

impl RowMovement {
    pub fn new(conv: &Conv, input: &Shape, result: &Shape) -> Self {
        let window = &conv.window;
        let extent = [0, 1].map(|axis| (window.kernel[axis] - 1) * window.dilation[axis] + 1);
        RowMovement {
            kernel: window.kernel[1],
            stride: window.stride[1],
            dilation: window.dilation[0].max(window.dilation[1]),
            extent,
            padding: window.padding,
            image: input.image(),
            width: result.image()[1],
            channels: [input.channels(), conv.out_channels].map(|channels| channels / conv.groups),
        }
    }

    /// Whether the forward pass has a kernel: the padding at the left and right fits into the pixels of a step.
    pub fn runs_forward(&self) -> bool {
        let step = self.forward_step().max(1);
        let whole = self.width - self.width % step;
        let last = (whole.max(1) - 1) * self.stride + self.extent[1];
        let right = last.saturating_sub(self.image[1] + self.padding[1]);
        self.lies_within() && self.padding[1] <= step && right <= step
    }

    pub fn runs_input_gradient(&self) -> bool {
        let step = self.backward_step().max(1);
        let (before, tail) = (self.extent[1] - 1, self.image[1] % step);
        let left = before.saturating_sub(self.padding[1]);
        let right = before.saturating_sub(self.padding[3] + tail);
        self.lies_within() && left <= step && right <= step
    }

    /// Whether the gradient of the filters has one: dilated windows no larger than the image, kernels not too wide;
    /// `plain` means that the image is read without a copy, in a format of few bits.
    pub fn runs_weight_gradient(&self, plain: bool) -> bool {
        let fits = (0..2).all(|axis| self.extent[axis] <= self.image[axis]);
        let widest = if plain { WIDEST_OF_PLAIN } else { WIDEST };
        self.lies_within() && self.kernel <= widest && (self.dilation == 1 || fits)
    }

    /// Whether every window covers a part of the image.
    fn lies_within(&self) -> bool {
        let [top, left, bottom, right] = self.padding;
        self.extent[0] > top.max(bottom) && self.extent[1] > left.max(right)
    }

    fn forward_step(&self) -> usize {
        let [inputs, outputs] = self.channels;
        let narrow = self.kernel == 3 && self.stride == 1 && self.width <= REGISTERS;
        let many = self.width == 13 && inputs >= 192 || self.width == REGISTERS && inputs >= 512;
        if self.kernel > 3 || narrow && !many {
            return self.width.min(REGISTERS);
        }
        self.width.min(pixels_in_registers(outputs, 5))
    }

    /// Pixels of a step of the input's gradient, where a block of filters fits into the first cache.
    fn backward_step(&self) -> usize {
        let ([inputs, _], width) = (self.channels, self.image[1]);
        let few = self.kernel < 5 && (width <= 5 || (9..=13).contains(&width));
        if self.stride == 1 && (few || self.kernel == 5 && width < 8) {
            return width.min(pixels_in_registers(inputs, 4));
        }
        let pairs = self.kernel < 3 || self.kernel == 3 && self.width <= 8;
        if pairs && self.stride == 1 && blocks(inputs).is_multiple_of(2) {
            return width.min(ALL / 3);
        }
        width.min(REGISTERS)
    }
}

/// Blocks of 16 channels.
fn blocks(channels: usize) -> usize {
    channels.div_ceil(16)
}

/// Pixels that fit into the registers next to the largest number of blocks of channels that divides all blocks.
fn pixels_in_registers(channels: usize, most: usize) -> usize {
    let together = (1..=most).rev().find(|&together| blocks(channels).is_multiple_of(together));
    ALL / (together.unwrap_or(1) + 1)
}

/// Pixels of the last two axes.
fn plane(image: &Shape) -> u64 {
    image.dims().iter().rev().take(2).map(|&side| side as u64).product()
}

impl BlockedConvolution<'_> {
    /// The result, from columns cut into blocks, of which a thread computes one at a time.
    pub fn forward_by_columns(&self) -> Vec<RuleAction> {
        let most = if self.kernel.groups > 1 { FORWARD_OF_GROUP } else { FORWARD };
        let all = product([self.operation.samples, self.kernel.groups as u64, pixels(self.images[1])]);
        let share = product([self.columns_of_pixel(), all.div_ceil(self.threads)]);
        let columns = BatchBytes::constant(self.columns().min(most).min(share)).times(self.threads);
        let result = Take(self.unless_kept(self.tensor(1)));
        vec![Take(columns), result, Drop(1), Output, Drop(0)]
    }

    /// The gradient of the input, from columns of one image for every thread that takes one.
    pub fn input_gradient_by_columns(&self) -> Vec<RuleAction> {
        let source = Take(self.unless_kept(self.tensor(0)));
        let threads = if self.shares_input_gradient() { self.threads } else { 1 };
        let columns = BatchBytes::constant(self.columns_within(threads, 0, INPUT_SHARE)).times(threads);
        vec![source, Take(columns), Drop(0), InputGradient(0), Drop(0)]
    }

    /// The gradient of the filters: each thread that takes samples holds the columns of one, and four times the filters.
    pub fn weight_gradient_by_columns(&self) -> Vec<RuleAction> {
        let [filters, held] = [self.unless_kept(self.plain_filters()), self.held_by_columns(0)].map(Take);
        vec![filters, held, Drop(0), WeightGradient(0), Drop(0)]
    }

    /// What threads hold for the gradient of the filters, with an `image` of so many bytes each.
    pub fn held_by_columns(&self, image: u64) -> BatchBytes {
        let held = 4 * self.plain_filters().bytes(1);
        let threads = if self.shares_weight_gradient() { self.threads } else { 1 };
        let columns = self.columns_within(threads, held, FILTER_SHARE);
        BatchBytes::constant(product([threads, held.saturating_add(columns).saturating_add(image)]))
    }

    /// Whether the library has no weight gradient of its own for a volume: for planes of too wide kernels, and for few channels, which do not fill a block.
    /// Kernels of a row alone are those of sequences, as many of which as a sample has are read as its planes.
    pub fn is_plain_volume(&self) -> bool {
        let is_narrow = self.block_of_gradient() < self.block;
        let is_plain = match *self.kernel.sides {
            [1, 1, width] => width > WIDEST,
            [_, _, width] => width > WIDEST || is_narrow,
            _ => false,
        };
        is_plain && self.kernel.groups == 1
    }

    /// Whether threads take samples and groups of their own.
    fn shares_input_gradient(&self) -> bool {
        let [read, made] = self.images.map(plane);
        let [seen, written] =
            [self.input_channels(), self.kernel.out_channels as u64].map(|all| all / self.kernel.groups as u64);
        let few = made / self.threads < SHARED_INPUT || self.kernel.area() < WIDE_KERNEL;
        let part = |jobs: u64| jobs as f64 / jobs.next_multiple_of(self.threads) as f64;
        let apart = part(product([self.operation.samples, self.kernel.groups as u64]));
        let together = part(read.div_ceil(VECTOR) * seen.div_ceil(VECTOR));
        let is_small = product([read, seen, written]) / self.threads < SMALL_PRODUCT;
        few && self.is_shared() && (apart >= together || is_small)
    }

    fn shares_weight_gradient(&self) -> bool {
        let filters = self.plain_filters().bytes(1);
        let seen = self.input_channels() / self.kernel.groups as u64;
        let least = product([self.operation.number(), seen, self.kernel.area(), VECTOR]);
        let held = product([self.threads, (4 * filters).saturating_add(least)]);
        held < self.scratchpad_limit() && plane(self.images[1]) / self.threads < SHARED && self.is_shared()
    }

    /// The largest scratchpad, by the sizes of the tensors.
    fn scratchpad_limit(&self) -> u64 {
        let images = [0, 1].map(|at| self.tensor(at).bytes(self.operation.samples));
        let tensors = images.iter().fold(self.plain_filters().bytes(1), |all, image| all.saturating_add(*image));
        SCRATCHPAD.min(product([15, self.threads, tensors]))
    }

    /// Columns that each of these threads holds next to what it holds otherwise: of a whole image or plane, or of a `share` of the pixels that there is room for.
    fn columns_within(&self, threads: u64, held: u64, share: f64) -> u64 {
        let room = self.scratchpad_limit().saturating_sub(product([threads, held])) / threads;
        let whole = self.columns();
        if whole <= room {
            return whole;
        }
        let pixels = (share * (room / self.columns_of_pixel().max(1)) as f64) as u64;
        product([self.columns_of_pixel(), pixels.max(VECTOR)])
    }

    /// Whether there are enough samples and groups for several threads.
    fn is_shared(&self) -> bool {
        self.operation.samples != 1 || self.kernel.groups > 2
    }

    /// Bytes of the columns of one group of an image's channels, or of one plane of a volume: the pixels of every window, which single pixels of
    /// groups are themselves.
    fn columns(&self) -> u64 {
        if self.kernel.groups > 1 && self.kernel.is_point() && !self.kernel.is_strided() {
            return 0;
        }
        product([self.columns_of_pixel(), plane(self.images[1])])
    }

    fn columns_of_pixel(&self) -> u64 {
        product([self.operation.number(), self.input_channels() / self.kernel.groups as u64, self.kernel.area()])
    }

    /// Filters in PyTorch's layout.
    pub fn plain_filters(&self) -> BatchBytes {
        let elements =
            [self.input_channels() / self.kernel.groups as u64, self.kernel.out_channels as u64, self.kernel.area()];
        BatchBytes::constant(product([self.operation.number()].into_iter().chain(elements)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulation, TensorRole};
    use perf4sight_network::{NetworkBuilder, Op, VolumeWindow, Window};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Stage, Step};

    /// Which of the three passes oneDNN runs by columns.
    fn by_columns(channels: [usize; 2], kernel: usize, image: usize, dilation: usize) -> [bool; 3] {
        let padding = (kernel - 1) / 2 * dilation;
        let window = Window { dilation: [dilation; 2], ..Window::square(kernel, 1, padding) };
        let conv = Conv { out_channels: channels[1], window, groups: 1, bias: false };
        let [input, result] = channels.map(|channels| Shape::new([channels, image, image]));
        let reach = RowMovement::new(&conv, &input, &result);
        [reach.runs_forward(), reach.runs_input_gradient(), reach.runs_weight_gradient(false)].map(|runs| !runs)
    }

    #[test]
    fn plain_images_in_few_bits_have_a_gradient_of_wider_kernels() {
        // ONEDNN_VERBOSE=1 with PyTorch 2.11, bfloat16, two samples: `jit_bf16` or `gemm:jit` of backward_weights. The same in single precision: from 15 on.
        for (kernel, jit) in [(14, [true, true]), (15, [true, false]), (24, [true, false]), (25, [false, false])] {
            let window = Window { stride: [kernel; 2], ..Window::square(kernel, 1, 0) };
            let conv = Conv { out_channels: 32, window, groups: 1, bias: false };
            let reach = RowMovement::new(&conv, &Shape::new([3, 96, 96]), &Shape::new([32, 96 / kernel, 96 / kernel]));
            assert_eq!([true, false].map(|plain| reach.runs_weight_gradient(plain)), jit, "{kernel}");
        }
    }

    /// PyTorch 2.15 with its profiler, two threads, two samples of 3 x 4 x 64 x 64: the first two tensors that `convolution_backward` makes, a copy of the filters and what
    /// the kernel borrows; the latter without the bias's gradient, which it holds too.
    #[test]
    fn wide_kernels_of_volumes_hold_columns_of_a_plane_for_every_thread() {
        for (kernel, expected) in [([2, 16, 16], 393_216 + 3_342_336), ([1, 16, 16], 196_608 + 1_671_168)] {
            let mut builder = NetworkBuilder::new("patches", Shape::new([3, 4, 64, 64]));
            let window = VolumeWindow { kernel, stride: kernel, padding: [0; 3], dilation: [1; 3], ceil: false };
            let conv = Op::Conv3d(Conv { out_channels: 64, window, groups: 1, bias: true });
            let conv = builder.add("conv", conv, &[builder.input()]).unwrap();
            let network = builder.finish(conv);
            let platform = Platform::for_name("cpu").unwrap();
            let simulation = Simulation::new(&network, Step::published(Stage::Training), &platform);
            let borrowed = simulation.alive(2).bytes(TensorRole::Workspace);
            assert_eq!(borrowed.0, expected, "{kernel:?}");
        }
    }

    #[test]
    fn columns_are_taken_where_onednn_says_so() {
        // ONEDNN_VERBOSE=1 with PyTorch 2.11, four samples: `gemm:jit` of forward_training, backward_data, backward_weights.
        let cases = [
            ([960, 256], 3, 4, 12, [true, true, true]),
            ([960, 256], 3, 4, 1, [false, false, false]),
            ([64, 32], 3, 4, 6, [true, true, true]),
            ([64, 32], 3, 8, 6, [false, false, true]),
            ([64, 32], 3, 8, 8, [false, false, true]),
            ([64, 32], 3, 8, 9, [true, true, true]),
            ([64, 32], 3, 12, 6, [false, false, true]),
            ([64, 32], 3, 13, 6, [false, false, false]),
            ([64, 32], 3, 28, 12, [false, false, false]),
            ([64, 32], 3, 32, 14, [true, false, false]),
            ([64, 32], 3, 30, 15, [true, false, true]),
            ([64, 32], 3, 40, 36, [true, true, true]),
            ([64, 32], 5, 7, 3, [false, false, true]),
            ([64, 32], 5, 9, 2, [false, false, false]),
            ([64, 32], 7, 5, 1, [false, false, false]),
            ([64, 128], 3, 33, 12, [true, false, false]),
            ([64, 128], 3, 28, 12, [false, false, false]),
        ];
        for (channels, kernel, image, dilation, expected) in cases {
            assert_eq!(
                by_columns(channels, kernel, image, dilation),
                expected,
                "{channels:?} {kernel} {image} {dilation}"
            );
        }
    }
}
