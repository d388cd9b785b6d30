//! Real hardware: each measurement runs in its own worker process, one at a time per machine.

use super::kind::DeviceKind;
use super::possible::impossible;
use super::program::WorkerProgram;
use super::protocol::{GpuInfo, PROTOCOL, StepRule, StepTask, WorkerAbout, WorkerReply, WorkerRequest, WorkerTask};
use super::{Device, GpuOptions, Measurement, MeasurementJob};
use crate::records::MeasurementOutcome;
use nix::sys::signal::Signal;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::{
    Conditions, Machine, MachineProperties, ProcessEnd, ProcessOutput, RunWatch, WorkerInvocation,
};
use perf4sight_onnx as onnx;
use perf4sight_platform::{Platform, TensorMemory};
use perf4sight_step::workload::Checkpoint;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

/// The number of characters of a worker's reply that an error message quotes.
const QUOTED: usize = 200;

/// The prefix of the worker's command while other programs keep the processors busy. It raises the priority where that
/// is permitted (elsewhere `nice` prints a warning and starts the worker all the same) and makes threads sleep while
/// they wait for each other. By default OpenMP threads spin, so spinning threads take processor time from the thread
/// that they wait for. Next to ten other programs on two processors, a training step of mobilenetv2 at level 90 took
/// 4.8 s without the prefix and 30 ms with it; with the priority alone it took as long as without, with sleeping
/// threads alone seconds.
const AMONG_OTHERS: [&str; 5] = ["nice", "-n", "-10", "env", "OMP_WAIT_POLICY=passive"];

/// A machine on which worker processes measure.
#[derive(Debug, Clone)]
pub struct Hardware {
    /// The value of the key `device`.
    pub kind: DeviceKind,
    /// The machine on which the workers run.
    pub machine: Arc<dyn Machine>,
    /// The index of the GPU and its options; devices without a GPU ignore them.
    pub gpu: GpuOptions,
    /// The program that runs networks, here or on the machine.
    pub worker: WorkerProgram,
    /// Threads of the compute library.
    pub threads: usize,
    /// The limit of the worker's memory allocations; none: a share of the memory that is available at each
    /// measurement.
    pub mem_limit: Option<Bytes>,
    /// Time after which a worker counts as hung.
    pub timeout: Duration,
    /// Seed of weights and data.
    pub seed: u64,
    /// The rule for when enough steps were timed.
    pub steps: StepRule,
}

impl Device for Hardware {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn capacity(&self) -> Option<Bytes> {
        let whole = match self.own_gpu() {
            Some(gpu) if !gpu.unified => Some(Bytes(gpu.memory)),
            // The size of the memory of a GPU is unknown if its worker does not report it.
            _ if self.has_dedicated_memory() => None,
            _ => Some(self.machine.description().memory()),
        };
        self.limit().into_iter().chain(whole).min()
    }

    fn setting(&self) -> MachineProperties {
        let limit = self.mem_limit.map_or("default".to_owned(), |limit| format!("{} MiB", limit.mib()));
        let own = [
            ("device", self.name().to_owned()),
            ("perf4sight", env!("CARGO_PKG_VERSION").to_owned()),
            ("threads", self.threads.to_string()),
            ("mem_limit", limit),
            ("target", self.platform().map_or_else(|| self.name().to_owned(), |platform| platform.name)),
        ];
        let own = own
            .into_iter()
            .chain(self.confinement())
            .chain(self.arithmetic())
            .map(|(name, fact)| (name.to_owned(), fact));
        let WorkerAbout { software, places, .. } = &self.worker.about;
        let place = places.get(&self.place()).cloned().unwrap_or_default();
        self.machine.description().facts().into_iter().chain(software.clone()).chain(place).chain(own).collect()
    }

    fn check(&self, job: &MeasurementJob) -> Result<()> {
        self.worker.check_step(job.workload.step)?;
        self.worker.check_precision(&self.place(), job.workload.step.precision)?;
        if job.layers && !self.worker.about.layers {
            return Err(Error::device(format!("the worker `{}` does not time single operations", self.worker))
                .help("take layers out of profile_variables"));
        }
        input_file::open(&job.file, "read the network to measure").map(drop)
    }

    fn measure(&self, job: &MeasurementJob, watch: &RunWatch<'_>) -> Result<Measurement> {
        let Some(network) = self.machine.upload(&job.file, watch)? else { return Ok(Measurement::Interrupted) };
        let request = serde_json::to_string(&self.request(job, network, cuts(job)?))
            .map_err(|cause| Error::device(format!("{} cannot be put into a request: {cause}", job.variant)))?;
        let (threads, timeout) = (self.threads, self.timeout_of(job));
        let before = if job.allowance.among_others { AMONG_OTHERS.map(str::to_owned).to_vec() } else { Vec::new() };
        let words = [before, self.worker.words.clone()].concat();
        let invocation = WorkerInvocation { words: &words, line: &request, threads, timeout };
        let output = self.machine.run_alone(&invocation, watch)?;
        Ok(output.map_or(Measurement::Interrupted, |output| {
            with_conditions(self.interpret(&output, job), *output.conditions)
        }))
    }
}

