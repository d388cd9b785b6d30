//! One configuration, run and counted.

use super::clock::StepClock;
use super::gpu::GpuHandle;
use super::laps::{self, Stopwatch};
use super::memory::{GpuMemory, MemoryCounters, ProcessMemory};
use super::step::RunnableStep;
use perf4sight_machine::{Conditions, MachineState, gpu, linux};
use perf4sight_network::{Network, NodeId};
use perf4sight_step::protocol::{
    GpuInfo, LatencyReading, LayersReading, MemoryReading, StepTask, WorkerReply, WorkerRequest,
};
use perf4sight_step::sampling::{LapSamples, TimedSample, time_steps, warm_up};
use std::path::Path;
use std::time::{Duration, Instant};
use tch::{Device, TchError};

/// The device of a network's tensors, the clock of its steps, and the counter of their memory.
struct Instruments {
    device: Device,
    clock: StepClock,
    memory: Box<dyn MemoryCounters>,
}

#[derive(Default)]
struct Readings {
    latency: Option<LatencyReading>,
    memory: Option<MemoryReading>,
    layers: Option<LayersReading>,
}

/// Runs the task of a request in this process, which must not have run libtorch before; on a GPU where one is given with its
/// number; the network is cut behind some of its nodes.
pub(super) fn measure(
    request: &WorkerRequest,
    task: &StepTask,
    network: &Network,
    cuts: &[NodeId],
    gpu: Option<(usize, GpuInfo)>,
) -> WorkerReply {
    tch::set_num_threads(request.threads as i32);
    tch::set_num_interop_threads(1);
    let bus = gpu.as_ref().map(|(_, gpu)| gpu.bus.clone());
    let start = moment(bus.as_deref());
    let instruments = match Instruments::prepare(request, task, gpu) {
        Ok(instruments) => instruments,
        Err(problem) => return failed(&problem),
    };
    let began = Instant::now();
    let outcome = run(request.threads, task, (network, cuts), &instruments);
    let seconds = began.elapsed().as_secs_f64();
    let mut end = moment(bus.as_deref());
    if !bus.as_deref().is_none_or(gpu::lists_this) {
        // In a container process numbers may differ, so this process cannot be recognised in the list.
        end.others.clone_from(&start.others);
    }
    let conditions = Box::new(Conditions { start, end });
    match outcome {
        Ok(Readings { latency, memory, layers }) => {
            WorkerReply::Measured { latency, memory, layers, seconds, conditions }
        }
        Err(_) if instruments.memory.refused() => match instruments.memory.reading() {
            Ok(memory) => WorkerReply::OutOfMemory { memory, seconds },
            Err(problem) => failed(&problem),
        },
        Err(problem) => failed(&problem),
    }
}

/// The state of the machine, and of its GPU where it has that address, with other processes on it.
fn moment(bus: Option<&str>) -> MachineState {
    let mut moment = linux::moment(Path::new("/"));
    if let Some(bus) = bus {
        gpu::add(bus, &mut moment);
        moment.others = gpu::processes(bus);
    }
    moment
}

impl Instruments {
    fn prepare(request: &WorkerRequest, task: &StepTask, gpu: Option<(usize, GpuInfo)>) -> Result<Self, TchError> {
        let Some((index, gpu)) = gpu else {
            // Before memory is counted: libtorch looks for every kind of device it might seed, 34 MiB of code.
            tch::manual_seed(request.seed as i64);
            let memory = Box::new(ProcessMemory::begin(request.mem_limit, task.memory));
            return Ok(Instruments { device: Device::Cpu, clock: StepClock::Processor, memory });
        };
        let handle = GpuHandle::take(index, &gpu, request, task)?;
        tch::manual_seed(request.seed as i64);
        let memory = Box::new(GpuMemory::begin(gpu, handle)?);
        Ok(Instruments { device: Device::Cuda(index), clock: StepClock::Gpu(handle), memory })
    }
}

/// A warm-up, a reading of memory where it was requested, then the timed steps.
fn run(
    threads: usize,
    task: &StepTask,
    (network, cuts): (&Network, &[NodeId]),
    instruments: &Instruments,
) -> Result<Readings, TchError> {
    let network = &*network.trained_in(task.workload.step.trainable);
    let mut step = RunnableStep::new(network, task.workload, cuts, instruments.device)?;
    // The first step allocates optimizer state, compiles oneDNN's kernels and faults its memory in.
    step.begin()?;
    let mut readings = Readings::default();
    if task.memory {
        readings.memory = Some(memory(&mut step, instruments)?);
    }
    if task.latency || task.layers {
        instruments.memory.begin_timing();
        warm_up(&task.steps, || instruments.clock.time(|| step.run()))?;
        let threads = instruments.clock.threads(threads);
        (readings.latency, readings.layers) = time(threads, task, network, &mut step, instruments.clock)?;
        readings.memory = readings.memory.map(|memory| MemoryReading { heap: instruments.memory.heap(), ..memory });
    }
    Ok(readings)
}

/// Memory is the highest peak of all steps. The published tool averages the peaks of a warm-up, which has no optimizer
/// state yet, and three steps; the highest peak is the one that has to fit, and it repeats to the byte. The second step
/// reaches it: from then on steps are alike.
fn memory(step: &mut RunnableStep, instruments: &Instruments) -> Result<MemoryReading, TchError> {
    step.run()?;
    instruments.clock.settle()?;
    instruments.memory.reading()
}

/// Times plain steps, and between them steps in laps, so that disturbances of the machine affect both.
fn time(
    threads: usize,
    task: &StepTask,
    network: &Network,
    step: &mut RunnableStep,
    clock: StepClock,
) -> Result<(Option<LatencyReading>, Option<LayersReading>), TchError> {
    let mut samples = LapSamples::default();
    let latency = time_steps(&task.steps, threads, || -> Result<TimedSample, TchError> {
        let plain = clock.time(|| step.run())?;
        if task.layers {
            let (whole, laps) = in_laps(step, network, clock)?;
            samples.add(&whole, threads, laps);
        }
        Ok(plain)
    })?;
    let layers = task.layers.then(|| layers(task, network, samples, &latency));
    Ok((task.latency.then_some(latency), layers))
}

fn in_laps(
    step: &mut RunnableStep,
    network: &Network,
    clock: StepClock,
) -> Result<(TimedSample, Vec<Duration>), TchError> {
    let mut watch = None;
    let whole = clock.time(|| {
        let watch = watch.insert(Stopwatch::new(network.nodes().len(), clock)?);
        step.run_in_laps(watch)
    })?;
    Ok((whole, watch.map_or(Ok(Vec::new()), Stopwatch::into_laps)?))
}

fn layers(task: &StepTask, network: &Network, samples: LapSamples, plain: &LatencyReading) -> LayersReading {
    let (summaries, steps, disturbed) = samples.summary(&task.steps);
    LayersReading {
        step: plain.median,
        step_spread: plain.spread,
        steps,
        disturbed: disturbed || plain.disturbed,
        times: laps::lap_times(network, &summaries),
    }
}

/// libtorch's message without its C++ stack trace.
fn failed(problem: &TchError) -> WorkerReply {
    let text = problem.to_string();
    WorkerReply::Failed { reason: text.split("\nException raised from").next().unwrap_or(&text).trim_end().to_owned() }
}
