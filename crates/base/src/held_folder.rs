//! A folder that one program at a time writes into.

use crate::error::{Error, Result};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often a folder that another one holds is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Holds `folder` for this process, which waits so long where another one does; dropped, it is free again, however the process ends. `help`
/// is what to do where it stays held.
///
/// # Errors
/// When another process holds it all the time.
pub fn hold(folder: &Path, mut patience: Duration, help: &str) -> Result<File> {
    let failed = |cause: std::io::Error| Error::io(folder, "lock this folder", &cause);
    let handle = File::open(folder).map_err(failed)?;
    loop {
        match handle.try_lock() {
            Ok(()) => return Ok(handle),
            // Some disks know of no locks: nobody holds anything there.
            Err(TryLockError::Error(cause)) if cause.kind() == ErrorKind::Unsupported => return Ok(handle),
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            Err(TryLockError::WouldBlock) if !patience.is_zero() => {
                thread::sleep(LOOK_AGAIN);
                patience = patience.saturating_sub(LOOK_AGAIN);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::device("another perf4sight is writing into this folder").file(folder).help(help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_folder_is_held_by_one_at_a_time() {
        let folder = TempDir::new().unwrap();
        let hold = |patience| hold(folder.path(), patience, "wait for it to finish");
        let held = hold(Duration::ZERO).unwrap();
        let told = hold(LOOK_AGAIN).unwrap_err().to_string();
        assert!(told.contains("another perf4sight") && told.contains("wait for it to finish"), "{told}");
        drop(held);
        assert!(hold(Duration::ZERO).is_ok());
    }
}
