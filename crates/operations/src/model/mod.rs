//! The model of operations: a physical part, trees for the rest, and how far both are off.

mod left_out;
mod physical;
mod repeated;
mod residual;
mod scaling;
mod uncertainty;

pub use left_out::{LeftOutGroup, LeftOutGroups, PredictedOperation};
pub use scaling::TimeScaling;
pub(crate) use scaling::by_sheets;

use crate::class::OperationClass;
use crate::element::ElementType;
use crate::gpus::{is_part, normalised_name, sheet, sheets};
use crate::row::OperationRow;
use crate::work::OperationWork;
use left_out::LeftOutSplit;
use perf4sight_base::error::{Error, Result};
use perf4sight_cost::trees::Forest;
use physical::PhysicalRates;
use scaling::ComparedOperation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The fewest rows of a fit.
const LEAST_ROWS: usize = 10;
/// Intervals are wider by this factor where no other network, or GPU, says how far off the model is there; nothing says by how
/// much they ought to be.
const UNTESTED: f64 = 2.0;

/// With fewer networks or GPUs an interval reaches the worst of them.
const MANY: usize = 9;
/// Nine of ten values of a normal distribution are within so many standard deviations.
const NINE_OF_TEN: f64 = 1.645;

/// From this logarithm on, what the size of an operation adds to its error is more than measurements scatter by.
const UNLIKE: f64 = 0.25;

/// Told how many pieces of a fit are done, each time that some are; an error ends the fit.
pub type FitProgress<'a> = dyn Fn(u64) -> Result<()> + 'a;

/// The physical part with its trees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FittedParts {
    physical: PhysicalRates,
    trees: Option<Forest>,
}

/// What operations take on GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationModel {
    fitted: FittedParts,
    /// How much of the trees' answer counts: as much as helps networks that were left out.
    share: f64,
    rows: usize,
    gpus: BTreeSet<String>,
    networks: BTreeSet<String>,
    /// The types of elements of the rows.
    #[serde(default)]
    elements: BTreeSet<String>,
    samples: Vec<ComparedOperation>,
    by_network: LeftOutGroups,
    by_gpu: Option<LeftOutGroups>,
    /// What was doubtful of the rows, in sentences.
    #[serde(default)]
    doubts: Vec<String>,
}

/// A GPU that operations can be predicted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownGpu {
    /// Its name: as its rows have it, or as its data sheet.
    pub name: String,
    /// Whether operations were measured on it; else its data sheet is all that is known.
    pub measured: bool,
}

/// A predicted time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeEstimate {
    /// Microseconds of a call.
    pub time_us: f64,
    /// The interval that nine of ten measurements are expected in.
    pub interval_us: (f64, f64),
    /// Whether it is so unlike the measured operations of its class, mostly in size, that the time rests on what is usual of GPUs.
    pub unlike: bool,
}

impl FittedParts {
    fn new(rows: &[&OperationRow]) -> Result<Self> {
        let physical = PhysicalRates::fit(rows)?;
        let left: Vec<(Vec<f64>, f64)> = rows
            .iter()
            .filter_map(|row| {
                let parts = physical.parts(&row.gpu, row.class, row.element.is_half(), row.work)?;
                Some((residual::features(row, &parts), row.time_us.ln() - parts.time().ln()))
            })
            .collect();
        Ok(FittedParts { trees: residual::fit(&left)?, physical })
    }

    /// The logarithms of the physical part, and of what trees add.
    fn logs(&self, row: &OperationRow, gpu: &str) -> Option<[f64; 2]> {
        let parts = self.physical.parts(gpu, row.class, row.element.is_half(), row.work)?;
        let added = self.trees.as_ref().map_or(0.0, |trees| trees.predict_row(&residual::features(row, &parts)));
        Some([parts.time().ln(), added])
    }

    /// The logarithm of the predicted time; none where no operation of the class was measured.
    fn log(&self, row: &OperationRow, gpu: &str, share: f64) -> Option<f64> {
        self.logs(row, gpu).map(|[physical, added]| physical + share * added)
    }
}

