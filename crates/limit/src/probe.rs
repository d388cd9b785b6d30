//! Tests back-ends with commands and with limits so high that they have no effect.

use super::Resource;
use perf4sight_base::units::Bytes;
use perf4sight_machine::process::{self, ProcessCall, ProcessEnd};
use perf4sight_machine::{ResourceLimits, RunWatch};
use std::process::Command;
use std::time::Duration;

/// How long a command may take to answer; a message bus that takes longer counts as absent.
const PATIENCE: Duration = Duration::from_secs(10);

/// A limit on one resource alone, so high that it has no effect.
pub(super) fn probe_limits(resource: Resource) -> ResourceLimits {
    let none = ResourceLimits::default();
    match resource {
        Resource::Cpus => ResourceLimits { cpus: Some(1.0), ..none },
        Resource::Memory => ResourceLimits { memory: Some(Bytes(1 << 30)), ..none },
        Resource::Storage => ResourceLimits { storage: Some(Bytes(1 << 40)), ..none },
    }
}

/// The standard output of a command; its error output where it fails.
pub(super) fn output_of(words: &[String], watch: &RunWatch<'_>) -> Result<String, String> {
    let mut command = Command::new(&words[0]);
    let output = process::run(command.args(&words[1..]), ProcessCall::line("", PATIENCE), watch);
    let output = output.map_err(|cause| format!("{} cannot be started: {cause}", words[0]))?;
    let output = output.ok_or_else(|| "it was cancelled".to_owned())?;
    let complaint: Vec<&str> = output.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    match output.end {
        ProcessEnd::Exited(status) if status.success() => Ok(output.stdout),
        ProcessEnd::Exited(status) if complaint.is_empty() => Err(format!("{} ended with {status}", words[0])),
        ProcessEnd::Exited(_) => Err(complaint.join("; ")),
        ProcessEnd::TimedOut | ProcessEnd::Lost(_) => {
            Err(format!("{} did not answer within {} s", words[0], PATIENCE.as_secs()))
        }
    }
}
