//! What a back-end is: something that can hold limits on this machine. Each has a file of its own and a line in [`all`].

use super::cgroup::{Cgroup, Version};
use super::cpu_throttler::DutyCycle;
use super::disc::Disc;
use super::docker::Docker;
use super::peaks::ProcessPeak;
use super::residency::Residency;
use super::systemd::{Manager, Systemd};
use super::usage::Usage;
use super::{Job, Resource, Surroundings};
use perf4sight_base::units::Bytes;
use perf4sight_machine::guard::Guarded;
use perf4sight_machine::{Limits, Watch};
use std::fmt::{self, Debug};
use std::io;

/// The back-ends, from the best to the last resort. A job that runs in an image has docker alone.
pub(super) fn all(around: &Surroundings<'_>, disc: Option<&Disc>) -> Vec<Box<dyn Backend>> {
    if around.image.is_some() {
        return vec![Box::new(Docker::new(around, disc))];
    }
    vec![
        Box::new(Cgroup::new(Version::Two, disc)),
        Box::new(Cgroup::new(Version::One, disc)),
        Box::new(Systemd::new(Manager::User, disc)),
        Box::new(Systemd::new(Manager::System, disc)),
        Box::new(DutyCycle),
        Box::new(Residency::new(around.data)),
    ]
}

/// The name and nature of a back-end.
#[derive(Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// Its name, in surveys and in `profile.json`.
    pub name: &'static str,
    /// What it can limit.
    pub resources: &'static [Resource],
    /// How it gets hold of a job.
    pub grip: Grip,
    /// Whether its limit on memory leaves what the job itself allocates alone, and holds the page cache of its data only.
    pub page_cache_only: bool,
}

/// How a back-end gets hold of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grip {
    /// The job runs in something that takes all limits of the kernel: a container, a scope.
    Wraps,
    /// The job joins control groups of ours.
    Joins,
    /// A thread of ours acts on the job from outside.
    Watches,
}

impl fmt::Display for BackendInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Something that can hold limits here.
pub(super) trait Backend: Debug + Send + Sync {
    /// Its name and nature.
    fn info(&self) -> &'static BackendInfo;

    /// Tries whether it can limit one of its resources here; else says why not.
    fn check(&mut self, resource: Resource, watch: &Watch<'_>) -> Result<(), String>;

    /// Takes away what profilers that were killed left behind.
    fn sweep(&self, _watch: &Watch<'_>) {}

    /// Makes what holds these limits; none where it has nothing to do for the job.
    ///
    /// # Errors
    /// Limits that cannot be held.
    fn hold(&self, request: &Request<'_>) -> io::Result<Option<Box<dyn Hold>>>;
}

/// What a back-end is to hold.
pub(super) struct Request<'a> {
    pub job: &'a Job<'a>,
    /// The job's limits, as far as they are this back-end's.
    pub limits: Limits,
    /// The CPUs that the job may run on.
    pub cpus: &'a [usize],
    /// What better back-ends hold of the job already.
    pub held: &'a [Box<dyn Hold>],
}

/// What a back-end holds of one job, until it is dropped.
pub(super) trait Hold {
    /// What to put before the command.
    fn prefix(&self) -> Vec<String> {
        Vec::new()
    }

    /// The words that end all of the job if this process dies, and then run the words behind them. Without any, daemons of the job may
    /// outlive us.
    fn cleanup(&self) -> Vec<String> {
        Vec::new()
    }

    /// The job has started.
    fn started(&mut self, _job: &Guarded) {}

    /// Whether the job is stopped and continued by this.
    fn pauses(&self) -> bool {
        false
    }

    /// Whether it counts CPU time.
    fn counts_cpu(&self) -> bool;

    /// Memory that the job holds now; none where the job's own is not distinguished from pages of files.
    fn memory(&mut self) -> Option<Memory> {
        None
    }

    /// What each process of the job holds and held at most.
    fn processes(&self) -> Vec<ProcessPeak> {
        Vec::new()
    }

    /// What the job used until now.
    fn usage(&mut self) -> Usage;
}

/// Memory of a job at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Memory {
    /// Without pages of files.
    pub own: Bytes,
    /// Pages of files.
    pub files: Bytes,
    /// The most that it ever held with pages of files; none where the kernel does not count it.
    pub most: Option<Bytes>,
}
