//! The terms of kernels on a GPU: products padded to its quantum, or Winograd's minimal filtering.

use super::term::TimeTerm;
use super::terms::{DeviceRules, KernelTerms, MILLION, convolution_query, round_up, small_batch};
use crate::features::physical::{FilterGeometry, Kernel, KernelPass, MatrixProduct};
use perf4sight_platform as platform;
use perf4sight_platform::SpeedParameter;

impl DeviceRules<'_> {
    pub(super) fn accelerator_terms(&self, kernel: &Kernel, batch: f64) -> KernelTerms {
        let [first, second] = match &kernel.product {
            None => [Some(self.movement(kernel, batch)), None],
            Some(product) => match self.winograd(kernel) {
                Some((tile, filter)) => self.filtering(&filter, tile, batch).map(Some),
                None => [self.product(kernel, product, batch), operands(kernel, batch)].map(Some),
            },
        };
        [first, second, None, None, None]
    }

    /// A matrix product whose rows are padded to the quantum.
    fn product(&self, kernel: &Kernel, product: &MatrixProduct, batch: f64) -> TimeTerm {
        let rows = product.rows.for_batch(batch);
        self.padded_product(kernel, product, batch, [rows, round_up(rows, self.speed.quantum) / rows])
    }

    /// The side of the output tile and the filter, where the device uses minimal filtering.
    fn winograd(&self, kernel: &Kernel) -> Option<(f64, FilterGeometry)> {
        let filter = kernel.filter?;
        let pass = match kernel.pass {
            KernelPass::Forward => platform::ConvolutionPass::Forward,
            KernelPass::InputGradient => platform::ConvolutionPass::InputGradient,
            KernelPass::WeightGradient => platform::ConvolutionPass::WeightGradient,
            KernelPass::Loss | KernelPass::Fork | KernelPass::Update => return None,
        };
        let tile = self
            .platform
            .workspaces
            .iter()
            .find_map(|workspace| workspace.winograd(&convolution_query(&filter), pass))?;
        Some((tile as f64, filter))
    }

    /// Minimal filtering, non-fused: transform tiles, multiply them point by point, transform back (A. Lavin and S. Gray, "Fast
    /// algorithms for convolutional neural networks", 2016).
    fn filtering(&self, filter: &FilterGeometry, tile: f64, batch: f64) -> [TimeTerm; 2] {
        let points = (tile + 2.0) * (tile + 2.0);
        let tiles = batch * filter.image.iter().map(|&side| (side as f64 / tile).ceil()).product::<f64>();
        let padded: f64 = filter.channels.iter().map(|&channels| round_up(channels, self.speed.quantum)).product();
        let [inputs, outputs] = filter.channels;
        let products = TimeTerm::new(2.0 * points * tiles * padded / MILLION, SpeedParameter::Winograd, [None; 2])
            .with_losses([(SpeedParameter::SmallBatchLoss, small_batch(batch))]);
        // Each transformed tensor is written and read once, four bytes an element.
        let moved = 8.0 * points * (tiles * (inputs + outputs) + inputs * outputs) / MILLION;
        [products, TimeTerm::new(moved, SpeedParameter::Bandwidth, [Some(SpeedParameter::WinogradTraffic), None])]
    }
}

/// The operands of a product, each read or written once.
fn operands(kernel: &Kernel, batch: f64) -> TimeTerm {
    TimeTerm::new(
        kernel.traffic.for_batch(batch) / MILLION,
        SpeedParameter::Bandwidth,
        [Some(SpeedParameter::Operands), None],
    )
}
