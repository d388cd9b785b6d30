//! What a worker can have measured: readings that no machine gives are no measurements, whoever says them.
//!
//! The bounds come from what is known without measuring: nothing in a step takes longer than the worker was given, the interval of a
//! median lies between its samples, a step holds tensors, and no machine has a pebibyte of memory.

use super::protocol::{LatencyReading, LayersReading, MemoryReading, Reply};
use crate::records::layers::Pass;
use std::time::Duration;

/// No counter of memory gets this far.
const MOST_BYTES: u64 = 1 << 50;

/// A finding, in words that fit behind "the worker measured".
type Finding = Option<&'static str>;

/// What in a reply is impossible for a worker that was given `limit`, if anything.
pub(super) fn impossible(reply: &Reply, limit: Duration) -> Finding {
    let limit = limit.as_secs_f64();
    match reply {
        Reply::Failed { .. } => None,
        // Counters of a step that did not come far may be anything from 0 on.
        Reply::OutOfMemory { memory, seconds } => endless(*seconds, limit).or_else(|| absurd(memory)),
        Reply::Measured { latency, memory, layers, seconds, .. } => endless(*seconds, limit)
            .or_else(|| latency.as_ref().and_then(|latency| timed(latency, limit)))
            .or_else(|| memory.as_ref().and_then(counted))
            .or_else(|| layers.as_ref().and_then(|layers| laps(layers, limit))),
    }
}

fn endless(seconds: f64, limit: f64) -> Finding {
    (!(0.0..=limit).contains(&seconds)).then_some("impossible seconds of work")
}

/// At least half of the steps took as long as the median or longer.
fn timed(reading: &LatencyReading, limit: f64) -> Finding {
    let LatencyReading { median, spread, steps, .. } = *reading;
    median_of_steps(median, spread, steps, limit)
}

fn median_of_steps(milliseconds: f64, spread: f64, steps: usize, limit: f64) -> Finding {
    let seconds = milliseconds / 1e3;
    if !(seconds > 0.0 && seconds * (steps as f64 / 2.0).max(1.0) <= limit) {
        return Some("an impossible time");
    }
    if steps == 0 {
        return Some("an impossible time of no steps");
    }
    (!(spread >= 0.0 && spread * seconds <= limit)).then_some("an impossible spread of times")
}

fn laps(reading: &LayersReading, limit: f64) -> Finding {
    let LayersReading { step, step_spread, steps, times, .. } = reading;
    median_of_steps(*step, *step_spread, *steps, limit).or_else(|| {
        times.iter().find_map(|time| {
            let of_node = matches!(time.pass, Pass::Forward | Pass::Backward);
            if time.pass == Pass::Step || of_node != time.node.is_some() {
                return Some("an operation's time in an impossible pass");
            }
            median_of_steps(time.milliseconds, time.spread, *steps, limit)
        })
    })
}

fn counted(reading: &MemoryReading) -> Finding {
    let MemoryReading { allocated, reserved, used, available, .. } = *reading;
    let nothing = [allocated, reserved, used, available].contains(&0);
    nothing.then_some("impossible memory: nothing at all").or_else(|| absurd(reading))
}

fn absurd(reading: &MemoryReading) -> Finding {
    let MemoryReading { allocated, reserved, used, available, free, heap, .. } = *reading;
    let counters = [allocated, reserved, used, available, free, heap.unwrap_or(0)];
    counters.iter().any(|&bytes| bytes >= MOST_BYTES).then_some("more memory than any machine has")
}