impl OperationModel {
    /// Fits measured rows, each network left out once, and each GPU.
    ///
    /// # Errors
    /// Too few rows; rows without a time.
    pub fn fit(rows: Vec<OperationRow>) -> Result<Self> {
        OperationModel::fit_watched(rows, &|_| Ok(()))
    }

    /// Pieces of a fit: each that is left out, and all rows.
    pub fn parts(rows: &[OperationRow]) -> u64 {
        let rows = repeated::merged(rows);
        (left_out::networks(&rows).1.len() + left_out::known_gpus(&rows).len() + 1) as u64
    }

    /// As [`OperationModel::fit`], watched.
    ///
    /// # Errors
    /// Its errors; an error of the watch, which ends the fit.
    pub fn fit_watched(rows: Vec<OperationRow>, watch: &FitProgress<'_>) -> Result<Self> {
        if let Some(row) = rows.iter().find(|row| row.time_us <= 0.0) {
            let OperationRow { operation, shapes, network, gpu, .. } = row;
            return Err(Error::input(format!("{operation} of {shapes} in {network} on {gpu} has no measured time"))
                .expected("a column time_us (or time_ms, time_s) with times above 0"));
        }
        let rows = repeated::merged(&rows);
        if rows.len() < LEAST_ROWS {
            return Err(Error::input(format!("{} operations were measured", rows.len()))
                .expected(format!("{LEAST_ROWS} or more")));
        }
        let (share, by_network) = without_networks(&rows, watch)?;
        let by_gpu = left_out::gpus(&rows, share, watch)?;
        let fitted = FittedParts::new(&rows.iter().collect::<Vec<_>>())?;
        watch(1)?;
        Ok(OperationModel {
            fitted,
            share,
            rows: rows.len(),
            gpus: rows.iter().map(|row| row.gpu.clone()).collect(),
            networks: rows.iter().map(|row| row.network.clone()).collect(),
            elements: rows.iter().map(|row| row.element.to_string()).collect(),
            samples: scaling::samples(&rows),
            by_network,
            by_gpu,
            doubts: Vec::new(),
        })
    }

    /// The same with what was doubtful of its rows, for whoever uses it.
    #[must_use]
    pub fn with_doubts(self, doubts: &[String]) -> Self {
        OperationModel { doubts: doubts.to_vec(), ..self }
    }

    /// What was doubtful of its rows, in sentences.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// The GPU of a name: one that was measured, else one whose data sheet is known.
    ///
    /// # Errors
    /// A GPU that is neither, with the known ones.
    pub fn device(&self, name: &str) -> Result<KnownGpu> {
        let known = sheet(name);
        let is_same =
            |own: &&String| normalised_name(own) == normalised_name(name) || (known.is_some() && sheet(own) == known);
        if let Some(own) = self.gpus.iter().find(is_same) {
            return Ok(KnownGpu { name: own.clone(), measured: true });
        }
        known.map(|sheet| KnownGpu { name: sheet.name.clone(), measured: false }).ok_or_else(|| {
            let measured: Vec<&str> = self.gpus.iter().map(String::as_str).collect();
            let sheets: Vec<&str> = sheets().iter().map(|sheet| sheet.name.as_str()).collect();
            let error = Error::usage(format!("the GPU \"{name}\" is not known")).expected(format!(
                "one that the model was trained on ({}), or one with a known data sheet ({})",
                measured.join(", "),
                sheets.join(", ")
            ));
            match is_part(name) {
                true => error.help("a part of a GPU has the rates of none: train the model with a folder of this name"),
                false => error,
            }
        })
    }

    /// Predicts an operation on a GPU.
    ///
    /// # Errors
    /// An operation of a class, or on elements of a type, that was never measured.
    pub fn predict(&self, row: &OperationRow, device: &KnownGpu) -> Result<TimeEstimate> {
        self.check_element(row)?;
        let log = self.fitted.log(row, &device.name, self.share).ok_or_else(|| {
            Error::input(format!("no {} was measured, of which {} is one", row.class.name(), row.operation))
                .help("train the model with networks that contain some")
        })?;
        let off = self.class_error(device, row.class, row.element.is_half(), |left_out| left_out.row(row.class));
        let beyond = self.error_beyond_range(device, row.class, row.element.is_half(), row.work).unwrap_or_default();
        let [low, high] = [-1.0, 1.0].map(|sign| (log + sign * off.hypot(beyond)).exp());
        let low = low.max(self.least_us(row, device).min((log - off).exp()));
        Ok(TimeEstimate { time_us: log.exp(), interval_us: (low, high), unlike: beyond > off.max(UNLIKE) })
    }

