//! Convolutions of channels-last images on a processor: oneDNN reads those without a copy, only filters are copied.
//!
//! Workspaces were measured in PyTorch 2.11 with its profiler, operation by operation (one and two threads, 5 to 11
//! wide kernels).

use super::blocked::BlockedConvolution;
use super::rule::RuleAction;
use super::rule::RuleAction::{Drop, InputGradient, Output, Take, WeightGradient};
use super::small_products::lists;
use crate::amount::{BatchBytes, product};
use perf4sight_step::workload::NumberFormat;

/// What aligns lists of products, of the result and of the input's gradient.
const FORWARD: u64 = 4096;
const BACKWARD: u64 = 4224;

impl BlockedConvolution<'_> {
    /// The result.
    pub fn forward_channels_last(&self) -> Vec<RuleAction> {
        self.with_turned_filters(self.result_channels_last())
    }

    /// The gradients of input, filters and bias.
    pub fn backward_channels_last(&self) -> Vec<RuleAction> {
        let input = if self.operation.requires_gradient(0) { self.input_gradient_channels_last() } else { Vec::new() };
        let weight =
            if self.trains_weights() { self.weight_gradient_channels_last(self.kernel.bias) } else { Vec::new() };
        self.with_turned_filters([input, weight].concat())
    }

    /// PyTorch permutes the filters, unless they are channels-last, before oneDNN copies them into blocks.
    pub fn with_turned_filters(&self, moves: Vec<RuleAction>) -> Vec<RuleAction> {
        match self.turns_filters() {
            true => [vec![Take(self.plain_filters())], moves, vec![Drop(0)]].concat(),
            false => moves,
        }
    }

    pub fn result_channels_last(&self) -> Vec<RuleAction> {
        let list = self.list(FORWARD).map(Take);
        let gone = vec![Drop(0); 1 + list.iter().len()];
        [Output].into_iter().chain(list).chain([Take(self.filters())]).chain(gone).collect()
    }

    pub fn input_gradient_channels_last(&self) -> Vec<RuleAction> {
        let scratchpad = match self.kernel.is_strided() {
            true => Some(self.scratchpad_of_strided()).filter(|_| self.kernel.groups == 1),
            false => self.list(BACKWARD),
        };
        let filters = match self.kernel.is_strided() {
            true if self.kernel.groups == 1 => self.filters_of_strided(),
            _ => self.filters_of_input_gradient(),
        };
        let scratchpad = scratchpad.into_iter().flat_map(|amount| [Take(amount), Drop(0)]);
        [InputGradient(0), Take(filters)].into_iter().chain(scratchpad).chain([Drop(0)]).collect()
    }

    pub fn weight_gradient_channels_last(&self, bias: bool) -> Vec<RuleAction> {
        // The gradient of filters is copied once more into its layout (`to(memory_format)` in `mkldnn_convolution_backward_weights`).
        let gradient = self.filters_gradient();
        let by_columns = self.kernel.reach.is_some_and(|reach| !reach.runs_weight_gradient(false));
        let shared: Vec<_> = match by_columns && !self.sums_apart() {
            true => vec![Take(self.held_by_columns(self.tensor(0).of_a_sample()))],
            false => self.shared_bytes(false).into_iter().chain(self.gathered_bytes()).map(Take).collect(),
        };
        let gone = vec![Drop(0); shared.len()];
        let sums = self.sums_of(gradient).into_iter().chain(shared).chain(gone);
        let weight = [Take(gradient)].into_iter().chain(sums).chain([Take(self.plain_filters())]);
        weight.chain(bias.then_some(WeightGradient(1))).chain([WeightGradient(0), Drop(0), Drop(0)]).collect()
    }

    /// Sums of filters in single precision, while the gradient in fewer bits is computed.
    fn sums_of(&self, gradient: BatchBytes) -> Vec<RuleAction> {
        match self.sums_apart() {
            true => vec![Take(gradient.times(NumberFormat::Fp32.bytes()).divided_by(self.operation.number())), Drop(0)],
            false => Vec::new(),
        }
    }

    /// The lists of products of a kernel of one group that moves by one pixel or computes the result, in single precision.
    fn list(&self, aligned: u64) -> Option<BatchBytes> {
        let has_list = self.kernel.groups == 1 && !self.sums_apart();
        has_list.then(|| self.unless_kept(BatchBytes::constant(lists(self.threads, self.kernel.area()) + aligned)))
    }

    fn turns_filters(&self) -> bool {
        self.kernel.groups == 1 && !self.kernel.is_point() && !self.operation.filters_are_channels_last()
    }

    /// The gradient of depthwise filters is a whole block of inputs and outputs for each where the kernel is larger
    /// than 3x3 or taller than the image (the layout gOIhw16i16o).
    fn filters_gradient(&self) -> BatchBytes {
        let each = self.kernel.groups > 1 && !self.has_depthwise_gradient();
        let elements = [self.kernel.groups as u64, self.kernel.area(), self.block, self.block];
        match each {
            true => BatchBytes::constant(product([self.operation.number()].into_iter().chain(elements))),
            false => self.filters(),
        }
    }
}