/// The names of the nodes after which a checkpointed step cuts its network. They are chosen here, so that all workers
/// cut at the same nodes.
fn cuts(job: &MeasurementJob) -> Result<Vec<String>> {
    let checkpoint = job.workload.step.checkpoint;
    if checkpoint == Checkpoint::None {
        return Ok(Vec::new());
    }
    let network = onnx::read(&job.file)?.network;
    Ok(network.cuts(checkpoint).into_iter().map(|cut| network.node(cut).name.clone()).collect())
}

impl Hardware {
    fn timeout_of(&self, job: &MeasurementJob) -> Duration {
        job.allowance.timeout.into_iter().chain([self.timeout]).min().unwrap_or(self.timeout)
    }

    fn limit(&self) -> Option<Bytes> {
        // With dedicated GPU memory, the available main memory does not limit the network.
        let default = || {
            let (free, held) = (self.machine.description().default_limit(), self.machine.limits().memory);
            held.map_or(free, |held| held.min(free))
        };
        self.mem_limit.or_else(|| (!self.has_dedicated_memory()).then(default))
    }

    /// The kernel's limits on measurements, where there are any.
    fn confinement(&self) -> Vec<(&'static str, String)> {
        let ResourceLimits { cpus, memory, .. } = self.machine.limits();
        let cpus = cpus.map(|cpus| ("cpus", cpus.to_string()));
        let memory = memory.map(|memory| ("kernel_mem_limit", memory.in_full()));
        cpus.into_iter().chain(memory).collect()
    }

    fn has_dedicated_memory(&self) -> bool {
        self.platform().is_some_and(|platform| platform.memory == TensorMemory::Dedicated)
    }

    fn place(&self) -> String {
        self.kind.place(self.gpu.index)
    }

    /// The GPU that networks run on, if the worker reports it.
    fn own_gpu(&self) -> Option<&GpuInfo> {
        self.worker.about.gpus.get(&self.place())
    }

    /// Refuses a GPU that another program is computing on.
    ///
    /// # Errors
    /// The other programs.
    pub fn check_alone(&self) -> Result<()> {
        match self.own_gpu().map_or(&[][..], |gpu| &gpu.others) {
            [] => Ok(()),
            others => Err(Error::device(format!("something else computes on {}: {}", self.place(), others.join("; ")))
                .help("end it, wait for it, or set gpu_id to another GPU; times on a shared GPU are not what a step costs")),
        }
    }

    /// The GPU settings that trade precision or determinism for speed; the measured times depend on them.
    fn arithmetic(&self) -> Vec<(&'static str, String)> {
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        match self.kind.is_gpu() {
            true => vec![("tf32", word(self.gpu.tf32)), ("cudnn_benchmark", word(self.gpu.cudnn_benchmark))],
            false => Vec::new(),
        }
    }

    /// The platform whose rules the memory of a step follows. The embedded platform descriptions are always readable.
    fn platform(&self) -> Option<Platform> {
        let processor = || Platform::processor(self.machine.description().wide_vectors());
        let known = |name| match (name, self.own_gpu()) {
            ("cuda", Some(gpu)) => Platform::for_name(Platform::of_gpu(&gpu.name, self.gpu.tf32)),
            _ => Platform::for_name(name),
        };
        let platform = self.kind.platform().map_or_else(processor, known).ok()?;
        Some(platform.on_threads(self.threads as u64).run_by(&self.worker.about.software))
    }

    fn request(&self, job: &MeasurementJob, network: PathBuf, cuts: Vec<String>) -> WorkerRequest {
        WorkerRequest {
            protocol: PROTOCOL,
            place: self.place(),
            threads: self.threads,
            mem_limit: self.limit().map(|limit| limit.0),
            seed: self.seed,
            task: WorkerTask::Step(StepTask {
                network,
                workload: job.workload,
                cuts,
                latency: job.latency,
                memory: job.memory,
                layers: job.layers,
                tf32: self.gpu.tf32,
                cudnn_benchmark: self.gpu.cudnn_benchmark,
                steps: job.allowance.steps.unwrap_or(self.steps),
            }),
        }
    }

