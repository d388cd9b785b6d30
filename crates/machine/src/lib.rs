//! Local and remote machines, and processes on them: starting, supervising, limiting and ending them with their
//! descendants, alone on the machine where required. Reports processor, memory, clocks, temperatures, control groups
//! and GPUs. Independent of neural networks.
#![warn(missing_docs)]

pub mod affinity;
pub mod cgroup;
mod conditions;
pub mod data;
mod deadline;
pub mod description;
pub mod foreground;
pub mod gpu;
pub mod guard;
mod limits;
pub mod lines;
pub mod link;
pub mod linux;
pub mod local;
pub mod measurement_lock;
mod memory_bandwidth;
pub mod process;
pub mod program;
pub mod remote;
mod sampler;
mod setting;

pub use conditions::{Conditions, MachineState};
pub use deadline::Deadline;
pub use limits::ResourceLimits;
pub use local::{LocalMachine, threads};
pub use memory_bandwidth::memory_bandwidth;
pub use process::{ProcessEnd, ProcessOutput};
pub use sampler::{SampledConditions, Sampler};
pub use setting::{MachineProperties, check_kind, claim, differences};

use description::MachineDescription;
use perf4sight_base::error::Result;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where processes run. Each method returns `None` after Ctrl-C.
pub trait Machine: Debug + Send + Sync {
    /// Its properties, as current as possible without contacting a remote machine.
    fn description(&self) -> MachineDescription;

    /// Threads that run at the same time, by control groups and affinity.
    fn threads(&self) -> usize;

    /// CPUs and memory that its processes are held to.
    fn limits(&self) -> ResourceLimits {
        ResourceLimits::default()
    }

    /// Its location, to append to the name of a command: "", or " on me@board".
    fn location(&self) -> String {
        String::new()
    }

    /// Copies a file to the machine and returns its path there.
    ///
    /// # Errors
    /// A file that cannot be read here or stored there, a machine that cannot be reached.
    fn upload(&self, file: &Path, watch: &RunWatch<'_>) -> Result<Option<PathBuf>>;

    /// Runs a command until it ends, under the measurement lock, and reports the machine's state before and after.
    ///
    /// # Errors
    /// A command that cannot be started, a machine that cannot be reached.
    fn run_alone(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>>;

    /// Runs a command until it ends, without the measurement lock.
    ///
    /// # Errors
    /// See [`Machine::run_alone`].
    fn run(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>>;
}

/// A command to run: it reads one line and answers with one, and no descendant outlives it.
#[derive(Debug, Clone, Copy)]
pub struct WorkerInvocation<'a> {
    /// The executable, then its arguments. No shell parses them.
    pub words: &'a [String],
    /// Written to its standard input, without the line end.
    pub line: &'a str,
    /// Threads of its compute libraries.
    pub threads: usize,
    /// Time after which it counts as hung.
    pub timeout: Duration,
}

/// Cancellation and callbacks for something that runs.
#[derive(Clone, Copy)]
pub struct RunWatch<'a> {
    /// Set by Ctrl-C: stop without a result.
    pub cancelled: &'a AtomicBool,
    /// Called with the reason when the program has to wait.
    pub waiting: &'a dyn Fn(&str),
    /// Called with the waiting time when such a wait is over.
    pub waited: &'a dyn Fn(Duration),
    /// Called with each line of a worker's standard error.
    pub heard: &'a dyn Fn(&str),
}

impl<'a> RunWatch<'a> {
    /// Checks for Ctrl-C, without callbacks.
    pub fn quiet(cancelled: &'a AtomicBool) -> Self {
        RunWatch { cancelled, waiting: &|_| (), waited: &|_| (), heard: &|_| () }
    }

    /// Whether Ctrl-C was pressed.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