    /// Products of fp16 and bf16 take the same; what other types take does not follow from each other.
    fn check_element(&self, row: &OperationRow) -> Result<()> {
        let is_half = |element: ElementType| matches!(element, ElementType::Fp16 | ElementType::Bf16);
        let is_alike = |known: ElementType| known == row.element || is_half(known) && is_half(row.element);
        let mut known = self.elements.iter().filter_map(|name| ElementType::from_spelling(name));
        match row.has_rate() && (self.elements.is_empty() || known.any(is_alike)) {
            true => Ok(()),
            false => {
                Err(Error::input(format!("no operation in {} was measured, as {} is", row.element, row.operation))
                    .expected(format!("elements of {}", self.elements.iter().cloned().collect::<Vec<_>>().join(", "))))
            }
        }
    }

    /// How times of kernels change from one GPU to another.
    pub fn scaling(&self, from: &KnownGpu, to: &KnownGpu) -> TimeScaling {
        TimeScaling::new(self, from, to)
    }

    /// How times of kernels change from single to half precision; none unless products were measured in both.
    pub fn to_half(&self, device: &KnownGpu) -> Option<TimeScaling> {
        scaling::has_both(self).then(|| TimeScaling::to_half(self, device))
    }

    /// Microseconds that an operation of a class takes on a GPU however little it does; none where none was measured.
    pub fn launch_us(&self, class: OperationClass, device: &KnownGpu) -> Option<f64> {
        Some(self.fitted.physical.parts(&device.name, class, false, scaling::NOTHING)?.launch)
    }

    /// The logarithm that errors of a class and precision on a GPU are within, by those of what was left out. Few GPUs do not say how far another one
    /// is from them, so that it is at least as uncertain as data sheets usually leave it.
    fn class_error(
        &self,
        device: &KnownGpu,
        class: OperationClass,
        half: bool,
        held: impl Fn(&LeftOutGroups) -> f64,
    ) -> f64 {
        let device = scaling::measured_in(self, device, class, half);
        let known = held(&self.by_network) * if self.by_network.is_by_network() { 1.0 } else { UNTESTED };
        if device.measured {
            return known;
        }
        let seen = self.by_gpu.as_ref().map_or(UNTESTED * known, |by_gpu| held(by_gpu).max(known));
        let usual = self.fitted.physical.uncertainty(&device.name, class, half).map_or(0.0, |of| of.usual);
        match &self.by_gpu {
            Some(by_gpu) if by_gpu.groups.len() >= MANY => seen,
            _ => seen.max(NINE_OF_TEN * usual.sqrt()),
        }
    }

    /// The logarithm that an operation is off beyond what those like the measured ones are, since its size says what theirs did not.
    fn error_beyond_range(
        &self,
        device: &KnownGpu,
        class: OperationClass,
        half: bool,
        work: OperationWork,
    ) -> Option<f64> {
        let parts = self.fitted.physical.parts(&device.name, class, half, work)?;
        let uncertainty = self.fitted.physical.uncertainty(&device.name, class, half)?;
        Some(NINE_OF_TEN * uncertainty.variance_beyond(work, &parts).sqrt())
    }

    /// The same of a launch.
    fn launch_error_beyond(&self, device: &KnownGpu, class: OperationClass, half: bool) -> Option<f64> {
        let uncertainty = self.fitted.physical.uncertainty(&device.name, class, half)?;
        Some(NINE_OF_TEN * uncertainty.launch_variance_beyond().sqrt())
    }

    /// Microseconds that the FLOPs of an operation take at the most that a data sheet promises; 0 without one.
    fn least_us(&self, row: &OperationRow, device: &KnownGpu) -> f64 {
        sheet(&device.name).map_or(0.0, |sheet| row.work.flops / sheet.most_flops(row.element.is_half()))
    }

