//! How far predictions are off for networks, and GPUs, that were left out of the fit.

use super::repeated::RepeatedOperation;
use super::{FitProgress, FittedParts};
use crate::class::OperationClass;
use crate::gpus::sheet;
use crate::row::OperationRow;
use perf4sight_base::error::Result;
use perf4sight_base::stats::{mean, percentile};
use perf4sight_base::summary::ValueSummary;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The percentile of errors that intervals reach.
const HELD: f64 = 90.0;

/// Rows that were left out together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOutGroup {
    /// The network or GPU.
    pub name: String,
    /// How many rows it has.
    pub rows: usize,
    /// The mean error of a row in percent, without its sign.
    pub mean_percent: f64,
    /// The error of the sum over its rows in percent: of each GPU and network the mean, without its sign.
    pub total_percent: f64,
    /// The logarithm that nine of ten rows are within.
    held: f64,
    /// The logarithms by which the sums of GPUs and networks are off.
    totals: Vec<f64>,
    classes: BTreeMap<String, ClassErrors>,
    /// Its rows; a model that was read from its file has none.
    #[serde(skip)]
    pub predicted: Vec<PredictedOperation>,
}

/// A row that was predicted without its measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedOperation {
    /// The operation with its shapes.
    pub name: String,
    /// Microseconds that were measured.
    pub measured_us: f64,
    /// Microseconds that were predicted.
    pub predicted_us: f64,
}

/// The rows of a class in a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ClassErrors {
    rows: usize,
    mean_percent: f64,
    /// The logarithm that nine of ten rows are within.
    held: f64,
}

/// The fewest rows of a class that say how far off its others are.
const LEAST_OF_CLASS: usize = 5;

/// All groups, each left out once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOutGroups {
    /// What was left out: `network`, `GPU`, or `operations` where networks have the same ones.
    pub what: String,
    /// Each.
    pub groups: Vec<LeftOutGroup>,
}

impl LeftOutGroup {
    /// Nine of ten rows were off by at most this, in percent.
    pub fn nine_of_ten_percent(&self) -> f64 {
        100.0 * self.held.exp_m1()
    }
}

impl LeftOutGroups {
    /// Whether networks were left out, so that errors are those of others.
    pub fn is_by_network(&self) -> bool {
        self.what == NETWORK
    }

    /// The mean error of a row in percent over the groups, and the interval that holds the true mean with 95 %; none with one group
    /// alone.
    pub fn mean_percent(&self) -> (f64, Option<[f64; 2]>) {
        let means: Vec<f64> = self.groups.iter().map(|group| group.mean_percent).collect();
        (mean(&means), ValueSummary::compute(&means).and_then(|summary| summary.interval))
    }

    /// The same of sums over a network.
    pub fn total_percent(&self) -> (f64, Option<[f64; 2]>) {
        let totals: Vec<f64> = self.groups.iter().map(|group| group.total_percent).collect();
        (mean(&totals), ValueSummary::compute(&totals).and_then(|summary| summary.interval))
    }

    /// The mean error in percent of a class, and its rows.
    pub fn by_class(&self) -> BTreeMap<&str, (usize, f64)> {
        let mut all: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
        for (class, own) in self.groups.iter().flat_map(|group| &group.classes) {
            let entry = all.entry(class).or_default();
            let sum = entry.0 as f64 * entry.1 + own.rows as f64 * own.mean_percent;
            *entry = (entry.0 + own.rows, sum / (entry.0 + own.rows) as f64);
        }
        all
    }

    /// The logarithm that a row of a class in another group is within, nine times of ten; of fewer than nine groups the worst. Of all
    /// classes, where fewer than two groups have enough of this one.
    pub(super) fn row(&self, class: OperationClass) -> f64 {
        let of_class = self.groups.iter().filter_map(|group| group.classes.get(class.name()));
        let own: Vec<f64> = of_class.filter(|own| own.rows >= LEAST_OF_CLASS).map(|own| own.held).collect();
        match own.len() {
            0 | 1 => held_percentile(&self.groups.iter().map(|group| group.held).collect::<Vec<_>>()),
            _ => held_percentile(&own),
        }
    }

    /// The same of a sum over a network.
    pub(super) fn total(&self) -> f64 {
        held_percentile(
            &self.groups.iter().flat_map(|group| group.totals.iter().map(|log| log.abs())).collect::<Vec<_>>(),
        )
    }
}

/// The percentile of groups that another one is within, nine times of ten, if it is like them (conformal prediction).
fn held_percentile(errors: &[f64]) -> f64 {
    let count = errors.len() as f64;
    percentile(errors, (HELD * (count + 1.0) / count).min(100.0))
}

