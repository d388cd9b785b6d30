//! A job: a command, its limits, and the progress that its caller sees.

use perf4sight_machine::ResourceLimits;
use perf4sight_machine::lines::OutputLine;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// A command to run under limits. It has no input and no terminal, and its descendants do not outlive it.
#[derive(Debug, Clone, Copy)]
pub struct LimitedJob<'a> {
    /// The executable, then its arguments. No shell parses them.
    pub words: &'a [String],
    /// Environment variables, in addition to ours.
    pub environment: &'a [(String, OsString)],
    /// Its working folder; none for ours.
    pub folder: Option<&'a Path>,
    /// The limits for all its processes together.
    pub limits: ResourceLimits,
    /// Its processes that compute and share the CPUs, such as the ranks of a training; it determines how many threads
    /// each may start.
    pub processes: usize,
    /// It is ended after this time; none: only its caller ends it.
    pub timeout: Option<Duration>,
    /// Whether it takes the measurement lock, so that no other measurement runs on this machine.
    pub alone: bool,
}

impl Default for LimitedJob<'_> {
    fn default() -> Self {
        LimitedJob {
            words: &[],
            environment: &[],
            folder: None,
            limits: ResourceLimits::default(),
            processes: 1,
            timeout: None,
            alone: true,
        }
    }
}

/// Progress of a job since its caller's last call.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOutput {
    /// Time since the job was started.
    pub after: Duration,
    /// What it has written since the last poll.
    pub lines: Vec<OutputLine>,
}
