//! CPU affinity of a command, set before it starts.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use std::thread;

/// Variables that OpenMP, MKL and OpenBLAS read.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"];

/// The CPUs that this thread may run on, by number.
pub fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Runs a function, such as one that starts a process, on a thread with this CPU affinity, which children inherit.
pub fn with_affinity<T: Send>(cpus: &[usize], start: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let confined = move || {
        let mut set = CpuSet::new();
        cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
        start()
    };
    // A panic in the thread continues here.
    thread::scope(|scope| scope.spawn(confined).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The CPUs that a limit occupies: a limit of 1.5 needs two. At least one.
pub fn cpus_of_limit(cpus: f64, allowed: &[usize]) -> Vec<usize> {
    allowed.iter().copied().take(whole_cpus(cpus)).collect()
}

/// Whole CPUs, or threads, for a limit.
pub fn whole_cpus(cpus: f64) -> usize {
    (cpus.ceil() as usize).max(1)
}

/// The variables that set the number of threads of compute libraries before they are loaded: one thread for each CPU of
/// the limit, divided among the processes of a job. None without a limit.
pub fn threads(cpus: Option<f64>, processes: usize) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let threads = cpus.map(|cpus| whole_cpus(cpus / processes.max(1) as f64).to_string());
    threads.into_iter().flat_map(|threads| THREADS.map(|name| (name, threads.clone())))
}
