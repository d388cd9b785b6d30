//! The interface of a back-end, which enforces limits on this machine. Each has a file of its own and a line in
//! [`all`].

use super::cgroup::{CgroupBackend, CgroupVersion};
use super::cpu_throttler::DutyCycle;
use super::disc::LimitedDisc;
use super::docker::DockerBackend;
use super::peaks::ProcessPeak;
use super::residency::PageResidency;
use super::systemd::{SystemdBackend, SystemdManager};
use super::usage::ResourceUsage;
use super::{LimitedJob, LimiterSettings, Resource};
use perf4sight_base::units::Bytes;
use perf4sight_machine::guard::GuardedProcess;
use perf4sight_machine::{ResourceLimits, RunWatch};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Debug};
use std::io;

/// The back-ends, in order of preference. A job that runs in an image has docker alone.
pub(super) fn all(around: &LimiterSettings<'_>, disc: Option<&LimitedDisc>) -> Vec<Box<dyn Backend>> {
    if around.image.is_some() {
        return vec![Box::new(DockerBackend::new(around, disc))];
    }
    vec![
        Box::new(CgroupBackend::new(CgroupVersion::Two, disc)),
        Box::new(CgroupBackend::new(CgroupVersion::One, disc)),
        Box::new(SystemdBackend::new(SystemdManager::User, disc)),
        Box::new(SystemdBackend::new(SystemdManager::System, disc)),
        Box::new(DutyCycle),
        Box::new(PageResidency::new(around.data)),
    ]
}

/// The back-end of a name.
fn by_name(name: &str) -> Option<&'static BackendInfo> {
    let image = LimiterSettings { image: Some(""), ..LimiterSettings::default() };
    let mut known = all(&LimiterSettings::default(), None).into_iter().chain(all(&image, None));
    known.find(|backend| backend.info().name == name).map(|backend| backend.info())
}

/// Whether the memory limit of the back-end of that name leaves out the job's own allocations.
pub fn limits_page_cache_only(name: &str) -> bool {
    by_name(name).is_some_and(|backend| backend.page_cache_only)
}

/// The properties of a back-end.
#[derive(Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// Its name, in surveys and in `profile.json`.
    pub name: &'static str,
    /// What it can limit anywhere; [`LimitSurvey`](crate::LimitSurvey) says what it can here.
    pub resources: &'static [Resource],
    /// How it controls a job.
    pub grip: BackendGrip,
    /// Whether its memory limit covers only the page cache of the data, and not the job's own allocations.
    pub page_cache_only: bool,
}

/// How a back-end controls a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendGrip {
    /// The job runs inside a container or a scope, which takes all limits of the kernel.
    Wraps,
    /// The job joins control groups that this program creates.
    Joins,
    /// A thread of this program acts on the job from outside.
    Watches,
}

impl fmt::Display for BackendInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// As its name.
impl Serialize for BackendInfo {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static BackendInfo {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        by_name(&name).ok_or_else(|| D::Error::custom(format!("unknown limiter {name:?}")))
    }
}

/// A back-end that may be available here.
pub(super) trait Backend: Debug + Send + Sync {
    fn info(&self) -> &'static BackendInfo;

    /// Tests whether it can limit a resource here; otherwise returns the reason.
    fn check(&mut self, resource: Resource, watch: &RunWatch<'_>) -> Result<(), String>;

    /// Removes the leftovers of profilers that were killed.
    fn sweep(&self, _watch: &RunWatch<'_>) {}

    /// Sets up these limits; none where it has nothing to do for the job.
    fn set_limits(&self, request: &BackendRequest<'_>) -> io::Result<Option<Box<dyn JobHold>>>;
}

/// The job and limits for a back-end.
pub(super) struct BackendRequest<'a> {
    pub job: &'a LimitedJob<'a>,
    /// The job's limits that are assigned to this back-end.
    pub limits: ResourceLimits,
    /// The CPUs that the job may run on.
    pub cpus: &'a [usize],
    /// The holds of the preferred back-ends on the same job.
    pub held: &'a [Box<dyn JobHold>],
}

/// The limits that a back-end enforces on one job, until it is dropped.
pub(super) trait JobHold {
    /// Words to put before the command.
    fn prefix(&self) -> Vec<String> {
        Vec::new()
    }

    /// A command that ends the whole job if this process dies, and then runs the words after it. Without one, daemons
    /// of the job may outlive this process.
    fn cleanup(&self) -> Vec<String> {
        Vec::new()
    }

    fn started(&mut self, _job: &GuardedProcess) {}

    /// Whether it stops and continues the job.
    fn pauses(&self) -> bool {
        false
    }

    fn counts_cpu(&self) -> bool;

    /// Memory that the job holds now; none where its own memory is not counted apart from pages of files.
    fn memory(&mut self) -> Option<JobMemory> {
        None
    }

    /// The current and peak memory of each process of the job.
    fn processes(&self) -> Vec<ProcessPeak> {
        Vec::new()
    }

    fn usage(&mut self) -> ResourceUsage;
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JobMemory {
    /// Without pages of files.
    pub own: Bytes,
    pub files: Bytes,
    /// Its peak, with pages of files; none where the kernel does not count it.
    pub most: Option<Bytes>,
}
