//! Medians, percentiles, rank correlation and prediction scores over slices.
//!
//! Shares and errors are in percent: 5.5 is 5.5 %. Of an empty slice every statistic is NaN.

use serde::{Deserialize, Serialize};

/// Errors of predictions relative to measurements; percentages as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorScores {
    /// Pairs compared.
    pub rows: usize,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Median absolute percentage error.
    pub median: f64,
    /// 90th percentile of the absolute percentage errors.
    pub p90: f64,
    /// Share of the rows with an error of at most 5 %.
    pub within_5: f64,
    /// Share of the rows with an error of at most 10 %.
    pub within_10: f64,
    /// Root of the mean squared percentage error.
    pub rmspe: f64,
    /// Rank correlation; none where either side is constant.
    pub spearman: Option<f64>,
    /// Mean signed percentage error: positive where predictions are too high.
    pub bias: f64,
}

impl ErrorScores {
    /// The scores of as many predictions as measured values, none of which is 0; none for no rows.
    ///
    /// ```
    /// use perf4sight_base::stats::ErrorScores;
    /// // Errors of +5 %, -20 %, +2 %.
    /// let scores = ErrorScores::compute(&[200.0, 50.0, 100.0], &[210.0, 40.0, 102.0]).unwrap();
    /// assert_eq!((scores.rows, scores.mape, scores.median, scores.p90), (3, 9.0, 5.0, 17.0));
    /// assert_eq!(scores.bias, -13.0 / 3.0);
    /// ```
    pub fn compute(measured: &[f64], predicted: &[f64]) -> Option<ErrorScores> {
        let signed = relative_errors(measured, predicted);
        let errors: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        (!errors.is_empty()).then(|| ErrorScores {
            rows: errors.len(),
            mape: mean(&errors),
            median: median(&errors),
            p90: percentile(&errors, 90.0),
            within_5: share_within(&errors, 5.0),
            within_10: share_within(&errors, 10.0),
            rmspe: root_mean_square(&errors),
            spearman: Some(spearman(measured, predicted)).filter(|correlation| correlation.is_finite()),
            bias: mean(&signed),
        })
    }

    /// The means of several groups' scores, every group weighing the same however many rows it has; none for no groups.
    ///
    /// ```
    /// use perf4sight_base::stats::ErrorScores;
    /// // Errors of +10 %, +10 %, +10 % in one group, -50 % in the other: 20 % over rows, 30 % over groups.
    /// let groups = [ErrorScores::compute(&[10.0; 3], &[11.0; 3]), ErrorScores::compute(&[10.0], &[5.0])].map(Option::unwrap);
    /// let scores = ErrorScores::over_groups(&groups).unwrap();
    /// assert_eq!((scores.rows, scores.mape, scores.bias, scores.within_10), (4, 30.0, -20.0, 50.0));
    /// ```
    pub fn over_groups(groups: &[ErrorScores]) -> Option<ErrorScores> {
        let over = |of: fn(&ErrorScores) -> f64| mean(&groups.iter().map(of).collect::<Vec<f64>>());
        let spearman: Vec<f64> = groups.iter().filter_map(|scores| scores.spearman).collect();
        (!groups.is_empty()).then(|| ErrorScores {
            rows: groups.iter().map(|scores| scores.rows).sum(),
            mape: over(|scores| scores.mape),
            median: over(|scores| scores.median),
            p90: over(|scores| scores.p90),
            within_5: over(|scores| scores.within_5),
            within_10: over(|scores| scores.within_10),
            rmspe: over(|scores| scores.rmspe),
            spearman: (!spearman.is_empty()).then(|| mean(&spearman)),
            bias: over(|scores| scores.bias),
        })
    }
}

/// Arithmetic mean; not a number of no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Middle value; the mean of the two middle ones where their number is even.
///
/// ```
/// assert_eq!(perf4sight_base::stats::median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
/// ```
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// The percentile of the values, interpolated linearly between neighbours (NumPy's default).
///
/// ```
/// // Position 0.9 x (5 - 1) = 3.6: six tenths of the way from the fourth value to the fifth.
/// assert_eq!(perf4sight_base::stats::percentile(&[10.0, 20.0, 30.0, 40.0, 50.0], 90.0), 46.0);
/// ```
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = percent / 100.0 * last as f64;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

/// The smallest value up to which the weights add up to at least `weight`; the largest value where all weights are
/// less, none for no values.
pub fn weighted_quantile(mut weighted: Vec<(f64, f64)>, weight: f64) -> Option<f64> {
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let reached = weighted.iter().find(|(_, weighs)| {
        below += weighs;
        below >= weight
    });
    reached.or(weighted.last()).map(|(value, _)| *value)
}

