//! The categories that an iteration's time is divided into.

/// The category of the main thread's innermost frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeCategory {
    /// A function written in Python; a call through ctypes has no event of its own and counts here.
    Python,
    /// An operator of the framework, or a function called from Python that is not written in Python.
    Cpp,
    /// The runtime or the driver of the accelerator.
    CudaApi,
    /// Nothing, or a call that waits.
    Wait,
    /// Python or waiting, which cannot be distinguished because the trace has no Python events.
    PythonOrWait,
    /// C++ or a call of the accelerator's runtime, which cannot be distinguished because the trace has no runtime
    /// calls.
    CppOrCudaApi,
    /// Everything that has no events in the trace.
    Unrecorded,
}

impl TimeCategory {
    /// All categories, in the order of [`TimeCategory::index`].
    pub const ALL: [TimeCategory; 7] = [
        TimeCategory::Python,
        TimeCategory::Cpp,
        TimeCategory::CudaApi,
        TimeCategory::Wait,
        TimeCategory::PythonOrWait,
        TimeCategory::CppOrCudaApi,
        TimeCategory::Unrecorded,
    ];

    /// Its index in [`TimeCategory::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in output.
    pub fn label(self) -> &'static str {
        match self {
            TimeCategory::Python => "Python",
            TimeCategory::Cpp => "C++",
            TimeCategory::CudaApi => "CUDA API",
            TimeCategory::Wait => "wait",
            TimeCategory::PythonOrWait => "Python or wait",
            TimeCategory::CppOrCudaApi => "C++ or CUDA API",
            TimeCategory::Unrecorded => "not recorded",
        }
    }

    /// Whether it joins several categories that a trace cannot distinguish.
    pub fn is_joint(self) -> bool {
        matches!(self, TimeCategory::PythonOrWait | TimeCategory::CppOrCudaApi | TimeCategory::Unrecorded)
    }
}
