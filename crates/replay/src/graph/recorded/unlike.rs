//! Steps that are not replayed, because ranks do something else in them than in most.

use super::rows::RankStep;
use crate::ranks::TrainingJob;
use perf4sight_base::stats::mean;
use perf4sight_traces::rank_list;
use std::collections::BTreeSet;

/// Of fewer steps that are all different nothing follows.
const FEWEST: usize = 3;

/// The steps that are not replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct UnlikeSteps {
    /// The numbers of the ranks that do something else in them.
    pub ranks: BTreeSet<u32>,
    /// Those of which no two steps are alike, where at least half of the steps of another rank are.
    never_alike: BTreeSet<u32>,
    /// Nanoseconds of every recorded step, replayed or not, on the rank whose steps take longest together.
    lengths: Vec<f64>,
}

impl UnlikeSteps {
    /// Compares the steps that are not `alike` with one that is; none if all are.
    pub(super) fn find(job: &TrainingJob, read: &[(usize, Vec<RankStep>)], alike: &[usize]) -> Option<Self> {
        let (replayed, others): (Vec<_>, Vec<_>) = read.iter().partition(|(step, _)| alike.contains(step));
        let (_, usual) = replayed.first()?;
        let differs = |rank: &usize| others.iter().any(|(_, step)| step[*rank].signature() != usual[*rank].signature());
        let number = |rank: usize| job.ranks[rank].number;
        let kinds: Vec<usize> = (0..usual.len())
            .map(|rank| read.iter().map(|(_, step)| step[rank].signature()).collect::<BTreeSet<u64>>().len())
            .collect();
        let is_one_alike = kinds.iter().any(|kinds| 2 * kinds <= read.len());
        let is_never = |rank: &usize| is_one_alike && read.len() >= FEWEST && kinds[*rank] == read.len();
        let lengths = job.own_lengths().into_iter().map(|length| length as f64);
        (!others.is_empty()).then(|| UnlikeSteps {
            ranks: (0..usual.len()).filter(differs).map(number).collect(),
            never_alike: (0..usual.len()).filter(is_never).map(number).collect(),
            lengths: lengths.collect(),
        })
    }

    /// The reason where it is not of some ranks.
    pub(crate) fn of_all_ranks() -> String {
        "in the others the ranks do something else".to_owned()
    }

    /// What is different in these steps, of a job of so many recorded ranks.
    pub(crate) fn reason(&self, ranks: usize) -> String {
        let number = |set: &BTreeSet<u32>, [one, more]: [&'static str; 2]| if set.len() == 1 { one } else { more };
        if !self.never_alike.is_empty() {
            let [has, traces] = [["has", "have"], ["a trace", "traces"]].map(|words| number(&self.never_alike, words));
            return format!(
                "{} {has} other events in each step than in any other, as {traces} that lost some",
                rank_list(&self.never_alike)
            );
        }
        match self.ranks.len() < ranks {
            true => {
                format!(
                    "in the others {} {} something else",
                    rank_list(&self.ranks),
                    number(&self.ranks, ["does", "do"])
                )
            }
            false => UnlikeSteps::of_all_ranks(),
        }
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
