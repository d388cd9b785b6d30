//! The cost of one convolution in each of the ways that a library may compute it: directly, as a matrix product of a
//! lowered image (im2col), by Fourier transforms, and by Winograd's minimal filtering.
//!
//! The formulas are unchanged from the published perf4sight, so that trees fitted on them are comparable to the
//! published ones. They use one side length per image and kernel. For rectangles that is the square root of the area
//! here, so that elements and operations stay exact; squares are unchanged.

use perf4sight_network::{Conv, Shape};

/// Output tile and kernel sides of the two Winograd variants, F(4x4, 3x3) and F(3x3, 2x2).
const TILES: [WinogradTile; 2] = [WinogradTile { output: 4.0, kernel: 3.0 }, WinogradTile { output: 3.0, kernel: 2.0 }];

/// The 56 numbers of a training step: tensors, lowering and matrix products, Fourier tensors and operations, Winograd
/// tensors and operations.
#[rustfmt::skip]
pub(super) const TRAINING: [&str; 56] = [
    "tensor-weights", "tensor-weight_grad", "tensor-ifm", "tensor-ofm", "tensors-sum",
    "gemm-i2c-idx-fwd", "gemm-i2c-fwd", "gemm-i2c-idx-bwd-x", "gemm-i2c-bwd-x", "gemm-i2c-bwd-w",
    "gemm-i2c-sum-total", "gemm-i2c-index-sum-total",
    "gemm-ops-fwd", "gemm-ops-bwd", "gemm-ops-sum",
    "fft-weights-fwd", "fft-ifm-fwd", "fft-ofm-bwd-w", "fft-weights-bwd-x", "fft-ofm-bwd-x",
    "fft-sum-fwd", "fft-sum-bwd_x", "fft-sum-bwd_w", "fft-sum-all",
    "fft-fwd-ops", "fft-bwd_x-ops", "fft-bwd_w-ops", "fft-ops-sum",
    "wino-fwd-4-3", "wino-bwd_x-4-3", "wino-bwd_w-4-3",
    "wino-sum-1-4-3", "wino-sum-2-4-3", "wino-sum-3-4-3", "wino-sum-all-4-3",
    "wino-fwd-3-2", "wino-bwd_x-3-2", "wino-bwd_w-3-2",
    "wino-sum-1-3-2", "wino-sum-2-3-2", "wino-sum-3-3-2", "wino-sum-all-3-2",
    "wino-ops-fwd-4-3", "wino-ops-bwd_x-4-3", "wino-ops-bwd_w-4-3",
    "wino-ops-sum-1-4-3", "wino-ops-sum-2-4-3", "wino-ops-sum-3-4-3", "wino-ops-sum-all-4-3",
    "wino-ops-fwd-3-2", "wino-ops-bwd_x-3-2", "wino-ops-bwd_w-3-2",
    "wino-ops-sum-1-3-2", "wino-ops-sum-2-3-2", "wino-ops-sum-3-3-2", "wino-ops-sum-all-3-2",
];

/// The 15 numbers of an inference step: the forward part of [`TRAINING`].
#[rustfmt::skip]
pub(super) const INFERENCE: [&str; 15] = [
    "tensor-weights", "tensor-ifm", "tensor-ofm", "tensors-sum",
    "gemm-i2c-idx-fwd", "gemm-i2c-fwd", "gemm-ops-fwd",
    "fft-weights-fwd", "fft-ifm-fwd", "fft-sum-fwd", "fft-fwd-ops",
    "wino-fwd-4-3", "wino-fwd-3-2", "wino-ops-fwd-4-3", "wino-ops-fwd-3-2",
];

/// A Winograd tile: the sides of its output and of its kernel.
#[derive(Clone, Copy)]
struct WinogradTile {
    output: f64,
    kernel: f64,
}

impl WinogradTile {
    fn elements(self) -> f64 {
        (self.output + self.kernel - 1.0).powi(2)
    }
}

/// One number for each pass: forward, backward to the input and backward to the weights.
struct PassValues {
    forward: f64,
    to_input: f64,
    to_weights: f64,
}

impl PassValues {
    fn all(&self) -> f64 {
        self.forward + self.to_input + self.to_weights
    }

    fn with_sums(&self) -> [f64; 7] {
        let PassValues { forward, to_input, to_weights } = *self;
        let pairs = [forward + to_input, forward + to_weights, to_input + to_weights];
        [forward, to_input, to_weights, pairs[0], pairs[1], pairs[2], self.all()]
    }
}

pub(super) struct ConvolutionSizes {
    batch: f64,
    inputs: f64,
    outputs: f64,
    /// Input channels that one filter reads.
    seen: f64,
    kernel: f64,
    input_side: f64,
    output_side: f64,
}

impl ConvolutionSizes {
    pub(super) fn new(conv: &Conv, input: &Shape, output: &Shape, batch: u64) -> Self {
        ConvolutionSizes {
            batch: batch as f64,
            inputs: input.channels() as f64,
            outputs: output.channels() as f64,
            seen: (input.channels() / conv.groups) as f64,
            kernel: mean_side(conv.window.kernel),
            input_side: mean_side(input.image()),
            output_side: mean_side(output.image()),
        }
    }

    pub(super) fn training(&self) -> Vec<f64> {
        let [fine, coarse] = TILES;
        [
            &self.training_tensors()[..],
            &self.lowering(),
            &self.products(),
            &self.fourier_tensors(),
            &self.fourier_operations(),
            &self.winograd_tensors(fine).with_sums(),
            &self.winograd_tensors(coarse).with_sums(),
            &self.winograd_operations(fine).with_sums(),
            &self.winograd_operations(coarse).with_sums(),
        ]
        .concat()
    }

