//! How long an iteration takes without recording, and how sure that is.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown};
use perf4sight_base::stats::mean;
use perf4sight_record::{DOUBTFUL, WithoutRecording, both};

impl RankBreakdown {
    /// Of the iterations that count; none where nobody knows.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        Some(WithoutRecording::around(self.summary_of(total)?.mean, self.either_way()))
    }

    /// Whether the corrected iterations came near those without recording wherever they were compared. Where not, the mean of corrected
    /// iterations says no more than its interval.
    pub fn correction_holds(&self) -> bool {
        let off = self.correction.overhead.as_ref().and_then(|overhead| overhead.off);
        off.is_none_or(|off| off.abs() <= 100.0 * DOUBTFUL)
    }

    /// Nanoseconds from the mean corrected iteration to where the mean lies with 95 %. Where that leaves out the mean of those that were
    /// measured without recording, it is less sure than it seems, and holds these and what they scatter, too.
    fn either_way(&self) -> Option<[f64; 2]> {
        let (told, measured) = (self.by_recording()?, self.correction.overhead.as_ref()?.measured);
        let mean = self.summary_of(total)?.mean;
        let off = measured.mean - mean;
        if (told[0]..=told[1]).contains(&off) {
            return Some(told);
        }
        Some(both(told, measured.interval.unwrap_or([measured.mean; 2]).map(|end| end - mean)))
    }

    /// The same by the cost of recording: that may be more or less, and as many long iterations as are recorded need not come in as many
    /// others.
    fn by_recording(&self) -> Option<[f64; 2]> {
        let overhead = self.correction.overhead.as_ref()?;
        let [low, high] = overhead.either_way()?;
        let Some(long) = overhead.long else { return Some([low, high]) };
        let ordinary = self.counted().filter(|one| overhead.ordinary.get(one.number) == Some(&true));
        let ordinary: Option<Vec<f64>> = ordinary.map(|one| total(self, one)).collect();
        let own = self.summary_of(total)?.mean - mean(&ordinary.filter(|ordinary| !ordinary.is_empty())?);
        let [fewer, more] = long.interval.map(|adds| adds - own);
        Some([low + fewer.min(0.0), high + more.max(0.0)])
    }
}

impl Breakdown {
    /// Whether it does so on every rank.
    pub fn correction_holds(&self) -> bool {
        self.ranks.iter().all(RankBreakdown::correction_holds)
    }

    /// Of the iterations that count on every rank, the mean of these; none where nobody knows. Ranks wait for each other, and so may all be
    /// off the same way.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        let ranks: Option<Vec<[f64; 2]>> = self.ranks.iter().map(RankBreakdown::either_way).collect();
        let all = ranks.map(|ranks| [0, 1].map(|end| mean(&ranks.iter().map(|way| way[end]).collect::<Vec<_>>())));
        Some(WithoutRecording::around(self.summary_of(total)?.mean, all))
    }
}

fn total(rank: &RankBreakdown, iteration: &Iteration) -> Option<f64> {
    rank.corrected(iteration).map(|corrected| corrected.total as f64)
}
