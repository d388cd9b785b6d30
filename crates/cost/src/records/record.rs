//! One measurement as a row: the configuration, its outcome, its values.

use super::variant::Variant;
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_step::workload::{Quantity, Variable, Workload};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

perf4sight_base::words! {
    /// The outcome of a configuration, as in the column `outcome`.
    ///
    /// No outcome's name is a prefix of another, so that a row cut off by a crash is never read as a complete one.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MeasurementOutcome {
        Measured = "measured",
        /// The step ran, but other programs kept using the processor: the value is doubtful.
        Disturbed = "disturbed",
        /// The step ran, but the machine throttled, mostly because of heat: the value is doubtful.
        Throttled = "throttled",
        /// The step ran repeatedly, but took far longer or shorter than the other rows of its network predict: the value
        /// is doubtful.
        Unexpected = "unexpected",
        /// The step did not fit: a censored observation, never a regression target.
        OutOfMemory = "out_of_memory",
        /// Not run, because a smaller batch of this variant and stage had run out of memory.
        Skipped = "skipped",
        /// The worker reported that it could not run this.
        Failed = "failed",
        /// The worker died for a reason other than memory.
        Crashed = "crashed",
        /// The worker was still running at the time limit.
        TimedOut = "timed_out",
        /// The worker's reply could not be parsed.
        Garbled = "garbled",
    }
}

impl MeasurementOutcome {
    /// The published column `passed`.
    pub fn passed(self) -> bool {
        self == MeasurementOutcome::Measured || self.doubtful()
    }

    /// Whether there is no result for a reason other than memory: the step's cost is unknown, and the next run tries
    /// it again.
    pub fn broken(self) -> bool {
        matches!(
            self,
            MeasurementOutcome::Failed
                | MeasurementOutcome::Crashed
                | MeasurementOutcome::TimedOut
                | MeasurementOutcome::Garbled
        )
    }

    /// Whether the step ran, but its time is doubtful; its memory is not.
    pub fn doubtful(self) -> bool {
        matches!(self, MeasurementOutcome::Disturbed | MeasurementOutcome::Throttled | MeasurementOutcome::Unexpected)
    }
}

/// The memory columns of one row; values that a failed measurement lacks are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryColumns {
    /// `mem_alloc`: peak of the tensors alive at once.
    pub allocated: Option<Bytes>,
    /// `mem_reserved`: peak of the memory that the allocator took from the system.
    pub reserved: Option<Bytes>,
    /// `mem_used`: peak of the process or device above its idle value: the memory that the step needs if no freed
    /// memory is cached.
    pub used: Option<Bytes>,
    /// `mem_avail`: available at idle.
    pub available: Option<Bytes>,
    /// `free`: free at idle; some published rows have no such column.
    pub free: Option<Bytes>,
    /// `capacity`: the total memory of the device.
    pub capacity: Option<Bytes>,
    /// `mem_heap`: the peak above idle in the timed steps, including freed memory that glibc's heap kept; noisy, and
    /// only present if the same worker timed steps.
    pub heap: Option<Bytes>,
}

/// The value, by what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowReading {
    /// Time of a step.
    Latency(Option<Milliseconds>),
    /// The columns of a row of memory.
    Memory(MemoryColumns),
}

/// One row of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct RowRecord {
    /// The network at its level.
    pub variant: Variant,
    /// Stage and batch size.
    pub workload: Workload,
    /// The data set whose shapes the network has.
    pub dataset: String,
    /// The network's file as written in the row, possibly a path on another machine: only its stem is used.
    pub file: PathBuf,
    /// What became of the step.
    pub outcome: MeasurementOutcome,
    /// What was measured; missing values where the step did not pass.
    pub reading: RowReading,
    /// How many steps were timed; older files do not count them.
    pub steps: Option<usize>,
    /// How closely a second measurement confirms the time ([`agreement`](super::agreement())). Of a single
    /// measurement, the half-width of its median's confidence interval, if computed.
    pub spread: Option<f64>,
    /// The median milliseconds of every measurement, taken at different times; empty if they were not kept.
    pub visits: Vec<f64>,
}

/// The identity of a measurement: rows with equal identities measure the same thing. A profile is continued by it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeasurementIdentity {
    /// The network at its level.
    pub variant: Variant,
    /// Stage and batch size.
    pub workload: Workload,
    /// Latency, memory or layers.
    pub variable: Variable,
}

impl RowRecord {
    /// A record without a dataset and a number of steps, whose file is named after the variant.
    pub fn new(variant: Variant, workload: Workload, outcome: MeasurementOutcome, reading: RowReading) -> Self {
        let (dataset, file, visits) = (String::new(), format!("{variant}.onnx").into(), Vec::new());
        RowRecord { variant, workload, dataset, file, outcome, reading, steps: None, spread: None, visits }
    }

    /// The stem of its network's file; the path may be that of another machine.
    pub fn stem(&self) -> Option<&str> {
        self.file.file_stem()?.to_str()
    }

    /// Latency or memory.
    pub fn quantity(&self) -> Quantity {
        match self.reading {
            RowReading::Latency(_) => Quantity::Latency,
            RowReading::Memory(_) => Quantity::Memory,
        }
    }

    /// What two rows of the same measurement have in common.
    pub fn identity(&self) -> MeasurementIdentity {
        MeasurementIdentity { variant: self.variant.clone(), workload: self.workload, variable: self.quantity().into() }
    }

    /// The number that is fitted and predicted: milliseconds of a step, or MiB of `mem_used`; none for a failed row.
    pub fn value(&self) -> Option<f64> {
        match self.reading {
            _ if !self.outcome.passed() => None,
            RowReading::Latency(latency) => latency.map(|latency| latency.0),
            RowReading::Memory(memory) => memory.used.map(Bytes::mib),
        }
    }
}

impl fmt::Display for MeasurementIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} bs {} {}", self.variant, self.workload.step, self.workload.batch, self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outcome_is_the_beginning_of_another() {
        for a in MeasurementOutcome::ALL {
            assert!(MeasurementOutcome::ALL.iter().all(|b| a == *b || !b.name().starts_with(a.name())), "{a}");
        }
    }
}
