//! Convolutions of channels-last images on a processor: oneDNN reads those without a copy, only filters are copied.
//!
//! Workspaces were measured in PyTorch 2.11 with its profiler, operation by operation (one and two threads, 5 to 11
//! wide kernels).

use super::blocked::Blocked;
use super::rule::Move;
use super::rule::Move::{Drop, InputGradient, Output, Take, WeightGradient};
use crate::amount::{Amount, product};
use perf4sight_step::workload::Number;

impl Blocked<'_> {
    /// The result.
    pub fn forward_channels_last(&self) -> Vec<Move> {
        let filters = Take(self.filters());
        // PyTorch permutes the filters, oneDNN copies them into blocks.
        match self.turns_filters() {
            true => vec![filters, Output, filters, Drop(0), Drop(0)],
            false => vec![Output, filters, Drop(0)],
        }
    }

    /// The gradients of input, filters and bias.
    pub fn backward_channels_last(&self) -> Vec<Move> {
        let filters = Take(self.filters());
        let turned = if self.turns_filters() { vec![filters] } else { vec![] };
        let given_back = turned.iter().map(|_| Drop(0)).collect::<Vec<_>>();
        let input = [InputGradient(0), filters, Drop(0)];
        let bias = self.kernel.bias.then_some(WeightGradient(1));
        // The gradient of filters is copied once more into its layout (`to(memory_format)` in `mkldnn_convolution_backward_weights`).
        let gradient = self.filters_gradient();
        let weight = [Take(gradient)].into_iter().chain(self.sums_of(gradient)).chain([Take(self.plain_filters())]);
        let weight = weight.chain(bias).chain([WeightGradient(0), Drop(0), Drop(0)]);
        let weight = weight.filter(|_| self.learns());
        let input = input.into_iter().filter(|_| self.operation.tracked(0));
        turned.into_iter().chain(input).chain(weight).chain(given_back).collect()
    }

    /// Sums of filters in single precision, while the gradient in fewer bits is computed.
    fn sums_of(&self, gradient: Amount) -> Vec<Move> {
        match self.sums_apart() {
            true => vec![Take(gradient.times(Number::Fp32.bytes()).divided_by(self.operation.number())), Drop(0)],
            false => Vec::new(),
        }
    }

    fn turns_filters(&self) -> bool {
        self.kernel.groups == 1 && !self.kernel.is_point() && !self.operation.filters_are_channels_last()
    }

    /// The gradient of depthwise filters is a whole block of inputs and outputs for each where the kernel is larger
    /// than 3x3 or taller than the image (the layout gOIhw16i16o).
    fn filters_gradient(&self) -> Amount {
        let each = self.kernel.groups > 1 && !self.has_depthwise_gradient();
        let elements = [self.kernel.groups as u64, self.kernel.area(), self.block, self.block];
        match each {
            true => Amount::once(product([self.operation.number()].into_iter().chain(elements))),
            false => self.filters(),
        }
    }
}
