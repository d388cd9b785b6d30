//! A simulated job, whose runs take no time, to test measurements without waiting.

use super::Sensitivity;
use super::command::JobCommand;
use super::monitor::RunMonitor;
use super::nodes::combine_runs;
use super::points::{PointRun, ResourceConfiguration};
use super::progress::JobProgress;
use super::runner::{RunGoal, Runner};
use super::surroundings::{JobSurroundings, grid};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_limit::{
    BackendGrip, BackendInfo, EndedJob, HostPressure, JobEnd, LimitSurvey, LimitableResource, MemoryHistory, Resource,
};
use perf4sight_machine::MachineProperties;
use perf4sight_machine::data::DataSize;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::iter;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static SIMULATED: BackendInfo =
    BackendInfo { name: "simulation", resources: &Resource::ALL, grip: BackendGrip::Wraps, page_cache_only: false };

/// The polling interval of a simulated run.
const LOOK: Duration = Duration::from_millis(50);
const MEMORY: Bytes = Bytes(1 << 40);

/// A job and its machine.
#[derive(Debug, Clone)]
pub struct SimulatedJob {
    /// CPUs of the machine.
    pub cpus: f64,
    /// Iterations a second with so many CPUs, where all data is in memory.
    pub rate: fn(f64) -> f64,
    /// Seconds of each iteration that the job waits for data.
    pub wait: f64,
    /// The job's own memory.
    pub own_memory: Bytes,
    /// Bytes that it holds more after each second.
    pub leak: f64,
    /// Bytes and number of files of its data; zero for a job without data.
    pub data: (u64, u64),
    /// Bandwidth of storage in bytes a second. The job does not prefetch.
    pub storage: f64,
    /// The resources that can be limited.
    pub limited: &'static [Resource],
    /// The fate of a run with so many CPUs, by the number of earlier runs with the same CPUs.
    pub fate: fn(f64, usize) -> SimulatedFate,
    /// The job on the other nodes, of which the pace, the memory and the fate count.
    pub other_nodes: Vec<SimulatedJob>,
}

/// The fate of a simulated run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SimulatedFate {
    /// It runs until it is ended.
    Sound,
    /// The same, while others use its CPUs for this share of the time.
    Disturbed(f64),
    /// It exits with this code after a second, and writes this text.
    Exits(i32, &'static str),
    /// It runs without reporting iterations.
    Silent,
    /// Ctrl-C.
    Interrupted,
}

impl Default for SimulatedJob {
    fn default() -> Self {
        SimulatedJob {
            cpus: 4.0,
            rate: |cpus| 10.0 * cpus,
            wait: 0.0,
            own_memory: Bytes(100_000_000),
            leak: 0.0,
            data: (0, 0),
            storage: 1e9,
            limited: &Resource::ALL,
            fate: |_, _| SimulatedFate::Sound,
            other_nodes: Vec::new(),
        }
    }
}

impl SimulatedJob {
    pub(super) fn surroundings(&self, asked: &Sensitivity) -> JobSurroundings {
        let by = |resource: &Resource| self.limited.contains(resource).then_some(&SIMULATED);
        let limitable = |resource| LimitableResource { resource, by: by(&resource), remark: None, refused: Vec::new() };
        let survey = LimitSurvey { cpus: self.cpus, memory: MEMORY, resources: Resource::ALL.map(limitable).to_vec() };
        let most = asked.cpu.unwrap_or(self.cpus);
        let (bytes, files) = self.data;
        JobSurroundings {
            most,
            grid: grid(asked, most, &survey),
            survey,
            holds_daemons: true,
            size: (bytes > 0).then_some(DataSize { bytes, files, links: 0, unreadable: 0 }),
            storage: (bytes > 0).then_some(self.storage),
            storage_between: None,
            memory: (bytes > 0).then_some(1e12),
            gpus: asked.num_gpus.unwrap_or(0),
            command: JobCommand::from_settings(asked),
            fits: true,
            hosts: vec![MachineProperties::new(); self.nodes().count()],
            doubts: Vec::new(),
        }
    }

    pub(super) fn runner<'a>(
        &'a self,
        asked: &'a Sensitivity,
        around: &'a JobSurroundings,
        cancel: Arc<AtomicBool>,
    ) -> impl Runner {
        let (elapsed, runs) = (Cell::default(), RefCell::default());
        SimulatedRunner { job: self, asked, survey: &around.survey, cancel, elapsed, runs }
    }

    fn nodes(&self) -> impl Iterator<Item = &SimulatedJob> {
        iter::once(self).chain(&self.other_nodes)
    }

    /// Seconds of an iteration, which reads one file of the data, if it is not in memory.
    fn seconds(&self, configuration: ResourceConfiguration) -> f64 {
        let (bytes, files) = self.data;
        let cached = configuration.memory.map(|memory| {
            let room = memory.0.saturating_sub(self.own_memory.0) as f64;
            (room / bytes.max(1) as f64).min(1.0)
        });
        let is_cold = configuration.storage.is_some() || cached.is_some();
        let missed = if is_cold { 1.0 - cached.unwrap_or(0.0) } else { 0.0 };
        let storage = configuration.storage.map_or(self.storage, |held| self.storage.min(held.0 as f64));
        let reading = missed * bytes as f64 / files.max(1) as f64 / storage;
        1.0 / (self.rate)(configuration.cpus) + reading
    }
}

