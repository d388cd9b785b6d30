//! One measurement at a time on a machine: a lock across processes and users.
//!
//! Two measurements at once spoil each other: another busy process on a 2-core machine turned a training step of 0.2 s
//! into 2.3-2.9 s, because OpenMP threads wait for each other.

use super::RunWatch;
use nix::unistd::{Uid, User};
use perf4sight_base::error::{Error, Result};
use procfs::LockType;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The polling interval of a waiting process.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The common prefix of our programs' names.
const OURS: &str = "perf4sight";

/// The held lock; released on drop, or by the kernel if the process dies.
#[derive(Debug)]
pub struct MeasurementLock {
    _lock: File,
}

/// Waits until no other measurement runs on this machine; `None` when cancelled meanwhile. The watch reports the
/// holder. A lock of another user's unrelated program is ignored, because any user could otherwise block all
/// measurements.
///
/// # Errors
/// When the lock file cannot be used.
pub fn take(watch: &RunWatch<'_>) -> Result<Option<MeasurementLock>> {
    take_of(&shared_folder(), watch)
}

fn take_of(path: &Path, watch: &RunWatch<'_>) -> Result<Option<MeasurementLock>> {
    let failed = |cause: &std::io::Error| Error::io(path, "take the lock that keeps measurements apart", cause);
    let file = File::open(path).map_err(|cause| failed(&cause))?;
    let begun = Instant::now();
    let (mut polls, mut reported) = (0, None);
    loop {
        match file.try_lock() {
            Ok(()) if polls == 0 => return Ok(Some(MeasurementLock { _lock: file })),
            Ok(()) => {
                (watch.waited)(begun.elapsed());
                return Ok(Some(MeasurementLock { _lock: file }));
            }
            Err(TryLockError::Error(cause)) => return Err(failed(&cause)),
            Err(TryLockError::WouldBlock) if watch.cancelled() => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = LockHolder::find(&file);
        if let Some(stranger) = holder.as_ref().filter(|holder| holder.is_stranger()) {
            (watch.waiting)(&format!(
                "{stranger} holds the measurement lock on {} and does not measure: it is not waited for",
                path.display()
            ));
            return Ok(Some(MeasurementLock { _lock: file }));
        }
        polls += 1;
        if is_news(reported.as_ref(), holder.as_ref(), polls) {
            let who = holder.as_ref().map_or(String::new(), |holder| format!(": {holder}"));
            (watch.waiting)(&format!("another measurement is running on this machine{who}"));
            reported = Some(holder);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Whether to report whom this waits for, given the holder that was reported before, if any. Between two measurements the lock has no holder
/// for a moment, which is no news.
fn is_news(reported: Option<&Option<LockHolder>>, holder: Option<&LockHolder>, polls: usize) -> bool {
    match (reported, holder) {
        (None, None) => polls > 1,
        (None, Some(_)) => true,
        (Some(Some(before)), Some(holder)) => before != holder,
        (Some(_), _) => false,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LockHolder {
    process: i32,
    program: String,
    user: Uid,
}

impl LockHolder {
    /// None where the kernel does not report it, as for a process in another container.
    fn find(file: &File) -> Option<Self> {
        let inode = file.metadata().ok()?.ino();
        let locks = procfs::locks().ok()?;
        let held = locks.iter().filter(|lock| lock.inode == inode && matches!(lock.lock_type, LockType::FLock));
        let process = held.filter_map(|lock| lock.pid).find(|process| *process > 0)?;
        let folder = Path::new("/proc").join(process.to_string());
        let program = fs::read_to_string(folder.join("comm")).ok()?.trim().to_owned();
        Some(LockHolder { process, program, user: Uid::from_raw(fs::metadata(folder).ok()?.uid()) })
    }

    /// Whether it is an unrelated program of another user; a lock of root always counts.
    fn is_stranger(&self) -> bool {
        !self.user.is_root() && self.user != Uid::effective() && !self.program.starts_with(OURS)
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = User::from_uid(self.user).ok().flatten().map_or_else(|| self.user.to_string(), |user| user.name);
        write!(f, "process {} ({}) of {name}", self.process, self.program)
    }
}

/// The locked folder: it exists on every system, every user may open it, and no user can replace it. A file in it would
/// belong to its creator, who could deny access to others. It does not depend on the environment's temporary folder.
fn shared_folder() -> PathBuf {
    let shared = PathBuf::from("/tmp");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tempfile::TempDir;

    /// Runs `flock` of util-linux, which locks a folder until this is dropped.
    struct Flock(Child);

    impl Flock {
        fn start(before: &[&str], folder: &Path) -> Option<Self> {
            let words: Vec<&str> = before.iter().copied().chain(["flock"]).collect();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg(folder).args(["sh", "-c", "echo held; exec sleep 60"]);
            let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
            let mut said = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
            assert_eq!(said, "held\n");
            Some(Flock(child))
        }
    }

    impl Drop for Flock {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn watched(folder: &Path, cancelled: &AtomicBool) -> (bool, String) {
        let said = Mutex::new(String::new());
        let waiting = |why: &str| {
            said.lock().unwrap().push_str(why);
            cancelled.store(!why.contains("not waited for"), Ordering::Relaxed);
        };
        let lock = take_of(folder, &RunWatch { waiting: &waiting, ..RunWatch::quiet(cancelled) }).unwrap();
        (lock.is_some(), said.into_inner().unwrap())
    }

    #[test]
    fn whoever_is_waited_for_is_named() {
        let folder = TempDir::new().unwrap();
        let Some(other) = Flock::start(&[], folder.path()) else { return println!("not run: there is no flock") };
        let (took, said) = watched(folder.path(), &AtomicBool::new(false));
        let words = format!("another measurement is running on this machine: process {} (flock) of ", other.0.id());
        assert!(!took && said.starts_with(&words), "{said}");
    }

    #[test]
    fn what_another_users_program_holds_is_not_waited_for() {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        if !Uid::effective().is_root() {
            return println!("not run: it takes two users");
        }
        let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let Some(other) = Flock::start(&nobody, folder.path()) else { return println!("not run: there is no setpriv") };
        let (took, said) = watched(folder.path(), &AtomicBool::new(false));
        assert!(took && said.contains(&format!("process {} (flock) of ", other.0.id())), "{said}");
    }

    #[test]
    fn only_programs_of_other_users_that_do_not_measure_are_strangers() {
        let holder = |program: &str, user: u32| LockHolder {
            process: 1,
            program: program.to_owned(),
            user: Uid::from_raw(user),
        };
        let other = Uid::effective().as_raw() + 1;
        assert!(holder("flock", other).is_stranger());
        assert!(!holder("perf4sight", other).is_stranger() && !holder("suite", 0).is_stranger());
        assert!(!holder("suite", Uid::effective().as_raw()).is_stranger());
    }
}
