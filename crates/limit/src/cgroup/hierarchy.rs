//! Where control groups are mounted, which controllers they have, and where our own group is.
//!
//! Each controller belongs to one hierarchy: that of version 2, which has many, or one of version 1, which has one or a
//! few. Both occur on the same machine.

use super::CgroupVersion;
use procfs::process::{MountInfo, MountInfos};
use procfs::{FromRead, ProcessCGroup, ProcessCGroups};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CgroupHierarchy {
    pub version: CgroupVersion,
    /// The mount point of its root, or of the part that is visible here.
    pub mount: PathBuf,
    /// The folder of our own group.
    pub own: PathBuf,
    /// The controllers of our own group.
    pub controllers: Vec<String>,
}

impl CgroupHierarchy {
    /// The hierarchies of this process that are visible. `root` is the root of the file system, or a folder with
    /// copies.
    pub fn all(root: &Path) -> Vec<CgroupHierarchy> {
        let membership = ProcessCGroups::from_file(root.join("proc/self/cgroup"));
        let mounts = MountInfos::from_file(root.join("proc/self/mountinfo"));
        let (Ok(membership), Ok(mounts)) = (membership, mounts) else { return Vec::new() };
        mounts.0.iter().filter_map(|mount| CgroupHierarchy::mounted(mount, &membership.0, root)).collect()
    }

    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    fn mounted(mount: &MountInfo, membership: &[ProcessCGroup], root: &Path) -> Option<Self> {
        let is_mounted = |controller: &String| mount.super_options.contains_key(controller);
        let (version, group) = match mount.fs_type.as_str() {
            "cgroup2" => (CgroupVersion::Two, membership.iter().find(|group| group.hierarchy == 0)?),
            "cgroup" => {
                let is_this = |group: &&ProcessCGroup| group.hierarchy != 0 && group.controllers.iter().all(is_mounted);
                (CgroupVersion::One, membership.iter().find(is_this)?)
            }
            _ => return None,
        };
        let path = group.pathname.strip_prefix(&mount.root).unwrap_or(&group.pathname);
        let mounted = root.join(mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point));
        let own = mounted.join(path.trim_start_matches('/'));
        let controllers = match version {
            CgroupVersion::One => group.controllers.clone(),
            CgroupVersion::Two => file_words(&own.join("cgroup.controllers")),
        };
        Some(CgroupHierarchy { version, mount: mounted, own, controllers })
    }
}

pub(super) fn file_words(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn machine(membership: &str, mounts: &str) -> (TempDir, Vec<CgroupHierarchy>) {
        let root = TempDir::new().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), membership).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), mounts).unwrap();
        let unified = root.path().join("sys/fs/cgroup/unified");
        fs::create_dir_all(&unified).unwrap();
        fs::write(unified.join("cgroup.controllers"), "hugetlb\n").unwrap();
        let all = CgroupHierarchy::all(root.path());
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
        let found: Vec<(CgroupVersion, &Path)> = all.iter().map(|group| (group.version, group.own.as_path())).collect();
        let own = [groups.join("cpu"), groups.join("memory/service/a"), groups.join("unified")];
        assert_eq!(
            found,
            [(CgroupVersion::One, &*own[0]), (CgroupVersion::One, &*own[1]), (CgroupVersion::Two, &*own[2])]
        );
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
