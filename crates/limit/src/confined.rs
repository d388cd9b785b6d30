//! This machine, of which processes may use only a limited part.

use crate::backend::BackendGrip;
use crate::{LimitedJob, Limiter, LimiterSettings, Resource};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::description::MachineDescription;
use perf4sight_machine::local::{compute, not_started, run_exclusively};
use perf4sight_machine::process::{self, ProcessBounds, ProcessCall};
use perf4sight_machine::{LocalMachine, Machine, ProcessOutput, RunWatch, WorkerInvocation};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A machine with fewer CPUs and less memory than this one, enforced by the kernel.
#[derive(Debug)]
pub struct ConfinedMachine {
    limiter: Limiter,
    limits: ResourceLimits,
}

impl ConfinedMachine {
    /// This machine under limits that the kernel enforces: a job that is stopped and continued would be timed with its
    /// pauses.
    ///
    /// # Errors
    /// Limits above the machine's resources, or limits that control groups cannot enforce here; whole CPUs need none.
    pub fn new(limits: ResourceLimits) -> Result<Self> {
        let limiter = Limiter::open(LimiterSettings::default(), &RunWatch::quiet(&AtomicBool::new(false)))?;
        let limiter = limiter.expect("there is no limiter after Ctrl-C alone, and nothing else sets this flag");
        limiter.survey().check(&ResourceLimits { memory: None, ..limits })?;
        let fractions = limits.cpus.is_some_and(|cpus| cpus.fract() != 0.0);
        let asked = [(Resource::Cpus, fractions), (Resource::Memory, limits.memory.is_some())];
        for (resource, _) in asked.iter().filter(|(_, asked)| *asked) {
            let limitable = limiter.survey().limitable(*resource);
            if limitable.and_then(|limitable| limitable.by).is_none_or(|by| by.grip != BackendGrip::Joins) {
                let why = limitable.map_or_else(String::new, ToString::to_string);
                return Err(Error::device(format!("no control group can hold a limit on {resource} here: {why}"))
                    .help("ask for whole CPUs and no limit of the kernel on memory, or run as a user who may make control groups"));
            }
        }
        limiter.survey().check(&limits)?;
        Ok(ConfinedMachine { limiter, limits })
    }
}

impl Machine for ConfinedMachine {
    fn description(&self) -> MachineDescription {
        LocalMachine.description()
    }

    fn threads(&self) -> usize {
        self.limits.cpus.map_or(LocalMachine.threads(), |cpus| cpus.ceil() as usize)
    }

    fn limits(&self) -> ResourceLimits {
        self.limits
    }

    fn upload(&self, file: &Path, watch: &RunWatch<'_>) -> Result<Option<PathBuf>> {
        LocalMachine.upload(file, watch)
    }

    fn run_alone(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        run_exclusively(watch, || self.run(invocation, watch))
    }

    fn run(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        let failed = |cause| Error::device(format!("the worker's limits cannot be held: {cause}"));
        let job = LimitedJob { limits: self.limits, ..LimitedJob::default() };
        let mut holds = self.limiter.set_limits(&job, |grip| grip == BackendGrip::Joins).map_err(failed)?;
        let mut command = compute(invocation, holds.prefix())?;
        let cpus = self.limits.cpus.map(|_| self.limiter.cpus_of(&self.limits));
        let call = ProcessCall::line(invocation.line, invocation.timeout)
            .bounded(ProcessBounds { cleanup: holds.cleanup(), cpus });
        let output = process::run(&mut command, call, watch).map_err(|cause| not_started(invocation, &cause))?;
        let killed = holds.0.iter_mut().any(|hold| hold.usage().out_of_memory_kills.is_some_and(|kills| kills > 0));
        Ok(output.map(|output| ProcessOutput { killed_for_memory: killed, ..output }))
    }
}
