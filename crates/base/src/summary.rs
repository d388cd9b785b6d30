//! Statistics of the values of several iterations: middle, spread, and uncertainty of the mean.

use crate::stats;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Summary statistics of several values of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueSummary {
    /// How many values there were; one at least.
    pub count: usize,
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Median of the values.
    pub median: f64,
    /// Their standard deviation, as estimated from a sample; none for a single value.
    pub spread: Option<f64>,
    /// The 95 % confidence interval of the mean, by Student's t, wider where neighbours correlate; none for a single
    /// value.
    pub interval: Option<[f64; 2]>,
}

/// The probability that an interval misses, or any of a comparison's.
pub const MISSES: f64 = 0.05;

impl ValueSummary {
    /// Of some values; none of none, and of values that are no numbers.
    ///
    /// ```
    /// // Mean 3, deviations -1 and 1: a standard deviation of the root of 2, over the root of 2; t of one degree of freedom is 12.706.
    /// let summary = perf4sight_base::summary::ValueSummary::compute(&[2.0, 4.0]).unwrap();
    /// assert_eq!((summary.mean, summary.median), (3.0, 3.0));
    /// assert!((summary.interval.unwrap()[1] - 3.0 - 12.706).abs() < 1e-3);
    /// ```
    pub fn compute(values: &[f64]) -> Option<Self> {
        if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let (count, mean) = (values.len(), mean(values));
        let squares = squares(values, mean);
        let spread = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        let interval = MeanUncertainty::of_mean(values, mean).and_then(|sure| {
            let half = quantile(sure.freedom, MISSES)? * sure.square.sqrt();
            // Values that are never negative have no mean below zero.
            let lowest = if values.iter().all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
            Some([(mean - half).max(lowest), mean + half])
        });
        Some(ValueSummary { count, mean, median: stats::median(values), spread, interval })
    }
}

/// Relative rounding error of some additions and divisions of equal numbers.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Whether a difference of numbers of such a size is rounding: a share that is equal in all iterations varies by that
/// much.
pub fn is_rounding(difference: f64, size: f64) -> bool {
    difference.abs() <= ROUNDING * size.abs()
}

/// The mean of one value at least; exactly that of the first where all are the same, so that none seems to vary.
pub fn mean(values: &[f64]) -> f64 {
    let (first, mean) = (values[0], stats::mean(values));
    if values.iter().all(|value| is_rounding(value - first, first)) { first } else { mean }
}

/// The sum of the squared deviations from the mean, without rounding errors.
fn squares(values: &[f64], mean: f64) -> f64 {
    let deviations = values.iter().map(|value| value - mean).filter(|deviation| !is_rounding(*deviation, mean));
    // The sum of no numbers is a negative zero.
    deviations.map(|deviation| deviation.powi(2)).sum::<f64>().abs()
}

/// The two-sided quantile of Student's t: exceeded, to either side, with probability `misses`.
pub fn quantile(freedom: f64, misses: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t.inverse_cdf(1.0 - misses / 2.0))
}

/// The uncertainty of a mean.
#[derive(Clone, Copy)]
pub struct MeanUncertainty {
    /// The square of its standard deviation.
    pub square: f64,
    /// Degrees of freedom: the effective number of values, less one.
    pub freedom: f64,
}

/// Lower limits where neighbours correlate: `FREEDOM` degrees of freedom for a spread, `LEAST` effective values for a
/// mean. In short series the correlation is unknown, and the tails of Student's t of one or two degrees of freedom
/// would dominate the interval. For series whose neighbours correlate by 0 to 0.6 the intervals hold as often as
/// without these limits (`tests` below), and the widest ones are half as wide.
const FREEDOM: f64 = 4.0;
const LEAST: f64 = 1.5;

