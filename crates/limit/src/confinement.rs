//! What holds limits on one process that is run by somebody else: control groups, and the CPUs that it may run on.

use super::group::Groups;
use super::{Limiter, Means};
use perf4sight_machine::process::Bounds;
use perf4sight_machine::{Limits, affinity};
use std::io;

/// Gone, with what is in it, when it is dropped.
pub(crate) struct Confinement {
    groups: Groups,
    cpus: Option<Vec<usize>>,
}

impl Limiter {
    /// Groups with these limits, as far as groups hold them here.
    pub(crate) fn confine(&self, limits: &Limits) -> io::Result<Confinement> {
        let cpus = limits.cpus.map(|cpus| affinity::filled(cpus, &self.allowed));
        let groups = Groups::make(&self.hierarchies);
        let quota = limits.cpus.filter(|_| !self.uses(Means::DutyCycle));
        groups.limit(&Limits { cpus: quota, memory: limits.memory, storage: None }, None)?;
        Ok(Confinement { groups, cpus })
    }
}

impl Confinement {
    /// What to put before a command.
    pub(crate) fn prefix(&self) -> Vec<String> {
        self.groups.prefix()
    }

    /// The CPUs to start it on, and what ends all of it when we are dead.
    pub fn bounds(&self) -> Bounds {
        Bounds { farewell: self.groups.farewell(), cpus: self.cpus.clone() }
    }

    /// Whether the kernel killed any of it for want of memory.
    pub fn killed(&self) -> bool {
        self.groups.counts().kills.is_some_and(|kills| kills > 0)
    }
}
