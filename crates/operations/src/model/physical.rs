//! The physical part: `time = launch + max(FLOPs / rate, bytes / rate) + overlap x min(the same)`, with rates as shares of a GPU's
//! data sheet for each class and precision. Shares of all GPUs are fitted first; those of a GPU stay near them.

use super::uncertainty::{RateCovariance, RowEvidence, TimeUncertainty, shares};
use crate::class::OperationClass;
use crate::gpus::{DataSheet, sheet, sheets};
use crate::minimize::{minimize, robust};
use crate::row::OperationRow;
use crate::work::OperationWork;
use perf4sight_base::error::Result;
use perf4sight_base::stats::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Logarithms of the shares of FLOPs and bytes a second that operations reach, of a launch in microseconds, and the logit of how
/// much of the shorter one adds to the longer.
pub(super) type LogRates = [f64; 4];

/// Half of the peak, two thirds of the bandwidth, 4 us, a quarter: the usual orders of kernels.
const MEDIANS: LogRates = [-0.7, -0.4, 1.4, -1.1];
/// Wide enough for a factor of 3 to either side: rows decide.
const SPREADS: LogRates = [1.0, 1.0, LAUNCH_SPREAD, 1.0];
/// Launches differ least, by a factor of 2.
pub(super) const LAUNCH_SPREAD: f64 = 0.8;
/// How far the shares of one GPU are from those of all: half, as data sheets of GPUs promise more or less of what programs reach.
const OF_A_GPU: f64 = 0.5;
/// The same without a data sheet, where the rows alone decide.
const WITHOUT_SHEET: f64 = 4.0;
/// What single operations are off the physical model, as a share; far ones count by their size.
const SCATTER: f64 = 0.3;
/// FLOPs a microsecond of a TFLOP/s, and bytes of a GB/s.
const TERA: f64 = 1e6;
const GIGA: f64 = 1e3;

/// The rates of a data sheet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PeakRates {
    /// FLOPs a microsecond, in single and half precision.
    flops: [f64; 2],
    /// Bytes a microsecond.
    bytes: f64,
}

impl PeakRates {
    fn from_sheet(sheet: &DataSheet) -> Self {
        PeakRates { flops: [sheet.single_tflops * TERA, sheet.half_tflops * TERA], bytes: sheet.memory_gbs * GIGA }
    }

    /// Times on another GPU compared with this one, where they follow each of the rates.
    pub fn ratios(&self, other: &PeakRates) -> [f64; 3] {
        let [single, half] = [0, 1].map(|precision| self.flops[precision] / other.flops[precision]);
        [single, half, self.bytes / other.bytes]
    }

    /// The least and the greatest ratio of times in half precision to those in single: of FLOPs, of bytes, of a launch, which stays.
    pub fn to_half(self) -> [f64; 2] {
        let ratio = self.flops[0] / self.flops[1];
        [ratio.min(0.5), ratio.max(1.0)]
    }

    /// Of the GPU that a name contains; else medians of all data sheets, as a scale.
    pub fn for_gpu(gpu: &str) -> Self {
        let middle = |rate: fn(&DataSheet) -> f64| median(&sheets().iter().map(rate).collect::<Vec<_>>());
        sheet(gpu).map_or_else(
            || {
                let flops = [middle(|sheet| sheet.single_tflops), middle(|sheet| sheet.half_tflops)];
                PeakRates { flops: flops.map(|flops| flops * TERA), bytes: middle(|sheet| sheet.memory_gbs) * GIGA }
            },
            PeakRates::from_sheet,
        )
    }
}

/// The parts of an operation's time, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeParts {
    pub compute: f64,
    pub memory: f64,
    pub launch: f64,
    pub overlap: f64,
}

impl TimeParts {
    fn new(work: OperationWork, half: bool, peaks: &PeakRates, logs: &LogRates) -> Self {
        let [compute, memory, launch, overlap] = *logs;
        TimeParts {
            compute: work.flops / (peaks.flops[usize::from(half)] * compute.exp()),
            memory: work.bytes / (peaks.bytes * memory.exp()),
            launch: launch.exp(),
            overlap: 1.0 / (1.0 + (-overlap).exp()),
        }
    }

    pub fn time(&self) -> f64 {
        let longer = self.compute.max(self.memory);
        self.launch + longer + self.overlap * self.compute.min(self.memory)
    }

    /// How the logarithm of the time changes with each parameter.
    pub fn derivatives(&self) -> LogRates {
        let shorter = self.compute.min(self.memory);
        let weight = |part: f64| if part > shorter { 1.0 } else { self.overlap };
        let overlapped = self.overlap * (1.0 - self.overlap) * shorter;
        let parts = [-weight(self.compute) * self.compute, -weight(self.memory) * self.memory, self.launch, overlapped];
        parts.map(|part| part / self.time())
    }
}

/// The parameters of a class in a precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ClassParameters {
    class: String,
    half: bool,
    rows: usize,
    shared: LogRates,
    /// How uncertain times are on a GPU that was not measured.
    unmeasured: TimeUncertainty,
    gpus: Vec<(String, LogRates, TimeUncertainty)>,
}

/// The parameters of all classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PhysicalRates {
    kinds: Vec<ClassParameters>,
}

