//! Latency rows of devices that were never built: any time for any network. The benches use it too.

use perf4sight_base::units::Milliseconds;
use perf4sight_cost::fingerprint::Row;
use perf4sight_cost::records::{Outcome, Reading, Record, Variant};
use perf4sight_network::Network;
use perf4sight_step::workload::Workload;
use std::sync::Arc;

/// One row of a network at a level, said to have been measured.
pub fn row(network: &Arc<Network>, variant: Variant, workload: Workload, milliseconds: f64) -> Row {
    let reading = Reading::Latency(Some(Milliseconds(milliseconds)));
    let record = Record::new(variant, workload, Outcome::Measured, reading);
    Row { record, measured: milliseconds, network: network.clone(), layers: Vec::new() }
}
