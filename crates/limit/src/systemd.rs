//! Scopes of systemd as back-ends: of the user manager and of the system manager (systemd.resource-control(5)).

use super::Resource;
use super::backend::{Backend, BackendGrip, BackendInfo, BackendRequest, JobHold, JobMemory};
use super::cgroup::{ControlGroup, controller_v2, new_name};
use super::disc::LimitedDisc;
use super::owner::ResourceOwner;
use super::peaks::ProcessPeak;
use super::probe::{output_of, probe_limits};
use super::usage::ResourceUsage;
use perf4sight_machine::guard::GuardedProcess;
use perf4sight_machine::{ResourceLimits, RunWatch};
use procfs::{FromRead, ProcessCGroups};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

static USER: BackendInfo = BackendInfo {
    name: "systemd-run --user",
    resources: &Resource::ALL,
    grip: BackendGrip::Wraps,
    page_cache_only: false,
};
static SYSTEM: BackendInfo = BackendInfo {
    name: "systemd-run --system",
    resources: &Resource::ALL,
    grip: BackendGrip::Wraps,
    page_cache_only: false,
};

/// Keeps a scope and its counters alive after the command ends. The sleeping process is not a child of the command, so
/// that a job may wait for all its children.
const KEEP: &str = r#"(sleep 2147483647 < /dev/null > /dev/null 2>&1 &) ; exec "$@""#;
/// Prints the controllers of its own control group.
const CONTROLLERS: &str = r#"cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.controllers""#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemdManager {
    User,
    System,
}

impl SystemdManager {
    fn option(self) -> &'static str {
        match self {
            SystemdManager::User => "--user",
            SystemdManager::System => "--system",
        }
    }
}

#[derive(Debug)]
pub(super) struct SystemdBackend {
    manager: SystemdManager,
    disc: Option<LimitedDisc>,
    /// The controllers of its scopes, or why it cannot create any; checked once.
    controllers: Option<Result<Vec<String>, String>>,
}

impl SystemdBackend {
    pub fn new(manager: SystemdManager, disc: Option<&LimitedDisc>) -> Self {
        SystemdBackend { manager, disc: disc.cloned(), controllers: None }
    }

    fn probe(&self, watch: &RunWatch<'_>) -> Result<Vec<String>, String> {
        let limits = ResourceLimits { cpus: probe_limits(Resource::Cpus).cpus, ..probe_limits(Resource::Memory) };
        let shell = ["/bin/sh", "-c", CONTROLLERS].map(str::to_owned);
        let words: Vec<String> = scope(self.manager, &new_name(), &limits, None).into_iter().chain(shell).collect();
        Ok(output_of(&words, watch)?.split_whitespace().map(str::to_owned).collect())
    }
}

impl Backend for SystemdBackend {
    fn info(&self) -> &'static BackendInfo {
        match self.manager {
            SystemdManager::User => &USER,
            SystemdManager::System => &SYSTEM,
        }
    }

    /// Creates a scope and checks that it has the controller.
    fn check(&mut self, resource: Resource, watch: &RunWatch<'_>) -> Result<(), String> {
        let controllers = self.controllers.take().unwrap_or_else(|| self.probe(watch));
        let wanted = controller_v2(resource);
        let given = match &controllers {
            Ok(controllers) if controllers.iter().any(|name| name == wanted) => Ok(()),
            Ok(_) => Err(format!("its scopes are not given the controller `{wanted}`")),
            Err(reason) => Err(reason.clone()),
        };
        self.controllers = Some(controllers);
        given
    }

    fn set_limits(&self, request: &BackendRequest<'_>) -> io::Result<Option<Box<dyn JobHold>>> {
        let (manager, name) = (self.manager, new_name());
        let prefix = scope(manager, &name, &request.limits, self.disc.as_ref());
        Ok(Some(Box::new(SystemdScope { manager, name, prefix, process: None, group: None })))
    }
}

struct SystemdScope {
    manager: SystemdManager,
    name: String,
    prefix: Vec<String>,
    process: Option<u32>,
    group: Option<ControlGroup>,
}

