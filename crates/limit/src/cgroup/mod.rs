//! Control groups: version 2 and version 1 are a back-end each, and differ only by their files.

mod delegation;
mod group;
mod hierarchy;
mod v1;
mod v2;

pub(super) use group::{Group, new_name};

use super::Resource;
use super::backend::{Backend, BackendInfo, Grip, Hold, Memory, Request};
use super::disc::Disc;
use super::peaks::ProcessPeak;
use super::probe::{output_of, tried};
use super::usage::Usage;
use delegation::SteppedDown;
use group::Groups;
use hierarchy::Hierarchy;
use perf4sight_base::units::Bytes;
use perf4sight_machine::Watch;
use std::fmt::Debug;
use std::io;
use std::path::Path;

static V2: BackendInfo =
    BackendInfo { name: "control group v2", resources: &Resource::ALL, grip: Grip::Joins, page_cache_only: false };
static V1: BackendInfo =
    BackendInfo { name: "control group v1", resources: &Resource::ALL, grip: Grip::Joins, page_cache_only: false };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    fn interface(self) -> &'static dyn Interface {
        match self {
            Version::One => &v1::V1,
            Version::Two => &v2::V2,
        }
    }
}

pub(super) fn controller_v2(resource: Resource) -> &'static str {
    v2::V2.controller(resource)
}

/// The file names and formats of a version.
trait Interface: Sync {
    fn controller(&self, resource: Resource) -> &'static str;

    /// Sets the quota and the period of CPU time, in microseconds.
    fn limit_cpus(&self, group: &Group, quota: f64, period: f64) -> io::Result<()>;

    /// Limits memory and allows no swap where the kernel counts it, because swap would add memory beyond the limit.
    fn limit_memory(&self, group: &Group, memory: Bytes) -> io::Result<()>;

    /// Limits reads from the disc with this device number, in bytes a second.
    fn limit_reads(&self, group: &Group, disc: (u64, u64), bandwidth: Bytes) -> io::Result<()>;

    /// Current memory of a group's processes. Pages of files are reclaimable, and so are the kernel's dentries, which
    /// version 2 counts. The kernel counts shared memory as files; here it is not.
    fn memory(&self, group: &Group) -> Option<Memory>;

    fn usage(&self, group: &Group) -> Usage;
}

#[derive(Debug)]
pub(super) struct Cgroup {
    version: Version,
    hierarchies: Vec<Hierarchy>,
    disc: Option<(u64, u64)>,
    below: Option<SteppedDown>,
}

impl Cgroup {
    pub fn new(version: Version, disc: Option<&Disc>) -> Self {
        let all = Hierarchy::all(Path::new("/")).into_iter();
        let hierarchies = all.filter(|hierarchy| hierarchy.version == version).collect();
        Cgroup { version, hierarchies, disc: disc.map(|disc| disc.numbers), below: None }
    }
}

impl Backend for Cgroup {
    fn info(&self) -> &'static BackendInfo {
        match self.version {
            Version::One => &V1,
            Version::Two => &V2,
        }
    }

    /// Creates a group, limits it and lets a process join it.
    fn check(&mut self, resource: Resource, watch: &Watch<'_>) -> Result<(), String> {
        let wanted = self.version.interface().controller(resource);
        if self.hierarchies.is_empty() {
            return Err("none are mounted here".to_owned());
        }
        let hierarchy = self.hierarchies.iter().find(|hierarchy| hierarchy.has(wanted));
        let hierarchy = hierarchy.ok_or_else(|| format!("our group has no controller `{wanted}`"))?;
        if self.version == Version::Two {
            delegation::pass_on(&hierarchy.own, wanted, &mut self.below)?;
        }
        let groups = Groups::in_one(hierarchy).map_err(|cause| cause.to_string())?;
        let groups = groups.limit(&tried(resource), self.disc).map_err(|cause| cause.to_string())?;
        let joined: Vec<String> = groups.prefix().into_iter().chain(["true".to_owned()]).collect();
        output_of(&joined, watch).map(drop)
    }

    fn sweep(&self, _watch: &Watch<'_>) {
        group::sweep(&self.hierarchies);
    }

    /// Groups are also useful without limits: they count usage and track all descendants of a job.
    fn hold(&self, request: &Request<'_>) -> io::Result<Option<Box<dyn Hold>>> {
        let groups = Groups::make(&self.hierarchies).limit(&request.limits, self.disc)?;
        Ok((!groups.is_empty()).then(|| Box::new(groups) as Box<dyn Hold>))
    }
}

impl Hold for Groups {
    fn prefix(&self) -> Vec<String> {
        Groups::prefix(self)
    }

    fn cleanup(&self) -> Vec<String> {
        Groups::cleanup(self)
    }

    fn counts_cpu(&self) -> bool {
        self.all().any(|group| group.usage().cpu_seconds.is_some())
    }

    fn memory(&mut self) -> Option<Memory> {
        self.all().find_map(Group::memory)
    }

    fn processes(&self) -> Vec<ProcessPeak> {
        self.all().next().map_or(Vec::new(), Group::processes)
    }

    fn usage(&mut self) -> Usage {
        let counted = self.all().map(Group::usage).fold(Usage::default(), Usage::or);
        // Throttling counts only where this hold limits CPUs.
        Usage { throttled_seconds: counted.throttled_seconds.filter(|_| self.limits_cpus()), ..counted }
    }
}
