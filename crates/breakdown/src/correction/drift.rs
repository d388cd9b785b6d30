//! How much the machine's speed changes while a script runs, measured by iterations without the profiler.

use perf4sight_base::stats::mean;
use perf4sight_base::summary::Summary;
use perf4sight_record::Times;

/// The variation of a recording's times in addition to the variation of its iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The squared standard deviation of the mean of the recorded iterations, relative to the mean.
    pub(crate) square: f64,
    /// The degrees of freedom: the number of periods minus one.
    pub(crate) freedom: f64,
}

impl Drift {
    /// From the means of the periods without the profiler: their variance beyond what their iterations explain. Each
    /// recorded period may differ by as much. None if there are fewer than two periods.
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
