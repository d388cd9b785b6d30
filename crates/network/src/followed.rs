//! The memory of passes of the module that a network was read from, where that was followed without a graph: it holds what a graph
//! lacks, such as the intermediate results that a module's own code keeps.

use perf4sight_step::workload::{Checkpoint, Step};

/// Peaks of passes of a module on a processor, as its operators allocate tensors; what kernels borrow within is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    step: Step,
    /// Samples and bytes, the smallest first; at least one.
    peaks: Vec<(u64, u64)>,
}

impl Followed {
    /// Peaks in bytes by number of samples, of passes of a step; none where there is no peak.
    pub fn new(step: Step, mut peaks: Vec<(u64, u64)>) -> Option<Self> {
        peaks.sort_unstable();
        peaks.dedup_by_key(|(samples, _)| *samples);
        (!peaks.is_empty()).then_some(Followed { step, peaks })
    }

    /// Whether passes of a step are such passes: of the same stage and precision, with the same weights trained, and nothing runs again.
    pub fn is_of(&self, step: Step) -> bool {
        let passes = |step: Step| (step.stage, step.precision, step.trainable);
        passes(step) == passes(self.step) && step.checkpoint == Checkpoint::None
    }

    /// How many bytes more passes of so many samples take than `simulated` says of the followed numbers of samples; less than nothing where
    /// that is too much. Between and beyond them the difference is linear.
    ///
    /// ```
    /// use perf4sight_network::Followed;
    /// use perf4sight_step::workload::{Stage, Step};
    /// let peaks = vec![(4, 1000), (8, 1800)];
    /// let followed = Followed::new(Step::published(Stage::Training), peaks).ok_or("no peak")?;
    /// let simulated = |samples| 100 * samples;
    /// assert_eq!([2, 4, 6, 16].map(|samples| followed.beyond(samples, simulated)), [400, 600, 800, 1800]);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn beyond(&self, samples: u64, simulated: impl Fn(u64) -> u64) -> i64 {
        let difference = |&(at, bytes): &(u64, u64)| (i128::from(at), i128::from(bytes) - i128::from(simulated(at)));
        let next = self.peaks.partition_point(|(at, _)| *at < samples).clamp(1, self.peaks.len().max(2) - 1);
        let [(from, first), (to, second)] = match (&self.peaks[next - 1], self.peaks.get(next)) {
            (first, Some(second)) => [difference(first), difference(second)],
            (only, None) => [(0, 0), difference(only)],
        };
        let beyond = first + (second - first) * (i128::from(samples) - from) / (to - from).max(1);
        i64::try_from(beyond).unwrap_or(0)
    }
}
