//! Iterations at the beginning that take longer because of one-time work.

use perf4sight_base::stats::median;

/// The number of warm-up iterations, and the limit that identified them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmUp {
    /// How many iterations at the beginning are left out.
    pub iterations: usize,
    /// Leading iterations longer than this many nanoseconds count as warm-up; none if there are too few iterations.
    pub limit: Option<f64>,
}

/// With fewer iterations, the later half is too short to measure a typical iteration.
const FEWEST: usize = 4;
/// Iterations within this many median deviations of the later half's median are typical: five standard deviations of a
/// normal distribution.
const DEVIATIONS: f64 = 5.0 * 1.4826;
/// An iteration must be longer than the later half's median by at least this share, for the case that those are almost
/// equal.
const SHARE: f64 = 0.1;

impl WarmUp {
    /// Finds the warm-up in durations in nanoseconds: leading iterations, at most half of all, that exceed the later
    /// half's median by five standard deviations (estimated from the median deviation) and by a tenth.
    pub fn find(durations: &[i64]) -> Self {
        if durations.len() < FEWEST {
            return WarmUp { iterations: 0, limit: None };
        }
        let half = durations.len() / 2;
        let later: Vec<f64> = durations[half..].iter().map(|&duration| duration as f64).collect();
        let limit = limit(&later);
        let iterations = durations[..half].iter().take_while(|&&duration| duration as f64 > limit).count();
        WarmUp { iterations, limit: Some(limit) }
    }
}

/// The limit above which a time is an outlier: five standard deviations (estimated from the median deviation) above the
/// median, and at least a tenth above it.
pub(crate) fn limit(times: &[f64]) -> f64 {
    let middle = median(times);
    warm_up_limit(middle, median(&times.iter().map(|time| (time - middle).abs()).collect::<Vec<f64>>()))
}

/// The same limit from the median and the median deviation.
pub(crate) fn warm_up_limit(middle: f64, deviation: f64) -> f64 {
    middle + (DEVIATIONS * deviation).max(SHARE * middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calculated by hand: the later half of the first list has median 100 and median deviation 0, so a tenth is
    /// larger: 110.
    #[test]
    fn long_first_iterations_are_left_out_and_no_others() {
        assert_eq!(WarmUp::find(&[500, 120, 101, 100, 101, 100]).iterations, 2);
        assert!((WarmUp::find(&[500, 120, 101, 100, 101, 100]).limit.unwrap() - 110.0).abs() < 1e-9);
        assert_eq!(WarmUp::find(&[100, 500, 100, 100, 100, 100]).iterations, 0);
        assert_eq!(WarmUp::find(&[500, 400, 300, 100, 100, 100]).iterations, 3);
        assert_eq!(WarmUp::find(&[500, 100, 100]), WarmUp { iterations: 0, limit: None });
        assert_eq!(WarmUp::find(&[]).iterations, 0);
    }
}
