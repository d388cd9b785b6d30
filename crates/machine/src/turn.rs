//! One measurement at a time on a machine: a lock across processes and users.
//!
//! Two measurements at once spoil each other: another busy process on a 2-core machine turned a training step of 0.2 s
//! into 2.3-2.9 s, because OpenMP threads wait for each other.

use super::Watch;
use perf4sight_base::error::{Error, Result};
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How often a waiting process looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The right to measure; given back when dropped, by the kernel if the process dies.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

/// Waits until nothing else measures on this machine; `None` when cancelled meanwhile.
///
/// # Errors
/// When the lock file cannot be used.
pub fn take(watch: &Watch<'_>) -> Result<Option<Turn>> {
    let path = shared_folder();
    let failed = |cause: &std::io::Error| Error::io(&path, "take the lock that keeps measurements apart", cause);
    let file = File::open(&path).map_err(|cause| failed(&cause))?;
    let mut since = None;
    loop {
        match file.try_lock() {
            Ok(()) => {
                since.into_iter().for_each(|since: Instant| (watch.waited)(since.elapsed()));
                return Ok(Some(Turn { _lock: file }));
            }
            Err(TryLockError::Error(cause)) => return Err(failed(&cause)),
            Err(TryLockError::WouldBlock) if watch.cancelled() => return Ok(None),
            Err(TryLockError::WouldBlock) if since.is_none() => {
                since = Some(Instant::now());
                (watch.waiting)("another measurement is running on this machine");
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOOK_AGAIN),
        }
    }
}

/// What is locked: a folder that is there on every system, that every user may open and that nobody can put something else in the
/// place of. A file in it would be its maker's, who could keep everybody else from it. The same for all users, whatever their
/// environment says about temporary folders.
fn shared_folder() -> PathBuf {
    let shared = PathBuf::from("/tmp");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}
