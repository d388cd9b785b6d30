//! Checks a worker's reply for impossible readings, and rejects it if it has any, whichever worker sent it.
//!
//! The bounds need no measurement: nothing in a step takes longer than the worker's time limit, the interval of a
//! median is within the range of its samples, a step holds tensors, and no machine has a pebibyte of memory.

use super::protocol::{LatencyReading, LayersReading, MemoryReading, WorkerReply};
use crate::records::layers::StepPart;
use perf4sight_machine::MachineState;
use std::time::Duration;

/// No memory counter reaches this value.
const MOST_BYTES: u64 = 1 << 50;

/// A step that runs at all takes longer than a cycle of any processor.
const LEAST_SECONDS: f64 = 1e-9;

/// A process uses whole pages, which are at least this large, and no system runs with less available memory than the
/// minimum.
const PAGE: u64 = 4096;
const LEAST_AVAILABLE: u64 = 1 << 20;

/// Memory used beyond the available memory belongs to other programs or is swapped out, so it is bounded by a multiple
/// and an offset.
const BEYOND: u64 = 4;
const BESIDE: u64 = 64 << 30;

/// No clock in MHz, temperature in degrees or power in watts reaches this value; the second bound is on seconds since
/// a machine started.
const MOST_READ: f64 = 1e6;
const MOST_SECONDS: f64 = 1e12;

/// A finding, phrased to follow "the worker measured".
type ImpossibleReading = Option<&'static str>;

/// The first impossible reading of a reply from a worker with the time limit `limit`, if there is one.
pub(super) fn impossible(reply: &WorkerReply, limit: Duration) -> ImpossibleReading {
    let limit = limit.as_secs_f64();
    match reply {
        WorkerReply::Failed { .. } => None,
        // Counters of a step that ran out of memory early may be anything from 0 on.
        WorkerReply::OutOfMemory { memory, seconds } => endless(*seconds, limit).or_else(|| absurd(memory)),
        WorkerReply::Measured { latency, memory, layers, seconds, conditions } => endless(*seconds, limit)
            .or_else(|| [&conditions.start, &conditions.end].into_iter().find_map(read))
            .or_else(|| latency.as_ref().and_then(|latency| check_latency(latency, limit)))
            .or_else(|| memory.as_ref().and_then(check_memory))
            .or_else(|| layers.as_ref().and_then(|layers| check_layers(layers, limit))),
    }
}

fn endless(seconds: f64, limit: f64) -> ImpossibleReading {
    (!(0.0..=limit).contains(&seconds)).then_some("impossible seconds of work")
}

/// At least half of the steps took as long as the median or longer.
fn check_latency(reading: &LatencyReading, limit: f64) -> ImpossibleReading {
    let LatencyReading { median, spread, steps, .. } = *reading;
    median_of_steps(median, spread, steps, limit)
}

fn median_of_steps(milliseconds: f64, spread: f64, steps: usize, limit: f64) -> ImpossibleReading {
    let seconds = milliseconds / 1e3;
    if !(seconds >= LEAST_SECONDS && seconds * (steps as f64 / 2.0).max(1.0) <= limit) {
        return Some("an impossible time");
    }
    if steps == 0 {
        return Some("an impossible time of no steps");
    }
    (!(spread >= 0.0 && spread * seconds <= limit)).then_some("an impossible spread of times")
}

fn check_layers(reading: &LayersReading, limit: f64) -> ImpossibleReading {
    let LayersReading { step, step_spread, steps, times, .. } = reading;
    median_of_steps(*step, *step_spread, *steps, limit).or_else(|| {
        times.iter().find_map(|time| {
            let of_node = matches!(time.pass, StepPart::Forward | StepPart::Backward);
            if time.pass == StepPart::Step || of_node != time.node.is_some() {
                return Some("an operation's time in an impossible pass");
            }
            median_of_steps(time.milliseconds, time.spread, *steps, limit)
        })
    })
}

fn check_memory(reading: &MemoryReading) -> ImpossibleReading {
    let MemoryReading { allocated, reserved, used, available, heap, .. } = *reading;
    let most = available.saturating_mul(BEYOND).saturating_add(BESIDE);
    let findings = [
        ([allocated, reserved, used, available].contains(&0), "impossible memory: nothing at all"),
        (used < PAGE || available < LEAST_AVAILABLE, "impossible memory: less than any process or system has"),
        (allocated > reserved, "impossible memory: more in tensors than was taken for them"),
        (
            [reserved, used, heap.unwrap_or(0)].iter().any(|&bytes| bytes > most),
            "impossible memory: many times what was available",
        ),
    ];
    findings.into_iter().find_map(|(found, what)| found.then_some(what)).or_else(|| absurd(reading))
}

/// Values that a machine cannot truthfully report about itself.
fn read(moment: &MachineState) -> ImpossibleReading {
    let MachineState { clocks, promised, temperatures, powers, busy, stolen, .. } = moment;
    let readings = || [clocks, promised, temperatures, powers].into_iter().flatten();
    let seconds = || busy.iter().chain(stolen);
    if readings().any(|(name, _)| name.contains(char::is_control)) {
        return Some("something under an impossible name");
    }
    let possible = readings().all(|(_, value)| value.abs() <= MOST_READ)
        && seconds().all(|value| (0.0..=MOST_SECONDS).contains(value));
    (!possible).then_some("impossible clocks, temperatures, powers or times of the machine")
}

fn absurd(reading: &MemoryReading) -> ImpossibleReading {
    let MemoryReading { allocated, reserved, used, available, free, heap, .. } = *reading;
    let counters = [allocated, reserved, used, available, free, heap.unwrap_or(0)];
    counters.iter().any(|&bytes| bytes >= MOST_BYTES).then_some("more memory than any machine has")
}
