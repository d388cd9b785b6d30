//! Folders that nobody else can look into, as long as they are needed and not longer.
//!
//! Their names are not to be guessed, so nobody can be there first and have us write elsewhere through a link. A program that is
//! killed leaves its folder behind; the next one takes it away, for the kernel has given up the lock that its owner held.

use crate::error::{Error, Result};
use nix::unistd::geteuid;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What the names of all of them begin with.
const PREFIX: &str = "perf4sight.";
/// What only their owner may do with them.
const MODE: u32 = 0o700;

/// A folder that goes when it is dropped, or by the next program's hand.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: TempDir,
    _lock: File,
}

impl PrivateFolder {
    /// A new folder in `parent`, and none of those left behind there.
    ///
    /// # Errors
    /// When there can be none.
    pub fn new(parent: &Path) -> Result<Self> {
        sweep(parent);
        make(parent)
            .map_err(|cause| Error::io(parent, "make a folder here", &cause).help("make room or permit writing"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn make(parent: &Path) -> io::Result<PrivateFolder> {
    loop {
        let permissions = Permissions::from_mode(MODE);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(parent)?;
        // Another program may have found it before it was locked, and taken it for left behind.
        match File::open(folder.path()).map(|lock| (lock.try_lock(), lock)) {
            Ok((Ok(()), lock)) if folder.path().exists() => return Ok(PrivateFolder { folder, _lock: lock }),
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
}

/// Removes the folders of ours that nobody holds. What cannot be removed now can stay.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for folder in named.map(|entry| entry.path()) {
        if let Some(_lock) = abandoned(&folder) {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// The lock of a folder, no link, of this user's that nobody holds.
fn abandoned(folder: &PathBuf) -> Option<File> {
    let about = fs::symlink_metadata(folder).ok()?;
    if !about.is_dir() || about.uid() != geteuid().as_raw() {
        return None;
    }
    let only_folders = (nix::fcntl::OFlag::O_DIRECTORY | nix::fcntl::OFlag::O_NOFOLLOW).bits();
    let lock = OpenOptions::new().read(true).custom_flags(only_folders).open(folder).ok()?;
    lock.try_lock().ok()?;
    Some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nobody_else_can_look_into_it_and_it_goes() {
        let parent = TempDir::new().unwrap();
        let folder = PrivateFolder::new(parent.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(folder.path().join("file"), "").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_left_behind_goes_and_what_is_held_stays() {
        let parent = TempDir::new().unwrap();
        let left = parent.path().join("perf4sight.left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("network.onnx"), "").unwrap();
        let elsewhere = TempDir::new().unwrap();
        symlink(elsewhere.path(), parent.path().join("perf4sight.link")).unwrap();
        let held = PrivateFolder::new(parent.path()).unwrap();
        let second = PrivateFolder::new(parent.path()).unwrap();
        assert!(!left.exists() && held.path().exists() && second.path().exists() && elsewhere.path().exists());
    }
}