struct SimulatedRunner<'a> {
    job: &'a SimulatedJob,
    asked: &'a Sensitivity,
    survey: &'a LimitSurvey,
    cancel: Arc<AtomicBool>,
    elapsed: Cell<Duration>,
    runs: RefCell<Vec<f64>>,
}

impl Runner for SimulatedRunner<'_> {
    fn survey(&self) -> &LimitSurvey {
        self.survey
    }

    fn nodes(&self) -> usize {
        self.job.nodes().count()
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }

    fn run(&self, configuration: ResourceConfiguration, goal: RunGoal) -> Result<Option<PointRun>> {
        let before = self.runs.borrow().iter().filter(|cpus| **cpus == configuration.cpus).count();
        self.runs.borrow_mut().push(configuration.cpus);
        let fates: Vec<SimulatedFate> = self.job.nodes().map(|job| (job.fate)(configuration.cpus, before)).collect();
        if fates.contains(&SimulatedFate::Interrupted) {
            self.cancel.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let nodes = self.job.nodes().zip(fates);
        let mut runs: Vec<PointRun> = nodes.map(|(job, fate)| self.run_on(job, fate, configuration, goal)).collect();
        let longest = runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
        self.elapsed.set(self.elapsed.get() + Duration::from_secs_f64(longest));
        let names: Vec<String> = (0..runs.len()).map(|rank| format!("node {rank}")).collect();
        Ok(if runs.len() == 1 { runs.pop() } else { combine_runs(runs, &names) })
    }
}

impl SimulatedRunner<'_> {
    fn run_on(
        &self,
        job: &SimulatedJob,
        fate: SimulatedFate,
        configuration: ResourceConfiguration,
        goal: RunGoal,
    ) -> PointRun {
        let mut monitor = RunMonitor::new(self.asked, goal, JobProgress::new(Path::new("/nonexistent"), None));
        let mut ended = job.started(configuration, fate);
        let is_short = ended.ran_out_of_memory || matches!(fate, SimulatedFate::Exits(..));
        let last = if is_short { Duration::from_secs(1) } else { goal.time };
        let (seconds, mut steps, mut held) = (job.seconds(configuration), 0, MemoryHistory::default());
        while ended.wall < last && !monitor.is_enough(ended.wall) {
            ended.wall += LOOK;
            let done = (ended.wall.as_secs_f64() / seconds) as u64;
            if !is_short && fate != SimulatedFate::Silent {
                monitor.progress.write(&lines(steps + 1..=done, seconds, job.wait));
            }
            steps = done;
            let own = Bytes(job.own_memory.0 + (job.leak * ended.wall.as_secs_f64()) as u64);
            held.add(ended.wall, own);
            (ended.own_memory, ended.peak_memory, ended.rise) = (Some(own), Some(own), held.rise());
        }
        ended.cpu_seconds = Some(ended.wall.as_secs_f64() * used_cpus(configuration.cpus, fate));
        monitor.outcome(&ended)
    }
}

impl SimulatedJob {
    fn started(&self, configuration: ResourceConfiguration, fate: SimulatedFate) -> EndedJob {
        let own = self.own_memory;
        let ran_out_of_memory = configuration.memory.is_some_and(|memory| memory < own);
        let (end, last_lines) = match fate {
            SimulatedFate::Exits(code, line) => {
                (JobEnd::Exited(ExitStatus::from_raw(code << 8)), vec![line.to_owned()])
            }
            SimulatedFate::Sound | SimulatedFate::Disturbed(_) | SimulatedFate::Silent | SimulatedFate::Interrupted => {
                (JobEnd::TimeUp, Vec::new())
            }
        };
        let others = match fate {
            SimulatedFate::Disturbed(share) => share,
            SimulatedFate::Sound | SimulatedFate::Exits(..) | SimulatedFate::Silent | SimulatedFate::Interrupted => 0.0,
        };
        EndedJob {
            end,
            wall: Duration::ZERO,
            until_gone: Duration::ZERO,
            cpus: configuration.cpus,
            ran_out_of_memory,
            peak_memory: Some(own),
            own_memory: Some(own),
            rise: None,
            counts_shared: false,
            cpu_seconds: None,
            throttled_seconds: None,
            bytes_read: None,
            pressure: HostPressure { cpu: Some(others), others: Some(others), ..HostPressure::default() },
            last_lines,
        }
    }
}

fn used_cpus(cpus: f64, fate: SimulatedFate) -> f64 {
    match fate {
        SimulatedFate::Disturbed(share) => cpus * (1.0 - share),
        SimulatedFate::Sound | SimulatedFate::Exits(..) | SimulatedFate::Silent | SimulatedFate::Interrupted => cpus,
    }
}

fn lines(steps: impl Iterator<Item = u64>, seconds: f64, wait: f64) -> String {
    steps.fold(String::new(), |mut lines, step| {
        let time = step as f64 * seconds;
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "{{\"step\": {step}, \"time\": {time}, \"wait\": {wait}}}");
        lines
    })
}
