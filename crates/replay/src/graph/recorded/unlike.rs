//! Steps that are not replayed, because ranks do something else in them than in most.

use super::rows::RankStep;
use crate::ranks::TrainingJob;
use perf4sight_base::stats::mean;
use std::collections::BTreeSet;

/// The steps that are not replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct UnlikeSteps {
    /// The numbers of the ranks that do something else in them.
    pub ranks: BTreeSet<u32>,
    /// Nanoseconds of every recorded step, replayed or not, on the rank whose steps take longest together.
    lengths: Vec<f64>,
}

impl UnlikeSteps {
    /// Compares the steps that are not `alike` with one that is; none if all are.
    pub(super) fn find(job: &TrainingJob, read: &[(usize, Vec<RankStep>)], alike: &[usize]) -> Option<Self> {
        let (replayed, others): (Vec<_>, Vec<_>) = read.iter().partition(|(step, _)| alike.contains(step));
        let (_, usual) = replayed.first()?;
        let differs = |rank: &usize| others.iter().any(|(_, step)| step[*rank].signature() != usual[*rank].signature());
        let ranks = (0..usual.len()).filter(differs).map(|rank| job.ranks[rank].number);
        let lengths = job.own_lengths().into_iter().map(|length| length as f64);
        (!others.is_empty()).then(|| UnlikeSteps { ranks: ranks.collect(), lengths: lengths.collect() })
    }

    /// Nanoseconds of a step: the mean of all recorded ones.
    pub fn mean_of_all(&self) -> f64 {
        mean(&self.lengths)
    }

    /// Nanoseconds between which all recorded steps are.
    pub fn bounds(&self) -> [f64; 2] {
        self.lengths.iter().fold([f64::INFINITY, 0.0], |[least, most], length| [length.min(least), length.max(most)])
    }

    /// Makes all steps as much longer or shorter as those are that are replayed.
    pub(super) fn scale(&mut self, factor: f64) {
        self.lengths.iter_mut().for_each(|length| *length *= factor);
    }
}
