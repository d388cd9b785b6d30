//! Converts a measurement to rows of a profile, and rows to a device's readings.

use super::protocol::{LatencyReading, LayerTime, LayersReading, MemoryReading};
use super::{Measurement, MeasurementJob};
use crate::records::layers::{LayerOperation, LayerRecord, StepPart};
use crate::records::{MeasurementOutcome, MemoryColumns, RowReading, RowRecord};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_network::{Network, Node};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

impl MeasurementJob {
    /// The quantities of the whole step that are measured.
    pub fn quantities(&self) -> impl Iterator<Item = Quantity> {
        let latency = self.latency.then_some(Quantity::Latency);
        latency.into_iter().chain(self.memory.then_some(Quantity::Memory))
    }

    /// The rows of a job that is not run because a smaller batch ran out of memory; `capacity` is the device's total
    /// memory.
    pub fn skipped_rows(&self, dataset: &str, capacity: Option<Bytes>) -> Vec<RowRecord> {
        let row = |quantity| self.row(dataset, MeasurementOutcome::Skipped, reading(quantity, None, None, capacity));
        self.quantities().map(row).collect()
    }

    fn row(&self, dataset: &str, outcome: MeasurementOutcome, reading: RowReading) -> RowRecord {
        let (dataset, file) = (dataset.to_owned(), self.file.clone());
        RowRecord { dataset, file, ..RowRecord::new(self.variant.clone(), self.workload, outcome, reading) }
    }
}

impl Measurement {
    /// The rows of a job with a network of `dataset`, on a device with `capacity` of total memory; none if it was
    /// interrupted.
    pub fn rows(&self, job: &MeasurementJob, dataset: &str, capacity: Option<Bytes>) -> Vec<RowRecord> {
        let Some(outcome) = self.outcome() else { return Vec::new() };
        let (latency, memory) = match self {
            Measurement::Measured { latency, memory, .. } => (latency.as_ref(), *memory),
            Measurement::OutOfMemory { memory, .. } => (None, *memory),
            Measurement::Broken { .. } | Measurement::Interrupted => (None, None),
        };
        let row = |quantity| {
            let reading = reading(quantity, latency, memory, capacity);
            match quantity {
                // Memory is a peak, not a mean of samples: other programs and a slower processor do not change it.
                Quantity::Memory if outcome.doubtful() => job.row(dataset, MeasurementOutcome::Measured, reading),
                Quantity::Memory => job.row(dataset, outcome, reading),
                Quantity::Latency => RowRecord {
                    steps: latency.map(|latency| latency.steps),
                    spread: latency.map(|latency| latency.spread),
                    visits: latency.map(|latency| latency.median).into_iter().collect(),
                    ..job.row(dataset, outcome, reading)
                },
            }
        };
        job.quantities().map(row).collect()
    }

    /// The rows of the operations, with the details of each from the network's file, then the plain step; none if they
    /// were not timed.
    ///
    /// # Errors
    /// The name of a node that the network does not have.
    pub fn layers(&self, job: &MeasurementJob, dataset: &str) -> Result<Vec<LayerRecord>> {
        let Measurement::Measured { layers: Some(layers), .. } = self else { return Ok(Vec::new()) };
        let network = onnx::read(&job.file)?.network;
        let nodes: BTreeMap<&str, &Node> = network.nodes().iter().map(|node| (node.name.as_str(), node)).collect();
        let outcome = self.outcome().unwrap_or(MeasurementOutcome::Measured);
        let step =
            LayerTime { node: None, pass: StepPart::Step, milliseconds: layers.step, spread: layers.step_spread };
        let row = |time: &LayerTime| {
            let operation = time.node.as_deref().map(|name| match nodes.get(name) {
                Some(node) => Ok(operation(&network, node)),
                None => {
                    Err(Error::device(format!("the worker timed {name}, which is not a node here")).file(&job.file))
                }
            });
            let record = with_layer_time(
                job.row(dataset, outcome, RowReading::Latency(Some(Milliseconds(time.milliseconds)))),
                layers,
                time,
            );
            Ok(LayerRecord { record, operation: operation.transpose()?, pass: time.pass })
        };
        layers.times.iter().chain([&step]).map(row).collect()
    }
}

fn with_layer_time(record: RowRecord, layers: &LayersReading, time: &LayerTime) -> RowRecord {
    RowRecord { steps: Some(layers.steps), spread: Some(time.spread), ..record }
}

fn operation(network: &Network, node: &Node) -> LayerOperation {
    LayerOperation {
        node: node.name.clone(),
        op: node.op.kind().to_owned(),
        inputs: (0..node.inputs.len()).map(|input| network.input_of(node, input).dims().to_vec()).collect(),
        output: node.shape.dims().to_vec(),
        parameters: network.parameters_of(node),
    }
}

fn reading(
    quantity: Quantity,
    latency: Option<&LatencyReading>,
    memory: Option<MemoryReading>,
    capacity: Option<Bytes>,
) -> RowReading {
    match quantity {
        Quantity::Latency => RowReading::Latency(latency.map(|latency| Milliseconds(latency.median))),
        Quantity::Memory => {
            let columns = memory.map_or_else(MemoryColumns::default, |memory| MemoryColumns {
                allocated: Some(Bytes(memory.allocated)),
                reserved: Some(Bytes(memory.reserved)),
                used: Some(Bytes(memory.used)),
                available: Some(Bytes(memory.available)),
                free: Some(Bytes(memory.free)),
                capacity: None,
                heap: memory.heap.map(Bytes),
            });
            RowReading::Memory(MemoryColumns { capacity, ..columns })
        }
    }
}

pub(super) fn latency(row: &RowRecord) -> Option<LatencyReading> {
    let RowReading::Latency(Some(latency)) = row.reading else { return None };
    Some(LatencyReading {
        median: latency.0,
        spread: row.spread.unwrap_or(0.0),
        // The published rows are means of 3 steps.
        steps: row.steps.unwrap_or(3),
        discarded: 0,
        disturbed: row.outcome == MeasurementOutcome::Disturbed,
    })
}

pub(super) fn memory(row: &RowRecord) -> Option<MemoryReading> {
    let RowReading::Memory(MemoryColumns { allocated, reserved, used, available, free, heap, .. }) = row.reading else {
        return None;
    };
    Some(MemoryReading {
        allocated: allocated?.0,
        reserved: reserved?.0,
        used: used?.0,
        available: available?.0,
        free: free.or(available)?.0,
        heap: heap.map(|heap| heap.0),
        ..MemoryReading::default()
    })
}
