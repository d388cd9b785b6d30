//! What kind of thing an event times.

/// What kind of thing an event times, by the names that PyTorch has given the kinds over the years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// A range that the script or the framework named: `record_function`, `ProfilerStep#`, `Optimizer.step#`.
    Annotation,
    /// An operator of the framework.
    Operator,
    /// A call in Python, of its own functions and of built-in ones.
    Python,
    /// A call of the runtime or the driver of an accelerator.
    Runtime,
    /// A kernel on an accelerator.
    Kernel,
    /// A copy of memory on, to or from an accelerator.
    Copy,
    /// Memory of an accelerator that is set.
    Set,
    /// A range that the script named, as the accelerator saw it.
    DeviceAnnotation,
    /// Streams and the host waiting for each other.
    Synchronisation,
    /// What the profiler says it cost.
    Overhead,
    /// From an operator to its backward.
    ForwardBackward,
    /// From a call of the runtime to what it started.
    Launch,
    /// Anything else.
    Other,
}

/// Spellings by category, without case: PyTorch up to 1.11 writes `Kernel` and `Runtime`; ROCm and XPU have their own.
const SPELLINGS: &[(&str, Category)] = &[
    ("user_annotation", Category::Annotation),
    ("cpu_op", Category::Operator),
    ("operator", Category::Operator),
    ("python_function", Category::Python),
    ("cuda_runtime", Category::Runtime),
    ("cuda_driver", Category::Runtime),
    ("runtime", Category::Runtime),
    ("hip_runtime", Category::Runtime),
    ("privateuse1_runtime", Category::Runtime),
    ("privateuse1_driver", Category::Runtime),
    ("xpu_runtime", Category::Runtime),
    ("xpu_driver", Category::Runtime),
    ("mtia_runtime", Category::Runtime),
    ("glow_runtime", Category::Runtime),
    ("kernel", Category::Kernel),
    ("concurrent_kernel", Category::Kernel),
    ("mtia_workloadd", Category::Kernel),
    ("mtia_ccp_events", Category::Kernel),
    ("hpu_op", Category::Kernel),
    ("gpu_memcpy", Category::Copy),
    ("memcpy", Category::Copy),
    ("gpu_memset", Category::Set),
    ("memset", Category::Set),
    ("gpu_user_annotation", Category::DeviceAnnotation),
    ("cuda_sync", Category::Synchronisation),
    ("overhead", Category::Overhead),
    ("fwdbwd", Category::ForwardBackward),
    ("ac2g", Category::Launch),
    ("async_cpu_to_gpu", Category::Launch),
    ("async_gpu", Category::Launch),
];

impl Category {
    /// The category of that spelling.
    pub(crate) fn of(spelling: &[u8]) -> Self {
        let known = SPELLINGS.iter().find(|(known, _)| spelling.eq_ignore_ascii_case(known.as_bytes()));
        known.map_or(Category::Other, |(_, category)| *category)
    }

    /// Whether an accelerator works while it lasts.
    pub fn on_device(self) -> bool {
        matches!(self, Category::Kernel | Category::Copy | Category::Set)
    }
}
