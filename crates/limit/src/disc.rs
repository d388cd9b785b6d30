//! Finds the disc below a file, whose bandwidth can be limited, by the mounts of its file system.

use nix::sys::stat::{SFlag, major, minor, stat};
use procfs::FromRead;
use procfs::process::{MountInfo, MountInfos};
use std::fs;
use std::path::{Path, PathBuf};

/// File systems whose data comes from a network, another process or memory, and not from a disc of this machine.
const WITHOUT_DISC: [(&str, &str); 12] = [
    ("nfs", "over the network"),
    ("nfs4", "over the network"),
    ("cifs", "over the network"),
    ("smb3", "over the network"),
    ("ceph", "over the network"),
    ("lustre", "over the network"),
    ("beegfs", "over the network"),
    ("gpfs", "over the network"),
    ("9p", "from a host"),
    ("virtiofs", "from a host"),
    ("tmpfs", "from memory"),
    ("ramfs", "from memory"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LimitedDisc {
    /// Its major and minor number.
    pub numbers: (u64, u64),
    /// Its name: `nvme0n1`.
    pub name: String,
}

impl LimitedDisc {
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// The disc that holds the data, or the reason why none can be limited. `root` is the root of the file system, or a
    /// folder with copies of its files.
    pub fn find(data: &Path, root: &Path) -> Result<Self, String> {
        let data = data.canonicalize().map_err(|cause| format!("{} cannot be found: {cause}", data.display()))?;
        let mounts = MountInfos::from_file(root.join("proc/self/mountinfo")).map_err(|cause| cause.to_string())?;
        let mount = mount_of(&data, &mounts.0).ok_or("where it is mounted from is not known")?;
        let numbers = device_of(mount)?;
        // Limits apply to whole discs, not to partitions (Linux, block/blk-cgroup.c, blkg_conf_open_bdev).
        let known = root.join(format!("sys/dev/block/{}:{}", numbers.0, numbers.1));
        let folder =
            known.canonicalize().map_err(|_| format!("the device {}:{} is not known here", numbers.0, numbers.1))?;
        let folder = if folder.join("partition").exists() { folder.parent().unwrap_or(&folder) } else { &folder };
        let numbers = fs::read_to_string(folder.join("dev")).ok().and_then(|text| parse(text.trim()));
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let (numbers, name) = numbers.zip(name).ok_or("its device has no numbers")?;
        Ok(LimitedDisc { numbers, name })
    }
}

/// The innermost mount that holds a path; of several with the same mount point, the last one.
fn mount_of<'a>(path: &Path, mounts: &'a [MountInfo]) -> Option<&'a MountInfo> {
    let within = mounts.iter().map(|mount| (place_of(mount), mount)).filter(|(place, _)| path.starts_with(place));
    within.max_by_key(|(place, _)| place.components().count()).map(|(_, mount)| mount)
}

/// Its mount point: the kernel writes spaces as `\040`.
fn place_of(mount: &MountInfo) -> PathBuf {
    mount.mount_point.to_string_lossy().replace("\\040", " ").into()
}

/// The device number that a file system is mounted from.
fn device_of(mount: &MountInfo) -> Result<(u64, u64), String> {
    let (kind, source) = (mount.fs_type.as_str(), mount.mount_source.as_deref().unwrap_or("none"));
    if let Some((_, whence)) = WITHOUT_DISC.iter().find(|(without, _)| *without == kind) {
        return Err(format!("the data comes {whence} ({kind})"));
    }
    if kind.starts_with("fuse") && kind != "fuseblk" {
        return Err(format!("the data comes through another process ({kind})"));
    }
    if kind == "overlay" {
        return Err(
            "the data is stored in the layers of a container (overlay), whose discs are not known: put it into a volume"
                .to_owned(),
        );
    }
    if let Some(numbers) = parse(&mount.majmin).filter(|(major, _)| *major != 0) {
        return Ok(numbers);
    }
    // Btrfs and similar file systems report device numbers without a device for their subvolumes, but are mounted from
    // a device.
    let about = stat(source).ok();
    let about = about.filter(|about| SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFBLK);
    let device = about.map(|about| (major(about.st_rdev), minor(about.st_rdev)));
    device.ok_or_else(|| format!("the data is on no device that is known ({kind} from {source})"))
}

/// `254:0`.
fn parse(numbers: &str) -> Option<(u64, u64)> {
    let (major, minor) = numbers.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const MOUNTS: &str = "27 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n\
         28 27 0:25 / /data rw - nfs4 server:/data rw\n\
         29 27 0:30 / /data/local\\040copy rw - ext4 /dev/sda rw\n\
         30 27 0:31 / /layers rw - overlay overlay rw,lowerdir=/a,upperdir=/b\n\
         31 27 0:32 / /dev/shm rw - tmpfs tmpfs rw\n\
         32 27 0:33 / /mnt rw - fuse.sshfs me@there: rw\n";

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = MountInfos::from_read(MOUNTS.as_bytes()).unwrap().0;
        let of = |path: &str| mount_of(Path::new(path), &mounts).unwrap();
        let reason = |path: &str| device_of(of(path)).unwrap_err();
        assert_eq!(device_of(of("/home/me")), Ok((259, 2)));
        assert_eq!(reason("/data/imagenet"), "the data comes over the network (nfs4)");
        assert_eq!(of("/data/local copy/imagenet").mount_source.as_deref(), Some("/dev/sda"));
        assert_eq!(of("/database").majmin, "259:2", "another folder that begins alike");
        assert!(reason("/layers/x").contains("volume"));
        assert_eq!(reason("/dev/shm/x"), "the data comes from memory (tmpfs)");
        assert_eq!(reason("/mnt/x"), "the data comes through another process (fuse.sshfs)");
    }

    #[test]
    fn of_a_partition_the_whole_disc_is_limited() {
        let root = TempDir::new().unwrap();
        let disc = root.path().join("sys/devices/pci/nvme0n1");
        fs::create_dir_all(disc.join("nvme0n1p2")).unwrap();
        fs::write(disc.join("dev"), "259:0\n").unwrap();
        fs::write(disc.join("nvme0n1p2/dev"), "259:2\n").unwrap();
        fs::write(disc.join("nvme0n1p2/partition"), "2\n").unwrap();
        fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        symlink(disc.join("nvme0n1p2"), root.path().join("sys/dev/block/259:2")).unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), MOUNTS).unwrap();
        let found = LimitedDisc::find(Path::new("/tmp"), root.path()).unwrap();
        assert_eq!((found.numbers, found.path()), ((259, 0), PathBuf::from("/dev/nvme0n1")));
    }
}
