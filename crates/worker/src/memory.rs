//! Who counts the memory of a step: our allocator and the kernel on a processor, libtorch's allocator and the driver on a GPU.

use super::allocator;
use super::gpu::{GpuCounters, GpuHandle};
use super::process::{self, IdleMemory};
use perf4sight_machine::description::counter;
use perf4sight_machine::gpu;
use perf4sight_step::protocol::{GpuInfo, MemoryReading};
use std::path::Path;
use tch::{Device, Kind, TchError, Tensor};

/// The counters of a measurement, started before its first tensor.
pub(super) trait MemoryCounters {
    /// The counters by now.
    fn reading(&self) -> Result<MemoryReading, TchError>;

    /// Whether an allocation was ever refused: distinguishes out of memory from every other failure of libtorch.
    fn refused(&self) -> bool;

    /// From here on steps are timed, with the allocator as processes usually have it.
    fn begin_timing(&self);

    /// Peak of the used memory since then, where it differs from the reading.
    fn heap(&self) -> Option<u64>;
}

/// Main memory, of a step on the processor.
pub(super) struct ProcessMemory(IdleMemory);

impl ProcessMemory {
    /// Installs the counting allocator for all tensors, with a cap of `limit` bytes. Large blocks are mapped where
    /// memory is `counted`.
    pub fn begin(limit: Option<u64>, counted: bool) -> Self {
        allocator::install(limit);
        let idle = IdleMemory::take();
        allocator::map_large(counted);
        ProcessMemory(idle)
    }
}

impl MemoryCounters for ProcessMemory {
    fn reading(&self) -> Result<MemoryReading, TchError> {
        Ok(self.0.reading(allocator::peak()))
    }

    fn refused(&self) -> bool {
        allocator::refused()
    }

    fn begin_timing(&self) {
        // Blocks that were mapped until here stay; the first steps on the heap have it to build up.
        allocator::map_large(false);
        process::forget_peak();
    }

    fn heap(&self) -> Option<u64> {
        Some(self.0.peak())
    }
}

/// The memory of a GPU: its own, or main memory where the board has only one.
pub(super) struct GpuMemory {
    gpu: GpuInfo,
    handle: GpuHandle,
    used: u64,
    available: u64,
    free: u64,
}

impl GpuMemory {
    /// Starts counting on a GPU that is ready: its context and libraries, which take some hundred MiB, are loaded.
    pub fn begin(gpu: GpuInfo, handle: GpuHandle) -> Result<Self, TchError> {
        drop(Tensor::f_zeros([1], (Kind::Float, Device::Cuda(handle.index())))?);
        handle.settle()?;
        handle.forget()?;
        let (available, free) = match gpu.unified {
            true => (kernel("MemAvailable"), kernel("MemFree")),
            false => handle.memory().map(|(free, _)| (free, free))?,
        };
        let used = used_memory(&gpu, handle)?;
        Ok(GpuMemory { gpu, handle, used, available, free })
    }
}

impl MemoryCounters for GpuMemory {
    fn reading(&self) -> Result<MemoryReading, TchError> {
        let GpuCounters { allocated, reserved, reserved_now, retries, refusals } = self.handle.count()?;
        // Memory that the allocator held at its peak and has freed since, to serve a request that would otherwise have
        // been refused.
        let given_back = reserved.saturating_sub(reserved_now);
        Ok(MemoryReading {
            allocated,
            reserved,
            used: (used_memory(&self.gpu, self.handle)? + given_back).saturating_sub(self.used),
            available: self.available,
            free: self.free,
            heap: None,
            retries: Some(retries),
            refusals: Some(refusals),
        })
    }

    fn refused(&self) -> bool {
        self.handle.count().is_ok_and(|counters| counters.refusals > 0)
    }

    fn begin_timing(&self) {
        // The caching allocator is the same in both phases.
    }

    fn heap(&self) -> Option<u64> {
        None
    }
}

/// Memory in use, by all processes.
fn used_memory(gpu: &GpuInfo, handle: GpuHandle) -> Result<u64, TchError> {
    if gpu.unified {
        // The published profiler's formula; NVML does not report it.
        let [total, left @ ..] = ["MemTotal", "MemFree", "Buffers", "Cached"].map(kernel);
        return Ok(total.saturating_sub(left.iter().sum()));
    }
    match gpu::used_memory(&gpu.bus) {
        Some(used) => Ok(used.0),
        None => handle.memory().map(|(free, total)| total - free),
    }
}

fn kernel(name: &str) -> u64 {
    counter(Path::new("/proc/meminfo"), name).map_or(0, |bytes| bytes.0)
}
