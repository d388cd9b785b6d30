//! The order of layers in a table.

use super::sheet::Costs;
use std::cmp::Reverse;

perf4sight_base::words! {
    /// The order of layers, or of modules next to each other.
    pub(super) enum Order: "order" {
        Run = "run",
        /// Most multiply-accumulates first, forward and backward together.
        Macs = "macs",
        Memory = "memory",
        Parameters = "parameters",
    }
}

impl Order {
    /// Sorts items by their costs; what costs the same stays as it was.
    pub fn sort<T>(self, items: &mut [T], costs: impl Fn(&T) -> Costs) {
        let key = |costs: Costs| match self {
            Order::Run => 0,
            Order::Macs => costs.macs[0].saturating_add(costs.macs[1]),
            Order::Memory => costs.bytes[1],
            Order::Parameters => costs.parameters,
        };
        items.sort_by_key(|item| Reverse(key(costs(item))));
    }
}
