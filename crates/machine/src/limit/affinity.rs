//! CPUs that a command may run on, given before it starts.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use std::thread;

/// The CPUs that this thread may run on, by their numbers.
pub(super) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Does something, such as starting a process, on a thread that may run on these CPUs only: what it starts inherits that.
pub(super) fn within<T: Send>(cpus: &[usize], start: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let confined = move || {
        let mut set = CpuSet::new();
        cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
        start()
    };
    // What panics there panics here.
    thread::scope(|scope| scope.spawn(confined).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The first CPUs that a limit fills: one and a half need two. Never none.
pub(super) fn filled(cpus: f64, allowed: &[usize]) -> Vec<usize> {
    allowed.iter().copied().take(whole(cpus)).collect()
}

/// CPUs, or threads, that a limit fills.
pub(super) fn whole(cpus: f64) -> usize {
    (cpus.ceil() as usize).max(1)
}
