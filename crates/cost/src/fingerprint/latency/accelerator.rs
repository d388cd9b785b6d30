//! The terms of kernels on a GPU: products padded to its quantum, or Winograd's minimal filtering.

use super::term::Term;
use super::terms::{KernelTerms, MILLION, Rules, asked, small_batch, up};
use crate::features::physical::{Filter, Kernel, Pass, Product};
use perf4sight_platform as platform;
use perf4sight_platform::Parameter;

impl Rules<'_> {
    pub(super) fn accelerated(&self, kernel: &Kernel, batch: f64) -> KernelTerms {
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
    fn product(&self, kernel: &Kernel, product: &Product, batch: f64) -> Term {
        let rows = product.rows.at(batch);
        self.padded(kernel, product, batch, [rows, up(rows, self.speed.quantum) / rows])
    }

    /// The side of the output tile and the filter, where the device uses minimal filtering.
    fn winograd(&self, kernel: &Kernel) -> Option<(f64, Filter)> {
        let filter = kernel.filter?;
        let pass = match kernel.pass {
            Pass::Forward => platform::Pass::Forward,
            Pass::InputGradient => platform::Pass::InputGradient,
            Pass::WeightGradient => platform::Pass::WeightGradient,
            Pass::Loss | Pass::Fork | Pass::Update => return None,
        };
        let tile = self.platform.workspaces.iter().find_map(|workspace| workspace.winograd(&asked(&filter), pass))?;
        Some((tile as f64, filter))
    }

    /// Minimal filtering, non-fused: transform tiles, multiply them point by point, transform back (A. Lavin and S. Gray, "Fast
    /// algorithms for convolutional neural networks", 2016).
    fn filtering(&self, filter: &Filter, tile: f64, batch: f64) -> [Term; 2] {
        let points = (tile + 2.0) * (tile + 2.0);
        let tiles = batch * filter.image.iter().map(|&side| (side as f64 / tile).ceil()).product::<f64>();
        let padded: f64 = filter.channels.iter().map(|&channels| up(channels, self.speed.quantum)).product();
        let [inputs, outputs] = filter.channels;
        let products = Term::new(2.0 * points * tiles * padded / MILLION, Parameter::Winograd, [None; 2])
            .losing([(Parameter::SmallBatchLoss, small_batch(batch))]);
        // Each transformed tensor is written and read once, four bytes an element.
        let moved = 8.0 * points * (tiles * (inputs + outputs) + inputs * outputs) / MILLION;
        [products, Term::new(moved, Parameter::Bandwidth, [Some(Parameter::WinogradTraffic), None])]
    }
}

/// The operands of a product, each read or written once.
fn operands(kernel: &Kernel, batch: f64) -> Term {
    Term::new(kernel.traffic.at(batch) / MILLION, Parameter::Bandwidth, [Some(Parameter::Operands), None])
}
