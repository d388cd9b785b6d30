//! CPUs that a command may run on, given before it starts.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use std::thread;

/// What OpenMP, MKL and OpenBLAS read.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"];

/// The CPUs that this thread may run on, by their numbers.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Does something, such as starting a process, on a thread that may run on these CPUs only: what it starts inherits that.
pub fn within<T: Send>(cpus: &[usize], start: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
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
pub fn filled(cpus: f64, allowed: &[usize]) -> Vec<usize> {
    allowed.iter().copied().take(whole(cpus)).collect()
}

/// CPUs, or threads, that a limit fills.
pub fn whole(cpus: f64) -> usize {
    (cpus.ceil() as usize).max(1)
}

/// The variables that tell compute libraries how many threads to start, before they are loaded: one for each CPU that the limit fills,
/// shared among the processes of a job. Without a limit there are none.
pub fn threads(cpus: Option<f64>, processes: usize) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let threads = cpus.map(|cpus| whole(cpus / processes.max(1) as f64).to_string());
    threads.into_iter().flat_map(|threads| THREADS.map(|name| (name, threads.clone())))
}
