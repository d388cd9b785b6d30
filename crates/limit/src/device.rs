//! The device whose bandwidth can be limited for a file: the disc below it, found by where the file system is mounted from.

use nix::sys::stat::{SFlag, major, minor, stat};
use std::fs;
use std::path::{Path, PathBuf};

/// File systems whose data comes over a network, through another process or from memory: no disc of this machine has it.
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

/// A disc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disc {
    /// Its major and minor number.
    pub numbers: (u64, u64),
    /// Its name: `nvme0n1`.
    pub name: String,
}

impl Disc {
    /// The file that stands for it.
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// The disc that data lies on, or why none can be limited. `root` is the root of the file system, or holds copies of its files.
    pub fn of(data: &Path, root: &Path) -> Result<Self, String> {
        let data = data.canonicalize().map_err(|cause| format!("{} cannot be found: {cause}", data.display()))?;
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let mount = Mount::of(&data, &mounts).ok_or("where it is mounted from is not told")?;
        let numbers = mount.device()?;
        // Whole discs are limited, not their partitions (Linux, block/blk-cgroup.c, blkg_conf_open_bdev).
        let known = root.join(format!("sys/dev/block/{}:{}", numbers.0, numbers.1));
        let folder =
            known.canonicalize().map_err(|_| format!("the device {}:{} is not known here", numbers.0, numbers.1))?;
        let folder = if folder.join("partition").exists() { folder.parent().unwrap_or(&folder) } else { &folder };
        let numbers = fs::read_to_string(folder.join("dev")).ok().and_then(|text| parse(text.trim()));
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let (numbers, name) = numbers.zip(name).ok_or("its device does not tell its numbers")?;
        Ok(Disc { numbers, name })
    }
}

/// Where a file system is mounted, and from what.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    numbers: (u64, u64),
    kind: String,
    source: String,
}

impl Mount {
    /// The last one, of those that hold a path the one that holds least beside it.
    fn of(path: &Path, mounts: &str) -> Option<Self> {
        let held = mounts.lines().filter_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let place: Vec<&str> = place.split(' ').collect();
            let at = PathBuf::from(place.get(4)?.replace("\\040", " "));
            let mut kind = kind.split(' ');
            let mount = Mount {
                numbers: parse(place.get(2)?)?,
                kind: kind.next()?.to_owned(),
                source: kind.next()?.to_owned(),
            };
            path.starts_with(&at).then(|| (at.components().count(), mount))
        });
        held.reduce(|best, next| if next.0 >= best.0 { next } else { best }).map(|(_, mount)| mount)
    }

    fn device(&self) -> Result<(u64, u64), String> {
        if let Some((kind, whence)) = WITHOUT_DISC.iter().find(|(kind, _)| *kind == self.kind) {
            return Err(format!("the data comes {whence} ({kind})"));
        }
        if self.kind.starts_with("fuse") && self.kind != "fuseblk" {
            return Err(format!("the data comes through another process ({})", self.kind));
        }
        if self.kind == "overlay" {
            return Err(
                "the data lies in the layers of a container (overlay), whose discs are not told: put it into a volume"
                    .to_owned(),
            );
        }
        if self.numbers.0 != 0 {
            return Ok(self.numbers);
        }
        // Btrfs and its like give numbers of no device to each of their parts, but are mounted from one.
        let about = stat(self.source.as_str())
            .ok()
            .filter(|about| SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFBLK);
        let device = about.map(|about| (major(about.st_rdev), minor(about.st_rdev)));
        device.ok_or_else(|| format!("the data lies on no device that is told ({} from {})", self.kind, self.source))
    }
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
        let of = |path: &str| Mount::of(Path::new(path), MOUNTS).unwrap();
        assert_eq!(of("/home/me").numbers, (259, 2));
        assert_eq!(of("/data/imagenet").device(), Err("the data comes over the network (nfs4)".to_owned()));
        assert_eq!(of("/data/local copy/imagenet").source, "/dev/sda");
        assert_eq!(of("/database").numbers, (259, 2), "another folder that begins alike");
        assert!(of("/layers/x").device().unwrap_err().contains("volume"));
        assert_eq!(of("/dev/shm/x").device(), Err("the data comes from memory (tmpfs)".to_owned()));
        assert_eq!(of("/mnt/x").device(), Err("the data comes through another process (fuse.sshfs)".to_owned()));
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
        let found = Disc::of(Path::new("/tmp"), root.path()).unwrap();
        assert_eq!((found.numbers, found.path()), ((259, 0), PathBuf::from("/dev/nvme0n1")));
    }
}
