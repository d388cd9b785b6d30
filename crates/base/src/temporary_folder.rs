//! Temporary folders: only their user may open them, and they are removed when they are no longer needed.
//!
//! Their names cannot be guessed, so no other process can create one first as a link to another place. A program that
//! is killed leaves its folder; the next program removes it, because the kernel has released the lock. It removes only
//! marked folders: the mark names the inode, so neither `perf4sight.git` nor a copy of a temporary folder is removed.

use crate::error::{Error, Result};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

const PREFIX: &str = "perf4sight.";
/// Only their owner may read or write them.
const MODE: u32 = 0o700;
const MARK: &str = ".perf4sight-temporary";

/// A folder that is removed when it is dropped, or by the next program.
#[derive(Debug)]
pub struct TemporaryFolder(Arc<LockedFolder>);

#[derive(Debug)]
struct LockedFolder {
    folder: PathBuf,
    handle: File,
}

/// All of this process, for an exit that runs no destructors.
static HELD: Mutex<Vec<Weak<LockedFolder>>> = Mutex::new(Vec::new());

impl TemporaryFolder {
    /// A new folder in `parent`; abandoned ones there are removed.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new(parent: &Path) -> Result<Self> {
        Self::with_prefix(PREFIX, parent)
    }

    /// The same with another prefix.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn with_prefix(prefix: &str, parent: &Path) -> Result<Self> {
        sweep(prefix, parent);
        let (folder, handle) = make(prefix, parent)
            .map_err(|cause| Error::io(parent, "make a folder here", &cause).help("make room or permit writing"))?;
        let held = Arc::new(LockedFolder { folder, handle });
        let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        Ok(TemporaryFolder(held))
    }

    /// Where it is, until it is dropped.
    pub fn path(&self) -> &Path {
        &self.0.folder
    }
}

/// Removes all folders of this process before an exit that runs no destructors.
pub fn remove_all() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for held in held.iter().filter_map(Weak::upgrade) {
        let _ = remove(&held.folder, &held.handle);
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed now is left to the next program.
        let _ = remove(&self.folder, &self.handle);
    }
}

/// A new folder in `parent` that is marked as ours and stays until [`remove_marked`].
///
/// # Errors
/// When it cannot be created.
pub fn make_marked(prefix: &str, parent: &Path) -> io::Result<PathBuf> {
    make(prefix, parent).map(|(folder, _)| folder)
}

/// Whether a folder has the mark of [`make_marked`], and so may be removed.
pub fn is_marked(folder: &Path) -> bool {
    matches!(open(folder), Ok(Some(_)))
}

/// Removes a folder with our mark, and its contents.
///
/// # Errors
/// One that is not marked, or cannot be removed.
pub fn remove_marked(folder: &Path) -> io::Result<()> {
    let handle = open(folder)?.ok_or_else(|| io::Error::other("perf4sight did not make this folder"))?;
    remove(folder, &handle)
}

/// It is locked before it is marked: unmarked folders are never removed. Another program may hold the lock while it looks for the mark.
fn make(prefix: &str, parent: &Path) -> io::Result<(PathBuf, File)> {
    let permissions = Permissions::from_mode(MODE);
    let folder = tempfile::Builder::new().prefix(prefix).permissions(permissions).tempdir_in(parent)?;
    let handle = File::open(folder.path())?;
    match handle.lock() {
        // Some file systems have no locks: nothing is removed there.
        Err(cause) if cause.kind() != io::ErrorKind::Unsupported => return Err(cause),
        _ => {}
    }
    fs::write(inside(&handle).join(MARK), mark(&handle)?)?;
    Ok((folder.keep(), handle))
}

/// The text of the mark; a copy of the folder has another inode.
fn mark(handle: &File) -> io::Result<String> {
    let number = handle.metadata()?.ino();
    Ok(format!("perf4sight made folder {number} and removes it when no process holds it any more.\n"))
}

/// A path to the opened folder itself, whatever its name refers to now.
fn inside(handle: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(handle.as_raw_fd().to_string())
}

/// Removes abandoned folders. What cannot be removed now is left.
fn sweep(prefix: &str, parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    for folder in named.map(|entry| entry.path()) {
        if let Ok(Some(handle)) = open(&folder)
            && handle.try_lock().is_ok()
        {
            let _ = remove(&folder, &handle);
        }
    }
}

