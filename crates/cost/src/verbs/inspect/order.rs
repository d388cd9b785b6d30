//! The order of layers in a table.

use super::sheet::Costs;
use perf4sight_base::error::{Error, Result};
use std::cmp::Reverse;

/// The order of layers, or of modules next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// As they run.
    #[default]
    Run,
    /// Most multiply-accumulates first, forward and backward together.
    Macs,
    /// Largest results first.
    Memory,
    /// Most parameters first.
    Parameters,
}

impl Order {
    pub const ALL: [Order; 4] = [Order::Run, Order::Macs, Order::Memory, Order::Parameters];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Order::Run => "run",
            Order::Macs => "macs",
            Order::Memory => "memory",
            Order::Parameters => "parameters",
        }
    }

    /// The order of that name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(word: &str) -> Result<Self> {
        let unknown = || Error::config(format!("unknown order \"{word}\"")).one_of(word, Self::ALL.map(Self::name));
        Self::ALL.into_iter().find(|order| order.name() == word).ok_or_else(unknown)
    }

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
