//! One configuration, run and counted.

use super::allocator;
use super::process::{self, Idle};
use super::step::Step;
use crate::device::protocol::{LatencyReading, Reply, Request};
use crate::device::sampling::{Sample, time_steps};
use crate::network::Network;
use std::time::Instant;
use tch::TchError;

/// Runs what a request asks for in this process, which must not have run libtorch before.
///
/// Memory is the highest peak of all steps. The published tool averages the peaks of a warm-up, which has no optimizer state yet,
/// and three steps; the highest is what has to fit, and it repeats to the byte.
pub(super) fn measure(request: &Request, network: &Network) -> Reply {
    tch::set_num_threads(request.threads as i32);
    tch::set_num_interop_threads(1);
    tch::manual_seed(request.seed as i64);
    allocator::install(request.mem_limit);
    let idle = Idle::take();
    match run(request, network) {
        Ok(latency) => {
            let memory = request.memory.then(|| idle.reading(allocator::peak()));
            Reply::Measured { latency, memory }
        }
        Err(_) if allocator::refused() => Reply::OutOfMemory { memory: idle.reading(allocator::peak()) },
        Err(problem) => Reply::Failed { reason: without_frames(&problem) },
    }
}

/// Warm-up and steps; the steps that are timed are the ones whose memory is counted.
fn run(request: &Request, network: &Network) -> Result<Option<LatencyReading>, TchError> {
    let mut step = Step::new(network, request.workload)?;
    // The first step allocates optimizer state, compiles oneDNN's kernels and faults its memory in.
    step.run()?;
    if request.latency {
        return time_steps(&request.steps, request.threads, || timed(&mut step)).map(Some);
    }
    (0..request.steps.minimum).try_for_each(|_| step.run())?;
    Ok(None)
}

fn timed(step: &mut Step) -> Result<Sample, TchError> {
    let before = process::load();
    let start = Instant::now();
    step.run()?;
    let wall = start.elapsed();
    Ok(Sample { wall, load: process::load().since(before) })
}

/// libtorch's message without the C++ stack behind it.
fn without_frames(problem: &TchError) -> String {
    let text = problem.to_string();
    text.split("\nException raised from").next().unwrap_or(&text).trim_end().to_string()
}
