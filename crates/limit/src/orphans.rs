//! Orphaned processes of a job that no control group tracks. The kernel reparents them to this process instead of init,
//! even if they left the job's process group, session and environment.

use super::processes::ProcessEntry;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, getsid};
use std::io;

/// The most rounds of ending orphans: ended processes leave their children to us.
const ROUNDS: usize = 100;

#[derive(Debug, Clone, Copy)]
pub(super) struct OrphanProcesses {
    us: i32,
    session: i32,
}

impl OrphanProcesses {
    /// Orphans among this process's children, as far as the kernel reparents them to us.
    pub fn of_this_process() -> Self {
        OrphanProcesses { us: getpid().as_raw(), session: getsid(None).map_or(0, Pid::as_raw) }
    }

    /// The same, and makes this process the subreaper (PR_SET_CHILD_SUBREAPER(2const)).
    pub fn adopt() -> io::Result<Self> {
        set_child_subreaper(true)?;
        Ok(Self::of_this_process())
    }

    /// Whether a process is an orphan: our own children stay in our session, and a process that leaves the job's
    /// process group for good creates a session.
    pub fn has(self, entry: &ProcessEntry) -> bool {
        entry.parent == self.us && entry.session != self.session
    }

    pub fn end(&self) {
        for _ in 0..ROUNDS {
            let orphans: Vec<Pid> = ProcessEntry::all()
                .iter()
                .filter(|entry| self.has(entry))
                .map(|entry| Pid::from_raw(entry.process))
                .collect();
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                // It may have ended by itself and still has to be waited for.
                let _ = kill(orphan, Signal::SIGKILL);
                let _ = waitpid(orphan, None);
            }
        }
    }
}
