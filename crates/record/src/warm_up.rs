//! Iterations at the beginning that take longer because much is done for the first time.

use perf4sight_base::stats::median;

/// How many of the first iterations are left out, and by what they were told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmUp {
    /// How many.
    pub iterations: usize,
    /// Nanoseconds from which one of the first iterations counts as warm-up; none where there are too few to tell.
    pub limit: Option<f64>,
}

/// Fewer iterations have no later half that tells how long one takes.
const FEWEST: usize = 4;
/// Deviations of the later half within which an iteration is one of them: five standard deviations of a normal distribution.
const DEVIATIONS: f64 = 5.0 * 1.4826;
/// What an iteration takes longer at least, as a share of the later half's median, where those are all but equal.
const SHARE: f64 = 0.1;

impl WarmUp {
    /// Of iterations that took so many nanoseconds: leading ones, half of all at most, that took longer than the later half's median by
    /// five standard deviations (from the median deviation) and by a tenth.
    pub fn of(durations: &[i64]) -> Self {
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

/// What none of some times exceeds but those that something else lies in: five standard deviations (from the median deviation) above the
/// median, and a tenth.
pub(crate) fn limit(times: &[f64]) -> f64 {
    let middle = median(times);
    beyond(middle, median(&times.iter().map(|time| (time - middle).abs()).collect::<Vec<f64>>()))
}

/// The same by the median and the median deviation.
pub(crate) fn beyond(middle: f64, deviation: f64) -> f64 {
    middle + (DEVIATIONS * deviation).max(SHARE * middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the later half of the first has the median 100 and a median deviation of 0, so that a tenth is more: 110.
    #[test]
    fn long_first_iterations_are_left_out_and_no_others() {
        assert_eq!(WarmUp::of(&[500, 120, 101, 100, 101, 100]).iterations, 2);
        assert!((WarmUp::of(&[500, 120, 101, 100, 101, 100]).limit.unwrap() - 110.0).abs() < 1e-9);
        assert_eq!(WarmUp::of(&[100, 500, 100, 100, 100, 100]).iterations, 0);
        assert_eq!(WarmUp::of(&[500, 400, 300, 100, 100, 100]).iterations, 3);
        assert_eq!(WarmUp::of(&[500, 100, 100]), WarmUp { iterations: 0, limit: None });
        assert_eq!(WarmUp::of(&[]).iterations, 0);
    }
}
