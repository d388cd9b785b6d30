//! Latency rows of devices that were never built: any time for any network. The benches use it too.

use perf4sight_base::units::Milliseconds;
use perf4sight_cost::fingerprint::MeasuredRow;
use perf4sight_cost::records::{MeasurementOutcome, RowReading, RowRecord, Variant};
use perf4sight_network::Network;
use perf4sight_step::workload::Workload;
use std::sync::Arc;

/// One row of a network at a level, said to have been measured.
pub fn row(network: &Arc<Network>, variant: Variant, workload: Workload, milliseconds: f64) -> MeasuredRow {
    let reading = RowReading::Latency(Some(Milliseconds(milliseconds)));
    let record = RowRecord::new(variant, workload, MeasurementOutcome::Measured, reading);
    MeasuredRow { record, measured: milliseconds, network: network.clone(), layers: Vec::new() }
}
