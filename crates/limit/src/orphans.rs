//! Processes of a job that lost their parents, where no control group knows them: the kernel gives them to us, not to init, however far from
//! the job's process group, session and environment they went.

use super::processes::Entry;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, getsid};
use std::io;

/// How often is looked for more: those that are ended leave theirs to us.
const ROUNDS: usize = 100;

/// Distinguishes orphans of a job from what we start ourselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Orphans {
    us: i32,
    session: i32,
}

impl Orphans {
    /// Orphans of what we start, as far as they are given to us.
    pub fn ours() -> Self {
        Orphans { us: getpid().as_raw(), session: getsid(None).map_or(0, Pid::as_raw) }
    }

    /// The same, and from now on they are given to us (PR_SET_CHILD_SUBREAPER(2const)).
    pub fn adopt() -> io::Result<Self> {
        set_child_subreaper(true)?;
        Ok(Self::ours())
    }

    /// Whether a process is one: what we start ourselves stays in our session, and what leaves a job's process group for good makes one.
    pub fn has(self, entry: &Entry) -> bool {
        entry.parent == self.us && entry.session != self.session
    }

    /// Ends all of them, and what they started.
    pub fn end(&self) {
        for _ in 0..ROUNDS {
            let orphans: Vec<Pid> =
                Entry::all().iter().filter(|entry| self.has(entry)).map(|entry| Pid::from_raw(entry.process)).collect();
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                // It may have ended by itself, and waits for us to notice.
                let _ = kill(orphan, Signal::SIGKILL);
                let _ = waitpid(orphan, None);
            }
        }
    }
}
