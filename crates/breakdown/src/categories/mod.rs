//! The category of every moment, and the published metrics that follow from it.

pub(crate) mod metrics;
pub(crate) mod recorded;
pub(crate) mod sets;
pub(crate) mod thread_state;

perf4sight_base::words! {
    /// The category of the main thread's innermost frame.
    pub enum TimeCategory {
        /// A function written in Python; a call through ctypes has no event of its own and counts here.
        Python = "Python",
        /// An operator of the framework, or a function called from Python that is not written in Python.
        Cpp = "C++",
        /// The runtime or the driver of the accelerator.
        CudaApi = "CUDA API",
        /// Nothing, or a call that waits.
        Wait = "wait",
        /// Python or waiting, which cannot be distinguished because the trace has no Python events.
        PythonOrWait = "Python or wait",
        /// C++ or a call of the accelerator's runtime, which cannot be distinguished because the trace has no runtime
        /// calls.
        CppOrCudaApi = "C++ or CUDA API",
        /// Everything that has no events in the trace.
        Unrecorded = "not recorded",
    }
}

impl TimeCategory {
    /// Whether it joins several categories that a trace cannot distinguish.
    pub fn is_joint(self) -> bool {
        matches!(self, TimeCategory::PythonOrWait | TimeCategory::CppOrCudaApi | TimeCategory::Unrecorded)
    }
}
