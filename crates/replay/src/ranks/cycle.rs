//! Steps that repeat in cycles, as where gradients are accumulated over several: each cycle as one step.

use super::{JobStep, TrainingJob, TrainingStep};
use std::ops::RangeInclusive;

/// Fewer cycles do not show that anything repeats.
const FEWEST: usize = 3;

/// Steps that are one together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepCycle {
    /// How many.
    pub length: usize,
    /// The index in [`TrainingJob::steps`] of the last one of the first cycle.
    last: usize,
}

impl StepCycle {
    /// Of steps that exchange so often, in the order of [`TrainingJob::steps`]: none if all do as often, or nothing repeats. What is exchanged
    /// most often waits for the work of all steps of a cycle: there it ends.
    pub fn find(exchanges: &[usize]) -> Option<Self> {
        let repeats = |length: &usize| exchanges.iter().zip(&exchanges[*length..]).all(|(own, next)| own == next);
        let length = (1..=exchanges.len() / FEWEST).find(repeats).filter(|length| *length > 1)?;
        let last = (0..length).max_by_key(|step| exchanges[*step])?;
        Some(StepCycle { length, last })
    }
}

/// The steps of each rank, those of a cycle joined to one.
#[derive(Debug)]
pub(crate) struct JoinedSteps {
    /// How many of the recorded steps each joins.
    pub length: usize,
    of_ranks: Vec<Vec<TrainingStep>>,
}

impl TrainingJob {
    /// Each whole cycle of steps as one step; none if a rank has others between them.
    pub(crate) fn join_cycles(&self, cycle: StepCycle) -> Option<JoinedSteps> {
        let ends = (cycle.last..self.steps.len()).step_by(cycle.length).filter(|end| end + 1 >= cycle.length);
        let cycles: Vec<RangeInclusive<usize>> = ends.map(|end| end + 1 - cycle.length..=end).collect();
        let of_rank = |rank| cycles.iter().map(|cycle| self.joined_step(rank, cycle)).collect();
        let of_ranks = (0..self.ranks.len()).map(of_rank).collect::<Option<Vec<Vec<TrainingStep>>>>()?;
        Some(JoinedSteps { length: cycle.length, of_ranks })
    }

    /// Takes joined steps for the job's.
    pub(crate) fn join(&mut self, JoinedSteps { length, of_ranks }: JoinedSteps) {
        let step = |(index, step): (usize, &TrainingStep)| JobStep {
            name: step.name.clone(),
            of: vec![index; of_ranks.len()],
        };
        self.steps = of_ranks.first().into_iter().flatten().enumerate().map(step).collect();
        self.ranks.iter_mut().zip(of_ranks).for_each(|(rank, steps)| rank.steps = steps);
        self.cycle = length;
    }

    /// A cycle of steps of a rank; none if the rank has others between them.
    fn joined_step(&self, rank: usize, cycle: &RangeInclusive<usize>) -> Option<TrainingStep> {
        let [first, last] = [*cycle.start(), *cycle.end()].map(|step| self.steps[step].of[rank]);
        let own = &self.ranks[rank].steps;
        (last - first == cycle.end() - cycle.start()).then(|| TrainingStep {
            name: format!("{} to {}", self.steps[*cycle.start()].name, self.steps[*cycle.end()].name),
            number: own[last].number,
            window: (own[first].window.0, own[last].window.1),
            work: (own[first].work.0, own[last].work.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_what_repeats_and_ends_where_most_is_exchanged() {
        let none: [&[usize]; 4] = [&[1; 9], &[2, 1, 1, 2, 1, 1, 2, 1], &[0, 1, 1, 1, 0, 1, 1, 0, 1], &[]];
        none.iter().for_each(|exchanges| assert_eq!(StepCycle::find(exchanges), None, "{exchanges:?}"));
        let some: [(&[usize], _, _); 3] = [
            (&[0, 0, 1, 0, 0, 1, 0, 0, 1], 3, 2),
            (&[1, 3, 1, 3, 1, 3], 2, 1),
            (&[4, 0, 0, 4, 0, 0, 4, 0, 0, 4], 3, 0),
        ];
        for (exchanges, length, last) in some {
            assert_eq!(StepCycle::find(exchanges), Some(StepCycle { length, last }), "{exchanges:?}");
        }
    }
}
