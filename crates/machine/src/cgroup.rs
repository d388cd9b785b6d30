//! Memory limits and out-of-memory kills from the kernel's control groups.

use super::linux::number;
use perf4sight_base::units::Bytes;
use procfs::{FromRead, ProcessCGroups};
use std::fs;
use std::path::{Path, PathBuf};

const GROUPS: &str = "sys/fs/cgroup";

/// Memory of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMemory {
    /// The limit for all its processes together.
    pub limit: Bytes,
    /// Memory that they use and the kernel cannot reclaim: without the file cache.
    pub used: Bytes,
}

/// File names of one version of the interface, relative to a group's folder.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// The name in memory.stat of inactive file pages.
    cache: &'static str,
    kills: &'static str,
}

const V2: GroupFiles =
    GroupFiles { limit: "memory.max", used: "memory.current", cache: "inactive_file", kills: "memory.events" };
const V1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: "total_inactive_file",
    kills: "memory.oom_control",
};

/// The limits of this process, its own group's first; groups without a limit are left out. `root` is the root of the
/// file system, or a folder with copies of another machine's files.
pub fn allowances(root: &Path) -> Vec<GroupMemory> {
    of_process(root).iter().filter_map(|(folder, interface)| interface.allowance(folder)).collect()
}

/// Out-of-memory kills so far, in each group of this process that counts them; a worker is in the same groups. If no
/// group counts them, the kills on the whole machine, including other programs'. Nothing on kernels older than 4.13,
/// which have no counter.
///
/// If a counter grows while a worker is killed, memory was the reason: the worker's `oom_score_adj` makes it the first
/// candidate. `root` is the root of the file system.
pub fn memory_kills(root: &Path) -> Vec<u64> {
    let groups = of_process(root);
    let counted = groups.iter().filter_map(|(folder, interface)| counter(&folder.join(interface.kills), "oom_kill"));
    match counted.collect::<Vec<u64>>() {
        none if none.is_empty() => counter(&root.join("proc/vmstat"), "oom_kill").into_iter().collect(),
        counted => counted,
    }
}

fn of_process(root: &Path) -> Vec<(PathBuf, &'static GroupFiles)> {
    let membership = ProcessCGroups::from_file(root.join("proc/self/cgroup"));
    membership.map_or(Vec::new(), |membership| groups(&membership, &root.join(GROUPS)))
}

impl GroupFiles {
    fn allowance(&self, folder: &Path) -> Option<GroupMemory> {
        // Without a limit, v2 writes "max" and v1 a number near 2^63.
        let limit = number(&folder.join(self.limit)).filter(|&limit: &u64| limit < 1 << 62)?;
        let used: u64 = number(&folder.join(self.used)).unwrap_or(0);
        let cache = counter(&folder.join("memory.stat"), self.cache).unwrap_or(0);
        Some(GroupMemory { limit: Bytes(limit), used: Bytes(used.saturating_sub(cache)) })
    }
}

/// The folders of the memory groups of a process and of their ancestors. Inside a container the path may be the host's;
/// then the ancestors still include the mounted group.
fn groups(membership: &ProcessCGroups, root: &Path) -> Vec<(PathBuf, &'static GroupFiles)> {
    let mut found = Vec::new();
    for group in &membership.0 {
        let (mount, interface) = match group.hierarchy {
            0 => (root.to_owned(), &V2),
            _ if group.controllers.iter().any(|controller| controller == "memory") => (root.join("memory"), &V1),
            _ => continue,
        };
        let own = mount.join(group.pathname.trim_start_matches('/'));
        let ancestors = own.ancestors().take_while(|folder| folder.starts_with(&mount)).map(Path::to_owned);
        found.extend(ancestors.map(|folder| (folder, interface)));
    }
    found
}

/// The number after `name` in a file of `name number` lines.
fn counter(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn both_generations_are_found_with_their_ancestors() {
        let root = TempDir::new().unwrap();
        let group = root.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(root.path().join("memory/c")).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("a/memory.max"), "1048576\n").unwrap();
        fs::write(root.path().join("a/memory.current"), "4096\n").unwrap();
        fs::write(root.path().join("a/memory.stat"), "file 4000\ninactive_file 1024\nactive_file 64\n").unwrap();
        fs::write(root.path().join("memory/c/memory.limit_in_bytes"), "2097152\n").unwrap();
        fs::write(root.path().join("memory/memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let membership = ProcessCGroups::from_read("5:cpu,memory:/c\n3:cpu:/x\n0::/a/b\n".as_bytes()).unwrap();
        let groups = groups(&membership, root.path());
        let found: Vec<GroupMemory> = groups.iter().filter_map(|(folder, i)| i.allowance(folder)).collect();
        let allowance = |limit, used| GroupMemory { limit: Bytes(limit), used: Bytes(used) };
        assert_eq!(found, [allowance(2_097_152, 0), allowance(1_048_576, 3072)]);
    }

    #[test]
    fn kills_of_this_process_own_groups_count_before_those_of_others() {
        let root = TempDir::new().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert!(memory_kills(root.path()).is_empty(), "a kernel that counts none");
        write("proc/vmstat", "pgfault 5\noom_kill 7\n");
        assert_eq!(memory_kills(root.path()), [7]);
        write("proc/self/cgroup", "0::/a\n");
        assert_eq!(memory_kills(root.path()), [7], "a group without a counter");
        write("sys/fs/cgroup/a/memory.events", "oom 3\noom_kill 2\n");
        assert_eq!(memory_kills(root.path()), [2], "another program was killed five times");
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("events");
        fs::write(&file, "oom 7\noom_kill_disable 0\noom_kill 3\n").unwrap();
        assert_eq!(counter(&file, "oom_kill"), Some(3));
    }
}