impl SystemdScope {
    /// Its control group, once the job is in it.
    fn find(&self) -> Option<ControlGroup> {
        let groups = ProcessCGroups::from_file(format!("/proc/{}/cgroup", self.process?)).ok()?;
        let path = &groups.0.iter().find(|group| group.hierarchy == 0)?.pathname;
        let name = path.rsplit('/').next()?.strip_suffix(".scope")?;
        ResourceOwner::parse_name(name)
            .map(|_| ControlGroup::of_version_2(Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'))))
    }
}

impl JobHold for SystemdScope {
    fn prefix(&self) -> Vec<String> {
        self.prefix.clone()
    }

    fn cleanup(&self) -> Vec<String> {
        end_scope(self.manager, &self.name)
    }

    fn started(&mut self, job: &GuardedProcess) {
        self.process = Some(job.child.id());
    }

    fn counts_cpu(&self) -> bool {
        true
    }

    fn memory(&mut self) -> Option<JobMemory> {
        self.group = self.group.take().or_else(|| self.find());
        self.group.as_ref()?.memory()
    }

    fn processes(&self) -> Vec<ProcessPeak> {
        self.group.as_ref().map_or(Vec::new(), ControlGroup::processes)
    }

    fn usage(&mut self) -> ResourceUsage {
        self.group.as_ref().map_or_else(ResourceUsage::default, ControlGroup::usage)
    }
}

impl Drop for SystemdScope {
    fn drop(&mut self) {
        // Where it is already gone, there is nothing to end.
        let _ = output_of(&self.cleanup(), &RunWatch::quiet(&AtomicBool::new(false)));
    }
}

/// The words to put before a command, so that systemd runs it in a scope of this name (systemd.resource-control(5)).
fn scope(manager: SystemdManager, name: &str, limits: &ResourceLimits, disc: Option<&LimitedDisc>) -> Vec<String> {
    let mut words = ["systemd-run", manager.option(), "--scope", "--quiet", "--collect"].map(str::to_owned).to_vec();
    words.push(format!("--unit={name}"));
    let cpus = limits.cpus.map(|cpus| vec![format!("CPUQuota={}%", (cpus * 100.0).round().max(1.0))]);
    let memory = limits.memory.map(|memory| vec![format!("MemoryMax={}", memory.0), "MemorySwapMax=0".to_owned()]);
    let storage = limits.storage.zip(disc);
    let storage =
        storage.map(|(bandwidth, disc)| vec![format!("IOReadBandwidthMax={} {}", disc.path().display(), bandwidth.0)]);
    words.extend(
        [cpus, memory, storage].into_iter().flatten().flatten().map(|property| format!("--property={property}")),
    );
    words.extend(["--", "/bin/sh", "-c", KEEP, "keep"].map(str::to_owned));
    words
}

fn end_scope(manager: SystemdManager, name: &str) -> Vec<String> {
    let scope = format!("{name}.scope");
    ["systemctl", manager.option(), "kill", "--signal=KILL", &scope].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::units::Bytes;

    #[test]
    fn systemd_is_given_all_limits_as_properties() {
        let limits =
            ResourceLimits { cpus: Some(1.5), memory: Some(Bytes(2 << 30)), storage: Some(Bytes(100_000_000)) };
        let disc = LimitedDisc { numbers: (259, 0), name: "nvme0n1".to_owned() };
        let words = scope(SystemdManager::User, "perf4sight.1", &limits, Some(&disc));
        let expected = "systemd-run --user --scope --quiet --collect --unit=perf4sight.1 --property=CPUQuota=150% \
            --property=MemoryMax=2147483648 --property=MemorySwapMax=0 \
            --property=IOReadBandwidthMax=/dev/nvme0n1 100000000";
        assert_eq!(words[..10].join(" "), expected);
        let without = scope(SystemdManager::System, "perf4sight.2", &ResourceLimits::default(), None);
        assert_eq!(without[6..9], ["--", "/bin/sh", "-c"]);
    }
}
