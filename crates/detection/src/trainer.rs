//! Runs the training: on a machine, here or over ssh, with the worker in a user's Python there.

use super::{Detection, SweepSetting};
use nix::sys::signal::Signal;
use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::temporary_folder::TemporaryFolder;
use perf4sight_cost::device::program::WorkerProgram;
use perf4sight_cost::device::protocol::{PROTOCOL, WorkerRequest, WorkerTask};
use perf4sight_machine::remote::{CommandBundle, RemoteMachine};
use perf4sight_machine::{
    Conditions, LocalMachine, Machine, ProcessEnd, ProcessOutput, RunWatch, SampledConditions, Sampler,
    WorkerInvocation,
};
use perf4sight_step::detection::{
    DetectionReply, DetectionTask, DetectorGraphs, GraphsReply, GraphsTask, WorkerProgress,
};
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

/// The worker, and the files that are placed next to it where it runs.
const FILES: [(&str, &str); 10] = [
    (WORKER, include_str!("../worker/detection_worker.py")),
    ("torch_worker.py", include_str!("../../../workers/torch_worker.py")),
    ("perf4sight_reader/_copy.py", include_str!("../../../python/perf4sight/_copy.py")),
    ("perf4sight_reader/_errors.py", include_str!("../../../python/perf4sight/_errors.py")),
    ("perf4sight_reader/_exporter.py", include_str!("../../../python/perf4sight/_exporter.py")),
    ("perf4sight_reader/_inputs.py", include_str!("../../../python/perf4sight/_inputs.py")),
    ("perf4sight_reader/_private.py", include_str!("../../../python/perf4sight/_private.py")),
    ("perf4sight_reader/_settings.py", include_str!("../../../python/perf4sight/_settings.py")),
    ("perf4sight_reader/_symbols.py", include_str!("../../../python/perf4sight/_symbols.py")),
    ("perf4sight_reader/_updating.py", include_str!("../../../python/perf4sight/_updating.py")),
];
const WORKER: &str = "detection_worker.py";
/// The device that is tried first by default.
const FIRST_GPU: &str = "cuda:0";
pub(super) const PROCESSOR: &str = "cpu";
/// Lines that are quoted of a worker that gave no answer.
const QUOTED: usize = 8;
/// Part of the error message of a DataLoader for a process that the kernel killed.
const LOADER_KILLED: &str = "is killed by signal: Killed";

pub(super) struct DetectorTrainer {
    machine: Arc<dyn Machine>,
    program: WorkerProgram,
    /// The device used there.
    pub place: String,
    _files: TemporaryFolder,
}

/// The result of a setting, and the observations during it.
pub(super) struct TrainedSetting {
    pub reply: DetectionReply,
    pub seen: SampledConditions,
    /// The state of the machine before and after, where the worker did not report it.
    pub conditions: Box<Conditions>,
}

impl DetectorTrainer {
    /// Copies the worker to the machine where it runs, and queries its abilities there.
    ///
    /// # Errors
    /// A machine that is not reached; a Python that cannot be started or lacks PyTorch or torchvision; a device that is not there.
    pub fn open(asked: &Detection) -> Result<Self> {
        let files = TemporaryFolder::new(&env::temp_dir())?;
        // Apart from the folder's mark, which is another one every time: equal bundles are delivered once.
        let bundled = files.path().join("worker");
        FILES.into_iter().try_for_each(|(name, text)| atomic_write::save(&bundled.join(name), text))?;
        let here = bundled.join(WORKER).display().to_string();
        let (machine, worker): (Arc<dyn Machine>, String) = match &asked.route {
            None => (Arc::new(LocalMachine), here),
            Some(route) => {
                let machine = RemoteMachine::connect(route)?;
                let bundle = CommandBundle::of_folder(&bundled, WORKER, &machine.store())?;
                let there = machine.deliver(bundle)?.concat();
                (Arc::new(machine), there)
            }
        };
        let program = WorkerProgram::query(&*machine, vec![asked.python.clone(), worker], asked.timeout).map_err(|error| {
            error.help(format!(
                "{} must be a Python that has PyTorch and torchvision (pip install torch torchvision, or on Debian apt-get install \
                 python3-torch python3-torchvision); name another one with python (--python)",
                asked.python
            ))
        })?;
        program.check_task(WorkerTask::DETECTION)?;
        let place = asked.place.clone().unwrap_or_else(|| {
            let there = program.about.places.contains_key(FIRST_GPU);
            if there { FIRST_GPU } else { PROCESSOR }.to_owned()
        });
        program.check_place(&place)?;
        program.check_precision(&place, asked.task.precision)?;
        Ok(DetectorTrainer { machine, program, place, _files: files })
    }

    /// Processors there that the training does not compute with.
    pub fn processors_left(&self, asked: &Detection) -> u64 {
        let computes = if self.place == PROCESSOR { self.threads(asked) } else { 0 };
        self.machine.threads().saturating_sub(computes) as u64
    }

    /// Threads that the compute library gets.
    pub fn threads(&self, asked: &Detection) -> usize {
        asked.threads.unwrap_or_else(|| self.machine.threads())
    }

    /// Names and versions of the software, and the facts of the machine.
    pub fn software(&self) -> perf4sight_machine::MachineProperties {
        let place = self.program.about.places.get(&self.place).cloned().unwrap_or_default();
        self.machine.description().facts().into_iter().chain(self.program.about.software.clone()).chain(place).collect()
    }