    pub(super) fn inference(&self) -> Vec<f64> {
        let (weights, input, output) = (self.weights(), self.input_elements(), self.output_elements());
        let [indices, lowered, ..] = self.lowering();
        let [fourier_weights, fourier_input, ..] = self.fourier_tensors();
        let [fine, coarse] = TILES;
        vec![
            weights,
            input,
            output,
            weights + input + output,
            indices,
            lowered,
            self.products()[0],
            fourier_weights,
            fourier_input,
            fourier_weights + fourier_input,
            self.fourier_operations()[0],
            self.winograd_tensors(fine).forward,
            self.winograd_tensors(coarse).forward,
            self.winograd_operations(fine).forward,
            self.winograd_operations(coarse).forward,
        ]
    }

    fn weights(&self) -> f64 {
        self.outputs * self.seen * self.kernel.powi(2)
    }

    fn input_elements(&self) -> f64 {
        self.batch * self.inputs * self.input_side.powi(2)
    }

    fn output_elements(&self) -> f64 {
        self.batch * self.outputs * self.output_side.powi(2)
    }

    /// Weights, one weight gradient per sample, input and output with their gradients; the sum.
    fn training_tensors(&self) -> [f64; 5] {
        let gradients = self.batch * self.weights();
        let (input, output) = (2.0 * self.input_elements(), 2.0 * self.output_elements());
        [self.weights(), gradients, input, output, self.weights() + gradients + input + output]
    }

    /// im2col: indices and lowered image of the forward pass and of the pass to the input, lowered image of the pass to
    /// the weights; all images; all indices.
    fn lowering(&self) -> [f64; 7] {
        let kernel = self.kernel.powi(2);
        let indices = self.batch * self.output_side.powi(2);
        let indices_back = self.batch * self.input_side.powi(2);
        let forward = indices * kernel * self.inputs;
        let to_input = indices_back * kernel * self.inputs;
        let to_weights = indices * kernel * self.seen;
        let images = forward + to_input + to_weights;
        [indices, forward, indices_back, to_input, to_weights, images, 2.0 * indices + indices_back]
    }

    /// Multiply-accumulates of the lowered products: forward (as many to the weights), to the input, all three passes.
    fn products(&self) -> [f64; 3] {
        let forward = self.output_elements() * self.kernel.powi(2) * self.seen;
        let to_input = self.input_elements() * self.kernel.powi(2) * self.outputs;
        [forward, to_input, 2.0 * forward + to_input]
    }

    /// Half spectra: weights, input, output at the input's size; weights, output at the output's size; the totals of
    /// the forward pass, the pass to the input, the pass to the weights and all of them.
    fn fourier_tensors(&self) -> [f64; 9] {
        let spectrum = |side: f64| side * (1.0 + side);
        let (at_input, at_output) = (spectrum(self.input_side), spectrum(self.output_side));
        let filters = self.outputs * self.seen;
        let (weights, weights_back) = (at_input * filters, at_output * filters);
        let input = at_input * self.batch * self.inputs;
        let (output, output_back) = (at_input * self.batch * self.outputs, at_output * self.batch * self.outputs);
        let passes =
            PassValues { forward: input + weights, to_input: output_back + weights_back, to_weights: output + input };
        let PassValues { forward, to_input, to_weights } = passes;
        [weights, input, output, weights_back, output_back, forward, to_input, to_weights, passes.all()]
    }

    /// Transforms and products in the frequency domain: per pass, and all.
    fn fourier_operations(&self) -> [f64; 4] {
        let (input, output) = (self.input_side, self.output_side);
        let transforms = self.batch * self.inputs + self.batch * self.outputs + self.outputs * self.seen;
        let products = self.batch * self.outputs * self.inputs;
        let passes = PassValues {
            forward: input.powi(2) * input.log2() * transforms + products * input.powi(2),
            to_input: output.powi(2) * output.log2() * transforms + products * output.powi(2),
            // As published: one side length instead of the area before the logarithm.
            to_weights: input * input.powi(2).log2() * transforms + products * input.powi(2),
        };
        [passes.forward, passes.to_input, passes.to_weights, passes.all()]
    }

    /// Transformed tiles of a pass's three tensors.
    fn winograd_tensors(&self, tile: WinogradTile) -> PassValues {
        let tiles = |side: f64| 3.0 * self.batch * tile.elements() * (side / tile.output).ceil().powi(2);
        PassValues {
            forward: tiles(self.input_side) * self.outputs,
            to_input: tiles(self.output_side) * self.inputs,
            to_weights: tiles(self.input_side) * self.outputs * self.seen,
        }
    }

    /// Multiplications of the transformed tiles.
    fn winograd_operations(&self, tile: WinogradTile) -> PassValues {
        let tiles = |side: f64| (side / tile.output).ceil().powi(2);
        let kernels = |side: f64| (side / tile.kernel).ceil().powi(2) * tile.elements();
        PassValues {
            forward: self.batch * self.outputs * self.seen * tiles(self.input_side) * kernels(self.kernel),
            to_input: self.batch * self.inputs * self.outputs * tiles(self.output_side) * kernels(self.kernel),
            to_weights: self.batch * self.outputs * self.seen * tiles(self.input_side) * kernels(self.output_side),
        }
    }
}

fn mean_side([height, width]: [usize; 2]) -> f64 {
    (height as f64 * width as f64).sqrt()
}
