//! Made-up clusters whose true step time is known by formula: ranks in a ring, stragglers, jitter, clocks that are off.

mod cluster;
mod observed;

pub use cluster::{SyntheticCluster, SyntheticStep, cluster};
pub use observed::write_traces;
