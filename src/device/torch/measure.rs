//! One configuration, run and counted.

use super::allocator;
use super::laps::{self, Stopwatch};
use super::process::{self, Idle};
use super::step::Step;
use crate::device::board;
use crate::device::protocol::{LatencyReading, LayersReading, MemoryReading, Reply, Request};
use crate::device::sampling::{LapSamples, Sample, time_steps, warm_up};
use crate::network::Network;
use crate::records::Conditions;
use std::path::Path;
use std::time::Instant;
use tch::TchError;

/// What a request asks for, as far as it was measured.
#[derive(Default)]
struct Readings {
    latency: Option<LatencyReading>,
    memory: Option<MemoryReading>,
    layers: Option<LayersReading>,
}

/// Runs what a request asks for in this process, which must not have run libtorch before.
pub(super) fn measure(request: &Request, network: &Network) -> Reply {
    tch::set_num_threads(request.threads as i32);
    tch::set_num_interop_threads(1);
    tch::manual_seed(request.seed as i64);
    allocator::install(request.mem_limit);
    let (idle, start) = (Idle::take(), board::moment(Path::new("/")));
    let began = Instant::now();
    let outcome = run(request, network, &idle);
    let seconds = began.elapsed().as_secs_f64();
    let conditions = Box::new(Conditions { start, end: board::moment(Path::new("/")) });
    match outcome {
        Ok(Readings { latency, memory, layers }) => Reply::Measured { latency, memory, layers, seconds, conditions },
        Err(_) if allocator::refused() => Reply::OutOfMemory { memory: idle.reading(allocator::peak()), seconds },
        Err(problem) => Reply::Failed { reason: without_frames(&problem) },
    }
}

/// A warm-up, in which memory is read where it was asked for, then the timed steps.
fn run(request: &Request, network: &Network, idle: &Idle) -> Result<Readings, TchError> {
    allocator::map_large(request.memory);
    let mut step = Step::new(network, request.workload)?;
    // The first step allocates optimizer state, compiles oneDNN's kernels and faults its memory in.
    step.run()?;
    let mut readings = Readings::default();
    if request.memory {
        readings.memory = Some(memory(&mut step, idle)?);
    }
    if request.latency || request.layers {
        // Blocks that were mapped until here stay; the first steps on the heap have it to build up.
        allocator::map_large(false);
        process::forget_peak();
        warm_up(&request.steps, || timed(|| step.run()))?;
        time(request, network, &mut step, &mut readings)?;
        readings.memory = readings.memory.map(|memory| MemoryReading { heap: Some(idle.peak()), ..memory });
    }
    Ok(readings)
}

/// Memory is the highest peak of all steps. The published tool averages the peaks of a warm-up, which has no optimizer state yet,
/// and three steps; the highest is what has to fit, and it repeats to the byte. The second step has it: from then on steps are alike.
fn memory(step: &mut Step, idle: &Idle) -> Result<MemoryReading, TchError> {
    step.run()?;
    Ok(idle.reading(allocator::peak()))
}

/// Times plain steps, and between them steps in laps, so that whatever the machine does falls on both.
fn time(request: &Request, network: &Network, step: &mut Step, readings: &mut Readings) -> Result<(), TchError> {
    let mut samples = LapSamples::default();
    let latency = time_steps(&request.steps, request.threads, || -> Result<Sample, TchError> {
        let plain = timed(|| step.run())?;
        if request.layers {
            let mut watch = Stopwatch::new(network.nodes().len());
            let whole = timed(|| step.run_in_laps(&mut watch))?;
            samples.add(&whole, request.threads, watch.into_laps());
        }
        Ok(plain)
    })?;
    readings.layers = request.layers.then(|| layers(request, network, samples, &latency));
    readings.latency = request.latency.then_some(latency);
    Ok(())
}

fn layers(request: &Request, network: &Network, samples: LapSamples, plain: &LatencyReading) -> LayersReading {
    let (summaries, steps, disturbed) = samples.summary(&request.steps);
    LayersReading {
        step: plain.median,
        step_spread: plain.spread,
        steps,
        disturbed: disturbed || plain.disturbed,
        times: laps::named(network, &summaries),
    }
}

fn timed(step: impl FnOnce() -> Result<(), TchError>) -> Result<Sample, TchError> {
    let before = process::load();
    let start = Instant::now();
    step()?;
    let wall = start.elapsed();
    Ok(Sample { wall, load: process::load().since(before) })
}

/// libtorch's message without the C++ stack behind it.
fn without_frames(problem: &TchError) -> String {
    let text = problem.to_string();
    text.split("\nException raised from").next().unwrap_or(&text).trim_end().to_string()
}
