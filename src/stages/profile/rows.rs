//! What became of a configuration, as the rows of its quantities.

use super::planned::Planned;
use crate::device::Measurement;
use crate::device::protocol::{LatencyReading, MemoryReading};
use crate::records::{MemoryColumns, Outcome, Reading, Record};
use crate::units::{Bytes, Milliseconds};
use crate::workload::Quantity;

/// The rows of a measurement; none of one that was interrupted.
pub(super) fn measured(
    planned: &Planned,
    quantities: &[Quantity],
    measurement: &Measurement,
    capacity: Option<Bytes>,
) -> Vec<Record> {
    let Some(outcome) = measurement.outcome() else { return Vec::new() };
    let (latency, memory) = match measurement {
        Measurement::Measured { latency, memory } => (latency.as_ref(), *memory),
        Measurement::OutOfMemory { memory } => (None, *memory),
        Measurement::Broken { .. } | Measurement::Interrupted => (None, None),
    };
    let row = |&quantity: &Quantity| {
        let reading = match quantity {
            Quantity::Latency => Reading::Latency(latency.map(|latency| Milliseconds(latency.median))),
            Quantity::Memory => Reading::Memory(columns(memory, capacity)),
        };
        match (quantity, outcome) {
            // Memory is a peak, not a mean over samples: whoever else uses the processor, it stays the same.
            (Quantity::Memory, Outcome::Disturbed) => record(planned, Outcome::Measured, reading, None),
            (Quantity::Memory, _) => record(planned, outcome, reading, None),
            (Quantity::Latency, _) => record(planned, outcome, reading, latency),
        }
    };
    quantities.iter().map(row).collect()
}

/// The rows of a configuration that is not run because a smaller batch failed.
pub(super) fn skipped(planned: &Planned, quantities: &[Quantity], capacity: Option<Bytes>) -> Vec<Record> {
    let row = |&quantity: &Quantity| {
        let reading = match quantity {
            Quantity::Latency => Reading::Latency(None),
            Quantity::Memory => Reading::Memory(columns(None, capacity)),
        };
        record(planned, Outcome::Skipped, reading, None)
    };
    quantities.iter().map(row).collect()
}

fn record(planned: &Planned, outcome: Outcome, reading: Reading, latency: Option<&LatencyReading>) -> Record {
    Record {
        variant: planned.configuration.variant.clone(),
        workload: planned.configuration.workload,
        dataset: planned.dataset.clone(),
        file: planned.file.clone(),
        outcome,
        reading,
        steps: latency.map(|latency| latency.steps),
        spread: latency.map(|latency| latency.spread),
    }
}

fn columns(memory: Option<MemoryReading>, capacity: Option<Bytes>) -> MemoryColumns {
    let bytes = |value: fn(&MemoryReading) -> u64| memory.as_ref().map(|memory| Bytes(value(memory)));
    MemoryColumns {
        allocated: bytes(|memory| memory.allocated),
        reserved: bytes(|memory| memory.reserved),
        used: bytes(|memory| memory.used),
        available: bytes(|memory| memory.available),
        free: bytes(|memory| memory.free),
        capacity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Configuration;
    use crate::records::Variant;
    use crate::workload::{Stage, Workload};

    #[test]
    fn only_the_time_is_disturbed_by_others() {
        let (variant, workload) = (Variant::new("net", 0), Workload { stage: Stage::Training, batch: 4 });
        let configuration = Configuration { variant, workload, quantities: Quantity::ALL.to_vec() };
        let planned = Planned { configuration, file: "net_0.onnx".into(), dataset: "imagenet".into() };
        let latency = LatencyReading { median: 2.5, spread: 0.3, steps: 4, discarded: 9, disturbed: true };
        let memory = MemoryReading { allocated: 1 << 20, reserved: 2 << 20, used: 3 << 20, available: 9, free: 8 };
        let measurement = Measurement::Measured { latency: Some(latency), memory: Some(memory) };
        let rows = measured(&planned, &Quantity::ALL, &measurement, Some(Bytes(1 << 30)));
        assert_eq!(rows.iter().map(|row| row.outcome).collect::<Vec<_>>(), [Outcome::Disturbed, Outcome::Measured]);
        assert_eq!(rows.iter().map(|row| row.steps).collect::<Vec<_>>(), [Some(4), None]);
        assert_eq!(rows.iter().map(Record::value).collect::<Vec<_>>(), [Some(2.5), Some(3.0)]);
    }
}
