//! The control groups of one job, one in each hierarchy that limits or counts a resource; removed with the job.

use super::CgroupVersion;
use super::hierarchy::{CgroupHierarchy, file_words};
use crate::Resource;
use crate::backend::JobMemory;
use crate::owner::ResourceOwner;
use crate::peaks::ProcessPeak;
use crate::processes::ProcessEntry;
use crate::usage::ResourceUsage;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_machine::ResourceLimits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The quota period in microseconds: the kernel's default.
const PERIOD: f64 = 100_000.0;
/// The smallest quota of the kernel, in microseconds.
const LEAST_QUOTA: f64 = 1000.0;
/// How long a group may take to become empty and be removed.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);
/// The controller of version 1 that only counts.
const COUNTS: &str = "cpuacct";

/// Joins the groups whose folders come first, then executes the words after `--`. Children inherit groups, so no
/// process of the job is ever outside of them.
const JOIN: &str = r#"while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@""#;
/// Kills the processes in the groups before `--`, removes the groups, then executes the words after it.
const SWEEP: &str = r#"for round in 1 2 3 4 5; do
    for group; do
        [ "$group" != -- ] || break
        [ ! -d "$group" ] || kill -KILL $(cat "$group/cgroup.procs") || rmdir "$group"
    done
    sleep 0.1
done
while [ "$1" != -- ]; do shift; done; shift; [ $# = 0 ] || exec "$@""#;

#[derive(Debug)]
pub(super) struct ControlGroups {
    groups: Vec<ControlGroup>,
    limits_cpus: bool,
}

#[derive(Debug)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
    version: CgroupVersion,
    controllers: Vec<String>,
}

impl ControlGroups {
    /// Creates groups below our own in each hierarchy where that works; for the others, another back-end enforces the
    /// limits.
    pub fn make(hierarchies: &[CgroupHierarchy]) -> Self {
        let name = new_name();
        let useful = hierarchies.iter().filter(|hierarchy| {
            let limits = |resource: &Resource| hierarchy.has(hierarchy.version.interface().controller(*resource));
            hierarchy.version == CgroupVersion::Two || hierarchy.has(COUNTS) || Resource::ALL.iter().any(limits)
        });
        let groups = useful.filter_map(|hierarchy| ControlGroup::make(hierarchy, &name).ok()).collect();
        ControlGroups { groups, limits_cpus: false }
    }

    pub fn in_one(hierarchy: &CgroupHierarchy) -> io::Result<Self> {
        Ok(ControlGroups { groups: vec![ControlGroup::make(hierarchy, &new_name())?], limits_cpus: false })
    }

    /// Sets the limits; `disc` is the device number for storage.
    pub fn limit(mut self, limits: &ResourceLimits, disc: Option<(u64, u64)>) -> io::Result<Self> {
        if let Some(cpus) = limits.cpus {
            let (group, quota) = (self.for_resource(Resource::Cpus)?, (cpus * PERIOD).max(LEAST_QUOTA).round());
            group.version.interface().limit_cpus(group, quota, PERIOD)?;
            self.limits_cpus = true;
        }
        if let Some(memory) = limits.memory {
            let group = self.for_resource(Resource::Memory)?;
            group.version.interface().limit_memory(group, memory)?;
        }
        if let Some((bandwidth, disc)) = limits.storage.zip(disc) {
            let group = self.for_resource(Resource::Storage)?;
            group.version.interface().limit_reads(group, disc, bandwidth)?;
        }
        Ok(self)
    }

    fn for_resource(&self, resource: Resource) -> io::Result<&ControlGroup> {
        let group = self.groups.iter().find(|group| {
            let wanted = group.version.interface().controller(resource);
            group.controllers.iter().any(|name| name == wanted)
        });
        let missing = || io::Error::new(io::ErrorKind::Unsupported, format!("no control group limits {resource}"));
        group.ok_or_else(missing)
    }

