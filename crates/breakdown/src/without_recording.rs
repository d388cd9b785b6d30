//! How long an iteration takes without recording, and how sure that is.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown};
use crate::overhead::Overhead;
use perf4sight_conventions::stats::mean;

/// An iteration without what recording takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutRecording {
    /// The mean's nanoseconds.
    pub mean: f64,
    /// Where that lies with 95 %, as far as it is told what recording takes; none where that is not told ([`Overhead::either_way`]).
    pub interval: Option<[f64; 2]>,
}

impl RankBreakdown {
    /// Of the iterations that count; none where nobody knows.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        let mean = self.summary(total)?.mean;
        Some(WithoutRecording::around(mean, self.overhead.as_ref().and_then(Overhead::either_way)))
    }
}

impl Breakdown {
    /// Of the iterations that count on every rank, the mean of these; none where nobody knows. Ranks wait for each other, and so may all be
    /// off the same way.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        let either_way = |rank: &RankBreakdown| rank.overhead.as_ref()?.either_way();
        let ranks: Option<Vec<[f64; 2]>> = self.ranks.iter().map(either_way).collect();
        let all = ranks.map(|ranks| [0, 1].map(|end| mean(&ranks.iter().map(|way| way[end]).collect::<Vec<_>>())));
        Some(WithoutRecording::around(self.summary(total)?.mean, all))
    }
}

impl WithoutRecording {
    /// The mean of several recordings. They may all be off the same way, so that their intervals are no narrower together.
    pub(crate) fn of_several(all: &[WithoutRecording]) -> Self {
        let of = |number: fn(&WithoutRecording) -> Option<f64>| {
            all.iter().map(number).collect::<Option<Vec<f64>>>().map(|numbers| mean(&numbers))
        };
        let ends = of(|one| Some(one.interval?[0])).zip(of(|one| Some(one.interval?[1])));
        let means: Vec<f64> = all.iter().map(|one| one.mean).collect();
        WithoutRecording { mean: mean(&means), interval: ends.map(<[f64; 2]>::from) }
    }

    fn around(mean: f64, either_way: Option<[f64; 2]>) -> Self {
        WithoutRecording { mean, interval: either_way.map(|ends| ends.map(|end| (mean + end).max(0.0))) }
    }
}

fn total(iteration: &Iteration) -> Option<f64> {
    iteration.corrected.as_ref().map(|corrected| corrected.total as f64)
}
