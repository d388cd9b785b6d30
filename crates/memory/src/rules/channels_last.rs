//! Convolutions of channels-last images on a processor: oneDNN reads those without a copy, only filters are copied.
//!
//! Workspaces were measured in PyTorch 2.11 with its profiler, operation by operation (one and two threads, 5 to 11
//! wide kernels).

use super::blocked::Blocked;
use super::rule::Move;
use super::rule::Move::{Drop, InputGradient, Output, Take, WeightGradient};
use super::small_products::lists;
use crate::amount::{Amount, product};
use perf4sight_step::workload::Number;

/// What aligns lists of products, of the result and of the input's gradient.
const FORWARD: u64 = 4096;
const BACKWARD: u64 = 4224;

impl Blocked<'_> {
    /// The result.
    pub fn forward_channels_last(&self) -> Vec<Move> {
        let filters = Take(self.filters());
        // PyTorch permutes the filters, oneDNN copies them into blocks.
        let list = self.list(FORWARD).map(Take);
        let moves = [Output].into_iter().chain(list).chain([filters]);
        let gone = vec![Drop(0); 1 + list.iter().len()];
        match self.turns_filters() {
            true => [filters].into_iter().chain(moves).chain(gone).chain([Drop(0)]).collect(),
            false => moves.chain(gone).collect(),
        }
    }

    /// The gradients of input, filters and bias.
    pub fn backward_channels_last(&self) -> Vec<Move> {
        let filters = Take(self.filters());
        let turned = if self.turns_filters() { vec![filters] } else { vec![] };
        let given_back = turned.iter().map(|_| Drop(0)).collect::<Vec<_>>();
        let scratchpad = match self.kernel.is_strided() {
            true => Some(self.scratchpad_of_strided()).filter(|_| self.kernel.groups == 1),
            false => self.list(BACKWARD),
        };
        let scratchpad = scratchpad.into_iter().flat_map(|amount| [Take(amount), Drop(0)]);
        let input = [InputGradient(0), filters].into_iter().chain(scratchpad).chain([Drop(0)]);
        let bias = self.kernel.bias.then_some(WeightGradient(1));
        // The gradient of filters is copied once more into its layout (`to(memory_format)` in `mkldnn_convolution_backward_weights`).
        let gradient = self.filters_gradient();
        let [of_filters, of_bias] = self.shared(false).map(Take);
        let shared = [of_filters, of_bias, Drop(0), Drop(0)];
        let sums = self.sums_of(gradient).into_iter().chain(shared);
        let weight = [Take(gradient)].into_iter().chain(sums).chain([Take(self.plain_filters())]);
        let weight = weight.chain(bias).chain([WeightGradient(0), Drop(0), Drop(0)]);
        let weight = weight.filter(|_| self.learns());
        let input = input.filter(|_| self.operation.tracked(0));
        turned.into_iter().chain(input).chain(weight).chain(given_back).collect()
    }

    /// Sums of filters in single precision, while the gradient in fewer bits is computed.
    fn sums_of(&self, gradient: Amount) -> Vec<Move> {
        match self.sums_apart() {
            true => vec![Take(gradient.times(Number::Fp32.bytes()).divided_by(self.operation.number())), Drop(0)],
            false => Vec::new(),
        }
    }

    /// The lists of products of a kernel of one group that moves by one pixel or computes the result, in single precision.
    fn list(&self, aligned: u64) -> Option<Amount> {
        let has_list = self.kernel.groups == 1 && !self.sums_apart();
        has_list.then(|| self.unless_kept(Amount::once(lists(self.threads, self.kernel.area()) + aligned)))
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