/// Signed errors in percent of the truth: positive where the prediction is too high.
///
/// ```
/// assert_eq!(perf4sight_base::stats::relative_errors(&[200.0, 50.0], &[210.0, 40.0]), [5.0, -20.0]);
/// ```
pub fn relative_errors(truth: &[f64], predicted: &[f64]) -> Vec<f64> {
    truth.iter().zip(predicted).map(|(truth, predicted)| 100.0 * (predicted - truth) / truth).collect()
}

/// Root of the mean squared value; of relative errors it is the RMSPE.
///
/// ```
/// assert_eq!(perf4sight_base::stats::root_mean_square(&[3.0, -4.0, 5.0, 0.0]), 12.5f64.sqrt());
/// ```
pub fn root_mean_square(values: &[f64]) -> f64 {
    let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
    mean(&squares).sqrt()
}

/// Mean absolute deviation, in percent, of values from the true one that they scatter around; NaN for fewer than two.
///
/// The values are closer to their own mean than to the true one, by the root of (n - 1) / n.
///
/// ```
/// // Deviations 2, 0 and 2 of 100: 4 / 3 %, times the root of 3 / 2.
/// assert!((perf4sight_base::stats::scatter(&[98.0, 100.0, 102.0]) - 4.0 / 3.0 * 1.5f64.sqrt()).abs() < 1e-12);
/// assert_eq!(perf4sight_base::stats::scatter(&[5.0, 5.0]), 0.0);
/// ```
pub fn scatter(values: &[f64]) -> f64 {
    let (count, middle) = (values.len() as f64, mean(values));
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs() / middle).collect();
    100.0 * mean(&deviations) * (count / (count - 1.0)).sqrt()
}

/// Slope of the least-squares line through points, and its standard error; none for fewer than three or where x never changes.
///
/// ```
/// // Around the means 1.5 and 1: slope 3 / 5, residuals -0.1, 0.3, -0.3 and 0.1, so a variance of 0.2 / 2 over 5.
/// let (slope, error) = perf4sight_base::stats::trend(&[(0.0, 0.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]).unwrap();
/// assert!((slope - 0.6).abs() < 1e-12 && (error - 0.02f64.sqrt()).abs() < 1e-12);
/// ```
pub fn trend(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (mean_x, mean_y) = (mean(&x), mean(&y));
    let squares: f64 = x.iter().map(|x| (x - mean_x).powi(2)).sum();
    if points.len() < 3 || squares == 0.0 {
        return None;
    }
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / squares;
    let residuals: f64 = points.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    Some((slope, (residuals / (points.len() - 2) as f64 / squares).sqrt()))
}

/// Percent of the values whose magnitude is at most `limit`.
///
/// ```
/// assert_eq!(perf4sight_base::stats::share_within(&[-5.0, 4.0, 5.1, 20.0], 5.0), 50.0);
/// ```
pub fn share_within(values: &[f64], limit: f64) -> f64 {
    100.0 * values.iter().filter(|value| value.abs() <= limit).count() as f64 / values.len() as f64
}

/// Spearman's rank correlation: Pearson's correlation of the ranks, equal values sharing their mean rank.
///
/// NaN where either side is constant: there is no order to agree with.
///
/// ```
/// use perf4sight_base::stats::spearman;
/// // Rank differences 0, 1, 1, 0: 1 - 6 x 2 / (4 x 15) = 0.8.
/// assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[10.0, 30.0, 20.0, 90.0]) - 0.8).abs() < 1e-12);
/// ```
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    pearson(&ranks(a), &ranks(b))
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let products = |x: &[f64], mean_x: f64, y: &[f64], mean_y: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum()
    };
    products(a, mean_a, b, mean_b) / (products(a, mean_a, a, mean_a) * products(b, mean_b, b, mean_b)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let shared = first as f64 + (group.len() - 1) as f64 / 2.0;
        group.iter().for_each(|&i| ranks[i] = shared);
        first += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_mean_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        // Deviations (1, -1.5, 1, -0.5) and (-1.5, -0.5, 0.5, 1.5): sum of products -1 over sqrt(4.5 x 5).
        let expected = -1.0 / (4.5f64 * 5.0).sqrt();
        assert!((spearman(&[3.0, 1.0, 3.0, 2.0], &[1.0, 2.0, 3.0, 4.0]) - expected).abs() < 1e-12);
    }

    #[test]
    fn a_reversed_order_correlates_fully_negatively() {
        assert!((spearman(&[1.0, 2.0, 3.0], &[9.0, 5.0, 1.0]) + 1.0).abs() < 1e-12);
        assert!(spearman(&[1.0, 1.0], &[2.0, 3.0]).is_nan());
    }

    #[test]
    fn nothing_has_no_statistics() {
        assert!(ErrorScores::compute(&[], &[]).is_none() && median(&[]).is_nan() && share_within(&[], 5.0).is_nan());
        assert_eq!(percentile(&[7.0], 90.0), 7.0);
    }
}
