//! The order of layers in a table.

use super::sheet::LayerCosts;
use std::cmp::Reverse;

perf4sight_base::words! {
    /// The order of layers, or of modules next to each other.
    pub(super) enum LayerOrder: "order" {
        Run = "run",
        /// Most multiply-accumulates first, forward and backward together.
        Macs = "macs",
        Memory = "memory",
        Parameters = "parameters",
    }
}

impl LayerOrder {
    /// Sorts items by their costs; what costs the same stays as it was.
    pub fn sort<T>(self, items: &mut [T], costs: impl Fn(&T) -> LayerCosts) {
        let key = |costs: LayerCosts| match self {
            LayerOrder::Run => 0,
            LayerOrder::Macs => costs.macs[0].saturating_add(costs.macs[1]),
            LayerOrder::Memory => costs.bytes[1],
            LayerOrder::Parameters => costs.parameters,
        };
        items.sort_by_key(|item| Reverse(key(costs(item))));
    }
}
