//! Predicts how long a step should take from the other rows of its network, by its variant and its batch size.
//!
//! A step's time is modelled as a start time, the same for all of a network, plus the product of a factor of its
//! variant and a factor of its batch size. Median polish (Tukey, Exploratory Data Analysis, 1977, chapters 10 and 11)
//! separates the logarithms of the product; a few wrong rows do not move it. The start time is the one with the
//! smallest residuals. The model needs no network file and no fit, so it can be used after every row. On the rows of
//! `profiling_csvs/epyc-1-core`, half of a network's rows are within 0.2-3.5 % of it. A row made 30 % slower is found
//! in resnet18, squeezenet and googlenet in 94-100 cases of 100, in resnet50 and mobilenetv2 in 81-88, in mnasnet in
//! 38; alexnet scatters too much for any conclusion.

use crate::records::{RowReading, RowRecord, Variant};
use perf4sight_base::stats::{median, percentile};
use perf4sight_step::workload::Step;
use std::collections::{BTreeMap, BTreeSet};

/// The smallest numbers of variants, batch sizes and rows that allow a comparison.
const LEAST: [usize; 3] = [3, 3, 9];

/// Rounds of the polish; it hardly changes after three.
const ROUNDS: usize = 8;

/// The number of start times that are tried: equally spaced from 0 to below the shortest step.
const STARTS: usize = 20;

/// A row is far off if its residual exceeds this multiple of the 75th percentile of all residuals, and at least the
/// second value.
const FAR: f64 = 4.0;
const LEAST_FAR: f64 = 0.10;

/// One time among those of its network and step.
#[derive(Clone, Copy)]
struct TimedCell {
    row: usize,
    column: usize,
    milliseconds: f64,
}

/// The indices of rows whose time is far from the prediction of the other rows of their network and step, each with
/// the ratio of its time to the prediction.
pub(super) fn unexpected_rows(rows: &[RowRecord]) -> Vec<(usize, f64)> {
    let mut groups: BTreeMap<(&str, Step), Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate().filter(|(_, row)| milliseconds(row).is_some()) {
        groups.entry((&row.variant.network, row.workload.step)).or_default().push(place);
    }
    groups.into_values().flat_map(|places| far_of_network(rows, &places)).collect()
}

fn milliseconds(row: &RowRecord) -> Option<f64> {
    match row.reading {
        RowReading::Latency(_) => row.value(),
        RowReading::Memory(_) => None,
    }
}

fn far_of_network(rows: &[RowRecord], places: &[usize]) -> Vec<(usize, f64)> {
    let variants: BTreeMap<&Variant, usize> = number_distinct(places.iter().map(|&place| &rows[place].variant));
    let batches: BTreeMap<&u64, usize> = number_distinct(places.iter().map(|&place| &rows[place].workload.batch));
    let sizes = [variants.len(), batches.len(), places.len()];
    if sizes.iter().zip(LEAST).any(|(size, least)| *size < least) {
        return Vec::new();
    }
    let cells = places.iter().filter_map(|&place| {
        let row: &RowRecord = &rows[place];
        let milliseconds = milliseconds(row)?;
        Some(TimedCell { row: variants[&row.variant], column: batches[&row.workload.batch], milliseconds })
    });
    let rests = log_residuals(&cells.collect::<Vec<TimedCell>>(), [variants.len(), batches.len()]);
    let sizes: Vec<f64> = rests.iter().map(|rest| rest.abs()).collect();
    let limit = (FAR * percentile(&sizes, 75.0)).max(LEAST_FAR);
    let rests = places.iter().copied().zip(rests);
    rests.filter(|(_, rest)| rest.abs() > limit).map(|(place, rest)| (place, rest.exp())).collect()
}

fn number_distinct<'a, T: Ord + 'a>(all: impl Iterator<Item = &'a T>) -> BTreeMap<&'a T, usize> {
    let sorted: BTreeSet<&T> = all.collect();
    sorted.into_iter().zip(0..).collect()
}

/// Logarithms of measured over predicted times, for the start time with the smallest residuals.
fn log_residuals(cells: &[TimedCell], size: [usize; 2]) -> Vec<f64> {
    let shortest = cells.iter().map(|cell| cell.milliseconds).fold(f64::INFINITY, f64::min);
    let sum = |rests: &Vec<f64>| rests.iter().map(|rest| rest.abs()).sum::<f64>();
    let starts = (0..STARTS).map(|part| shortest * part as f64 / STARTS as f64);
    let tried = starts.map(|start| rests_after(start, cells, size));
    tried.min_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap_or_default()
}

fn rests_after(start: f64, cells: &[TimedCell], [rows, columns]: [usize; 2]) -> Vec<f64> {
    let products: Vec<f64> = cells.iter().map(|cell| (cell.milliseconds - start).ln()).collect();
    let mut left = products.clone();
    for _ in 0..ROUNDS {
        level(&mut left, cells, rows, |cell| cell.row);
        level(&mut left, cells, columns, |cell| cell.column);
    }
    let expected = products.iter().zip(&left).map(|(product, left)| start + (product - left).exp());
    cells.iter().zip(expected).map(|(cell, expected)| (cell.milliseconds / expected).ln()).collect()
}

/// Subtracts the median of every row or column from its cells.
fn level(left: &mut [f64], cells: &[TimedCell], lines: usize, line: impl Fn(&TimedCell) -> usize) {
    let mut groups = vec![Vec::new(); lines];
    cells.iter().zip(left.iter()).for_each(|(cell, left)| groups[line(cell)].push(*left));
    let middles: Vec<f64> = groups.iter().map(|group| median(group)).collect();
    cells.iter().zip(left.iter_mut()).for_each(|(cell, left)| *left -= middles[line(cell)]);
}