/// Opens a folder that is no link, is marked, and only this user may open.
fn open(folder: &Path) -> io::Result<Option<File>> {
    let only_folders = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let handle = OpenOptions::new().read(true).custom_flags(only_folders.bits()).open(folder)?;
    let about = handle.metadata()?;
    let is_private = about.uid() == geteuid().as_raw() && about.mode() & 0o7777 == MODE;
    Ok((is_private && has_mark(&handle)?).then_some(handle))
}

fn has_mark(handle: &File) -> io::Result<bool> {
    let expected = mark(handle)?;
    let mut found = String::new();
    // Opening a pipe would block.
    let plain = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(plain).open(inside(handle).join(MARK))?;
    file.take(1 + expected.len() as u64).read_to_string(&mut found)?;
    Ok(found == expected)
}

/// Removes a folder and its content; marks it again if another process wrote into it at the same time.
fn remove(folder: &Path, handle: &File) -> io::Result<()> {
    let removed = empty(folder, handle);
    if removed.is_err() && fs::read_dir(inside(handle))?.next().is_some() {
        fs::write(inside(handle).join(MARK), mark(handle)?)?;
    }
    removed
}

/// The mark is removed last, so that a folder half removed is still recognised.
fn empty(folder: &Path, handle: &File) -> io::Result<()> {
    let inside = inside(handle);
    for entry in fs::read_dir(&inside)?.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name() != MARK)) {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_file(inside.join(MARK))?;
    // Fails where another folder now has the name, unless that is empty.
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// The folder that a killed program leaves in `parent`.
    fn left_behind(parent: &Path) -> PathBuf {
        let folder = make_marked(PREFIX, parent).unwrap();
        fs::create_dir(folder.join("networks")).unwrap();
        fs::write(folder.join("networks/network.onnx"), "").unwrap();
        folder
    }

    #[test]
    fn nobody_else_can_look_into_it_and_it_goes() {
        let parent = TempDir::new().unwrap();
        let folder = TemporaryFolder::new(parent.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(folder.path().join("file"), "").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_left_behind_goes_and_what_is_held_stays() {
        let parent = TempDir::new().unwrap();
        let left = left_behind(parent.path());
        let elsewhere = TempDir::new().unwrap();
        symlink(left_behind(elsewhere.path()), parent.path().join("perf4sight.link")).unwrap();
        let held = TemporaryFolder::new(parent.path()).unwrap();
        let second = TemporaryFolder::new(parent.path()).unwrap();
        assert!(!left.exists() && held.path().exists() && second.path().exists());
        assert!(parent.path().join("perf4sight.link/networks/network.onnx").exists());
    }

    /// A bare repository of that name, an empty folder for this user's eyes, a copy and a wider-open one of ours.
    #[test]
    fn what_the_program_did_not_make_stays() {
        let parent = TempDir::new().unwrap();
        let [repository, empty, copy] =
            ["perf4sight.git", "perf4sight.mine", "perf4sight.copy"].map(|name| parent.path().join(name));
        fs::create_dir_all(repository.join("objects")).unwrap();
        fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let (left, opened) = (left_behind(parent.path()), left_behind(parent.path()));
        [&empty, &copy].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::copy(left.join(MARK), copy.join(MARK)).unwrap();
        [&repository, &empty, &copy]
            .into_iter()
            .for_each(|folder| fs::set_permissions(folder, Permissions::from_mode(MODE)).unwrap());
        fs::set_permissions(&opened, Permissions::from_mode(0o755)).unwrap();
        drop(TemporaryFolder::new(parent.path()).unwrap());
        assert!(!left.exists());
        assert!(opened.join("networks/network.onnx").exists());
        assert!(repository.join("HEAD").exists() && repository.join("objects").exists());
        assert!(empty.exists() && copy.join(MARK).exists());
    }

    /// Somebody who may rename there puts another folder under the name.
    #[test]
    fn another_folder_under_the_name_keeps_what_it_holds() {
        let parent = TempDir::new().unwrap();
        let folder = TemporaryFolder::new(parent.path()).unwrap();
        let (name, moved) = (folder.path().to_owned(), parent.path().join("moved"));
        fs::rename(&name, &moved).unwrap();
        fs::create_dir(&name).unwrap();
        fs::write(name.join("work"), "").unwrap();
        drop(folder);
        assert!(name.join("work").exists());
        assert_eq!(fs::read_dir(moved).unwrap().count(), 0);
    }
}
