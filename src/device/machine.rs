//! Where workers run: this machine, or one that is reached over the network.

use super::description::Description;
use super::worker::{self, Errand, Legacy};
use super::{Watch, board, cgroup, turn};
use crate::error::{Error, Result};
use crate::records::Conditions;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Where workers run. Each method gives `None` when Ctrl-C came first.
pub trait Machine: Debug + Send + Sync {
    /// Its facts; as fresh as can be had without asking a machine that is far away.
    fn description(&self) -> Description;

    /// Threads that run at the same time; control groups and affinity count.
    fn threads(&self) -> usize;

    /// Where it is, to be said behind the name of something that runs there: "", or " on me@board".
    fn at(&self) -> String {
        String::new()
    }

    /// Brings a network there and tells where it lies then.
    ///
    /// # Errors
    /// A file that cannot be read here or kept there, a machine that cannot be reached.
    fn bring(&self, network: &Path, watch: &Watch<'_>) -> Result<Option<PathBuf>>;

    /// Runs a worker, alone, until it ends.
    ///
    /// # Errors
    /// A worker that cannot be started, a machine that cannot be reached.
    fn measure(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Legacy>>;

    /// Runs a worker that measures nothing.
    ///
    /// # Errors
    /// See [`Machine::measure`].
    fn ask(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Legacy>>;
}

/// A worker to run.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The executable, then its arguments. No shell ever sees them.
    pub words: &'a [String],
    /// The line it reads.
    pub request: &'a str,
    /// Threads of the compute library.
    pub threads: usize,
    /// Time after which it is taken for hung.
    pub timeout: Duration,
}

/// The machine this program runs on.
#[derive(Debug, Clone, Copy)]
pub struct Here;

/// Threads that run at the same time on this machine.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Machine for Here {
    fn description(&self) -> Description {
        Description::here()
    }

    fn threads(&self) -> usize {
        threads()
    }

    fn bring(&self, network: &Path, _watch: &Watch<'_>) -> Result<Option<PathBuf>> {
        Ok(Some(network.to_owned()))
    }

    fn measure(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Legacy>> {
        let Some(_turn) = turn::take(watch)? else { return Ok(None) };
        let (kills, start) = (cgroup::kills(Path::new("/")), board::moment(Path::new("/")));
        let legacy = self.ask(command, watch)?;
        let conditions = Box::new(Conditions { start, end: board::moment(Path::new("/")) });
        let for_memory = cgroup::kills(Path::new("/")).iter().zip(kills).any(|(after, before)| *after > before);
        Ok(legacy.map(|legacy| Legacy { for_memory, conditions, ..legacy }))
    }

    fn ask(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Legacy>> {
        let (path, arguments) =
            command.words.split_first().ok_or_else(|| Error::config("the worker's command is empty"))?;
        let threads = command.threads.to_string();
        let mut process = Command::new(path);
        // Compute libraries read these when they are loaded, before a worker's own code could tell them.
        process.args(arguments).env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
        let errand = Errand::line(command.request, command.timeout);
        worker::ask(&mut process, errand, watch)
            .map_err(|cause| Error::device(format!("the worker's program `{path}` cannot be started: {cause}")))
    }
}
