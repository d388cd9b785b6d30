//! Convolutions on a processor: oneDNN works in blocked layouts and PyTorch passes it plain tensors, so everything is
//! copied.

use super::columns::RowMovement;
use super::operation::StepOperation;
use super::rule::RuleAction;
use super::rule::RuleAction::{Drop, InputGradient, Output, Take, WeightGradient};
use super::shared_gradient::FilterGradient;
use super::small_products::StridedConvolution;
use crate::amount::{BatchBytes, product};
use perf4sight_network::{BorrowedMemory, Conv, Shape, VolumeWindow};
use perf4sight_platform::{ConvolutionQuery, NativeConvolutions};

/// Numbers in a vector of 256 bits.
const HALF_VECTOR: usize = 8;

/// A convolution in oneDNN's blocked layouts, called on plain tensors: everything goes through padded copies
/// (aten/src/ATen/native/mkldnn/Conv.cpp; the layouts are in oneDNN's src/cpu/x64/jit_*_conv_kernel.cpp).
pub(super) struct BlockedConvolution<'a> {
    pub operation: StepOperation<'a>,
    /// The image that it reads, and the result; of a transposed convolution they change places.
    pub images: [&'a Shape; 2],
    pub kernel: ConvolutionParameters<'a>,
    pub block: u64,
    pub threads: u64,
    /// The convolutions that the library does not compute.
    pub kept: NativeConvolutions,
}

/// The parameters of a convolution, of images or volumes.
pub(super) struct ConvolutionParameters<'a> {
    /// Its sides, the last two height and width.
    pub sides: &'a [usize],
    /// How many pixels it moves by along each side, and pixels added before the image.
    pub strides: &'a [usize],
    pub padding: &'a [usize],
    pub is_dilated: bool,
    /// Whether its steps divide an image without padding.
    pub divides: bool,
    pub out_channels: usize,
    pub groups: usize,
    pub bias: bool,
    pub asked: ConvolutionQuery,
    /// How it moves over images, where that decides what computes it.
    pub reach: Option<RowMovement>,
}

/// How a convolution moves over images: none of depthwise ones, and of several groups only where its kernel is wide. Narrower ones are told
/// by the channels of a group ([`BlockedConvolution::has_groups_beside`]).
fn reach(conv: &Conv, input: &Shape, result: &Shape) -> Option<RowMovement> {
    let is_depthwise = conv.groups == input.channels();
    let reach = RowMovement::new(conv, input, result);
    (conv.groups == 1 || !is_depthwise && !reach.runs_weight_gradient(false)).then_some(reach)
}

impl<'a> ConvolutionParameters<'a> {
    pub fn of_images(asked: ConvolutionQuery, [input, result]: [&Shape; 2], conv: &'a Conv) -> Self {
        let Conv { out_channels, window, groups, bias } = conv;
        let covers = |axis: usize| result.image()[axis] * window.stride[axis] == input.image()[axis];
        ConvolutionParameters {
            sides: &window.kernel,
            strides: &window.stride,
            padding: &window.padding[..2],
            is_dilated: window.dilation != [1; 2],
            divides: window.padding == [0; 4] && (0..2).all(covers),
            out_channels: *out_channels,
            groups: *groups,
            bias: *bias,
            asked,
            reach: reach(conv, input, result),
        }
    }

    pub fn of_volumes(input: &Shape, conv: &'a Conv<VolumeWindow>) -> Self {
        let Conv { out_channels, window, groups, bias } = conv;
        let [_, height, width] = window.kernel;
        let asked = ConvolutionQuery {
            kernel: [height, width],
            moves_by_one: (window.stride, window.dilation) == ([1; 3], [1; 3]),
            groups: *groups,
            channels: input.channels(),
            // `use_mkldnn` counts samples, channels and the two axes behind them (aten/src/ATen/native/Convolution.cpp).
            elements: input.dims()[..3].iter().map(|&dim| dim as u64).product(),
        };
        ConvolutionParameters {
            sides: &window.kernel,
            strides: &window.stride,
            padding: &window.padding,
            is_dilated: window.dilation != [1; 3],
            divides: false,
            out_channels: *out_channels,
            groups: *groups,
            bias: *bias,
            asked,
            reach: None,
        }
    }

