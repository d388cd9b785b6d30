//! A worker's program: how it is started, and which features it reports.

use super::protocol::{self, PROTOCOL, WorkerAbout};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::shell::command_text;
use perf4sight_machine::{Machine, ProcessEnd, ProcessOutput, RunWatch, WorkerInvocation};
use perf4sight_step::workload::{Precision, Step};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The argument that makes a worker describe itself.
const ABOUT: &str = "--about";
/// perf4sight's own worker. It is a separate program because loading libtorch takes longer than most commands of
/// perf4sight.
pub const WORKER: &str = "perf4sight-worker";
/// The arguments that run the worker for any PyTorch in the Python that perf4sight was installed into:
/// python/perf4sight/torch_worker.py.
const OF_PYTHON: [&str; 2] = ["-m", "perf4sight.torch_worker"];
/// The subcommand that starts the worker.
pub(super) const VERB: &str = "worker";

/// A worker program that answered `--about`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProgram {
    /// The executable, then its arguments. An executable without slashes is searched for in PATH. No shell interprets
    /// them.
    pub words: Vec<String>,
    /// The features it reports.
    pub about: WorkerAbout,
}

/// The path of perf4sight's own worker: in the same folder as this program, `executable`.
///
/// # Errors
/// It is missing, for example because only the rest was built.
pub fn own_worker(executable: &Path) -> Result<PathBuf> {
    let worker = executable.with_file_name(WORKER);
    match worker.is_file() {
        true => Ok(worker),
        false => Err(Error::device(format!(
            "there is no worker that could run networks: {} is missing",
            worker.display()
        ))
        .expected(format!("{WORKER}, which is linked with libtorch, in the folder of this program"))
        .help(
            "build it with ./main, or set worker = python3 workers/torch_worker.py (where perf4sight was installed by pip: python3 -m \
             perf4sight.torch_worker), or device = simulated or recorded",
        )),
    }
}

/// Replaces this process with perf4sight's own worker, with these arguments.
///
/// # Errors
/// See [`own_worker`]; or when it cannot be started.
pub fn become_worker(executable: &Path, arguments: &[OsString]) -> Result<Infallible> {
    let worker = own_worker(executable)?;
    let cause = Command::new(&worker).args(arguments).exec();
    Err(Error::device(format!("{} cannot be started: {cause}", worker.display())))
}

impl WorkerProgram {
    /// Starts a worker on the machine where it will run and reads which features it reports.
    ///
    /// # Errors
    /// When it cannot be started, does not answer, or speaks another version of the protocol.
    pub fn query(machine: &dyn Machine, words: Vec<String>, timeout: Duration) -> Result<Self> {
        let asking = [words.as_slice(), &[ABOUT.to_owned()]].concat();
        let never = AtomicBool::new(false);
        let watch = RunWatch::quiet(&never);
        let invocation = WorkerInvocation { words: &asking, line: "", threads: machine.threads(), timeout };
        let output = machine.run(&invocation, &watch)?.ok_or_else(|| Error::device("interrupted"))?;
        let about = protocol::read(&output.stdout).map_err(|why| unfit(&words, machine, &output, &why))?;
        Ok(WorkerProgram { words, about })
    }

    /// Refuses a task that the worker does not support.
    ///
    /// # Errors
    /// The tasks that it supports.
    pub fn check_task(&self, task: &str) -> Result<()> {
        match self.about.tasks.iter().any(|known| known == task) {
            true => Ok(()),
            false => Err(Error::device(format!("the worker `{self}` does not know the task {task}"))
                .expected(self.about.tasks.join(", "))
                .help("use a worker of this version of perf4sight, or one that knows it")),
        }
    }

