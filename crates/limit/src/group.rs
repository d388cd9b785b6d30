//! The control groups of one job, one in each hierarchy that limits or counts something; gone with the job.

use super::Axis;
use super::hierarchy::{Hierarchy, Version, controller};
use super::marks::Mark;
use super::own_memory::Holding;
use super::owner::Owner;
use super::process_table::Entry;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_base::units::Bytes;
use perf4sight_machine::Limits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time that quotas are shares of, in microseconds: the kernel's own choice.
const PERIOD: f64 = 100_000.0;
/// The smallest quota that the kernel takes, in microseconds.
const LEAST_QUOTA: f64 = 1000.0;
/// How long a group may take to become empty and to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often is tried.
const AGAIN: Duration = Duration::from_millis(10);
/// Controllers of version 1 that only count.
const COUNTS: &str = "cpuacct";

/// Puts itself into the groups whose folders come first, then becomes what comes behind `--`. Children inherit groups, so nothing of
/// the job is ever outside of them.
const JOIN: &str = r#"while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@""#;
/// Ends what is in groups, and takes them away: for the guard, when we are dead.
const SWEEP: &str = r#"for round in 1 2 3 4 5; do
    for group; do [ ! -d "$group" ] || kill -KILL $(cat "$group/cgroup.procs") || rmdir "$group"; done
    sleep 0.1
done"#;

/// The groups of a job.
#[derive(Debug)]
pub(super) struct Groups {
    groups: Vec<Group>,
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    version: Version,
    controllers: Vec<String>,
}

/// What the groups of a job counted; what no controller here counts is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub kills: Option<u64>,
    pub peak: Option<Bytes>,
    pub cpu_seconds: Option<f64>,
    pub throttled_seconds: Option<f64>,
    pub bytes_read: Option<Bytes>,
}

impl Groups {
    /// New groups below our own wherever there can be some: where there can be none, another means holds what they would have held.
    pub fn make(hierarchies: &[Hierarchy]) -> Self {
        let name = new_name();
        let useful = hierarchies.iter().filter(|hierarchy| {
            let limits = |axis: &Axis| hierarchy.has(controller(*axis, hierarchy.version));
            hierarchy.version == Version::Two || hierarchy.has(COUNTS) || Axis::ALL.iter().any(limits)
        });
        Groups { groups: useful.filter_map(|hierarchy| Group::make(hierarchy, &name).ok()).collect() }
    }

    /// A new group in one hierarchy.
    pub fn in_one(hierarchy: &Hierarchy) -> io::Result<Self> {
        Ok(Groups { groups: vec![Group::make(hierarchy, &new_name())?] })
    }

    /// Sets what may be used; storage is the device with these numbers.
    pub fn limit(&self, limits: &Limits, device: Option<(u64, u64)>) -> io::Result<()> {
        if let Some(cpus) = limits.cpus {
            let quota = (cpus * PERIOD).max(LEAST_QUOTA).round();
            self.set(Axis::Cpus, |group| match group.version {
                Version::Two => group.write("cpu.max", &format!("{quota} {PERIOD}")),
                Version::One => {
                    group.write("cpu.cfs_period_us", &PERIOD.to_string())?;
                    group.write("cpu.cfs_quota_us", &quota.to_string())
                }
            })?;
        }
        if let Some(memory) = limits.memory {
            self.set(Axis::Memory, |group| group.limit_memory(memory))?;
        }
        if let (Some(bandwidth), Some((major, minor))) = (limits.storage, device) {
            self.set(Axis::Storage, |group| match group.version {
                Version::Two => group.write("io.max", &format!("{major}:{minor} rbps={}", bandwidth.0)),
                Version::One => {
                    group.write("blkio.throttle.read_bps_device", &format!("{major}:{minor} {}", bandwidth.0))
                }
            })?;
        }
        Ok(())
    }