/// Errors of one group: the rows with the predicted logarithms.
pub(super) fn group(name: &str, rows: &[(&OperationRow, f64)]) -> LeftOutGroup {
    let off: Vec<f64> = rows.iter().map(|(row, log)| log - row.time_us.ln()).collect();
    let mut sums: BTreeMap<(&str, &str), [f64; 2]> = BTreeMap::new();
    let mut classes: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for ((row, log), off) in rows.iter().zip(&off) {
        let [predicted, measured] = sums.entry((&row.gpu, &row.network)).or_default();
        *predicted += f64::from(row.count) * log.exp();
        *measured += f64::from(row.count) * row.time_us;
        classes.entry(row.class.name().to_owned()).or_default().push(*off);
    }
    let totals: Vec<f64> = sums.values().map(|[predicted, measured]| (predicted / measured).ln()).collect();
    LeftOutGroup {
        name: name.to_owned(),
        rows: rows.len(),
        mean_percent: mean_percent(&off),
        total_percent: mean_percent(&totals),
        held: nine_of_ten(&off),
        totals,
        classes: classes.into_iter().map(|(class, off)| (class, ClassErrors::new(&off))).collect(),
        predicted: rows.iter().map(|(row, log)| PredictedOperation::new(row, log.exp())).collect(),
    }
}

impl PredictedOperation {
    fn new(row: &OperationRow, predicted_us: f64) -> Self {
        PredictedOperation { name: format!("{} {}", row.operation, row.shapes), measured_us: row.time_us, predicted_us }
    }
}

impl ClassErrors {
    fn new(off: &[f64]) -> Self {
        ClassErrors { rows: off.len(), mean_percent: mean_percent(off), held: nine_of_ten(off) }
    }
}

/// The mean error in percent of logarithms.
fn mean_percent(logs: &[f64]) -> f64 {
    mean(&logs.iter().map(|log| 100.0 * log.exp_m1().abs()).collect::<Vec<_>>())
}

/// What nine of ten logarithms are within.
fn nine_of_ten(logs: &[f64]) -> f64 {
    percentile(&logs.iter().map(|log| log.abs()).collect::<Vec<_>>(), HELD)
}

/// A part of the rows that is left out, and the others, which hold none of its operations.
pub(super) struct LeftOutSplit<'r> {
    pub name: String,
    pub out: Vec<&'r OperationRow>,
    pub others: Vec<&'r OperationRow>,
}

/// Each network, or parts of the operations where networks have the same ones, as several runs of one network do.
pub(super) fn networks(rows: &[OperationRow]) -> (&'static str, Vec<LeftOutSplit<'_>>) {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.network.as_str()).collect();
    let by_network = names.into_iter().map(|name| split(name.to_owned(), rows, |row| row.network == name));
    let by_network: Vec<LeftOutSplit<'_>> =
        by_network.filter(|split| split.others.len() as f64 >= LEAST_SHARE * rows.len() as f64).collect();
    if by_network.len() > 1 {
        return (NETWORK, by_network);
    }
    let operations: BTreeSet<RepeatedOperation<'_>> = rows.iter().map(RepeatedOperation::from_row).collect();
    let parts = operations.len().min(FOLDS);
    let of: BTreeMap<RepeatedOperation<'_>, usize> = operations.into_iter().zip((0..parts).cycle()).collect();
    let part =
        |part: usize| split(format!("part {}", part + 1), rows, |row| of[&RepeatedOperation::from_row(row)] == part);
    ("operations", (0..parts).map(part).collect())
}

fn split(name: String, rows: &[OperationRow], is_out: impl Fn(&OperationRow) -> bool) -> LeftOutSplit<'_> {
    let (out, others): (Vec<&OperationRow>, Vec<&OperationRow>) = rows.iter().partition(|row| is_out(row));
    let own: BTreeSet<RepeatedOperation<'_>> = out.iter().copied().map(RepeatedOperation::from_row).collect();
    let others = others.into_iter().filter(|row| !own.contains(&RepeatedOperation::from_row(row))).collect();
    LeftOutSplit { name, out, others }
}

/// What is left out if networks are.
const NETWORK: &str = "network";

/// Parts of the operations where networks cannot be left out.
const FOLDS: usize = 5;

/// With a smaller share of the rows a fit says nothing of one with all.
const LEAST_SHARE: f64 = 0.1;

/// Leaves out each GPU with a data sheet, if others have one, too; none otherwise.
pub(super) fn gpus(rows: &[OperationRow], share: f64, watch: &FitProgress<'_>) -> Result<Option<LeftOutGroups>> {
    let mut groups = Vec::new();
    for gpu in known_gpus(rows) {
        let others: Vec<&OperationRow> = rows.iter().filter(|row| row.gpu != gpu).collect();
        let fitted = FittedParts::new(&others)?;
        let own = rows.iter().filter(|row| row.gpu == gpu);
        let predicted: Vec<(&OperationRow, f64)> =
            own.filter_map(|row| Some((row, fitted.log(row, gpu, share)?))).collect();
        groups.extend((!predicted.is_empty()).then(|| group(gpu, &predicted)));
        watch(1)?;
    }
    Ok((!groups.is_empty()).then(|| LeftOutGroups { what: "GPU".to_owned(), groups }))
}

/// GPUs that can be left out, since others have a data sheet, too.
pub(super) fn known_gpus(rows: &[OperationRow]) -> BTreeSet<&str> {
    let known: BTreeSet<&str> = rows.iter().map(|row| row.gpu.as_str()).filter(|gpu| sheet(gpu).is_some()).collect();
    if known.len() < 2 { BTreeSet::new() } else { known }
}
