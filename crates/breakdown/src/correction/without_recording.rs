//! The time of an iteration without recording, and its uncertainty.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown};
use perf4sight_base::stats::mean;
use perf4sight_record::{ChangedIterations, DOUBTFUL, LongIterations, WithoutRecording, both};

impl RankBreakdown {
    /// The mean over the iterations that count; none if it is unknown.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        Some(WithoutRecording::from_mean(self.summary_of(total)?.mean, self.either_way()))
    }

    /// The mean of all iterations that were timed, long ones included, without recording; none if it is unknown.
    pub fn mean_of_all(&self) -> Option<WithoutRecording> {
        let overhead = self.correction.overhead.as_ref()?;
        overhead.contradiction().is_none().then_some(overhead.measured)
    }

    /// Iterations that took much longer than the others, if these make the mean of all much longer.
    pub fn weighty_long_iterations(&self) -> Option<&LongIterations> {
        let long = self.correction.overhead.as_ref()?.long.as_ref()?;
        (long.adds > DOUBTFUL * long.others).then_some(long)
    }

    /// Whether the corrected iterations were close to those without recording in every comparison. If not, only the
    /// interval of their mean is meaningful.
    pub fn correction_holds(&self) -> bool {
        let off = self.correction.overhead.as_ref().and_then(|overhead| overhead.off);
        off.is_none_or(|off| off.abs() <= 100.0 * DOUBTFUL)
    }

    /// The 95 % confidence interval relative to the mean corrected iteration, in nanoseconds. If it excludes the mean
    /// of the iterations measured without recording, it is extended to contain their interval; if a comparison with them failed, by as
    /// much as that was off. If recording may have cost nothing, an iteration takes at most as long as a recorded one, whose mean is
    /// uncertain itself. If iterations changed while they were recorded, both what the first and what the last ones took may be that of another run.
    fn either_way(&self) -> Option<[f64; 2]> {
        let ([low, high], overhead) = (self.by_recording()?, self.correction.overhead.as_ref()?);
        let (mean, measured) = (self.summary_of(total)?.mean, overhead.measured);
        let recorded =
            self.summary(|one| Some(one.sets.total() as f64))?.interval.filter(|_| overhead.interval[0] <= 0.0);
        let high = high + recorded.map_or(0.0, |[low, high]| (high - low) / 2.0);
        let off = overhead.off.filter(|_| !self.correction_holds()).map_or(1.0, |off| 1.0 + off.abs() / 100.0);
        let interval = both([low, high], [mean / off - mean, mean * off - mean]);
        let changed = overhead.changed.map(|changed| changed.range().map(|end| end - mean));
        let interval = changed.map_or(interval, |changed| both(interval, changed));
        if (interval[0]..=interval[1]).contains(&(measured.mean - mean)) {
            return Some(interval);
        }
        Some(both(interval, measured.interval.unwrap_or([measured.mean; 2]).map(|end| end - mean)))
    }

    /// The same from the cost of recording alone: that cost is uncertain, and the number of long iterations may differ
    /// in another run.
    fn by_recording(&self) -> Option<[f64; 2]> {
        let overhead = self.correction.overhead.as_ref()?;
        let [low, high] = overhead.either_way()?;
        let Some(long) = overhead.long else { return Some([low, high]) };
        let ordinary = self.counted_iterations().filter(|one| overhead.ordinary.get(one.number) == Some(&true));
        let ordinary: Option<Vec<f64>> = ordinary.map(|one| total(self, one)).collect();
        let own = self.summary_of(total)?.mean - mean(&ordinary.filter(|ordinary| !ordinary.is_empty())?);
        let [fewer, more] = long.interval.map(|adds| adds - own);
        Some([low + fewer.min(0.0), high + more.max(0.0)])
    }
}

impl Breakdown {
    /// The mean over the ranks; none if it is unknown of one.
    pub fn mean_of_all(&self) -> Option<WithoutRecording> {
        let ranks: Option<Vec<WithoutRecording>> = self.ranks.iter().map(RankBreakdown::mean_of_all).collect();
        ranks.filter(|ranks| !ranks.is_empty()).map(|ranks| WithoutRecording::of_several(&ranks))
    }

    /// Nanoseconds by which the longest iterations exceed the others, without recording; 0 where none do.
    pub fn longest_extra(&self) -> f64 {
        let long = self.ranks.iter().filter_map(|rank| rank.correction.overhead.as_ref()?.long);
        long.map(|long| long.longest.mean - long.others).fold(0.0, f64::max)
    }

    /// Those of the rank in which they take the largest share.
    pub fn weighty_long_iterations(&self) -> Option<&LongIterations> {
        let ranks = self.ranks.iter().filter_map(RankBreakdown::weighty_long_iterations);
        ranks.max_by(|one, other| one.share().total_cmp(&other.share()))
    }

    /// The change of iterations while they were recorded: of several ranks, which wait for each other, the largest.
    pub fn changed_iterations(&self) -> Option<ChangedIterations> {
        let changes = self.ranks.iter().filter_map(|rank| rank.correction.overhead.as_ref()?.changed);
        changes.max_by(ChangedIterations::compare_sizes)
    }

    pub fn correction_holds(&self) -> bool {
        self.ranks.iter().all(RankBreakdown::correction_holds)
    }

    /// The mean over the ranks, for iterations that count on every rank; none if it is unknown. The ranks wait for each
    /// other, so their errors may be the same and the interval gets no narrower.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        let ranks: Option<Vec<[f64; 2]>> = self.ranks.iter().map(RankBreakdown::either_way).collect();
        let all = ranks.map(|ranks| [0, 1].map(|end| mean(&ranks.iter().map(|way| way[end]).collect::<Vec<_>>())));
        Some(WithoutRecording::from_mean(self.summary_of(total)?.mean, all))
    }
}

fn total(rank: &RankBreakdown, iteration: &Iteration) -> Option<f64> {
    rank.corrected(iteration).map(|corrected| corrected.total as f64)
}
