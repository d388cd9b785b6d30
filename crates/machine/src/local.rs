//! The machine this program runs on.

use super::description::MachineDescription;
use super::process::{self, ProcessCall};
use super::{Conditions, Machine, ProcessOutput, RunWatch, WorkerInvocation, cgroup, linux, measurement_lock};
use perf4sight_base::error::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// The machine this program runs on.
#[derive(Debug, Clone, Copy)]
pub struct LocalMachine;

/// Threads that run at the same time on this machine.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Machine for LocalMachine {
    fn description(&self) -> MachineDescription {
        MachineDescription::here()
    }

    fn threads(&self) -> usize {
        threads()
    }

    fn upload(&self, file: &Path, _watch: &RunWatch<'_>) -> Result<Option<PathBuf>> {
        Ok(Some(file.to_owned()))
    }

    fn run_alone(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        run_exclusively(watch, || self.run(invocation, watch))
    }

    fn run(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        let mut command = compute(invocation, Vec::new())?;
        process::run(&mut command, ProcessCall::line(invocation.line, invocation.timeout), watch)
            .map_err(|cause| not_started(invocation, &cause))
    }
}

/// Runs a function under the measurement lock, and adds the machine's state before and after.
pub fn run_exclusively(
    watch: &RunWatch<'_>,
    run: impl FnOnce() -> Result<Option<ProcessOutput>>,
) -> Result<Option<ProcessOutput>> {
    let Some(_lock) = measurement_lock::take(watch)? else { return Ok(None) };
    let (kills, start) = (cgroup::memory_kills(Path::new("/")), linux::moment(Path::new("/")));
    let output = run()?;
    let conditions = Box::new(Conditions { start, end: linux::moment(Path::new("/")) });
    let killed = cgroup::memory_kills(Path::new("/")).iter().zip(kills).any(|(after, before)| *after > before);
    Ok(output.map(|output| ProcessOutput {
        killed_for_memory: killed || output.killed_for_memory,
        conditions,
        ..output
    }))
}

/// The command of a compute process, after the prefix that enforces its limits.
pub fn compute(invocation: &WorkerInvocation<'_>, mut prefix: Vec<String>) -> Result<Command> {
    if invocation.words.is_empty() {
        return Err(Error::config("the worker's command is empty"));
    }
    prefix.extend_from_slice(invocation.words);
    let threads = invocation.threads.to_string();
    let mut command = Command::new(&prefix[0]);
    // Compute libraries read these when they are loaded, before a program's own code runs.
    command.args(&prefix[1..]).env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
    Ok(command)
}

/// The error for a worker that cannot be started.
pub fn not_started(invocation: &WorkerInvocation<'_>, cause: &io::Error) -> Error {
    Error::device(format!("the worker's program `{}` cannot be started: {cause}", invocation.words[0]))
}
