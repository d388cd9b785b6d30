//! The published metrics of an iteration, by their published names.
//!
//! The published toolkit subtracted sums that overlap only partly. A difference could be negative if GPU work outlived
//! the call that launched it, and time could be counted twice. Here each difference is one of sets: `CppTimeSec` is the
//! time in calls *while* the GPU is idle, and so on.

use crate::categories::category::TimeCategory;
use crate::categories::sets::Sets;

/// A published metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// The time of the iteration.
    TotalTimeSec,
    /// Time in calls into the C library: C++ and the CUDA API, with the GPU busy or idle.
    CppAndGPUTimeSec,
    /// Time in such calls while the GPU is idle.
    CppTimeSec,
    /// Time in C++ while the GPU is idle.
    FrameworkCppTimeSec,
    /// Time in the CUDA API while the GPU is idle.
    CudaCppTimeSec,
    /// Time in which any stream is busy.
    GPUTimeSec,
    /// Time in calls of the CUDA API, with the GPU busy or idle.
    GPUAndCudaCppTimeSec,
    /// The time of the iteration divided by the time in calls into the C library.
    TheoreticalSpeedup,
    /// Python's share of the iteration, in percent.
    PercentTimeInPython,
    /// Time in Python, with the GPU busy or idle.
    PythonTimeSec,
    /// Time in Python in percent of the time in calls into the C library.
    PythonOverheadPercent,
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Percent.
    Percent,
    /// A factor.
    Times,
}

impl Unit {
    /// Its symbol in output.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Percent => "%",
            Unit::Times => "times",
        }
    }
}

impl Metric {
    /// All eleven, in the published order.
    pub const ALL: [Metric; 11] = [
        Metric::TotalTimeSec,
        Metric::CppAndGPUTimeSec,
        Metric::CppTimeSec,
        Metric::FrameworkCppTimeSec,
        Metric::CudaCppTimeSec,
        Metric::GPUTimeSec,
        Metric::GPUAndCudaCppTimeSec,
        Metric::TheoreticalSpeedup,
        Metric::PercentTimeInPython,
        Metric::PythonTimeSec,
        Metric::PythonOverheadPercent,
    ];

    /// Its published name.
    pub fn name(self) -> &'static str {
        match self {
            Metric::TotalTimeSec => "TotalTimeSec",
            Metric::CppAndGPUTimeSec => "CppAndGPUTimeSec",
            Metric::CppTimeSec => "CppTimeSec",
            Metric::FrameworkCppTimeSec => "FrameworkCppTimeSec",
            Metric::CudaCppTimeSec => "CudaCppTimeSec",
            Metric::GPUTimeSec => "GPUTimeSec",
            Metric::GPUAndCudaCppTimeSec => "GPUAndCudaCppTimeSec",
            Metric::TheoreticalSpeedup => "TheoreticalSpeedup",
            Metric::PercentTimeInPython => "PercentTimeInPython",
            Metric::PythonTimeSec => "PythonTimeSec",
            Metric::PythonOverheadPercent => "PythonOverheadPercent",
        }
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Metric::TotalTimeSec
            | Metric::CppAndGPUTimeSec
            | Metric::CppTimeSec
            | Metric::FrameworkCppTimeSec
            | Metric::CudaCppTimeSec
            | Metric::GPUTimeSec
            | Metric::GPUAndCudaCppTimeSec
            | Metric::PythonTimeSec => Unit::Seconds,
            Metric::TheoreticalSpeedup => Unit::Times,
            Metric::PercentTimeInPython | Metric::PythonOverheadPercent => Unit::Percent,
        }
    }

    /// Whether it is zero without a GPU.
    pub fn is_of_gpu(self) -> bool {
        matches!(self, Metric::CudaCppTimeSec | Metric::GPUTimeSec | Metric::GPUAndCudaCppTimeSec)
    }

    /// Its meaning in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Metric::TotalTimeSec => "an iteration",
            Metric::CppAndGPUTimeSec => "calls into C++ and CUDA, whatever the GPU does",
            Metric::CppTimeSec => "such calls while the GPU is idle",
            Metric::FrameworkCppTimeSec => "C++ while the GPU is idle",
            Metric::CudaCppTimeSec => "calls of CUDA while the GPU is idle",
            Metric::GPUTimeSec => "any stream works",
            Metric::GPUAndCudaCppTimeSec => "calls of CUDA, whatever the GPU does",
            Metric::TheoreticalSpeedup => "all time by that in calls into C++ and CUDA",
            Metric::PercentTimeInPython => "Python's share of an iteration",
            Metric::PythonTimeSec => "Python, whatever the GPU does",
            Metric::PythonOverheadPercent => "Python beside calls into C++ and CUDA",
        }
    }

    /// Its value in seconds, percent or as a factor; none if the trace lacks some of the data, or if the value would be
    /// a share of zero.
    pub fn of(self, sets: &Sets) -> Option<f64> {
        let recorded = sets.recorded;
        // Time with an idle GPU is known only if the GPU was recorded.
        let beside_gpu = |time: Option<i64>| time.filter(|_| recorded.gpu).map(seconds);
        match self {
            Metric::TotalTimeSec => Some(seconds(sets.total())),
            Metric::CppAndGPUTimeSec => calls(sets).map(seconds),
            Metric::CppTimeSec => beside_gpu(calls_of(|category| sets.get(category, false))),
            Metric::FrameworkCppTimeSec => beside_gpu(sets.get(TimeCategory::Cpp, false)),
            Metric::CudaCppTimeSec => beside_gpu(sets.get(TimeCategory::CudaApi, false)),
            Metric::GPUTimeSec => beside_gpu(Some(sets.gpu_busy())),
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
fn calls(sets: &Sets) -> Option<i64> {
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