    fn set(&self, axis: Axis, set: impl Fn(&Group) -> io::Result<()>) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::Unsupported, format!("no control group limits {axis}"));
        set(self.of(axis).ok_or_else(missing)?)
    }

    /// The group that limits an axis.
    fn of(&self, axis: Axis) -> Option<&Group> {
        self.groups.iter().find(|group| group.has(controller(axis, group.version)))
    }

    /// What to put before a command, so that it starts within the groups.
    pub fn prefix(&self) -> Vec<String> {
        if self.groups.is_empty() {
            return Vec::new();
        }
        let words = ["/bin/sh", "-c", JOIN, "join"].map(str::to_owned);
        words.into_iter().chain(self.folders()).chain(["--".to_owned()]).collect()
    }

    /// What ends and removes all of them, for whoever outlives us.
    pub fn farewell(&self) -> Vec<String> {
        if self.groups.is_empty() {
            return Vec::new();
        }
        ["/bin/sh", "-c", SWEEP, "sweep"].map(str::to_owned).into_iter().chain(self.folders()).collect()
    }

    fn folders(&self) -> impl Iterator<Item = String> {
        self.groups.iter().map(|group| group.folder.to_string_lossy().into_owned())
    }

    /// What they counted so far.
    pub fn counts(&self) -> Counts {
        self.groups.iter().map(Group::counts).fold(Counts::default(), |all, one| Counts {
            kills: all.kills.or(one.kills),
            peak: all.peak.or(one.peak),
            cpu_seconds: all.cpu_seconds.or(one.cpu_seconds),
            throttled_seconds: all.throttled_seconds.or(one.throttled_seconds),
            bytes_read: all.bytes_read.or(one.bytes_read),
        })
    }

    /// Whether there is none, so that nothing tells for sure what a job has started.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// What their processes hold now; none where no group counts memory.
    pub fn holding(&self) -> Option<Holding> {
        self.groups.iter().find_map(Group::holding)
    }

    /// What each of their processes holds, and held at most.
    pub fn marks(&self) -> Vec<Mark> {
        self.groups.first().map_or(Vec::new(), Group::marks)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.groups {
            // The next run takes away what does not go now.
            let _ = remove(&group.folder);
        }
    }
}

/// A name for something of ours that nothing else has.
pub(super) fn new_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    Owner::own().name(MADE.fetch_add(1, Ordering::Relaxed))
}

impl Group {
    /// A group of version 2 that somebody else made, and takes away.
    pub fn at(folder: PathBuf) -> Self {
        Group { folder, version: Version::Two, controllers: Vec::new() }
    }

    fn make(hierarchy: &Hierarchy, name: &str) -> io::Result<Self> {
        let folder = hierarchy.own.join(name);
        fs::create_dir(&folder).map_err(|cause| {
            io::Error::new(cause.kind(), format!("no group can be made in {}: {cause}", hierarchy.own.display()))
        })?;
        Ok(Group { folder, version: hierarchy.version, controllers: hierarchy.controllers.clone() })
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let file = self.folder.join(file);
        fs::write(&file, text)
            .map_err(|cause| io::Error::new(cause.kind(), format!("{text:?} to {}: {cause}", file.display())))
    }

    /// Swapping would make room beyond the limit: it is left none, where the kernel counts it.
    fn limit_memory(&self, memory: Bytes) -> io::Result<()> {
        let amount = memory.0.to_string();
        let (limit, swap, beyond) = match self.version {
            Version::Two => ("memory.max", "memory.swap.max", "0"),
            Version::One => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", amount.as_str()),
        };
        self.write(limit, &amount)?;
        if self.folder.join(swap).exists() { self.write(swap, beyond) } else { Ok(()) }
    }

    /// What its processes hold now. Pages of files go where others need the room, and so does what the kernel remembers of their names, which
    /// version 2 tells; memory that processes share counts among files for the kernel, and not here.
    pub fn holding(&self) -> Option<Holding> {
        let (all, files, shared) = match self.version {
            Version::Two => ("memory.current", ["file", "slab_reclaimable"].as_slice(), "shmem"),
            Version::One => ("memory.usage_in_bytes", ["total_cache"].as_slice(), "total_shmem"),
        };
        // The most first: what is read of files meanwhile is not taken for the job's own then.
        let most = self.most();
        let all = self.number(all)?;
        let stat = self.read("memory.stat")?;
        let files: u64 = files.iter().map(|name| value(&stat, name)).sum::<Option<u64>>()?;
        let files = files.saturating_sub(value(&stat, shared).unwrap_or(0));
        Some(Holding { own: Bytes(all.saturating_sub(files)), files: Bytes(files), most })
    }

    /// What each of its processes holds, and held at most.
    pub fn marks(&self) -> Vec<Mark> {
        let processes = super::hierarchy::words(&self.folder.join("cgroup.procs"));
        processes.iter().filter_map(|process| Some(Mark::of(&Entry::read(process.parse().ok()?)?))).collect()
    }