    fn interpret(&self, output: &ProcessOutput, job: &MeasurementJob) -> Measurement {
        match output.end {
            ProcessEnd::Lost(times) => Measurement::broken_run(
                MeasurementOutcome::Crashed,
                format!("the connection was lost {times} times in a row while the worker ran: {}", output.stderr),
            ),
            // A worker that hangs or fails during shutdown may have written its answer before.
            ProcessEnd::TimedOut => parse_reply(&output.stdout, job, self.timeout_of(job)).unwrap_or_else(|_| {
                let words = format!(
                    "the worker was still running after {}",
                    Milliseconds(1000.0 * self.timeout_of(job).as_secs_f64())
                );
                Measurement::broken_run(MeasurementOutcome::TimedOut, words)
            }),
            ProcessEnd::Exited(status) => match parse_reply(&output.stdout, job, self.timeout_of(job)) {
                Ok(measurement) => measurement,
                Err(_) if output.stdout.trim().is_empty() => without_reply(status, output),
                Err(why) => Measurement::broken_run(MeasurementOutcome::Garbled, why),
            },
        }
    }
}

/// Adds the machine's conditions to a measurement, unless the worker reported its own: a worker reads the clocks under
/// load.
fn with_conditions(mut measurement: Measurement, here: Conditions) -> Measurement {
    if let Measurement::Measured { conditions, .. } = &mut measurement
        && conditions.is_empty()
    {
        **conditions = here;
    }
    measurement
}

/// Parses the worker's reply: one line of JSON with every reading that the job requested.
fn parse_reply(said: &str, job: &MeasurementJob, limit: Duration) -> std::result::Result<Measurement, String> {
    let reply: WorkerReply = serde_json::from_str(said.trim())
        .map_err(|cause| format!("the worker's answer cannot be understood ({cause}): \"{}\"", quote_line(said)))?;
    if let Some(finding) = impossible(&reply, limit) {
        return Err(format!("the worker measured {finding}: \"{}\"", quote_line(said)));
    }
    match reply {
        WorkerReply::OutOfMemory { memory, seconds } => Ok(Measurement::OutOfMemory { memory: Some(memory), seconds }),
        WorkerReply::Failed { reason } => Ok(Measurement::broken_run(MeasurementOutcome::Failed, reason)),
        WorkerReply::Measured { latency, memory, layers, seconds, conditions } => {
            let (latency, memory) = (latency.filter(|_| job.latency), memory.filter(|_| job.memory));
            let layers = layers.filter(|_| job.layers);
            let given = [latency.is_some(), memory.is_some(), layers.is_some()];
            if given == [job.latency, job.memory, job.layers] {
                return Ok(Measurement::Measured { latency, memory, layers, seconds, conditions });
            }
            Err(format!("the answer lacks requested values: \"{}\"", quote_line(said)))
        }
    }
}

/// The outcome of a worker that ended without a reply, by its exit status.
fn without_reply(status: ExitStatus, output: &ProcessOutput) -> Measurement {
    let words = match output.stderr.trim() {
        "" => String::new(),
        words => format!(": {words}"),
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) if signal == Signal::SIGKILL as i32 && output.killed_for_memory => {
            Measurement::OutOfMemory { memory: None, seconds: 0.0 }
        }
        (Some(signal), _) if signal == Signal::SIGKILL as i32 => {
            let reason =
                format!("the worker was killed by signal SIGKILL, and nothing shows that memory was the reason{words}");
            Measurement::broken_run(MeasurementOutcome::Crashed, reason)
        }
        (Some(signal), _) => {
            let name = Signal::try_from(signal).map_or_else(|_| signal.to_string(), |signal| signal.to_string());
            Measurement::broken_run(
                MeasurementOutcome::Crashed,
                format!("the worker was killed by signal {name}{words}"),
            )
        }
        (None, Some(0)) => {
            Measurement::broken_run(MeasurementOutcome::Garbled, format!("the worker ended without an answer{words}"))
        }
        (None, code) => {
            let code = code.unwrap_or_default();
            Measurement::broken_run(
                MeasurementOutcome::Crashed,
                format!("the worker ended with exit code {code}{words}"),
            )
        }
    }
}

fn quote_line(said: &str) -> String {
    let line: String = said.trim().chars().take(QUOTED).collect();
    line.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed(signal: Signal, killed_for_memory: bool) -> Measurement {
        let status = ExitStatus::from_raw(signal as i32);
        without_reply(
            status,
            &ProcessOutput {
                killed_for_memory,
                ..ProcessOutput::new(ProcessEnd::Exited(status), String::new(), String::new())
            },
        )
    }

    #[test]
    fn only_the_kernels_own_kill_means_out_of_memory() {
        assert_eq!(killed(Signal::SIGKILL, true), Measurement::OutOfMemory { memory: None, seconds: 0.0 });
        for (signal, kernel) in [(Signal::SIGKILL, false), (Signal::SIGSEGV, true), (Signal::SIGABRT, false)] {
            assert_eq!(killed(signal, kernel).outcome(), Some(MeasurementOutcome::Crashed), "{signal}");
        }
    }
}