    /// Refuses a step with settings that the worker does not support, because it would run another step.
    ///
    /// # Errors
    /// The settings that it does not support.
    pub fn check_step(&self, step: Step) -> Result<()> {
        let known = &self.about.settings;
        let unknown: Vec<String> =
            step.settings().map(|(setting, _)| setting.key().to_owned()).filter(|key| !known.contains(key)).collect();
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(Error::device(format!("the worker `{self}` does not support {}", unknown.join(", ")))
                .expected("a worker that runs such steps")
                .help(format!("use a worker of this version of perf4sight, or leave {} out", unknown.join(" and ")))),
        }
    }

    /// Refuses a precision that the worker does not support on a device (`place`).
    ///
    /// # Errors
    /// The precisions that it supports there.
    pub fn check_precision(&self, place: &str, precision: Precision) -> Result<()> {
        let known = self.about.precisions.get(place).map_or(&[][..], Vec::as_slice);
        if precision == Precision::Fp32 || known.iter().any(|known| known == precision.name()) {
            return Ok(());
        }
        let known = if known.is_empty() { Precision::Fp32.name().to_owned() } else { known.join(", ") };
        let problem = format!("the worker `{self}` runs no steps with precision = {} on {place}", precision.name());
        Err(Error::device(problem)
            .expected(known)
            .help("ask for one of these, or use a worker whose PyTorch and device have it"))
    }

    /// Refuses a device (`place`) that the worker cannot run networks on.
    ///
    /// # Errors
    /// The devices that it can run them on.
    pub fn check_place(&self, place: &str) -> Result<()> {
        if self.about.places.contains_key(place) {
            return Ok(());
        }
        let problem = format!("the worker `{self}` cannot run networks on {place}");
        if let (true, Some(why)) = (place.starts_with("cuda:"), &self.about.no_gpu) {
            return Err(Error::device(format!("{problem}: {why}")));
        }
        let problem = match self.about.gpus.len() {
            0 => problem,
            1 => format!("{problem}: there is 1 GPU"),
            gpus => format!("{problem}: there are {gpus} GPUs"),
        };
        let places: Vec<&str> = self.about.places.keys().map(String::as_str).collect();
        Err(Error::device(problem)
            .expected(places.join(", "))
            .help("install its software with support for the device, or name another device (device, gpu_id)"))
    }
}

/// The command of perf4sight's own worker. If its path is not UTF-8, this program starts it, through `/proc/self/exe`.
/// If it is missing, the command is that of the worker for any PyTorch, run by the Python in the same folder, as in a
/// virtual environment.
pub(super) fn own_words(executable: &Path) -> Result<Vec<String>> {
    let python = executable.with_file_name("python3");
    let worker = match (own_worker(executable), python.to_str()) {
        (Err(_), Some(path)) if python.is_file() => {
            return Ok([path].into_iter().chain(OF_PYTHON).map(str::to_owned).collect());
        }
        (worker, _) => worker?,
    };
    Ok(match worker.to_str() {
        Some(path) => vec![path.to_owned()],
        None => ["/proc/self/exe", VERB].map(str::to_owned).into(),
    })
}

/// Whether a command ends in perf4sight's own worker or in the subcommand that starts it, and so accepts its
/// arguments.
pub(super) fn is_own(words: &[String]) -> bool {
    words.last().is_some_and(|word| word == VERB || Path::new(word).file_name() == Some(WORKER.as_ref()))
}

impl std::fmt::Display for WorkerProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// The error of a program that does not answer `--about` as a worker does.
fn unfit(words: &[String], machine: &dyn Machine, output: &ProcessOutput, why: &str) -> Error {
    let late = output.end == ProcessEnd::TimedOut;
    let heard = match (output.stdout.trim(), output.stderr.trim().lines().last()) {
        _ if late => "no answer in time",
        ("", Some(complaint)) => complaint,
        ("", None) => "no answer",
        _ => why,
    };
    Error::device(format!("the worker `{}`{} does not report its features: {heard}", command_text(words), machine.location()))
        .expected(format!("{ABOUT} makes it write one line of protocol {PROTOCOL}"))
        .help(match words.ends_with(&OF_PYTHON.map(str::to_owned)) {
            true => format!(
                "there is no {WORKER} in the folder of this program, so that the Python there was tried: install perf4sight into it (pip install .), \
                 build the worker with ./main, or set worker"
            ),
            false => "run the command with it by hand, or use the workers/torch_worker.py of this version".to_owned(),
        })
}
