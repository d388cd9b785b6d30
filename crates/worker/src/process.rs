//! The worker as a process: its memory and time as the kernel reports them.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use perf4sight_machine::description;
use perf4sight_step::protocol::MemoryReading;
use perf4sight_step::sampling::ProcessorLoad;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The machine and the process before there was a network.
pub(super) struct IdleMemory {
    resident: u64,
    available: u64,
    free: u64,
}

impl IdleMemory {
    /// Reads the idle values and resets the peak of the resident set.
    pub fn take() -> Self {
        // Otherwise it would keep the peak of loading libtorch.
        forget_peak();
        IdleMemory {
            resident: read_counter("/proc/self/status", "VmRSS"),
            available: read_counter("/proc/meminfo", "MemAvailable"),
            free: read_counter("/proc/meminfo", "MemFree"),
        }
    }

    /// The counters by now, `allocated` bytes being the peak of the tensors. On a CPU nothing is reserved beyond them.
    ///
    /// The resident set exceeds them by kernels that oneDNN compiles, packing buffers and pages of code.
    pub fn reading(&self, allocated: u64) -> MemoryReading {
        MemoryReading {
            allocated,
            reserved: allocated,
            used: self.peak(),
            available: self.available,
            free: self.free,
            ..MemoryReading::default()
        }
    }

    /// Peak of the resident set above idle, since the last reset.
    pub fn peak(&self) -> u64 {
        read_counter("/proc/self/status", "VmHWM").saturating_sub(self.resident)
    }
}

/// Resets the peak of the resident set.
pub(super) fn forget_peak() {
    // 5 resets VmHWM (Linux, Documentation/filesystems/proc.rst).
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn read_counter(file: &str, name: &str) -> u64 {
    description::counter(Path::new(file), name).map_or(0, |bytes| bytes.0)
}

/// Processor time of the process so far.
pub(super) fn load() -> ProcessorLoad {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return ProcessorLoad::default() };
    ProcessorLoad {
        processor: duration(usage.user_time()) + duration(usage.system_time()),
        preemptions: usage.involuntary_context_switches() as u64,
        waited: waited(),
    }
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(time.num_microseconds() as u64)
}

/// Time that threads of this process stood ready without a processor: the second number of each thread's schedstat
/// (Linux, Documentation/scheduler/sched-stats.rst), in nanoseconds.
fn waited() -> Option<Duration> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let of_thread = |path: PathBuf| fs::read_to_string(path).ok()?.split(' ').nth(1)?.parse::<u64>().ok();
    let waits = threads.flatten().map(|thread| of_thread(thread.path().join("schedstat")));
    waits.sum::<Option<u64>>().map(Duration::from_nanos)
}
