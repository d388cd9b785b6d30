//! A GPU through libtorch's CUDA half (`gpu.cpp`): settings, counters, events.
#![allow(unsafe_code)] // what tch does not offer

use super::shim::checked;
use perf4sight_step::protocol::{GpuInfo, StepTask, WorkerRequest};
use std::ffi::{c_int, c_void};
use std::time::Duration;
use tch::TchError;

mod functions {
    use super::{GpuCounters, c_int, c_void};

    unsafe extern "C" {
        pub fn p4s_gpu_look(count: *mut i64, runtime: *mut i64, cudnn: *mut i64) -> bool;
        pub fn p4s_gpu_use(index: c_int, share: f64, tf32: bool, benchmark: bool) -> bool;
        pub fn p4s_gpu_settle(index: c_int) -> bool;
        pub fn p4s_gpu_forget(index: c_int) -> bool;
        pub fn p4s_gpu_count(index: c_int, counters: *mut GpuCounters) -> bool;
        pub fn p4s_gpu_memory(index: c_int, free: *mut u64, total: *mut u64) -> bool;
        pub fn p4s_event_new(index: c_int) -> *mut c_void;
        pub fn p4s_event_free(event: *mut c_void);
        pub fn p4s_event_elapsed(from: *const c_void, to: *const c_void, milliseconds: *mut f64) -> bool;
    }
}

/// The counters of the caching allocator, in bytes and counts, in the layout of `gpu.cpp`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct GpuCounters {
    /// Peak of the tensors' blocks.
    pub allocated: u64,
    /// Peak of the memory reserved from the device.
    pub reserved: u64,
    /// Memory reserved from the device now.
    pub reserved_now: u64,
    /// How often cached memory had to be freed before a block could be allocated.
    pub retries: u64,
    /// How often a block could not be had at all.
    pub refusals: u64,
}

/// How many GPUs libtorch can use, and the versions of the CUDA runtime and of cuDNN as they number them.
pub(super) fn look() -> Result<(i64, i64, i64), TchError> {
    let (mut count, mut runtime, mut cudnn) = (0, 0, 0);
    // SAFETY: three numbers to write to.
    checked(unsafe { functions::p4s_gpu_look(&mut count, &mut runtime, &mut cudnn) })?;
    Ok((count, runtime, cudnn))
}

/// One GPU, in use by this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct GpuHandle(c_int);

impl GpuHandle {
    /// Sets up a GPU with the task's settings. Tensors and caches may take as much of its memory as the request allows.
    pub fn take(index: usize, gpu: &GpuInfo, request: &WorkerRequest, task: &StepTask) -> Result<Self, TchError> {
        let share = request.mem_limit.map_or(1.0, |limit| limit as f64 / gpu.memory as f64);
        let handle = GpuHandle(index as c_int);
        // SAFETY: plain values; the CUDA half is loaded, else this fails with libtorch's message.
        checked(unsafe { functions::p4s_gpu_use(handle.0, share, task.tf32, task.cudnn_benchmark) })?;
        Ok(handle)
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Waits until it has finished all queued work.
    pub fn settle(self) -> Result<(), TchError> {
        // SAFETY: a plain value.
        checked(unsafe { functions::p4s_gpu_settle(self.0) })
    }

    /// Frees cached memory of the allocator, and resets its peaks.
    pub fn forget(self) -> Result<(), TchError> {
        // SAFETY: a plain value.
        checked(unsafe { functions::p4s_gpu_forget(self.0) })
    }

    /// The counters of the allocator since then.
    pub fn count(self) -> Result<GpuCounters, TchError> {
        let mut counters = GpuCounters::default();
        // SAFETY: a struct with the layout of the shim.
        checked(unsafe { functions::p4s_gpu_count(self.0, &mut counters) })?;
        Ok(counters)
    }

    /// Free and total bytes of its memory, whoever uses them.
    pub fn memory(self) -> Result<(u64, u64), TchError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two numbers to write to.
        checked(unsafe { functions::p4s_gpu_memory(self.0, &mut free, &mut total) })?;
        Ok((free, total))
    }

    /// An event after all work queued so far.
    pub fn mark(self) -> Result<GpuEvent, TchError> {
        // SAFETY: a plain value; null means failure.
        let event = unsafe { functions::p4s_event_new(self.0) };
        checked(!event.is_null()).map(|()| GpuEvent(event))
    }
}

/// A mark in the work of a GPU.
#[derive(Debug)]
pub(super) struct GpuEvent(*mut c_void);

impl GpuEvent {
    /// The GPU's time from an earlier mark to this one; it must have passed both.
    pub fn since(&self, earlier: &GpuEvent) -> Result<Duration, TchError> {
        let mut milliseconds = 0.0;
        // SAFETY: both events live, and a number to write to.
        checked(unsafe { functions::p4s_event_elapsed(earlier.0, self.0, &mut milliseconds) })?;
        Ok(Duration::from_secs_f64(milliseconds.max(0.0) / 1e3))
    }
}

impl Drop for GpuEvent {
    fn drop(&mut self) {
        // SAFETY: made by `mark`, freed once.
        unsafe { functions::p4s_event_free(self.0) }
    }
}
