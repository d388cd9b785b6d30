//! Numbers of several iterations in one: middle, spread, and how sure the mean is.

use perf4sight_conventions::stats;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What several values of one number come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values there were; one at least.
    pub count: usize,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The middle one.
    pub median: f64,
    /// Their standard deviation, as estimated from a sample; none for a single value.
    pub spread: Option<f64>,
    /// Where the mean of many more such values lies with a probability of 95 %, by Student's t, if iterations were independent of each
    /// other; none for a single value.
    pub interval: Option<[f64; 2]>,
}

/// The probability that an interval misses.
const MISSES: f64 = 0.05;

impl Summary {
    /// Of some values; none of none, and of values that are no numbers.
    ///
    /// ```
    /// // Mean 3, deviations -1 and 1: a standard deviation of the root of 2, over the root of 2; t of one degree of freedom is 12.706.
    /// let summary = perf4sight_breakdown::Summary::of(&[2.0, 4.0]).unwrap();
    /// assert_eq!((summary.mean, summary.median), (3.0, 3.0));
    /// assert!((summary.interval.unwrap()[1] - 3.0 - 12.706).abs() < 1e-3);
    /// ```
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let (count, mean) = (values.len(), stats::mean(values));
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let spread = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        let interval = spread.zip(quantile(count as f64 - 1.0, MISSES)).map(|(spread, quantile)| {
            let half = quantile * spread / (count as f64).sqrt();
            // What is never negative has no mean below zero.
            let lowest = if values.iter().all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
            [(mean - half).max(lowest), mean + half]
        });
        Some(Summary { count, mean, median: stats::median(values), spread, interval })
    }
}

/// What Student's t of so many degrees of freedom exceeds, to either side, with so small a probability.
pub(crate) fn quantile(freedom: f64, misses: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t.inverse_cdf(1.0 - misses / 2.0))
}
