//! Scratchpads of oneDNN's kernels that multiply lists of small matrices (brgemm): gradients of strided convolutions' inputs, transposed convolutions,
//! and convolutions of channels-last images.
//!
//! Every thread has a list of products, and where the image is read with strides a copy of one sample of it, with a border
//! (`init_conf` and `init_scratchpad` of src/cpu/x64/jit_brgemm_conv_bwd_utils.cpp and jit_brgemm_conv_utils.cpp).

use crate::amount::product;
use perf4sight_network::Shape;
use perf4sight_step::workload::NumberFormat;

/// Bytes that lists and masks are rounded up to, numbers that buffers are.
const PAGE: u64 = 4096;

/// Bytes of a product in a list (`brgemm_batch_element_t`).
const PRODUCT: u64 = 40;

/// Channels of a block of sums.
const BLOCK: u64 = 16;

/// A convolution with strides, and the gradient of its input.
pub(super) struct StridedConvolution<'a> {
    /// Sides of the kernel, steps, and paddings before the image.
    pub sides: &'a [usize],
    pub strides: &'a [usize],
    pub padding: &'a [usize],
    /// The image whose gradient is made, and the result whose gradient is read.
    pub made: &'a Shape,
    pub read: &'a Shape,
    /// Bytes of their numbers.
    pub number: u64,
}

/// The list of products of a kernel of so many pixels, for each thread.
pub(super) fn lists(threads: u64, area: u64) -> u64 {
    let bytes = product([area, PRODUCT]).next_multiple_of(PAGE);
    product([threads, bytes.div_ceil(PRODUCT), PRODUCT])
}

impl StridedConvolution<'_> {
    /// Bytes of the scratchpad.
    pub fn scratchpad(&self, threads: u64) -> u64 {
        let area = product(self.sides.iter().map(|&side| side as u64));
        let sides = self.sides.len();
        let bordered = (0..sides).map(|axis| self.bordered_pixels(axis)).chain([self.read.channels() as u64]);
        let image = product(bordered).next_multiple_of(PAGE);
        let (width, stride) = (pixels_of_axis(self.made, sides - 1), self.strides[sides - 1] as u64);
        let is_uneven = !width.is_multiple_of(stride);
        let row = product([width.next_multiple_of(stride), stride, self.made.channels() as u64]);
        let row = if is_uneven { row.next_multiple_of(PAGE) } else { 0 };
        // In fewer bits a row is summed in single precision, a block of channels at a time.
        let is_summed = self.number < NumberFormat::Fp32.bytes();
        let sums = if is_summed { product([NumberFormat::Fp32.bytes(), BLOCK, width.div_ceil(stride)]) } else { 0 };
        // A mask of the parts that are copied, and what aligns lists, images, masks, rows and sums.
        let each = product([self.number, image.saturating_add(row)]).saturating_add(PAGE + sums);
        let aligned = PAGE * (3 + u64::from(is_uneven) + u64::from(is_summed));
        lists(threads, area).saturating_add(product([threads, each])).saturating_add(aligned)
    }

    /// Pixels of an axis of what is read, with the border that windows at the edges of the image reach into.
    fn bordered_pixels(&self, axis: usize) -> u64 {
        let [kernel, stride, before] = [self.sides, self.strides, self.padding].map(|sizes| sizes[axis] as u64);
        let [made, read] = [self.made, self.read].map(|shape| pixels_of_axis(shape, axis));
        let beyond = (read.saturating_sub(1) * stride + kernel).saturating_sub(made);
        let after = beyond.saturating_sub(before);
        read + [before, after].map(|padding| (kernel - 1).saturating_sub(padding) / stride).iter().sum::<u64>()
    }
}

fn pixels_of_axis(shape: &Shape, axis: usize) -> u64 {
    shape.dims()[axis + 1] as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second largest allocation of `aten::convolution_backward` for the input alone, by the memory events of PyTorch 2.15's profiler, on 1, 2, 4 and 8 threads; AVX-512.
    #[test]
    fn scratchpads_of_strided_convolutions_are_those_that_pytorch_shows() {
        let cases = [
            ([8, 5], [256, 3], (3, 2, 1), [57_368, 98_352, 180_320, 344_256]),
            ([48, 28], [32, 14], (5, 2, 2), [53_272, 94_256, 176_224, 340_160]),
            ([64, 32], [64, 16], (3, 2, 1), [102_424, 192_560, 372_832, 733_376]),
            ([12, 32], [64, 16], (2, 2, 0), [86_040, 159_792, 307_296, 602_304]),
            ([64, 33], [128, 17], (3, 2, 1), [221_208, 426_032, 835_680, 1_654_976]),
            ([256, 14], [512, 7], (3, 2, 1), [151_576, 290_864, 569_440, 1_126_592]),
            ([16, 56], [24, 28], (1, 2, 0), [102_424, 192_560, 372_832, 733_376]),
        ];
        for ([channels, image], [wide, small], (kernel, stride, padding), expected) in cases {
            let [made, read] =
                [(channels, image), (wide, small)].map(|(channels, side)| Shape::new([channels, side, side]));
            let [sides, strides, padding] = [kernel, stride, padding].map(|size: usize| [size; 2]);
            let strided = StridedConvolution {
                sides: &sides,
                strides: &strides,
                padding: &padding,
                made: &made,
                read: &read,
                number: 4,
            };
            assert_eq!([1, 2, 4, 8].map(|threads| strided.scratchpad(threads)), expected, "{channels}x{image}x{image}");
        }
    }
}