    /// Whether it sees one pixel.
    pub fn is_point(&self) -> bool {
        self.sides.iter().all(|&side| side == 1)
    }

    pub fn is_strided(&self) -> bool {
        self.step() > 1
    }

    /// How many pixels of an image there are for each of the result.
    pub fn step(&self) -> u64 {
        product(self.strides.iter().map(|&step| step as u64))
    }

    pub fn height(&self) -> usize {
        self.sides[self.sides.len() - 2]
    }

    /// Its elements.
    pub fn area(&self) -> u64 {
        product(self.sides.iter().map(|&side| side as u64))
    }
}

impl BlockedConvolution<'_> {
    /// The result.
    pub fn forward(&self) -> Vec<RuleAction> {
        if self.has_no_blocks() || self.kernel.reach.is_some_and(|reach| !reach.runs_forward()) {
            return self.forward_by_columns();
        }
        if self.sums_apart() && self.kernel.is_point() {
            return self.forward_of_point();
        }
        let [filters, result] = [self.filters(), self.result()].map(Take);
        if self.reads_plain_image() {
            return vec![filters, result, Drop(1), Output, Drop(0)];
        }
        let moves = vec![Take(self.source()), filters, result, Drop(1), Drop(1), Output, Drop(0)];
        match self.gathered_bytes() {
            Some(gathered) => [Take(gathered)].into_iter().chain(moves).chain([Drop(0)]).collect(),
            None => moves,
        }
    }

    /// Whether the library sums up in other numbers than it reads.
    pub fn sums_apart(&self) -> bool {
        self.operation.is_low()
    }

    /// The part of an image that each thread gathers first for a strided 1x1 kernel (`rtus_prepare_space_info` of
    /// oneDNN's jit_uni_1x1_conv_utils.hpp): all pixels that it reads, of all channels.
    pub fn gathered_bytes(&self) -> Option<BatchBytes> {
        let channels = self.input_channels().next_multiple_of(self.block);
        let each = product([self.operation.number(), channels, pixels(self.images[1])]);
        (self.has_point_kernel() && self.kernel.is_strided() && self.kernel.groups == 1)
            .then(|| self.unless_kept(BatchBytes::constant(each).times(self.threads)))
    }

    /// Whether the library has a kernel of its own for what sees one pixel: a strided one only where its steps divide the image (`rtus_prepare` there);
    /// others are computed as larger kernels are.
    pub fn has_point_kernel(&self) -> bool {
        self.kernel.is_point() && (self.sums_apart() || !self.kernel.is_strided() || self.kernel.divides)
    }

    /// The gradients of input, filters and bias.
    pub fn backward(&self) -> Vec<RuleAction> {
        let bias = self.kernel.bias.then_some(WeightGradient(1)).filter(|_| self.trains_weights());
        // The network's own input needs no gradient.
        let input = if self.operation.requires_gradient(0) { self.input_gradient() } else { Vec::new() };
        let weight = if self.trains_weights() { self.weight_gradient() } else { Vec::new() };
        input.into_iter().chain(weight).chain(bias).collect()
    }

    /// Whether the library computes the gradient of filters or bias: it computes both at once
    /// (`mkldnn_convolution_backward` of aten/src/ATen/native/mkldnn/Conv.cpp).
    pub fn trains_weights(&self) -> bool {
        self.operation.trains(0) || self.operation.trains(1)
    }

    pub fn input_gradient(&self) -> Vec<RuleAction> {
        let has_no_kernel = self.kernel.reach.is_some_and(|reach| !reach.runs_input_gradient());
        let is_strided = self.kernel.is_strided();
        let has_strided_kernel = is_strided && !self.kernel.is_dilated && self.has_wide_groups();
        let is_by_columns = if is_strided { self.kernel.is_dilated } else { has_no_kernel };
        if !has_strided_kernel && self.has_no_blocks() || is_by_columns {
            return self.input_gradient_by_columns();
        }
        if has_strided_kernel || is_strided && self.sums_apart() && self.is_depthwise() {
            let filters = Take(self.filters_of_strided());
            // The kernel works channels-last, and the gradient is copied once more on its way back.
            let [source, result] = [0, 1].map(|at| Take(self.unless_kept(self.tensor(at))));
            let scratchpad = Take(self.scratchpad_of_strided());
            let moves = [result, filters, source, scratchpad, Drop(0), Drop(1), Drop(1)];
            return moves.into_iter().chain([InputGradient(0), source, Drop(0), Drop(0)]).collect();
        }
        if self.sums_apart() && self.kernel.is_point() && self.kernel.groups == 1 {
            return self.input_gradient_of_point();
        }
        let filters = Take(self.filters_of_input_gradient());
        vec![Take(self.result()), filters, Take(self.source()), Drop(1), Drop(1), InputGradient(0), Drop(0)]
    }

    /// Whether a group of the result has more channels than a vector of 256 bits, without which strided gradients have another kernel
    /// (`is_grouped_small_oc` of src/cpu/x64/jit_brgemm_conv_bwd_utils.cpp).
    fn has_wide_groups(&self) -> bool {
        self.kernel.groups == 1 || !self.sums_apart() && self.kernel.out_channels / self.kernel.groups > HALF_VECTOR
    }

    /// What the kernel of strided gradients borrows.
    pub fn scratchpad_of_strided(&self) -> BatchBytes {
        let ConvolutionParameters { sides, strides, padding, .. } = self.kernel;
        let ([made, read], number) = (self.images, self.operation.number());
        let strided = StridedConvolution { sides, strides, padding, made, read, number };
        self.unless_kept(BatchBytes::constant(strided.scratchpad(self.threads)))
    }

    pub fn weight_gradient(&self) -> Vec<RuleAction> {
        let filters = Take(self.filters());
        let plain = self.sums_apart() && self.reads_plain_image();
        let has_no_kernel = self.kernel.reach.is_some_and(|reach| !reach.runs_weight_gradient(plain));
        let is_narrow = self.block_of_gradient() < self.block;
        let is_dilated = self.kernel.is_dilated && (is_narrow || self.kernel.is_strided());
        if self.is_plain_volume() || has_no_kernel || is_dilated || self.has_groups_beside(8) {
            self.weight_gradient_by_columns()
        } else if self.sums_apart() {
            self.summed_weight_gradient()
        } else if self.has_no_weight_gradient() {
            vec![filters, WeightGradient(0), Drop(0)]
        } else {
            self.weight_gradient_in_blocks()
        }
    }

    fn weight_gradient_in_blocks(&self) -> Vec<RuleAction> {
        let block = self.block_of_gradient();
        let filled = |channels: u64| channels.next_multiple_of(block);
        let source = (!self.reads_rgb()).then(|| self.padded_bytes(self.image(), block));
        let filters = match self.block == block {
            true => self.filters(),
            false => self.filters_from(filled(self.input_channels()), filled(self.kernel.out_channels as u64)),
        };
        let images = [self.padded_bytes(self.images[1], block)].into_iter().chain(source);
        let images: Vec<_> = images.map(Take).collect();
        let scratchpad = self.shared_bytes(true).into_iter().chain(self.gathered_bytes()).map(Take);
        let scratchpad: Vec<_> = scratchpad.collect();
        let gone = vec![Drop(0); scratchpad.len()].into_iter().chain(vec![Drop(1); images.len()]);
        let taken = images.into_iter().chain([Take(filters)]).chain(scratchpad);
        taken.chain(gone).chain([WeightGradient(0), Drop(0)]).collect()
    }

    /// What threads borrow to add up the gradients of filters and bias, and may share the rows of a sample for.
    pub fn shared_bytes(&self, shares_rows: bool) -> [BatchBytes; 2] {
        let block = match self.kernel.groups as u64 {
            1 => self.block_of_gradient(),
            groups if (self.input_channels() / groups).is_multiple_of(self.block) => self.block,
            _ => 8,
        };
        let gradient = FilterGradient {
            threads: self.threads,
            samples: self.operation.samples,
            groups: self.kernel.groups as u64,
            images: self.images,
            of: [if self.reads_rgb() { self.input_channels() } else { block }, block],
            area: self.kernel.area(),
            step: self.kernel.step(),
            is_point: self.has_point_kernel(),
            shares_rows: shares_rows && self.kernel.sides.len() == 2 && !self.kernel.is_dilated,
            bias: self.kernel.bias,
        };
        let counts = !self.sums_apart() && !self.is_depthwise();
        gradient.scratchpad().map(|bytes| self.unless_kept(BatchBytes::constant(bytes)).only_if(counts))
    }

    /// The channels of a block in the weight gradient: half as many where the image has fewer than a block, but more than oneDNN reads without a
    /// copy, for which there are kernels of AVX2 only (`ONEDNN_VERBOSE=1`).
    pub fn block_of_gradient(&self) -> u64 {
        let is_narrow = self.reads_plain_image() && !self.reads_rgb() && !self.sums_apart();
        if is_narrow && self.block == 16 { 8 } else { self.block }
    }

    pub fn image(&self) -> &Shape {
        self.images[0]
    }

    pub fn input_channels(&self) -> u64 {
        self.images[0].channels() as u64
    }

    /// One of the images, or the result, in PyTorch's layout.
    pub fn tensor(&self, at: usize) -> BatchBytes {
        BatchBytes::tensor(self.images[at], self.operation.number())
    }

    /// Fewer channels than a block and a kernel larger than one point: forward reads the image without a copy
    /// (`is_1stconv`).
    fn reads_plain_image(&self) -> bool {
        self.input_channels() < self.block && self.kernel.groups == 1 && !self.has_point_kernel()
    }

    /// The weight gradient does so for three channels at most.
    pub fn reads_rgb(&self) -> bool {
        self.reads_plain_image() && self.input_channels() <= 3
    }

    /// Whether oneDNN has a weight gradient for such depthwise kernels: up to 3x3, and no taller than the image (`ONEDNN_VERBOSE=1`:
    /// `gemm:jit` otherwise; images of 1 to 8 rows).
    pub fn has_depthwise_gradient(&self) -> bool {
        let dims = self.image().dims();
        self.kernel.height() <= dims[dims.len() - 2].min(3)
    }

    /// Whether the filters' gradient is neither in blocks nor by columns: of depthwise kernels without one of their own, and of groups narrower than
    /// a block, in fewer bits or of volumes.
    pub fn has_no_weight_gradient(&self) -> bool {
        let (groups, width) = (self.kernel.groups as u64, self.input_channels() / self.kernel.groups as u64);
        let is_other = self.sums_apart() || self.kernel.sides.len() > 2;
        groups > 1 && if self.is_depthwise() { !self.has_depthwise_gradient() } else { is_other && width < self.block }
    }

    /// Whether all of it is computed by columns, because the channels of a group are no multiple of the smallest block.
    fn has_no_blocks(&self) -> bool {
        self.has_groups_beside(4)
    }

    /// Whether groups of channels of images are no multiple of a block, in single precision (what PyTorch 2.15's profiler shows of 4 to 32 channels in 4 groups, 1 to 5
    /// pixels): of 4 it takes for a kernel of the result, of 8 for one of the filters' gradient.
    fn has_groups_beside(&self, block: u64) -> bool {
        let groups = self.kernel.groups as u64;
        let is_grouped = groups > 1 && !self.is_depthwise() && self.kernel.sides.len() == 2 && !self.sums_apart();
        let widths = [self.input_channels(), self.kernel.out_channels as u64].map(|channels| channels / groups);
        is_grouped && widths.iter().any(|width| !width.is_multiple_of(block))
    }

    fn is_depthwise(&self) -> bool {
        let groups = self.kernel.groups as u64;
        self.input_channels() == groups && self.kernel.out_channels as u64 == groups
    }

    pub fn source(&self) -> BatchBytes {
        self.padded_bytes(self.image(), self.block)
    }

    pub fn result(&self) -> BatchBytes {
        self.padded_bytes(self.images[1], self.block)
    }

    /// Images whose channels fill whole blocks; those of several groups stay as they are (`ok_to_pad_channels` of jit_avx512_common_conv_kernel.cpp), but for images of
    /// depthwise ones, for which there is a kernel of its own.
    fn padded_bytes(&self, image: &Shape, block: u64) -> BatchBytes {
        let has_own_kernel = self.is_depthwise() && self.kernel.sides.len() == 2;
        let stays = self.kernel.groups > 1 && !has_own_kernel;
        let channels = (image.channels() as u64).next_multiple_of(if stays { 1 } else { block });
        self.unless_kept(BatchBytes::per_sample(product([self.operation.number(), channels, pixels(image)])))
    }

    /// Filters as forward and the input's gradient read them; of plain images in pairs of channels where numbers are halves.
    pub fn filters(&self) -> BatchBytes {
        let pairs = if self.sums_apart() { 2 } else { 1 };
        self.filters_of(self.input_channels().next_multiple_of(pairs))
    }

    /// Filters of the input's gradient, whose channels fill blocks of both in single precision.
    pub fn filters_of_input_gradient(&self) -> BatchBytes {
        let [read, made] = [self.input_channels(), self.kernel.out_channels as u64];
        let whole = |channels: u64| channels.next_multiple_of(self.block);
        match self.kernel.groups == 1 && !self.sums_apart() {
            true => self.filters_from(whole(read), whole(made)),
            false => self.filters(),
        }
    }

    /// Filters of a strided input's gradient, likewise of what is made; depthwise ones in fewer bits as 16 channels times pairs of numbers, of which one is used.
    pub fn filters_of_strided(&self) -> BatchBytes {
        let groups = self.kernel.groups as u64;
        let [read, made] = [self.input_channels(), self.kernel.out_channels as u64].map(|channels| channels / groups);
        if self.sums_apart() {
            let depthwise = product([2, self.operation.number(), self.block, groups, self.kernel.area()]);
            return if groups == 1 { self.filters() } else { BatchBytes::constant(depthwise) };
        }
        let is_narrow = groups > 1 && made <= self.block;
        let block = if is_narrow { HALF_VECTOR as u64 } else { self.block };
        self.filters_from(product([groups, read.next_multiple_of(block)]), made)
    }

    pub fn filters_of_gradient(&self) -> BatchBytes {
        self.filters_of(self.input_channels())
    }

    /// Filters whose inputs and outputs both fill whole blocks, where the layout has blocks of both; `plain` channels
    /// of plain images.
    fn filters_of(&self, plain: u64) -> BatchBytes {
        let (inputs, outputs, groups) =
            (self.input_channels(), self.kernel.out_channels as u64, self.kernel.groups as u64);
        let whole = |channels: u64| channels.next_multiple_of(self.block);
        let [inputs, outputs] = match groups {
            1 if self.reads_plain_image() => [plain, whole(outputs)],
            1 => [whole(inputs), whole(outputs)],
            _ if inputs == groups => [1, whole(outputs)],
            _ => [inputs / groups, outputs],
        };
        self.filters_from(inputs, outputs)
    }

    fn filters_from(&self, inputs: u64, outputs: u64) -> BatchBytes {
        self.unless_kept(BatchBytes::constant(product([self.operation.number(), inputs, outputs, self.kernel.area()])))
    }

    /// Whether PyTorch itself computes it, for a single image, by columns that differ from the image itself.
    pub fn takes_columns(&self) -> bool {
        let asked = &self.kernel.asked;
        let is_image = asked.kernel == [1, 1] && asked.moves_by_one;
        !is_image && self.is_computed_alone()
    }

    /// Whether PyTorch itself computes it: as it was seen to, else of a single sample.
    pub fn is_computed_alone(&self) -> bool {
        if let Some(by) = self.operation.borrows()
            && self.kernel.sides.len() > 2
        {
            return by == BorrowedMemory::Columns;
        }
        let is_single = self.operation.result().sizes()[0] == 1;
        is_single && !self.sums_apart() && self.kept.library_from(&self.kernel.asked) > 1
    }

    /// Nothing is copied where PyTorch computes it itself: never in fewer bits than single precision has (`use_mkldnn`).
    pub fn unless_kept(&self, amount: BatchBytes) -> BatchBytes {
        if self.sums_apart() {
            return amount;
        }
        amount.only_if(self.operation.samples >= self.kept.library_from(&self.kernel.asked))
    }
}

