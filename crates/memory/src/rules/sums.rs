//! Convolutions on a processor in formats of fewer bits than single precision: oneDNN sums in single precision, in
//! extra memory.
//!
//! Kernels and layouts are otherwise those of single precision (`jit_avx512_core_bf16_*` of src/cpu/x64), as
//! `ONEDNN_VERBOSE=1` shows, with two differences: input gradients of strided kernels are channels-last for depthwise
//! kernels too, and plain images have even numbers of channels. Workspaces were measured in PyTorch 2.11 with its
//! profiler: 1x1, 3x3 and 5x5 kernels on images of 7 to 224 pixels, 1 to 16 samples, one and two threads. Not included
//! is the further workspace of strided input gradients, some hundred KiB.

use super::blocked::{BlockedConvolution, pixels};
use super::rule::RuleAction;
use super::rule::RuleAction::{Drop, InputGradient, Output, Take, WeightGradient};
use crate::amount::{BatchBytes, product};
use perf4sight_network::Shape;
use perf4sight_step::workload::NumberFormat;

impl BlockedConvolution<'_> {
    /// The result of a 1x1 kernel: each thread sums an image of it, and first gathers the pixels that a stride reads.
    pub fn forward_of_point(&self) -> Vec<RuleAction> {
        let sums = self.sum_bytes(self.images[1]).plus(self.gathered_by_threads());
        let [source, filters, result] = [self.source(), self.filters(), self.result()].map(Take);
        vec![Take(sums), source, filters, result, Drop(1), Drop(1), Drop(1), Output, Drop(0)]
    }

    pub fn input_gradient_of_point(&self) -> Vec<RuleAction> {
        let sums = Take(self.sum_bytes(self.image()));
        let [result, filters, source] = [self.result(), self.filters(), self.source()].map(Take);
        vec![result, filters, source, sums, Drop(0), Drop(1), Drop(1), InputGradient(0), Drop(0)]
    }

    pub fn summed_weight_gradient(&self) -> Vec<RuleAction> {
        let [result, source, filters] = [self.result(), self.source(), self.filters_of_gradient()].map(Take);
        let [once, again] = self.sums_of_filters().map(Take);
        if self.has_no_weight_gradient() {
            vec![filters, WeightGradient(0), Drop(0)]
        } else if self.reads_rgb() {
            vec![result, filters, once, again, Drop(0), Drop(0), Drop(1), WeightGradient(0), Drop(0)]
        } else {
            vec![result, source, filters, once, again, Drop(0), Drop(0), Drop(1), Drop(1), WeightGradient(0), Drop(0)]
        }
    }

    /// Sums of a whole image for each thread.
    fn sum_bytes(&self, image: &Shape) -> BatchBytes {
        let channels = (image.channels() as u64).next_multiple_of(self.block);
        BatchBytes::constant(product([self.threads, NumberFormat::Fp32.bytes(), channels, pixels(image)]))
    }

    fn gathered_by_threads(&self) -> BatchBytes {
        let channels = self.input_channels().next_multiple_of(self.block);
        let strided = u64::from(self.kernel.is_strided());
        let pixels = pixels(self.images[1]);
        BatchBytes::constant(product([strided, self.threads, self.operation.number(), channels, pixels]))
    }

    /// Sums of filters, with the permuted copies of one image and its result: for one thread, and for the others where
    /// threads take images each instead of filters, which they do where the images are more to read (`balance` of
    /// jit_avx512_core_bf16_conv_kernel.cpp, from which the weights are taken).
    fn sums_of_filters(&self) -> [BatchBytes; 2] {
        let (filters, number) = (self.filters_of_gradient(), self.operation.number());
        let sums = filters.times(NumberFormat::Fp32.bytes()).divided_by(number);
        let in_groups = self.kernel.groups > 1;
        let turned = match (in_groups, self.kernel.is_point()) {
            (true, _) => BatchBytes::constant(0),
            (false, true) => self.gathered_by_threads().divided_by(self.threads),
            (false, false) => BatchBytes::constant(number.saturating_mul(self.transposed_elements())),
        };
        let each = sums.plus(turned);
        let read = self.image().elements().saturating_mul(if self.kernel.is_point() { 1 } else { 4 });
        let enough = (filters.bytes(1) / number / read.max(1)).saturating_add(1);
        // For plain images, which are little to read, threads share the filters where these are more than a block: seen
        // with all kernels that were tried, 3 to 16 wide, at 1 to 32 samples.
        let shared = self.reads_rgb() && self.kernel.out_channels as u64 > self.block;
        let others = if in_groups || shared { 0 } else { self.threads - 1 };
        let others = others.min(self.operation.samples.saturating_sub(1));
        [each, each.times(others).only_if(self.operation.samples >= enough)]
    }

    /// Elements of an image and its result as the gradient of filters reads them, rows of the image filled up; a plain
    /// image is read without a copy.
    fn transposed_elements(&self) -> u64 {
        let [height, width] = self.image().image().map(|side| side as u64);
        let result = product([(self.kernel.out_channels as u64).next_multiple_of(self.block), pixels(self.images[1])]);
        if self.reads_rgb() {
            return result;
        }
        product([self.input_channels().next_multiple_of(self.block), height, width + 4]).saturating_add(result)
    }
}