    /// The most memory that it held at a time.
    fn most(&self) -> Option<Bytes> {
        let file = match self.version {
            Version::Two => "memory.peak",
            Version::One => "memory.max_usage_in_bytes",
        };
        self.number(file).map(Bytes)
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    /// What it counted so far.
    pub fn counts(&self) -> Counts {
        let field = |file: &str, name: &str| value(&self.read(file)?, name);
        match self.version {
            Version::Two => Counts {
                kills: field("memory.events", "oom_kill"),
                peak: self.most(),
                cpu_seconds: field("cpu.stat", "usage_usec").map(|usage| usage as f64 / 1e6),
                throttled_seconds: field("cpu.stat", "throttled_usec").map(|throttled| throttled as f64 / 1e6),
                bytes_read: self.read("io.stat").map(|stat| read_of_version_2(&stat)),
            },
            Version::One => Counts {
                kills: field("memory.oom_control", "oom_kill"),
                peak: self.most(),
                cpu_seconds: self.number("cpuacct.usage").map(|usage| usage as f64 / 1e9),
                throttled_seconds: field("cpu.stat", "throttled_time").map(|throttled| throttled as f64 / 1e9),
                bytes_read: self.read("blkio.throttle.io_service_bytes").map(|stat| read_of_version_1(&stat)),
            },
        }
    }
}

/// The number behind a name in lines of `name number`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// `254:0 rbytes=1459200 wbytes=314773504 rios=192 ...`, a line for each device that was used.
fn read_of_version_2(stat: &str) -> Bytes {
    Bytes(stat.split_whitespace().filter_map(|word| word.strip_prefix("rbytes=")?.parse::<u64>().ok()).sum())
}

/// `254:0 Read 1459200`, several lines for each device that was used.
fn read_of_version_1(stat: &str) -> Bytes {
    let read = |line: &str| line.split_once(" Read ").and_then(|(_, bytes)| bytes.trim().parse::<u64>().ok());
    Bytes(stat.lines().filter_map(read).sum())
}

/// Ends what is in a group and takes it away, groups in it first.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let below = fs::read_dir(folder)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    below.for_each(|entry| drop(remove(&entry.path())));
    let until = Instant::now() + PATIENCE;
    loop {
        for process in super::hierarchy::words(&folder.join("cgroup.procs")).iter().filter_map(|word| word.parse().ok())
        {
            // It may have ended by itself meanwhile.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        match fs::remove_dir(folder) {
            Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => thread::sleep(AGAIN),
            done => return done,
        }
    }
}

/// Takes away the groups whose owner is dead, in any group that we see, with what still runs in them.
pub(super) fn sweep(hierarchies: &[Hierarchy]) {
    for hierarchy in hierarchies {
        let mut visit = vec![hierarchy.mount.clone()];
        while let Some(folder) = visit.pop() {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                match Owner::of(&entry.file_name().to_string_lossy()) {
                    // Another one may be sweeping too, or it may be another user's.
                    Some(owner) if owner.is_dead() => drop(remove(&entry.path())),
                    Some(_) => {}
                    None => visit.push(entry.path()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Of 1000 bytes 600 are pages of files, of which 100 are shared by processes, and 150 what the kernel remembers of names.
    #[test]
    fn what_goes_where_room_is_needed_is_not_what_a_job_holds() {
        let folder = TempDir::new().unwrap();
        let stat = "anon 200\nfile 600\nshmem 100\nslab_reclaimable 150\nslab_unreclaimable 50\nslab 200\n";
        fs::write(folder.path().join("memory.stat"), stat).unwrap();
        fs::write(folder.path().join("memory.current"), "1000\n").unwrap();
        let holding = Group::at(folder.path().to_owned()).holding();
        assert_eq!(holding, Some(Holding { own: Bytes(350), files: Bytes(650), most: None }));
    }

    #[test]
    fn reads_are_told_from_writes_in_both_versions() {
        let one = "254:0 Read 1048576\n254:0 Write 77\n254:0 Total 1048653\n8:0 Read 24\nTotal 1048677\n";
        assert_eq!(read_of_version_1(one), Bytes(1_048_600));
        // Linux, Documentation/admin-guide/cgroup-v2.rst.
        let two = "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021\n";
        assert_eq!(read_of_version_2(two), Bytes(1_459_200 + 90_430_464));
    }
}
