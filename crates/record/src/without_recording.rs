//! The time of an iteration without recording, and its uncertainty.

use perf4sight_base::stats::mean;

/// The time of an iteration without the overhead of recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutRecording {
    /// The mean in nanoseconds.
    pub mean: f64,
    /// The 95 % confidence interval of the mean over many more iterations. It covers the uncertainty of the overhead
    /// and of the frequency of long iterations, and includes the interval of the iterations measured without recording
    /// if that differs; none if the overhead is unknown ([`crate::Overhead::either_way`]).
    pub interval: Option<[f64; 2]>,
}

impl WithoutRecording {
    /// The mean of several recordings. They may have the same error, so their common interval is no narrower.
    pub fn of_several(all: &[WithoutRecording]) -> Self {
        let of = |number: fn(&WithoutRecording) -> Option<f64>| {
            all.iter().map(number).collect::<Option<Vec<f64>>>().map(|numbers| mean(&numbers))
        };
        let ends = of(|one| Some(one.interval?[0])).zip(of(|one| Some(one.interval?[1])));
        let means: Vec<f64> = all.iter().map(|one| one.mean).collect();
        WithoutRecording { mean: mean(&means), interval: ends.map(<[f64; 2]>::from) }
    }

    /// A mean and its confidence interval, which is given relative to it.
    pub fn around(mean: f64, either_way: Option<[f64; 2]>) -> Self {
        WithoutRecording { mean, interval: either_way.map(|ends| ends.map(|end| (mean + end).max(0.0))) }
    }
}
