//! Where control groups are mounted, which controllers they have, and where our own group lies.
//!
//! Each controller belongs to one hierarchy: of version 2, which has many, or of version 1, which has one or some. Both occur on the
//! same machine.

use super::Axis;
use std::fs;
use std::path::{Path, PathBuf};

/// A tree of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Its interface.
    pub version: Version,
    /// Where its root, or what we see of it, is mounted.
    pub mount: PathBuf,
    /// The folder of the group that we are in.
    pub own: PathBuf,
    /// What our group can limit or count.
    pub controllers: Vec<String>,
}

/// A generation of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Hierarchy {
    /// The hierarchies that this process is in and sees. `root` is the root of the file system, or a folder that holds copies.
    pub fn all(root: &Path) -> Vec<Hierarchy> {
        let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
        let membership = read("proc/self/cgroup");
        let mounts = read("proc/self/mountinfo");
        mounts.lines().filter_map(|line| mounted(line, &membership, root)).collect()
    }

    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// What limits an axis in a version.
pub(super) fn controller(axis: Axis, version: Version) -> &'static str {
    match (axis, version) {
        (Axis::Cpus, _) => "cpu",
        (Axis::Memory, _) => "memory",
        (Axis::Storage, Version::One) => "blkio",
        (Axis::Storage, Version::Two) => "io",
    }
}

/// A hierarchy from a line of /proc/self/mountinfo, `32 31 0:29 /root /where rw - cgroup source rw,cpu` (proc_pid_mountinfo(5)), and
/// from those of /proc/self/cgroup, `1:cpu:/path` or `0::/path`.
fn mounted(line: &str, membership: &str, root: &Path) -> Option<Hierarchy> {
    let (place, kind) = line.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let (seen, mount) = (place.get(3)?, place.get(4)?.replace("\\040", " "));
    let kind: Vec<&str> = kind.split(' ').collect();
    let options: Vec<&str> = kind.get(2)?.split(',').collect();
    let (version, path) = match *kind.first()? {
        "cgroup2" => (Version::Two, path_of(membership, |controllers| controllers.is_empty())?),
        "cgroup" => {
            let is_this =
                |controllers: &str| !controllers.is_empty() && controllers.split(',').all(|c| options.contains(&c));
            (Version::One, path_of(membership, is_this)?)
        }
        _ => return None,
    };
    let mount = root.join(mount.trim_start_matches('/'));
    let own = mount.join(path.strip_prefix(seen).unwrap_or(path).trim_start_matches('/'));
    let controllers = match version {
        Version::One => options.iter().map(|&option| option.to_owned()).collect(),
        Version::Two => words(&own.join("cgroup.controllers")),
    };
    Some(Hierarchy { version, mount, own, controllers })
}

/// The path of our group in the hierarchy whose controllers are meant.
fn path_of(membership: &str, is_meant: impl Fn(&str) -> bool) -> Option<&str> {
    membership.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        is_meant(controllers).then_some(path)
    })
}

/// The words in a file.
pub(super) fn words(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn machine(membership: &str, mounts: &str) -> (TempDir, Vec<Hierarchy>) {
        let root = TempDir::new().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), membership).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), mounts).unwrap();
        let unified = root.path().join("sys/fs/cgroup/unified");
        fs::create_dir_all(&unified).unwrap();
        fs::write(unified.join("cgroup.controllers"), "hugetlb\n").unwrap();
        let all = Hierarchy::all(root.path());
        (root, all)
    }

    #[test]
    fn a_mixed_machine_has_each_controller_once() {
        let (root, all) = machine(
            "7:blkio:/\n4:memory:/service/a\n2:cpu,cpuacct:/\n9:name=systemd:/\n0::/\n",
            "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n\
             32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:7 - cgroup2 cgroup2 rw\n",
        );
        let groups = root.path().join("sys/fs/cgroup");
        let found: Vec<(Version, &Path)> = all.iter().map(|group| (group.version, group.own.as_path())).collect();
        let own = [groups.join("cpu"), groups.join("memory/service/a"), groups.join("unified")];
        assert_eq!(found, [(Version::One, &*own[0]), (Version::One, &*own[1]), (Version::Two, &*own[2])]);
        assert!(all[0].has("cpu") && all[0].has("cpuacct") && all[1].has("memory"));
        assert_eq!(all[2].controllers, ["hugetlb"]);
    }

    #[test]
    fn in_a_container_only_its_part_of_the_tree_is_mounted() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let (root, all) = machine("4:memory:/docker/abc/job\n", mounts);
        assert_eq!(all[0].own, root.path().join("sys/fs/cgroup/memory/job"));
    }
}