    /// How many rows it was fitted on.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The GPUs that were measured.
    pub fn measured(&self) -> impl Iterator<Item = &str> {
        self.gpus.iter().map(String::as_str)
    }

    /// The networks that were measured.
    pub fn networks(&self) -> impl Iterator<Item = &str> {
        self.networks.iter().map(String::as_str)
    }

    /// Errors for networks that were left out; for parts of the rows where there is one alone.
    pub fn by_network(&self) -> &LeftOutGroups {
        &self.by_network
    }

    /// Errors for GPUs that were left out; none where fewer than two with a data sheet were measured.
    pub fn by_gpu(&self) -> Option<&LeftOutGroups> {
        self.by_gpu.as_ref()
    }

    /// How much of the trees' answer counts, from 0 to 1.
    pub fn share_of_trees(&self) -> f64 {
        self.share
    }

    /// The parameters of each class, precision (whether half) and GPU: rows of the class, the shares of the data sheet's FLOPs and bytes a
    /// second that are reached, and microseconds of a launch.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, bool, &str, usize, [f64; 3])> {
        self.fitted.physical.parameters()
    }

    /// What so few GPUs and networks cannot say, in sentences.
    pub fn limits(&self) -> Vec<String> {
        let untested = (!self.by_network.is_by_network()).then(|| {
            let measured = match self.networks.len() {
                1 => "one network was measured",
                _ => "the networks have the same operations, as several runs of one network do",
            };
            format!("{measured}: how far off the model is for others is not known, and intervals are twice as wide as for parts of the operations")
        });
        let few = |count: usize| (2..MANY).contains(&count);
        let networks = self.by_network.groups.len();
        let few_networks = (self.by_network.is_by_network() && few(networks)).then(|| {
            format!(
                "with {networks} networks an interval reaches the worst of them: nine of ten are promised from nine on"
            )
        });
        let gpus = match &self.by_gpu {
            None => Some("fewer than two GPUs with known data sheets were measured: how far off predictions are for a GPU that was not is not known, and their intervals are twice as wide".to_owned()),
            Some(by_gpu) if few(by_gpu.groups.len()) => Some(format!(
                "with {} GPUs, what is said of one that was not measured rests on its data sheet, and its interval on the worst of these", by_gpu.groups.len()
            )),
            Some(_) => None,
        };
        untested.into_iter().chain(few_networks).chain(gpus).collect()
    }
}

/// A row with the logarithms of [`FittedParts::logs`].
type PredictedLogs<'r> = (&'r OperationRow, [f64; 2]);

/// Leaves out each network: the share of the trees that makes the squared errors least, and the errors with it.
fn without_networks(rows: &[OperationRow], watch: &FitProgress<'_>) -> Result<(f64, LeftOutGroups)> {
    let (what, splits) = left_out::networks(rows);
    let mut predicted: Vec<(String, Vec<PredictedLogs>)> = Vec::new();
    for LeftOutSplit { name, out, others } in splits {
        let fitted = FittedParts::new(&others)?;
        let logs = out.into_iter().filter_map(|row| Some((row, fitted.logs(row, &row.gpu)?)));
        predicted.push((name, logs.collect()));
        watch(1)?;
    }
    let all = || predicted.iter().flat_map(|(_, rows)| rows);
    let fits: f64 = all().map(|(row, [physical, added])| added * (row.time_us.ln() - physical)).sum();
    let square: f64 = all().map(|(_, [_, added])| added * added).sum();
    let share = if square > 0.0 { (fits / square).clamp(0.0, 1.0) } else { 0.0 };
    let groups = predicted.iter().filter(|(_, rows)| !rows.is_empty()).map(|(name, rows)| {
        let logs = rows.iter().map(|(row, [physical, added])| (*row, physical + share * added));
        left_out::group(name, &logs.collect::<Vec<_>>())
    });
    let groups: Vec<LeftOutGroup> = groups.collect();
    match groups.is_empty() {
        false => Ok((share, LeftOutGroups { what: what.to_owned(), groups })),
        true => Err(Error::input("no two networks have a class of operations in common")
            .expected("networks with products, element-wise operations and the like")),
    }
}

#[cfg(test)]
mod tests;