impl MeanUncertainty {
    /// Of the mean of these; none of a single one. With a correlation `r` of neighbours, the mean of `n` values is as
    /// certain as that of `n / f` independent ones, `f` being `(1 + r) / (1 - r)` (Zwiers and von Storch, Journal of
    /// Climate 8, 1995). The correlation also makes the values differ less among each other: the expected square of the
    /// deviation is `(n - f) / (n - 1)` of the true one.
    pub fn of_mean(values: &[f64], mean: f64) -> Option<Self> {
        let (count, squares) = (values.len() as f64, squares(values, mean));
        if values.len() < 2 || squares == 0.0 {
            return (values.len() > 1).then_some(MeanUncertainty { square: 0.0, freedom: count - 1.0 });
        }
        let together: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        // With few values the estimate is too small, by (1 + 4 r) / n (Kendall, Biometrika 41, 1954).
        let found = together / squares;
        let correlation = (found + (1.0 + 4.0 * found) / count).clamp(0.0, 0.99);
        let factor = ((1.0 + correlation) / (1.0 - correlation)).min(count / LEAST);
        let freedom = (count / factor - 1.0).max(FREEDOM.min(count - 1.0));
        Some(MeanUncertainty { square: squares / count * factor / (count - factor), freedom })
    }

    /// Of the sum or the difference of two, or of one that varies in two ways (Welch-Satterthwaite).
    pub fn plus(self, other: Self) -> Self {
        let square = self.square + other.square;
        let parts: f64 = [self, other].iter().map(|one| one.square.powi(2) / one.freedom).sum();
        let freedom = if parts > 0.0 { square.powi(2) / parts } else { self.freedom };
        MeanUncertainty { square, freedom }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal values do not vary, however they are computed: seven times a tenth and 0.1 + 0.2 are no multiples of it.
    #[test]
    fn rounding_is_no_variation() {
        for values in
            [vec![0.1; 7], vec![0.3, 0.1 + 0.2, 0.3], vec![100.0 * (1.0 / 3.0), 100.0 / 3.0, 100.0 * (2.0 / 6.0)]]
        {
            let summary = ValueSummary::compute(&values).unwrap();
            assert_eq!((summary.mean, summary.spread), (values[0], Some(0.0)), "{values:?}");
            assert!(summary.spread.unwrap().is_sign_positive());
            assert_eq!(summary.interval, Some([values[0]; 2]));
        }
        // A nanosecond of a second is none of it.
        assert!(ValueSummary::compute(&[1.0, 1.0 + 1e-9]).unwrap().spread.unwrap() > 0.0);
    }

    /// Runs in which each iteration keeps nearly all of the one before: the mean of many more is zero. With as many values as there are
    /// the interval held it three times in twenty.
    #[test]
    fn intervals_hold_where_neighbours_are_alike() {
        let mut state = 1u64;
        let mut normal = || {
            let mut uniform = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        };
        for (kept, least) in [(0.0, 0.93), (0.6, 0.9), (0.95, 0.85)] {
            let mut holds = || {
                let mut at = 0.0;
                let mut next = || {
                    at = kept * at + normal();
                    at
                };
                (0..100).for_each(|_| _ = next());
                let values: Vec<f64> = (0..100).map(|_| next()).collect();
                let [low, high] = ValueSummary::compute(&values).unwrap().interval.unwrap();
                low <= 0.0 && high >= 0.0
            };
            let share = (0..1000).filter(|_| holds()).count() as f64 / 1000.0;
            assert!(share >= least, "{kept}: {share}");
        }
    }

    /// By hand: of 1, 2, 4, 5 the deviations from 3 are -2, -1, 1 and 2: squares of 10, neighbours' products of 2 - 1 + 2 = 3. A correlation
    /// of 0.3 is 0.85 without its bias, (1 + 1.2) / 4, and a factor of 12.3, which is 4 / 1.5 at most: 10 / 4 * 2.667 / 1.333 = 5. Three
    /// degrees of freedom, of which t is 3.182.
    #[test]
    fn short_series_do_not_tell_how_alike_neighbours_are() {
        let [low, high] = ValueSummary::compute(&[1.0, 2.0, 4.0, 5.0]).unwrap().interval.unwrap();
        assert_eq!(low, 0.0);
        assert!((high - 3.0 - 3.182_446 * 5f64.sqrt()).abs() < 1e-4, "{high}");
    }
}
