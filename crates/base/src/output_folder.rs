//! Output folders: one program at a time writes into one, none while others read it, and an empty one is not left.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// All output folders of this process, for an exit that runs no destructors.
static OUTPUTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// An output folder, which is removed when this is dropped and nothing was written into it.
#[derive(Debug)]
pub struct OutputFolder(PathBuf);

impl OutputFolder {
    /// A folder that exists or is made later.
    pub fn new(folder: &Path) -> Self {
        OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned());
        OutputFolder(folder.to_owned())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        // Fails where it holds something.
        let _ = fs::remove_dir(&self.0);
        OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Removes the empty output folders of this process before an exit that runs no destructors.
pub fn remove_empty() {
    for folder in OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = fs::remove_dir(folder);
    }
}

/// Makes a folder, with those above it.
///
/// # Errors
/// A file in its place; a folder that cannot be made.
pub fn make(folder: &Path) -> Result<()> {
    check_no_file(folder)?;
    fs::create_dir_all(folder).map_err(|cause| Error::io(folder, "make this folder", &cause))
}

/// Refuses a file where a folder is to be made, before there is anything to write.
///
/// # Errors
/// A file in its place.
pub fn check_no_file(folder: &Path) -> Result<()> {
    match fs::metadata(folder).is_ok_and(|about| !about.is_dir()) {
        true => Err(Error::usage("is a file").file(folder).expected("a folder, or a name that nothing has yet")),
        false => Ok(()),
    }
}

/// Locks `folder` for this process, which writes into it, and waits at most `patience` for another one. Dropping the result, or the end of
/// the process, releases it. `help` is shown where it stays locked.
///
/// # Errors
/// When another process holds the lock all the time.
pub fn lock_folder(folder: &Path, patience: Duration, help: &str) -> Result<File> {
    lock(
        folder,
        patience,
        help,
        File::try_lock,
        "another perf4sight is writing into this folder, or measures what is in it",
    )
}

/// The same for a process that reads what is in the folder for as long as it holds the lock, as others may.
///
/// # Errors
/// When another process writes into it all the time.
pub fn share_folder(folder: &Path, patience: Duration, help: &str) -> Result<File> {
    lock(folder, patience, help, File::try_lock_shared, "another perf4sight is writing into this folder")
}

fn lock(
    folder: &Path,
    mut patience: Duration,
    help: &str,
    try_lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    problem: &str,
) -> Result<File> {
    let failed = |cause: std::io::Error| Error::io(folder, "lock this folder", &cause);
    let handle = File::open(folder).map_err(failed)?;
    loop {
        match try_lock(&handle) {
            Ok(()) => return Ok(handle),
            // Some file systems have no locks.
            Err(TryLockError::Error(cause)) if cause.kind() == ErrorKind::Unsupported => return Ok(handle),
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            Err(TryLockError::WouldBlock) if !patience.is_zero() => {
                thread::sleep(LOOK_AGAIN);
                patience = patience.saturating_sub(LOOK_AGAIN);
            }
            Err(TryLockError::WouldBlock) => return Err(Error::device(problem).file(folder).help(help)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn an_output_folder_stays_where_something_was_written() {
        let parent = TempDir::new().unwrap();
        let [empty, full, blocked] = ["empty", "full", "blocked"].map(|name| parent.path().join(name));
        let folders = [&empty, &full, &blocked].map(|folder| OutputFolder::new(folder));
        [&empty, &full, &blocked].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::write(full.join("file"), "").unwrap();
        remove_empty();
        assert!(!empty.exists() && !blocked.exists() && full.exists());
        fs::create_dir(&empty).unwrap();
        drop(folders);
        assert!(!empty.exists() && full.exists());
    }

    #[test]
    fn a_folder_is_held_by_one_at_a_time() {
        let folder = TempDir::new().unwrap();
        let hold = |patience| lock_folder(folder.path(), patience, "wait for it to finish");
        let held = hold(Duration::ZERO).unwrap();
        let message = hold(LOOK_AGAIN).unwrap_err().to_string();
        assert!(message.contains("another perf4sight") && message.contains("wait for it to finish"), "{message}");
        drop(held);
        let share = || share_folder(folder.path(), Duration::ZERO, "wait for it to finish");
        let shared = [share().unwrap(), share().unwrap()];
        assert!(hold(Duration::ZERO).is_err(), "it is read");
        drop(shared);
        let _held = hold(Duration::ZERO).unwrap();
        assert!(share().is_err(), "it is written into");
    }
}