impl PhysicalRates {
    pub fn fit(rows: &[&OperationRow]) -> Result<Self> {
        let mut kinds = Vec::new();
        for class in OperationClass::ALL {
            for half in [false, true] {
                let own = |row: &&&OperationRow| row.class == class && row.element.is_half() == half;
                let own: Vec<&OperationRow> = rows.iter().filter(own).copied().collect();
                if !own.is_empty() {
                    kinds.push(ClassParameters::fit(class, half, &own)?);
                }
            }
        }
        Ok(PhysicalRates { kinds })
    }

    /// The parts of an operation's time on a GPU; none where no operation of its class was measured.
    pub fn parts(&self, gpu: &str, class: OperationClass, half: bool, work: OperationWork) -> Option<TimeParts> {
        Some(TimeParts::new(work, half, &PeakRates::for_gpu(gpu), self.kind(class, half)?.logs(gpu)))
    }

    /// How uncertain the parameters leave times on a GPU; none where no operation of the class was measured.
    pub fn uncertainty(&self, gpu: &str, class: OperationClass, half: bool) -> Option<&TimeUncertainty> {
        let kind = self.kind(class, half)?;
        let own = kind.gpus.iter().find(|(name, ..)| kind.half == half && name == gpu);
        Some(own.map_or(&kind.unmeasured, |(.., own)| own))
    }

    /// What was measured in the other precision says which share of a data sheet is reached, where nothing was in this one.
    fn kind(&self, class: OperationClass, half: bool) -> Option<&ClassParameters> {
        self.kinds.iter().filter(|kind| kind.class == class.name()).max_by_key(|kind| kind.half == half)
    }

    /// Whether operations of a class and precision were measured on a GPU.
    pub fn is_measured(&self, gpu: &str, class: OperationClass, half: bool) -> bool {
        let own = self.kinds.iter().filter(|kind| kind.class == class.name() && kind.half == half);
        own.flat_map(|kind| &kind.gpus).any(|(name, ..)| name == gpu)
    }

    /// Classes, precisions, GPUs and their parameters: of how many rows, shares of FLOPs and bytes, launches in microseconds.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, bool, &str, usize, [f64; 3])> {
        self.kinds.iter().flat_map(|kind| {
            kind.gpus.iter().map(|(gpu, [compute, memory, launch, _], _)| {
                let values = [compute, memory, launch].map(|log| log.exp());
                (kind.class.as_str(), kind.half, gpu.as_str(), kind.rows, values)
            })
        })
    }
}

impl ClassParameters {
    fn fit(class: OperationClass, half: bool, rows: &[&OperationRow]) -> Result<Self> {
        let listed: Vec<&OperationRow> = rows.iter().filter(|row| sheet(&row.gpu).is_some()).copied().collect();
        let shared = logs(&listed, half, &MEDIANS, &SPREADS)?;
        let of_all = RateCovariance::independent(&SPREADS).after_rows(&evidence(&listed, half, &shared))?;
        let all = evidence(rows, half, &shared);
        let unmeasured = TimeUncertainty::new(of_all.wider(OF_A_GPU), &all);
        let gpus: BTreeSet<&str> = rows.iter().map(|row| row.gpu.as_str()).collect();
        let own = |gpu: &str| {
            let rows: Vec<&OperationRow> = rows.iter().filter(|row| row.gpu == gpu).copied().collect();
            let spread = if sheet(gpu).is_some() { OF_A_GPU } else { WITHOUT_SHEET };
            let logs = logs(&rows, half, &shared, &[spread; 4])?;
            let own = evidence(&rows, half, &logs);
            let covariance = of_all.wider(spread).after_rows(&own)?;
            Ok((gpu.to_owned(), logs, TimeUncertainty::new(covariance, &own)))
        };
        let gpus = gpus.into_iter().map(own).collect::<Result<_>>()?;
        Ok(ClassParameters { class: class.name().to_owned(), half, rows: rows.len(), shared, unmeasured, gpus })
    }

    fn logs(&self, gpu: &str) -> &LogRates {
        self.gpus.iter().find(|(name, ..)| name == gpu).map_or(&self.shared, |(_, logs, _)| logs)
    }
}

/// The most probable parameters of some rows.
fn logs(rows: &[&OperationRow], half: bool, medians: &LogRates, spreads: &LogRates) -> Result<LogRates> {
    let shares = shares(rows.iter().map(|row| row.time_us));
    let prepared: Vec<(OperationWork, f64, PeakRates)> =
        rows.iter().map(|row| (row.work, row.time_us.ln(), PeakRates::for_gpu(&row.gpu))).collect();
    minimize(*medians, |logs| {
        let rows = prepared.iter().zip(&shares).map(|((work, log, peaks), share)| {
            share * robust((TimeParts::new(*work, half, peaks, logs).time().ln() - log) / SCATTER)
        });
        let priors = (0..logs.len()).map(|place| (logs[place] - medians[place]) / spreads[place]);
        rows.chain(priors).collect()
    })
}

/// What rows say of the parameters.
fn evidence(rows: &[&OperationRow], half: bool, at: &LogRates) -> Vec<RowEvidence> {
    let of = |row: &&OperationRow| {
        let parts = TimeParts::new(row.work, half, &PeakRates::for_gpu(&row.gpu), at);
        RowEvidence {
            time_us: row.time_us,
            off: (parts.time() / row.time_us).ln(),
            derivatives: parts.derivatives(),
            work: row.work,
        }
    };
    rows.iter().map(of).collect()
}