    pub fn all(&self) -> impl Iterator<Item = &ControlGroup> {
        self.groups.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub fn limits_cpus(&self) -> bool {
        self.limits_cpus
    }

    /// The words to put before a command, so that it starts within the groups.
    pub fn prefix(&self) -> Vec<String> {
        self.command(JOIN, "join")
    }

    /// The command that ends and removes all of them after this process died.
    pub fn cleanup(&self) -> Vec<String> {
        self.command(SWEEP, "sweep")
    }

    fn command(&self, script: &str, name: &str) -> Vec<String> {
        let words = ["/bin/sh", "-c", script, name].map(str::to_owned);
        let folders = self.groups.iter().map(|group| group.folder.to_string_lossy().into_owned());
        words.into_iter().chain(folders).chain(["--".to_owned()]).collect()
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for group in &self.groups {
            // The next run removes groups that remain.
            let _ = remove(&group.folder);
        }
    }
}

pub(crate) fn new_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    ResourceOwner::this_process().name(MADE.fetch_add(1, Ordering::Relaxed))
}

impl ControlGroup {
    /// A group of version 2 that another program creates and removes.
    pub fn of_version_2(folder: PathBuf) -> Self {
        ControlGroup { folder, version: CgroupVersion::Two, controllers: Vec::new() }
    }

    fn make(hierarchy: &CgroupHierarchy, name: &str) -> io::Result<Self> {
        let folder = hierarchy.own.join(name);
        fs::create_dir(&folder).map_err(|cause| {
            io::Error::new(cause.kind(), format!("no group can be made in {}: {cause}", hierarchy.own.display()))
        })?;
        Ok(ControlGroup { folder, version: hierarchy.version, controllers: hierarchy.controllers.clone() })
    }

    /// Current memory of its processes; none where it does not count memory.
    pub fn memory(&self) -> Option<JobMemory> {
        self.version.interface().memory(self)
    }

    /// The current and peak memory of each of its processes.
    pub fn processes(&self) -> Vec<ProcessPeak> {
        let processes = file_words(&self.folder.join("cgroup.procs"));
        processes
            .iter()
            .filter_map(|process| Some(ProcessPeak::from_entry(&ProcessEntry::read(process.parse().ok()?)?)))
            .collect()
    }

    pub fn usage(&self) -> ResourceUsage {
        self.version.interface().usage(self)
    }

    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let file = self.folder.join(file);
        fs::write(&file, text)
            .map_err(|cause| io::Error::new(cause.kind(), format!("{text:?} to {}: {cause}", file.display())))
    }

    pub(super) fn write_if_there(&self, file: &str, text: &str) -> io::Result<()> {
        if self.folder.join(file).exists() { self.write(file, text) } else { Ok(()) }
    }

    pub(super) fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }

    pub(super) fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    pub(super) fn field(&self, file: &str, name: &str) -> Option<u64> {
        value(&self.read(file)?, name)
    }
}

/// The number after a name in lines of `name number`.
pub(super) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Kills the processes in a group and removes it, its subgroups first.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let below = fs::read_dir(folder)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.for_each(|entry| drop(remove(&entry.path())));
    let until = Instant::now() + PATIENCE;
    loop {
        for process in file_words(&folder.join("cgroup.procs")).iter().filter_map(|word| word.parse().ok()) {
            // It may have ended by itself meanwhile.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        match fs::remove_dir(folder) {
            Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => thread::sleep(AGAIN),
            done => return done,
        }
    }
}

/// Removes the groups of dead owners, with the processes that still run in them.
pub(super) fn sweep(hierarchies: &[CgroupHierarchy]) {
    for hierarchy in hierarchies {
        let mut visit = vec![hierarchy.mount.clone()];
        while let Some(folder) = visit.pop() {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                match ResourceOwner::parse_name(&entry.file_name().to_string_lossy()) {
                    // Another process may be sweeping too, or it may belong to another user.
                    Some(owner) if owner.is_dead() => drop(remove(&entry.path())),
                    Some(_) => {}
                    None => visit.push(entry.path()),
                }
            }
        }
    }
}
