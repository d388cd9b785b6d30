//! The categories of events.

/// The category of an event, from the names that PyTorch has used over the years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventCategory {
    /// A range that the script or the framework named: `record_function`, `ProfilerStep#`, `Optimizer.step#`.
    Annotation,
    Operator,
    /// A call in Python, of its own functions and of built-in ones.
    Python,
    /// A call of the runtime or the driver of an accelerator.
    Runtime,
    Kernel,
    /// A copy of memory on, to or from an accelerator.
    Copy,
    Set,
    /// A range of the script, on the timeline of the accelerator.
    DeviceAnnotation,
    Synchronisation,
    /// Overhead of the profiler, as recorded by the profiler itself.
    Overhead,
    /// A flow from an operator to its backward operator.
    ForwardBackward,
    /// A flow from a runtime call to the work it launched.
    Launch,
    Other,
}

const LONGEST: usize = 24;

impl EventCategory {
    /// The category with this spelling, ignoring case: PyTorch up to 1.11 writes `Kernel` and `Runtime`; ROCm and XPU
    /// have their own spellings.
    pub(crate) fn from_spelling(spelling: &[u8]) -> Self {
        let mut lower = [0; LONGEST];
        let Some(lower) = lower.get_mut(..spelling.len()) else { return EventCategory::Other };
        lower.copy_from_slice(spelling);
        lower.make_ascii_lowercase();
        match &*lower {
            b"user_annotation" => EventCategory::Annotation,
            b"cpu_op" | b"operator" => EventCategory::Operator,
            b"python_function" => EventCategory::Python,
            b"cuda_runtime"
            | b"cuda_driver"
            | b"runtime"
            | b"hip_runtime"
            | b"privateuse1_runtime"
            | b"privateuse1_driver"
            | b"xpu_runtime"
            | b"xpu_driver"
            | b"mtia_runtime"
            | b"glow_runtime" => EventCategory::Runtime,
            b"kernel" | b"concurrent_kernel" | b"mtia_workloadd" | b"mtia_ccp_events" | b"hpu_op" => {
                EventCategory::Kernel
            }
            b"gpu_memcpy" | b"memcpy" => EventCategory::Copy,
            b"gpu_memset" | b"memset" => EventCategory::Set,
            b"gpu_user_annotation" => EventCategory::DeviceAnnotation,
            b"cuda_sync" => EventCategory::Synchronisation,
            b"overhead" => EventCategory::Overhead,
            b"fwdbwd" => EventCategory::ForwardBackward,
            b"ac2g" | b"async_cpu_to_gpu" | b"async_gpu" => EventCategory::Launch,
            _ => EventCategory::Other,
        }
    }

    /// Whether an event of this category is what a thread does: one after the other, or one within the other.
    pub(crate) fn on_thread(self) -> bool {
        matches!(
            self,
            EventCategory::Annotation | EventCategory::Operator | EventCategory::Python | EventCategory::Runtime
        )
    }

    /// Whether an event of this category is work of an accelerator.
    pub fn on_device(self) -> bool {
        matches!(self, EventCategory::Kernel | EventCategory::Copy | EventCategory::Set)
    }
}
