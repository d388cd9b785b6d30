//! Estimates from the rows so far whether more rows would still improve predictions.
//!
//! It compares fits on every second row with fits on all rows. Doubling the rows again will gain less than the last
//! doubling did.

use super::candidate_result::PassedRows;
use crate::fingerprint::{MeasuredRow, Observations, left_out_error};
use crate::records::Variant;
use perf4sight_base::error::Result;
use perf4sight_base::stats::mean;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Step};
use std::collections::{BTreeMap, BTreeSet};

/// If doubling the rows lowers the error by less than this, in percentage points, more rows are not worth their cost.
const WORTH: f64 = 0.25;

/// The rows grow by this factor from one estimate to the next.
const GROWTH: f64 = 1.25;

const FOLDS: usize = 4;

/// The smallest number of networks that can be left out one at a time.
const FEWEST_NETWORKS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FitError {
    /// Mean absolute percentage error for networks that were left out; with too few networks, for levels that were
    /// left out.
    pub error: f64,
    /// By how many percentage points it is lower than with half of the rows.
    gained: f64,
}

pub(super) type FitErrors = BTreeMap<(Step, Quantity), FitError>;

/// Whether an estimate is due after this many measurements: at the first count, then whenever the count has grown by a
/// constant factor, so that all estimates together take little time. It depends only on the count, so an interrupted
/// profile ends at the same point.
pub(super) fn is_due(measured: usize, first: usize) -> bool {
    let counts = std::iter::successors(Some(first.max(1)), |count| Some((*count as f64 * GROWTH).ceil() as usize + 1));
    counts.take_while(|count| *count <= measured).last() == Some(measured)
}

/// Estimates from the rows so far; quantities with too few rows have none.
pub(super) fn estimates(rows: &PassedRows, platform: &Platform, seed: u64) -> Result<FitErrors> {
    let mut estimates = FitErrors::new();
    for (&subject, rows) in rows {
        let groupings = [networks(rows), levels(rows)];
        let mut of_groupings = Vec::new();
        for groups in groupings.into_iter().flatten() {
            let error = |rows: &[MeasuredRow]| {
                let observations = Observations { rows, taught: &[], failed: &[], platform };
                left_out_error(subject, seed, &observations, |variant| groups[variant])
            };
            let halves = [0, 1].map(|odd| rows.iter().skip(odd).step_by(2).cloned().collect::<Vec<MeasuredRow>>());
            let [even, odd] = halves.map(|half| error(&half));
            if let (Some(error), Some(even), Some(odd)) = (error(rows)?, even?, odd?) {
                of_groupings.push(FitError { error, gained: mean(&[even, odd]) - error });
            }
        }
        let gained = of_groupings.iter().map(|estimate| estimate.gained).reduce(f64::max);
        if let (Some(first), Some(gained)) = (of_groupings.first(), gained) {
            estimates.insert(subject, FitError { gained, ..*first });
        }
    }
    Ok(estimates)
}

/// Whether no quantity needs more rows; a quantity with an unknown error does.
pub(super) fn is_flat(estimates: &FitErrors, rows: &PassedRows) -> bool {
    let flat = |subject| estimates.get(subject).is_some_and(|estimate: &FitError| estimate.gained < WORTH);
    !rows.is_empty() && rows.keys().all(flat)
}

type RowsByVariant<'a> = BTreeMap<&'a Variant, usize>;

/// Each network is its own fold; none if there are too few networks.
fn networks(rows: &[MeasuredRow]) -> Option<RowsByVariant<'_>> {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.record.variant.network.as_str()).collect();
    (names.len() >= FEWEST_NETWORKS).then(|| groups(rows, |variant| names.range(..variant.network.as_str()).count()))
}

/// Folds of levels, with neighbouring levels in different folds, over all networks together; none if there is only one
/// level.
fn levels(rows: &[MeasuredRow]) -> Option<RowsByVariant<'_>> {
    let levels: BTreeSet<u8> = rows.iter().map(|row| row.record.variant.level).collect();
    (levels.len() > 1).then(|| groups(rows, |variant| levels.range(..variant.level).count() % FOLDS))
}

fn groups(rows: &[MeasuredRow], group: impl Fn(&Variant) -> usize) -> RowsByVariant<'_> {
    rows.iter().map(|row| (&row.record.variant, group(&row.record.variant))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_due_at_a_first_count_and_ever_more_rarely() {
        let due: Vec<usize> = (0..200).filter(|&measured| is_due(measured, 24)).collect();
        // 24, then ceil(1.25 x) + 1.
        assert_eq!(due, [24, 31, 40, 51, 65, 83, 105, 133, 168]);
    }
}
