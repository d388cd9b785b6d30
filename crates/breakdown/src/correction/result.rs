//! Measurements of a rank that are not in its trace, and its iterations without the overhead of the profiler.

use crate::categories::sets::TimeSets;
use crate::operations::TrainingOperation;
use perf4sight_base::stats::mean;
use perf4sight_base::summary::ValueSummary;
use perf4sight_record::{PeriodTimes, ProcessorRivals, RecordingOverhead};
use std::collections::BTreeMap;

/// The contents of the file next to a trace; empty if there is none.
#[derive(Debug, Clone, Default)]
pub struct BreakdownCorrection {
    /// Each iteration without the overhead of recording; empty if that is unknown.
    pub iterations: Vec<CorrectedIteration>,
    /// Nanoseconds of processor time of each iteration, all threads of the process together; empty if not measured.
    pub processor: Vec<u64>,
    /// Nanoseconds of each iteration in which the main thread was ready to run but had no processor; empty if not
    /// measured.
    pub delayed: Vec<u64>,
    /// The same of a mean iteration without recording; none if not measured.
    pub delayed_plain: Option<f64>,
    /// Nanoseconds of each iteration in which the main thread had no processor outside of calls that are known to wait, while other
    /// threads of the process had one; empty if not measured.
    pub held_up: Vec<u64>,
    /// The number of other threads of the process that run Python, if known.
    pub python_threads: Option<u64>,
    /// Who else had the processors during the recording.
    pub rivals: ProcessorRivals,
    pub overhead: Option<RecordingOverhead>,
    /// The change of the machine's speed during the recording.
    pub drift: Option<RecordingDrift>,
    pub processor_drift: Option<RecordingDrift>,
    /// Whether recording slowed Python itself down, which a trace does not show.
    pub slows_python: bool,
    /// The number of ranks of the run, if there were several.
    pub ranks: Option<u32>,
    /// Whether the recording is of a process without ranks.
    pub alone: bool,
    pub warnings: Vec<String>,
}

/// An iteration without the overhead of the profiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectedIteration {
    /// Its time in nanoseconds.
    pub total: i64,
    /// Its time by category; none if the events do not explain the overhead.
    pub divided: Option<DividedTime>,
}

/// The time of a corrected iteration by category and operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DividedTime {
    /// By category; the busy time of the accelerators is as recorded.
    pub sets: TimeSets,
    /// The same by operation; the parts add up to the whole.
    pub operations: BTreeMap<TrainingOperation, TimeSets>,
}

impl CorrectedIteration {
    /// The time by category, if known.
    pub fn sets(&self) -> Option<&TimeSets> {
        self.divided.as_ref().map(|divided| &divided.sets)
    }
}

/// The variation of a recording's times in addition to the variation of its iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordingDrift {
    /// The squared standard deviation of the mean of the recorded iterations, relative to the mean.
    pub(crate) square: f64,
    /// The degrees of freedom: the number of periods minus one.
    pub(crate) freedom: f64,
}

impl RecordingDrift {
    /// From the means of the periods without the profiler: their variance beyond what their iterations explain. Each
    /// recorded period may differ by as much. None if there are fewer than two periods.
    pub fn from_times(times: &PeriodTimes) -> Option<Self> {
        let floats = |period: &Vec<u64>| period.iter().map(|&time| time as f64).collect::<Vec<f64>>();
        let periods: Vec<ValueSummary> =
            times.plain.iter().filter_map(|period| ValueSummary::compute(&floats(period))).collect();
        let means: Vec<f64> = periods.iter().map(|period| period.mean).collect();
        let all = ValueSummary::compute(&means).filter(|all| all.mean > 0.0)?;
        let explained =
            |period: &ValueSummary| period.spread.map_or(0.0, |spread| spread.powi(2) / period.count as f64);
        let unexplained = all.spread?.powi(2) - mean(&periods.iter().map(explained).collect::<Vec<f64>>());
        let recorded = times.recorded.iter().filter(|period| !period.is_empty()).count().max(1);
        let square = unexplained.max(0.0) / all.mean.powi(2) / recorded as f64;
        Some(RecordingDrift { square, freedom: all.count as f64 - 1.0 })
    }
}