pub(super) fn pixels(image: &Shape) -> u64 {
    image.elements() / (image.channels() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use crate::{Simulation, TensorRole};
    use perf4sight_network::{Conv, NetworkBuilder, Op, Shape, Window};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Stage, Step};

    /// Four samples of 20 x 32 x 32 under 5x5 kernels with a stride of 2, in 5 groups: copies of image, filters and result by the same events (327,680, 8,000 and 81,920).
    #[test]
    fn channels_of_several_groups_fill_no_blocks() {
        let mut builder = NetworkBuilder::new("grouped", Shape::new([20, 32, 32]));
        let conv = Conv { out_channels: 20, window: Window::square(5, 2, 2), groups: 5, bias: true };
        let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
        let network = builder.finish(conv);
        let platform = Platform::for_name("cpu").unwrap();
        let simulation = Simulation::new(&network, Step::published(Stage::Inference), &platform);
        assert_eq!(simulation.alive(4).bytes(TensorRole::Workspace).0, 327_680 + 8_000 + 81_920);
    }

    /// What `aten::convolution` borrows at most of four samples by the memory events of PyTorch 2.15's profiler, AVX-512: what each thread gathers, copies of image, filters
    /// and result. `ONEDNN_VERBOSE=1` names `jit_1x1` for images that the stride of 2 divides, `jit` for the others.
    #[test]
    fn strided_points_gather_all_channels_of_images_that_their_steps_divide() {
        let cases = [
            ([40, 32], 24, 1, 27_776 + 442_368 + 6_144 + 73_728),
            ([40, 32], 24, 2, 55_424 + 442_368 + 6_144 + 73_728),
            ([64, 24], 12, 1, 9_600 + 147_456 + 8_192 + 18_432),
            ([16, 16], 13, 1, 43_264 + 1_024 + 12_544),
            // The image is read as it is; most is borrowed while the result is copied.
            ([2, 16], 13, 1, 12_544),
        ];
        for ([read, made], side, threads, expected) in cases {
            let mut builder = NetworkBuilder::new("strided", Shape::new([read, side, side]));
            let conv = Conv { out_channels: made, window: Window::square(1, 2, 0), groups: 1, bias: true };
            let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
            let network = builder.finish(conv);
            let platform = Platform::for_name("cpu").unwrap().on_threads(threads);
            let simulation = Simulation::new(&network, Step::published(Stage::Inference), &platform);
            let borrowed = simulation.alive(4).bytes(TensorRole::Workspace).0;
            assert!(borrowed.abs_diff(expected) <= 512, "{read} to {made}, {side}, {threads}: {borrowed}, {expected}");
        }
    }
}
