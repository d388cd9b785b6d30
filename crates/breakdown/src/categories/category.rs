//! The categories that an iteration's time is divided into.

/// What kind of code the main thread runs at a moment: that of its innermost frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeCategory {
    /// A function written in Python; a call through ctypes makes no event of its own and counts here.
    Python,
    /// An operator of the framework, or a function that Python calls and that is not written in it.
    Cpp,
    /// The runtime or the driver of the accelerator.
    CudaApi,
    /// Nothing, or a call that waits.
    Wait,
    /// Python or waiting: the trace has no events of Python, so that it cannot tell them apart.
    PythonOrWait,
    /// C++ or a call of the accelerator's runtime, none of which is in the trace.
    CppOrCudaApi,
    /// Anything of which there are no events in the trace.
    Unrecorded,
}

impl TimeCategory {
    /// All of them, as [`TimeCategory::index`] counts them.
    pub const ALL: [TimeCategory; 7] = [
        TimeCategory::Python,
        TimeCategory::Cpp,
        TimeCategory::CudaApi,
        TimeCategory::Wait,
        TimeCategory::PythonOrWait,
        TimeCategory::CppOrCudaApi,
        TimeCategory::Unrecorded,
    ];

    /// Its place in [`TimeCategory::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// What it is called where people read it.
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

    /// Whether it stands for several others, which a trace does not tell apart.
    pub fn is_joint(self) -> bool {
        matches!(self, TimeCategory::PythonOrWait | TimeCategory::CppOrCudaApi | TimeCategory::Unrecorded)
    }
}
