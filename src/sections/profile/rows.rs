//! What became of a configuration, as the rows of its quantities.

use super::planned::Planned;
use crate::device::Measurement;
use crate::device::protocol::{LatencyReading, LayerTime, LayersReading, MemoryReading};
use crate::error::{Error, Result};
use crate::network::{Network, Node, onnx};
use crate::records::layers::{LayerRow, Operation, Pass};
use crate::records::{Attempt, MemoryColumns, Outcome, Reading, Record};
use crate::units::{Bytes, Milliseconds};
use crate::workload::Quantity;
use std::collections::BTreeMap;

/// The rows of one configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Of the whole step.
    pub records: Vec<Record>,
    /// Of its operations, the plain step last; none where the step failed.
    pub layers: Vec<LayerRow>,
    /// The runs behind them, with what the machine told.
    pub attempts: Vec<Attempt>,
}

impl Rows {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.records.len() + self.layers.len()
    }
}

/// The rows of a measurement; none of one that was interrupted.
pub(super) fn measured(planned: &Planned, measurement: &Measurement, capacity: Option<Bytes>) -> Vec<Record> {
    let Some(outcome) = measurement.outcome() else { return Vec::new() };
    let (latency, memory) = match measurement {
        Measurement::Measured { latency, memory, .. } => (latency.as_ref(), *memory),
        Measurement::OutOfMemory { memory, .. } => (None, *memory),
        Measurement::Broken { .. } | Measurement::Interrupted => (None, None),
    };
    let row = |quantity: Quantity| {
        let reading = match quantity {
            Quantity::Latency => Reading::Latency(latency.map(|latency| Milliseconds(latency.median))),
            Quantity::Memory => Reading::Memory(columns(memory, capacity)),
        };
        match (quantity, outcome) {
            // Memory is a peak, not a mean over samples: it stays the same, whoever else uses the processor and however slow it is.
            (Quantity::Memory, outcome) if outcome.doubtful() => record(planned, Outcome::Measured, reading, None),
            (Quantity::Memory, _) => record(planned, outcome, reading, None),
            (Quantity::Latency, _) => record(planned, outcome, reading, latency),
        }
    };
    planned.quantities().map(row).collect()
}

/// The rows of a configuration that is not run because a smaller batch ran out of memory.
pub(super) fn skipped(planned: &Planned, capacity: Option<Bytes>) -> Vec<Record> {
    let row = |quantity: Quantity| {
        let reading = match quantity {
            Quantity::Latency => Reading::Latency(None),
            Quantity::Memory => Reading::Memory(columns(None, capacity)),
        };
        record(planned, Outcome::Skipped, reading, None)
    };
    planned.quantities().map(row).collect()
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
        visits: latency.map(|latency| latency.median).into_iter().collect(),
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
        heap: memory.and_then(|memory| memory.heap).map(Bytes),
    }
}

/// The layer rows of a measurement, with what the network's file says of each node; none where there are no layers.
///
/// # Errors
/// A node that the network has not, by name.
pub(super) fn layers(planned: &Planned, measurement: &Measurement) -> Result<Vec<LayerRow>> {
    let Measurement::Measured { layers: Some(layers), .. } = measurement else { return Ok(Vec::new()) };
    let network = onnx::read(&planned.file)?.network;
    let nodes: BTreeMap<&str, &Node> = network.nodes().iter().map(|node| (node.name.as_str(), node)).collect();
    let outcome = measurement.outcome().unwrap_or(Outcome::Measured);
    let step = LayerTime { node: None, pass: Pass::Step, milliseconds: layers.step, spread: layers.step_spread };
    let row = |time: &LayerTime| {
        let operation = time.node.as_deref().map(|name| match nodes.get(name) {
            Some(node) => Ok(operation(&network, node)),
            None => Err(Error::device(format!("the worker timed {name}, which is no node here")).file(&planned.file)),
        });
        Ok(layer(planned, outcome, layers, time, operation.transpose()?))
    };
    layers.times.iter().chain([&step]).map(row).collect()
}

fn layer(
    planned: &Planned,
    outcome: Outcome,
    layers: &LayersReading,
    time: &LayerTime,
    operation: Option<Operation>,
) -> LayerRow {
    LayerRow {
        variant: planned.configuration.variant.clone(),
        workload: planned.configuration.workload,
        dataset: planned.dataset.clone(),
        file: planned.file.clone(),
        operation,
        pass: time.pass,
        time: Milliseconds(time.milliseconds),
        steps: layers.steps,
        spread: time.spread,
        outcome,
    }
}

fn operation(network: &Network, node: &Node) -> Operation {
    Operation {
        node: node.name.clone(),
        op: node.op.kind().to_owned(),
        inputs: (0..node.inputs.len()).map(|input| network.input_of(node, input).dims().to_vec()).collect(),
        output: node.shape.dims().to_vec(),
        parameters: network.parameters_of(node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Conditions, Moment};
    use crate::plan::Configuration;
    use crate::records::Variant;
    use crate::workload::{Stage, Variable, Workload};

    #[test]
    fn only_the_time_suffers_from_others_and_from_heat() {
        let (variant, workload) = (Variant::new("net", 0), Workload::published(Stage::Training, 4));
        let configuration = Configuration { variant, workload, variables: Variable::ALL.to_vec(), round: 1 };
        let planned = Planned { configuration, file: "net_0.onnx".into(), dataset: "imagenet".into() };
        let latency = LatencyReading { median: 2.5, spread: 0.3, steps: 4, discarded: 9, disturbed: true };
        let memory = MemoryReading {
            allocated: 1 << 20,
            reserved: 2 << 20,
            used: 3 << 20,
            available: 9,
            free: 8,
            ..MemoryReading::default()
        };
        let measured_under = |latency: LatencyReading, conditions| {
            let (latency, memory, conditions) = (Some(latency), Some(memory), Box::new(conditions));
            let measurement = Measurement::Measured { latency, memory, layers: None, seconds: 0.0, conditions };
            measured(&planned, &measurement, Some(Bytes(1 << 30)))
        };
        let outcomes = |rows: &[Record]| rows.iter().map(|row| row.outcome).collect::<Vec<_>>();
        let rows = measured_under(latency.clone(), Conditions::default());
        assert_eq!(outcomes(&rows), [Outcome::Disturbed, Outcome::Measured]);
        assert_eq!(rows.iter().map(|row| row.steps).collect::<Vec<_>>(), [Some(4), None]);
        assert_eq!(rows.iter().map(Record::value).collect::<Vec<_>>(), [Some(2.5), Some(3.0)]);

        let held = Moment { held_by: vec!["cpufreq-cpu0".to_owned()], ..Moment::default() };
        let hot = Conditions { end: held, ..Conditions::default() };
        let rows = measured_under(LatencyReading { disturbed: false, ..latency }, hot);
        assert_eq!(outcomes(&rows), [Outcome::Throttled, Outcome::Measured]);
    }
}
