//! Control groups: version 2 and version 1 are a back-end each, and differ only by their files.

mod delegation;
mod group;
mod hierarchy;
mod v1;
mod v2;

pub(super) use group::{ControlGroup, new_name};

use super::Resource;
use super::backend::{Backend, BackendGrip, BackendInfo, BackendRequest, JobHold, JobMemory};
use super::disc::LimitedDisc;
use super::peaks::ProcessPeak;
use super::probe::{output_of, probe_limits};
use super::usage::ResourceUsage;
use delegation::DelegatedGroup;
use group::ControlGroups;
use hierarchy::CgroupHierarchy;
use perf4sight_base::units::Bytes;
use perf4sight_machine::RunWatch;
use std::fmt::Debug;
use std::io;
use std::path::Path;

static V2: BackendInfo = BackendInfo {
    name: "control group v2",
    resources: &Resource::ALL,
    grip: BackendGrip::Joins,
    page_cache_only: false,
};
static V1: BackendInfo = BackendInfo {
    name: "control group v1",
    resources: &Resource::ALL,
    grip: BackendGrip::Joins,
    page_cache_only: false,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    One,
    Two,
}

impl CgroupVersion {
    fn interface(self) -> &'static dyn CgroupInterface {
        match self {
            CgroupVersion::One => &v1::V1,
            CgroupVersion::Two => &v2::V2,
        }
    }
}

pub(super) fn controller_v2(resource: Resource) -> &'static str {
    v2::V2.controller(resource)
}

/// The file names and formats of a version.
trait CgroupInterface: Sync {
    fn controller(&self, resource: Resource) -> &'static str;

    /// Sets the quota and the period of CPU time, in microseconds.
    fn limit_cpus(&self, group: &ControlGroup, quota: f64, period: f64) -> io::Result<()>;

    /// Limits memory and allows no swap where the kernel counts it, because swap would add memory beyond the limit.
    fn limit_memory(&self, group: &ControlGroup, memory: Bytes) -> io::Result<()>;

    /// Limits reads from the disc with this device number, in bytes a second.
    fn limit_reads(&self, group: &ControlGroup, disc: (u64, u64), bandwidth: Bytes) -> io::Result<()>;

    /// Current memory of a group's processes. Pages of files are reclaimable, and so are the kernel's dentries, which
    /// version 2 counts. The kernel counts shared memory as files; here it is not.
    fn memory(&self, group: &ControlGroup) -> Option<JobMemory>;

    fn usage(&self, group: &ControlGroup) -> ResourceUsage;
}

#[derive(Debug)]
pub(super) struct CgroupBackend {
    version: CgroupVersion,
    hierarchies: Vec<CgroupHierarchy>,
    disc: Option<(u64, u64)>,
    below: Option<DelegatedGroup>,
}

impl CgroupBackend {
    pub fn new(version: CgroupVersion, disc: Option<&LimitedDisc>) -> Self {
        let all = CgroupHierarchy::all(Path::new("/")).into_iter();
        let hierarchies = all.filter(|hierarchy| hierarchy.version == version).collect();
        CgroupBackend { version, hierarchies, disc: disc.map(|disc| disc.numbers), below: None }
    }
}

impl Backend for CgroupBackend {
    fn info(&self) -> &'static BackendInfo {
        match self.version {
            CgroupVersion::One => &V1,
            CgroupVersion::Two => &V2,
        }
    }

    /// Creates a group, limits it and lets a process join it.
    fn check(&mut self, resource: Resource, watch: &RunWatch<'_>) -> Result<(), String> {
        let wanted = self.version.interface().controller(resource);
        if self.hierarchies.is_empty() {
            return Err("none are mounted here".to_owned());
        }
        let hierarchy = self.hierarchies.iter().find(|hierarchy| hierarchy.has(wanted));
        let hierarchy = hierarchy.ok_or_else(|| format!("our group has no controller `{wanted}`"))?;
        if self.version == CgroupVersion::Two {
            delegation::pass_on(&hierarchy.own, wanted, &mut self.below)?;
        }
        let groups = ControlGroups::in_one(hierarchy).map_err(|cause| cause.to_string())?;
        let groups = groups.limit(&probe_limits(resource), self.disc).map_err(|cause| cause.to_string())?;
        let joined: Vec<String> = groups.prefix().into_iter().chain(["true".to_owned()]).collect();
        output_of(&joined, watch).map(drop)
    }

    fn sweep(&self, _watch: &RunWatch<'_>) {
        group::sweep(&self.hierarchies);
    }

    /// Groups are also useful without limits: they count usage and track all descendants of a job.
    fn set_limits(&self, request: &BackendRequest<'_>) -> io::Result<Option<Box<dyn JobHold>>> {
        let groups = ControlGroups::make(&self.hierarchies).limit(&request.limits, self.disc)?;
        Ok((!groups.is_empty()).then(|| Box::new(groups) as Box<dyn JobHold>))
    }
}

impl JobHold for ControlGroups {
    fn prefix(&self) -> Vec<String> {
        ControlGroups::prefix(self)
    }

    fn cleanup(&self) -> Vec<String> {
        ControlGroups::cleanup(self)
    }

    fn counts_cpu(&self) -> bool {
        self.all().any(|group| group.usage().cpu_seconds.is_some())
    }

    fn memory(&mut self) -> Option<JobMemory> {
        self.all().find_map(ControlGroup::memory)
    }

    fn processes(&self) -> Vec<ProcessPeak> {
        self.all().next().map_or(Vec::new(), ControlGroup::processes)
    }

    fn usage(&mut self) -> ResourceUsage {
        let counted = self.all().map(ControlGroup::usage).fold(ResourceUsage::default(), ResourceUsage::fill_missing);
        // Throttling counts only where this hold limits CPUs.
        ResourceUsage { throttled_seconds: counted.throttled_seconds.filter(|_| self.limits_cpus()), ..counted }
    }
}
