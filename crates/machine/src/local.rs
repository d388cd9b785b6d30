//! The machine this program runs on.

use super::description::Description;
use super::process::{self, Call};
use super::{Conditions, Invocation, Machine, Output, Watch, cgroup, linux, turn};
use perf4sight_conventions::error::{Error, Result};
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
    fn description(&self) -> Description {
        Description::here()
    }

    fn threads(&self) -> usize {
        threads()
    }

    fn bring(&self, file: &Path, _watch: &Watch<'_>) -> Result<Option<PathBuf>> {
        Ok(Some(file.to_owned()))
    }

    fn run_alone(&self, invocation: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Output>> {
        let Some(_turn) = turn::take(watch)? else { return Ok(None) };
        let (kills, start) = (cgroup::kills(Path::new("/")), linux::moment(Path::new("/")));
        let output = self.run(invocation, watch)?;
        let conditions = Box::new(Conditions { start, end: linux::moment(Path::new("/")) });
        let killed_for_memory = cgroup::kills(Path::new("/")).iter().zip(kills).any(|(after, before)| *after > before);
        Ok(output.map(|output| Output { killed_for_memory, conditions, ..output }))
    }

    fn run(&self, invocation: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Output>> {
        let (path, arguments) =
            invocation.words.split_first().ok_or_else(|| Error::config("the worker's command is empty"))?;
        let threads = invocation.threads.to_string();
        let mut command = Command::new(path);
        // Compute libraries read these when they are loaded, before a program's own code could tell them.
        command.args(arguments).env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
        process::run(&mut command, Call::line(invocation.line, invocation.timeout), watch)
            .map_err(|cause| Error::device(format!("the worker's program `{path}` cannot be started: {cause}")))
    }
}
