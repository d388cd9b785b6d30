//! How long an iteration takes without recording, and how sure that is.

use perf4sight_base::stats::mean;

/// An iteration without what recording takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutRecording {
    /// The mean's nanoseconds.
    pub mean: f64,
    /// Where that of many more iterations lies with 95 %, as far as it is told what recording takes and how often long ones come, and where
    /// iterations without recording were measured to lie if that is elsewhere; none where what recording takes is not told
    /// ([`crate::Overhead::either_way`]).
    pub interval: Option<[f64; 2]>,
}

impl WithoutRecording {
    /// The mean of several recordings. They may all be off the same way, so that their intervals are no narrower together.
    pub fn of_several(all: &[WithoutRecording]) -> Self {
        let of = |number: fn(&WithoutRecording) -> Option<f64>| {
            all.iter().map(number).collect::<Option<Vec<f64>>>().map(|numbers| mean(&numbers))
        };
        let ends = of(|one| Some(one.interval?[0])).zip(of(|one| Some(one.interval?[1])));
        let means: Vec<f64> = all.iter().map(|one| one.mean).collect();
        WithoutRecording { mean: mean(&means), interval: ends.map(<[f64; 2]>::from) }
    }

    /// Of a mean, and how far from it the true one may lie to either side.
    pub fn around(mean: f64, either_way: Option<[f64; 2]>) -> Self {
        WithoutRecording { mean, interval: either_way.map(|ends| ends.map(|end| (mean + end).max(0.0))) }
    }
}
