//! How much faster or slower the machine gets while a script runs, as iterations without the profiler tell it.

use perf4sight_base::stats::mean;
use perf4sight_base::summary::Summary;
use perf4sight_record::Times;

/// What times of a recording vary by beside what its iterations do among themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The square of the standard deviation of a mean of the recorded iterations, as a share of it.
    pub(crate) square: f64,
    /// By how many numbers that is told, less one.
    pub(crate) freedom: f64,
}

impl Drift {
    /// By the means of periods without the profiler, as far as they differ by more than their iterations explain; each recorded period may
    /// differ as much. None where there are less than two.
    pub fn of(times: &Times) -> Option<Self> {
        let floats = |period: &Vec<u64>| period.iter().map(|&time| time as f64).collect::<Vec<f64>>();
        let periods: Vec<Summary> = times.plain.iter().filter_map(|period| Summary::of(&floats(period))).collect();
        let means: Vec<f64> = periods.iter().map(|period| period.mean).collect();
        let all = Summary::of(&means).filter(|all| all.mean > 0.0)?;
        let explained = |period: &Summary| period.spread.map_or(0.0, |spread| spread.powi(2) / period.count as f64);
        let unexplained = all.spread?.powi(2) - mean(&periods.iter().map(explained).collect::<Vec<f64>>());
        let recorded = times.recorded.iter().filter(|period| !period.is_empty()).count().max(1);
        let square = unexplained.max(0.0) / all.mean.powi(2) / recorded as f64;
        Some(Drift { square, freedom: all.count as f64 - 1.0 })
    }
}
