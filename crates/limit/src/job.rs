//! A job: a command, what it may use, and what its caller sees of it while it runs.

use perf4sight_machine::Limits;
use perf4sight_machine::lines::Line;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// A command to run under limits. It reads nothing, has no terminal, and nothing that it starts outlives it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The executable, then its arguments. No shell ever sees them.
    pub words: &'a [String],
    /// Variables of its environment, in addition to ours.
    pub environment: &'a [(String, OsString)],
    /// Where it runs; else where we do.
    pub folder: Option<&'a Path>,
    /// What all of its processes may use together.
    pub limits: Limits,
    /// Its processes that compute and share the CPUs, such as the ranks of a training: how many threads each may start follows from it.
    pub processes: usize,
    /// Time after which it is ended.
    pub timeout: Option<Duration>,
    /// Whether it waits until no other measurement runs on this machine, and keeps others waiting.
    pub alone: bool,
}

impl Default for Job<'_> {
    fn default() -> Self {
        Job {
            words: &[],
            environment: &[],
            folder: None,
            limits: Limits::default(),
            processes: 1,
            timeout: None,
            alone: true,
        }
    }
}

/// What has come of a job since its caller looked last.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Time since the job was started.
    pub after: Duration,
    /// Lines that it has written.
    pub lines: Vec<Line>,
}
