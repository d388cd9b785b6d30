//! The plan's maximum number of rows, fixed before any measurement.

use crate::plan::Configuration;
use perf4sight_step::workload::{Quantity, Step};
use std::collections::{BTreeMap, BTreeSet};

/// The share of all rows that the plan measures.
const SHARE: f64 = 0.15;

/// The minimum number of rows of each network and stage, where there are as many: fewer cannot be fitted.
const ROWS_OF_NETWORK: usize = 12;

/// The minimum number of rows before estimates, and the maximum number of each quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowShare {
    /// The number of rows before the first estimate.
    pub least: usize,
    /// The maximum number of rows of each quantity.
    pub most: BTreeMap<Quantity, usize>,
}

impl RowShare {
    /// How much of these configurations is measured.
    pub fn from_configurations<'a>(configurations: impl IntoIterator<Item = &'a Configuration>) -> Self {
        let mut offered: BTreeMap<Quantity, usize> = BTreeMap::new();
        let mut networks: BTreeSet<(&str, Step)> = BTreeSet::new();
        for Configuration { variant, workload, variables, .. } in configurations {
            networks.insert((&variant.network, workload.step));
            let quantities = variables.iter().filter_map(|variable| variable.quantity());
            quantities.for_each(|quantity| *offered.entry(quantity).or_default() += 1);
        }
        let least = ROWS_OF_NETWORK * networks.len();
        let most = |rows: usize| ((SHARE * rows as f64) as usize).max(least.min(rows));
        RowShare { least, most: offered.into_iter().map(|(quantity, rows)| (quantity, most(rows))).collect() }
    }

    /// At most this many configurations are measured.
    pub fn configurations(&self) -> usize {
        self.most.values().copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Variant;
    use perf4sight_step::workload::{Stage, Variable, Workload};

    fn configurations(networks: usize, batches: u64) -> Vec<Configuration> {
        let names = (0..networks).map(|network| format!("net-{network}"));
        let pairs = names.flat_map(|name| (1..=batches).map(move |batch| (name.clone(), batch)));
        let configuration = |(name, batch): (String, u64)| Configuration {
            variant: Variant::new(&name, 0),
            workload: Workload::published(Stage::Training, batch),
            variables: vec![Variable::Latency, Variable::Layers],
            round: 1,
        };
        pairs.map(configuration).collect()
    }

    #[test]
    fn a_share_of_many_rows_and_enough_of_few() {
        let most = |networks, batches| {
            RowShare::from_configurations(&configurations(networks, batches)).most[&Quantity::Latency]
        };
        assert_eq!(most(2, 500), 150, "15 % of 1000");
        assert_eq!(most(2, 50), 24, "12 of each network");
        assert_eq!(most(2, 5), 10, "all there are");
        assert_eq!(RowShare::from_configurations(&configurations(2, 50)).most.len(), 1, "layers come with latency");
    }
}
