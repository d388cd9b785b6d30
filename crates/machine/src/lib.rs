//! A machine, here or reached over ssh, and any process on it: started, supervised, limited, ended with all that it starts, alone where
//! it has to be. What machines tell of themselves: processor, memory, clocks, temperatures, control groups, GPUs. Knows no networks.
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
pub mod remote;
mod sampler;
mod setting;

pub use conditions::{Conditions, Moment};
pub use deadline::Deadline;
pub use limits::Limits;
pub use local::{LocalMachine, threads};
pub use memory_bandwidth::memory_bandwidth;
pub use process::{End, Output};
pub use sampler::{Sampler, Seen};
pub use setting::{Setting, differences};

use description::Description;
use perf4sight_base::error::Result;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where processes run. Each method gives `None` when Ctrl-C came first.
pub trait Machine: Debug + Send + Sync {
    /// Its facts; as fresh as can be had without asking a machine that is far away.
    fn description(&self) -> Description;

    /// Threads that run at the same time; control groups and affinity count.
    fn threads(&self) -> usize;

    /// What its processes may use of it.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Where it is, to be said behind the name of something that runs there: "", or " on me@board".
    fn at(&self) -> String {
        String::new()
    }

    /// Brings a file there and returns where it is then.
    ///
    /// # Errors
    /// A file that cannot be read here or kept there, a machine that cannot be reached.
    fn bring(&self, file: &Path, watch: &Watch<'_>) -> Result<Option<PathBuf>>;

    /// Runs a command until it ends, while no other one runs there alone, and reports what the machine was like before and after.
    ///
    /// # Errors
    /// A command that cannot be started, a machine that cannot be reached.
    fn run_alone(&self, invocation: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Output>>;

    /// Runs a command until it ends, whatever else runs there.
    ///
    /// # Errors
    /// See [`Machine::run_alone`].
    fn run(&self, invocation: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Output>>;
}

/// A command to run: it reads one line and answers with one, and nothing that it starts outlives it.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The executable, then its arguments. No shell ever sees them.
    pub words: &'a [String],
    /// The line it reads.
    pub line: &'a str,
    /// Threads of its compute libraries.
    pub threads: usize,
    /// Time after which it counts as hung.
    pub timeout: Duration,
}

/// What is looked out for while something runs.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set by Ctrl-C: stop, and give no result.
    pub cancelled: &'a AtomicBool,
    /// Called with the reason when something has to be waited for.
    pub waiting: &'a dyn Fn(&str),
    /// Called with the time it took when such a wait is over.
    pub waited: &'a dyn Fn(Duration),
    /// Hears what a worker says on its standard error meanwhile, line by line.
    pub heard: &'a dyn Fn(&str),
}

impl<'a> Watch<'a> {
    /// Looks out for Ctrl-C, and reports no waiting.
    pub fn quiet(cancelled: &'a AtomicBool) -> Self {
        Watch { cancelled, waiting: &|_| (), waited: &|_| (), heard: &|_| () }
    }

    /// Whether Ctrl-C was pressed.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
