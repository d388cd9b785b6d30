//! How far a model is from runs at points that nobody chose for it.

use crate::model::{Estimate, Model};
use perf4sight_conventions::stats::{self, Scores};

/// A measured epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// CPUs it had.
    pub cpus: f64,
    /// Which share of the data had cached in memory.
    pub cached: f64,
    /// Bytes a second that storage gave, where that was another than the model's.
    pub storage: Option<f64>,
    /// Seconds it took.
    pub seconds: f64,
}

/// A measured epoch beside what a model says of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// What was measured.
    pub run: Run,
    /// What the model says, in seconds.
    pub model: Estimate,
}

/// Several of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// One by one.
    pub runs: Vec<Compared>,
    /// Errors of the most likely times, or of the middles of intervals where nothing says more; none without runs.
    pub scores: Option<Scores>,
}

impl Compared {
    /// What the model says in one number: the most likely time, or the middle of the interval.
    pub fn predicted(&self) -> f64 {
        self.model.likely.unwrap_or(f64::midpoint(self.model.least, self.model.most))
    }

    /// The difference of the two in percent of what was measured.
    pub fn error_percent(&self) -> f64 {
        stats::relative_errors(&[self.run.seconds], &[self.predicted()])[0]
    }

    /// Whether what was measured lies where the model says.
    pub fn is_inside(&self) -> bool {
        (self.model.least..=self.model.most).contains(&self.run.seconds)
    }
}

impl Agreement {
    /// Of a model and runs.
    pub fn of(model: &Model, runs: &[Run]) -> Self {
        let computed = |run: &Run| match run.storage {
            Some(storage) => model.with_storage(storage).epoch(run.cpus, run.cached),
            None => model.epoch(run.cpus, run.cached),
        };
        let runs: Vec<Compared> = runs.iter().map(|run| Compared { run: *run, model: computed(run) }).collect();
        let measured: Vec<f64> = runs.iter().map(|one| one.run.seconds).collect();
        let predicted: Vec<f64> = runs.iter().map(Compared::predicted).collect();
        Agreement { scores: Scores::of(&measured, &predicted), runs }
    }

    /// How many runs lie where the model says.
    pub fn inside(&self) -> usize {
        self.runs.iter().filter(|one| one.is_inside()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{Curve, Point};
    use crate::model::Data;
    use crate::rate::Rate;

    /// Epochs of 10 s with one CPU and of 5 s with two; storage takes 8 s for all data, memory next to nothing.
    #[test]
    fn runs_are_held_against_the_likely_time_or_the_middle() {
        let point = |cpus: f64, rate: f64| Point { cpus, rate: Rate::exactly(rate) };
        let curve = Curve::of(&[point(1.0, 1.0), point(2.0, 2.0)]).unwrap();
        let data = Data { bytes: 8e6, memory_bandwidth: 1e12, storage_bandwidth: 1e6, storage_between: None };
        let model = Model { curve, iterations: 10.0, data, cache: None, overlap: None };
        let run = |cpus: f64, cached: f64, seconds: f64| Run { cpus, cached, storage: None, seconds };
        let agreement = Agreement::of(&model, &[run(1.0, 0.0, 10.0), run(2.0, 0.0, 10.0), run(2.0, 0.5, 5.5)]);
        // 10 s as said; 8 s for 10; MinIO misses half in 4 s and computes 5 s, in another run 5 / 1.03 or 4.85 s; LRU misses 1 - 0.1534 in
        // 6.77 s: 5.81 s for 5.5.
        let errors: Vec<f64> = agreement.runs.iter().map(Compared::error_percent).collect();
        assert!((errors[0], errors[1]) == (0.0, -20.0) && (errors[2] - 5.7).abs() < 0.1, "{errors:?}");
        assert_eq!(agreement.inside(), 2, "the second is not where the model says");
        assert!((agreement.scores.unwrap().mape - 8.6).abs() < 0.1);
        // All from storage of 0.5 MB/s takes 16 s.
        let slower = Run { storage: Some(0.5e6), ..run(2.0, 0.0, 16.0) };
        assert_eq!(Agreement::of(&model, &[slower]).inside(), 1);
    }
}
