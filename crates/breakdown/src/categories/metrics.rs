//! The published metrics of an iteration, by their published names.
//!
//! The published toolkit subtracted sums that overlap only partly. A difference could be negative if GPU work outlived
//! the call that launched it, and time could be counted twice. Here each difference is one of sets: `CppTimeSec` is the
//! time in calls *while* the GPU is idle, and so on.

use crate::categories::TimeCategory;
use crate::categories::sets::TimeSets;

perf4sight_base::words! {
    pub enum Metric {
        TotalTimeSec = "TotalTimeSec",
        /// Time in calls into the C library: C++ and the CUDA API, with the GPU busy or idle.
        CppAndGPUTimeSec = "CppAndGPUTimeSec",
        /// Time in such calls while the GPU is idle.
        CppTimeSec = "CppTimeSec",
        /// Time in C++ while the GPU is idle.
        FrameworkCppTimeSec = "FrameworkCppTimeSec",
        /// Time in the CUDA API while the GPU is idle.
        CudaCppTimeSec = "CudaCppTimeSec",
        /// Time in which any stream is busy.
        GPUTimeSec = "GPUTimeSec",
        /// Time in calls of the CUDA API, with the GPU busy or idle.
        GPUAndCudaCppTimeSec = "GPUAndCudaCppTimeSec",
        /// The time of the iteration divided by the time in calls into the C library.
        TheoreticalSpeedup = "TheoreticalSpeedup",
        /// Python's share of the iteration, in percent.
        PercentTimeInPython = "PercentTimeInPython",
        /// Time in Python, with the GPU busy or idle.
        PythonTimeSec = "PythonTimeSec",
        /// Time in Python in percent of the time in calls into the C library.
        PythonOverheadPercent = "PythonOverheadPercent",
    }
}

perf4sight_base::words! {
    pub enum MetricUnit {
        Seconds = "s",
        Percent = "%",
        Times = "times",
    }
}

impl Metric {
    fn facts(self) -> (MetricUnit, &'static str) {
        match self {
            Metric::TotalTimeSec => (MetricUnit::Seconds, "an iteration"),
            Metric::CppAndGPUTimeSec => (MetricUnit::Seconds, "calls into C++ and CUDA, whatever the GPU does"),
            Metric::CppTimeSec => (MetricUnit::Seconds, "such calls while the GPU is idle"),
            Metric::FrameworkCppTimeSec => (MetricUnit::Seconds, "C++ while the GPU is idle"),
            Metric::CudaCppTimeSec => (MetricUnit::Seconds, "calls of CUDA while the GPU is idle"),
            Metric::GPUTimeSec => (MetricUnit::Seconds, "any stream works"),
            Metric::GPUAndCudaCppTimeSec => (MetricUnit::Seconds, "calls of CUDA, whatever the GPU does"),
            Metric::TheoreticalSpeedup => (MetricUnit::Times, "all time by that in calls into C++ and CUDA"),
            Metric::PercentTimeInPython => (MetricUnit::Percent, "Python's share of an iteration"),
            Metric::PythonTimeSec => (MetricUnit::Seconds, "Python, whatever the GPU does"),
            Metric::PythonOverheadPercent => (MetricUnit::Percent, "Python relative to calls into C++ and CUDA"),
        }
    }

    pub fn unit(self) -> MetricUnit {
        self.facts().0
    }

    /// Its meaning in a few words.
    pub fn about(self) -> &'static str {
        self.facts().1
    }

    /// Whether it is zero without a GPU.
    pub fn is_of_gpu(self) -> bool {
        matches!(self, Metric::CudaCppTimeSec | Metric::GPUTimeSec | Metric::GPUAndCudaCppTimeSec)
    }

    /// Its value in seconds, percent or as a factor; none if the trace lacks some of the data, or if the value would be
    /// a share of zero.
    pub fn compute(self, sets: &TimeSets) -> Option<f64> {
        let recorded = sets.recorded;
        // Time with an idle GPU is known only if the GPU was recorded.
        let while_idle = |time: Option<i64>| time.filter(|_| recorded.gpu).map(seconds);
        match self {
            Metric::TotalTimeSec => Some(seconds(sets.total())),
            Metric::CppAndGPUTimeSec => calls(sets).map(seconds),
            Metric::CppTimeSec => while_idle(calls_of(|category| sets.get(category, false))),
            Metric::FrameworkCppTimeSec => while_idle(sets.get(TimeCategory::Cpp, false)),
            Metric::CudaCppTimeSec => while_idle(sets.get(TimeCategory::CudaApi, false)),
            Metric::GPUTimeSec => while_idle(Some(sets.gpu_busy())),
            Metric::GPUAndCudaCppTimeSec => sets.category(TimeCategory::CudaApi).map(seconds),
            // Built-in functions are calls into the C library that are visible only in Python events.
            Metric::TheoreticalSpeedup => recorded.python.then(|| ratio(sets.total(), calls(sets)?))?,
            Metric::PercentTimeInPython => Some(100.0 * ratio(sets.category(TimeCategory::Python)?, sets.total())?),
            Metric::PythonTimeSec => sets.category(TimeCategory::Python).map(seconds),
            Metric::PythonOverheadPercent => Some(100.0 * ratio(sets.category(TimeCategory::Python)?, calls(sets)?)?),
        }
    }
}

/// Nanoseconds in calls into the C library.
fn calls(sets: &TimeSets) -> Option<i64> {
    calls_of(|category| sets.category(category))
}

/// C++ and the CUDA API, separate or joint.
fn calls_of(time: impl Fn(TimeCategory) -> Option<i64>) -> Option<i64> {
    time(TimeCategory::CppOrCudaApi).or_else(|| Some(time(TimeCategory::Cpp)? + time(TimeCategory::CudaApi)?))
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