    /// Trains with a setting; none after Ctrl-C. `stepped` is called at every step.
    ///
    /// # Errors
    /// A Python that cannot be started; a machine that cannot be reached any more.
    pub fn train(
        &self,
        asked: &Detection,
        setting: SweepSetting,
        watch: &RunWatch<'_>,
        stepped: &dyn Fn(WorkerProgress),
    ) -> Result<Option<TrainedSetting>> {
        let heard = |line: &str| serde_json::from_str(line).into_iter().for_each(stepped);
        let watch = RunWatch { heard: &heard, ..*watch };
        let sampler = asked.route.is_none().then(|| Sampler::start(self.bus()));
        let output = self.run_task(asked, WorkerTask::Detection(Box::new(asked.task_of(setting))), &watch);
        let seen = sampler.map_or_else(SampledConditions::default, Sampler::stop);
        Ok(output?.map(|output| TrainedSetting {
            reply: self.parse_reply(asked, &output),
            seen,
            conditions: output.conditions.clone(),
        }))
    }

    /// The detector's graphs; none after Ctrl-C.
    ///
    /// # Errors
    /// The error that the worker reports, or why it gave no answer.
    pub fn graphs(&self, asked: &Detection, task: GraphsTask, watch: &RunWatch<'_>) -> Result<Option<DetectorGraphs>> {
        let Some(output) = self.run_task(asked, WorkerTask::DetectionGraphs(Box::new(task)), watch)? else {
            return Ok(None);
        };
        match serde_json::from_str(output.stdout.trim()) {
            Ok(GraphsReply::Described(graphs)) => Ok(Some(*graphs)),
            Ok(GraphsReply::Failed { reason }) => {
                Err(Error::device(format!("the detector's graphs cannot be read: {reason}")))
            }
            Err(cause) => {
                let words = complaint(&output);
                Err(Error::device(format!("the worker gives no graphs ({cause}): {words}")))
            }
        }
    }

    fn bus(&self) -> Option<String> {
        self.program.about.gpus.get(&self.place).map(|gpu| gpu.bus.clone()).filter(|bus| !bus.is_empty())
    }

    fn run_task(&self, asked: &Detection, task: WorkerTask, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        let (place, threads) = (self.place.clone(), self.threads(asked));
        let mem_limit = asked.mem_limit.map(|limit| limit.0);
        let request = WorkerRequest { protocol: PROTOCOL, place, threads, mem_limit, seed: asked.seed, task };
        let line = serde_json::to_string(&request)
            .map_err(|cause| Error::device(format!("the request cannot be written: {cause}")))?;
        let invocation = WorkerInvocation { words: &self.program.words, line: &line, threads, timeout: asked.timeout };
        self.machine.run_alone(&invocation, watch)
    }

    /// The reply, or the reason why there is none.
    fn parse_reply(&self, asked: &Detection, output: &ProcessOutput) -> DetectionReply {
        let failed = |reason: String| DetectionReply::Failed { reason };
        let words = complaint(output);
        match (serde_json::from_str(output.stdout.trim()), &output.end) {
            (Ok(DetectionReply::Failed { reason }), _)
                if output.killed_for_memory && reason.contains(LOADER_KILLED) =>
            {
                DetectionReply::OutOfMemory { memory: None }
            }
            (Ok(reply), _) => reply,
            (Err(_), ProcessEnd::TimedOut) => {
                let time = humantime::format_duration(asked.timeout);
                failed(format!("still running after {time} (timeout): {words}").trim_end_matches(": ").to_owned())
            }
            (Err(_), ProcessEnd::Exited(status))
                if output.killed_for_memory && status.signal() == Some(Signal::SIGKILL as i32) =>
            {
                DetectionReply::OutOfMemory { memory: None }
            }
            (Err(_), ProcessEnd::Exited(status)) if output.stdout.trim().is_empty() => {
                failed(format!("{} ended without an answer ({status}): {words}", asked.python))
            }
            (Err(_), ProcessEnd::Lost(times)) => {
                failed(format!("the connection was lost {times} times in a row: {words}"))
            }
            (Err(cause), ProcessEnd::Exited(_)) => {
                failed(format!("the worker's answer cannot be understood ({cause}): {words}"))
            }
        }
    }
}

/// The last lines of a worker's standard error, without its progress.
fn complaint(output: &ProcessOutput) -> String {
    let lines: Vec<&str> =
        output.stderr.trim().lines().filter(|line| serde_json::from_str::<WorkerProgress>(line).is_err()).collect();
    lines[lines.len().saturating_sub(QUOTED)..].join("\n").trim().to_owned()
}

impl Detection {
    pub(super) fn task_of(&self, setting: SweepSetting) -> DetectionTask {
        DetectionTask {
            batch: setting.batch,
            num_workers: setting.num_workers,
            prefetch_factor: setting.prefetch_factor,
            trace: self.trace.as_ref().map(|folder| folder.join(setting.trace_name())),
            ..self.task.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FILES;

    /// What a file imports from its folder (`from . import _private, _symbols`, `from ._errors import Error`) is placed there too.
    #[test]
    fn files_have_beside_them_what_they_import() {
        const FOLDER: &str = "perf4sight_reader/";
        let files = || FILES.iter().filter(|(name, _)| name.starts_with(FOLDER));
        let imports = |text: &'static str| {
            let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("from ."));
            lines.filter_map(|line| line.split_once(" import ")).flat_map(|(module, names)| match module {
                "" => names.split(", ").map(str::trim).collect(),
                module => vec![module],
            })
        };
        for (name, text) in files() {
            for module in imports(text) {
                let file = format!("{FOLDER}{module}.py");
                assert!(files().any(|(other, _)| *other == file), "{name} imports {module}");
            }
        }
        assert_eq!(files().flat_map(|(_, text)| imports(text)).filter(|module| *module == "_updating").count(), 1);
    }
}
