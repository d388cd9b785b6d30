//! How uncertain the parameters of the physical part are, and with them a time: rows determine a parameter as far as their times change
//! with it. Where all are large, a launch is as uncertain as before, and so is what a small operation takes.

use super::physical::{LAUNCH_SPREAD, LogRates, TimeParts};
use crate::work::OperationWork;
use linfa_linalg::cholesky::InverseC;
use ndarray::{Array2, arr2};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So many rows that take about as long, within a factor of two, say as much as more do: what the formula is off is alike in them.
const MOST_ALIKE: f64 = 3.0;
/// What the formula is off at least, as a share, however well a few rows are fitted.
const LEAST_SCATTER: f64 = 0.1;
/// The standard deviation of normally distributed values, compared with the median of their sizes.
const OF_MEDIAN: f64 = 1.483;

/// The logarithm that shares of peaks differ by, as a standard deviation, for each factor of e that sizes are beyond all measured ones: products of
/// 256 rows and columns may reach a fiftieth of the share that those of 4096 do, which have 4096 times the FLOPs, and are then two deviations off.
pub(super) const RATE_BY_SIZE: f64 = 0.3;

/// What a row says of the parameters.
pub(super) struct RowEvidence {
    /// Its measured time.
    pub time_us: f64,
    /// The logarithm that it is off.
    pub off: f64,
    /// How the logarithm of the time changes with each parameter.
    pub derivatives: LogRates,
    pub work: OperationWork,
}

/// The covariance of a kind's parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RateCovariance([LogRates; 4]);

impl RateCovariance {
    /// Of parameters that say nothing of each other.
    pub fn independent(spreads: &LogRates) -> Self {
        let mut matrix = [[0.0; 4]; 4];
        spreads.iter().enumerate().for_each(|(place, spread)| matrix[place][place] = spread * spread);
        RateCovariance(matrix)
    }

    /// With each parameter further off by so much, as those of one GPU are from those of all.
    pub fn wider(&self, spread: f64) -> Self {
        let mut matrix = self.0;
        (0..matrix.len()).for_each(|place| matrix[place][place] += spread * spread);
        RateCovariance(matrix)
    }

    /// What is left of it after some rows (the Gauss-Newton approximation).
    pub fn after_rows(&self, rows: &[RowEvidence]) -> Result<Self> {
        let weights = weights(rows);
        let weighted =
            Array2::from_shape_fn((rows.len(), 4), |(row, place)| weights[row] * rows[row].derivatives[place]);
        let inverse = |matrix: Array2<f64>| {
            matrix.invc().map_err(|cause| {
                Error::input(format!("these measurements cannot be fitted: {cause}")).expected("finite sizes and times")
            })
        };
        let left = inverse(inverse(arr2(&self.0))? + weighted.t().dot(&weighted))?;
        Ok(RateCovariance(std::array::from_fn(|row| std::array::from_fn(|place| left[[row, place]]))))
    }

    fn variance(&self, derivatives: &LogRates) -> f64 {
        let row = |row: &LogRates| row.iter().zip(derivatives).map(|(one, by)| one * by).sum::<f64>();
        self.0.iter().zip(derivatives).map(|(one, by)| by * row(one)).sum()
    }
}

/// By how much a row counts: the inverse of what rows scatter by, of those that take as long together.
fn weights(rows: &[RowEvidence]) -> Vec<f64> {
    let off: Vec<f64> = rows.iter().map(|row| row.off.abs()).collect();
    let scatter = if off.is_empty() { LEAST_SCATTER } else { (OF_MEDIAN * median(&off)).max(LEAST_SCATTER) };
    shares(rows.iter().map(|row| row.time_us)).into_iter().map(|share| share / scatter).collect()
}

/// The factor of each row's residual, by which all that take about as long count as a few.
pub(super) fn shares(times_us: impl Iterator<Item = f64>) -> Vec<f64> {
    let lengths: Vec<i64> = times_us.map(|time| time.log2().floor() as i64).collect();
    let mut alike: BTreeMap<i64, f64> = BTreeMap::new();
    lengths.iter().for_each(|length| *alike.entry(*length).or_default() += 1.0);
    lengths.iter().map(|length| (MOST_ALIKE / alike[length]).min(1.0).sqrt()).collect()
}

/// How uncertain times of a kind are on a GPU, as variances of logarithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TimeUncertainty {
    covariance: RateCovariance,
    /// That of rows like the measured ones: in the median.
    pub usual: f64,
    /// Logarithms of the least and the most FLOPs, and bytes, of a row.
    sizes: [[f64; 2]; 2],
    /// The share of its time that a row spends on FLOPs and bytes, of the row with the least.
    least_by_rates: f64,
}

impl TimeUncertainty {
    pub fn new(covariance: RateCovariance, rows: &[RowEvidence]) -> Self {
        let variances: Vec<f64> = rows.iter().map(|row| covariance.variance(&row.derivatives)).collect();
        let size = |place: usize| {
            let sizes = rows.iter().map(|row| sizes(row.work)[place]);
            sizes.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], size| [least.min(size), most.max(size)])
        };
        let least_by_rates = rows.iter().map(|row| by_rates(&row.derivatives)).fold(1.0, f64::min);
        TimeUncertainty { usual: median(&variances), covariance, sizes: [size(0), size(1)], least_by_rates }
    }

    /// That of a launch beyond what is usual.
    pub fn launch_variance_beyond(&self) -> f64 {
        (self.covariance.variance(&[0.0, 0.0, 1.0, 0.0]) - self.usual).max(0.0)
    }

    /// That of a time beyond what is usual, which errors of what was left out hold.
    pub fn variance_beyond(&self, work: OperationWork, parts: &TimeParts) -> f64 {
        let outside = |place: fn(f64, [f64; 2]) -> f64| {
            let distances = sizes(work).into_iter().zip(self.sizes).map(|(size, range)| place(size, range));
            distances.fold(0.0, f64::max)
        };
        let derivatives = parts.derivatives();
        let larger = RATE_BY_SIZE * outside(|size, [_, most]| size - most) * by_rates(&derivatives);
        // Where a measured operation is bound by its launch, all that are smaller take as long.
        let smaller =
            (RATE_BY_SIZE * outside(|size, [least, _]| least - size)).min(LAUNCH_SPREAD) * self.least_by_rates;
        let by_parameters = self.covariance.variance(&derivatives) - self.usual;
        by_parameters.max(0.0) + larger.max(smaller).powi(2)
    }
}

/// The share of a time that FLOPs and bytes take, and no launch.
fn by_rates([_, _, launch, _]: &LogRates) -> f64 {
    1.0 - launch
}

fn sizes(work: OperationWork) -> [f64; 2] {
    [work.flops, work.bytes].map(|size| size.max(1.0).ln())
}
