//! How long an iteration takes without recording, and how sure that is.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown};
use perf4sight_base::stats::mean;
use perf4sight_record::{DOUBTFUL, WithoutRecording, both};

impl RankBreakdown {
    /// Of the iterations that count; none where nobody knows.
    pub fn without_recording(&self) -> Option<WithoutRecording> {
        let mean = self.summary(total)?.mean;
        Some(WithoutRecording::around(mean, self.either_way()))
    }

    /// Whether what iterations are corrected by came as near to those without recording, wherever it was held against them, as it has to.
    /// Where it did not, the mean of corrected iterations tells no more than its interval.
    pub fn correction_holds(&self) -> bool {
        let off = self.overhead.as_ref().and_then(|overhead| overhead.off);
        off.is_none_or(|off| off.abs() <= 100.0 * DOUBTFUL)
    }

    /// Nanoseconds from the mean corrected iteration to where the mean lies with 95 %. Where that leaves out the mean of those that were
    /// measured without recording, it is less sure than it seems, and holds these and what they scatter, too.
    fn either_way(&self) -> Option<[f64; 2]> {
        let (told, measured) = (self.by_recording()?, self.overhead.as_ref()?.measured);
        let mean = self.summary(total)?.mean;
        let off = measured.mean - mean;
        if (told[0]..=told[1]).contains(&off) {
            return Some(told);
        }
        Some(both(told, measured.interval.unwrap_or([measured.mean; 2]).map(|end| end - mean)))
    }

    /// The same by what recording takes: that may be more or less, and as many long iterations as are recorded need not come in as many
    /// others.
    fn by_recording(&self) -> Option<[f64; 2]> {
        let overhead = self.overhead.as_ref()?;
        let [low, high] = overhead.either_way()?;
        let Some(long) = overhead.long else { return Some([low, high]) };
        let own = self.long_ones_add()?;
        let [fewer, more] = long.interval.map(|adds| adds - own);
        Some([low + fewer.min(0.0), high + more.max(0.0)])
    }

    /// Nanoseconds by which the long ones among the iterations that count make the mean corrected one longer.
    fn long_ones_add(&self) -> Option<f64> {
        let usual = self.overhead.as_ref()?.usual.iter();
        let counted = || self.iterations.iter().zip(usual.clone()).filter(|(iteration, _)| !iteration.warm_up);
        let all: Option<Vec<f64>> = counted().map(|(iteration, _)| total(iteration)).collect();
        let others: Option<Vec<f64>> =
            counted().filter(|(_, usual)| **usual).map(|(iteration, _)| total(iteration)).collect();
        let others = others.filter(|others| !others.is_empty())?;
        Some(mean(&all?) - mean(&others))
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
        Some(WithoutRecording::around(self.summary(total)?.mean, all))
    }
}

fn total(iteration: &Iteration) -> Option<f64> {
    iteration.corrected.as_ref().map(|corrected| corrected.total as f64)
}
