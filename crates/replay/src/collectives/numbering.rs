//! Numbers of exchanges and of steps that are shifted on one rank: one more exchange before the recording, or a profiler that was
//! started one step later.

use super::CollectiveCall;
use super::step_shifts::StepEnds;
use crate::ranks::{JobStep, TrainingJob};
use perf4sight_base::stats::median;
use std::collections::{BTreeMap, BTreeSet};

/// A process group, by its name and its list of ranks.
type GroupKey = (String, String);

/// The numbers of a group's exchanges in a step of a rank.
#[derive(Debug, Clone, Copy)]
struct SequenceNumbers {
    first: i64,
    count: i64,
    /// When the first one ends, in nanoseconds from the Unix epoch by the rank's clock.
    end: i64,
}

/// By how much numbers are higher than on the first rank of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NumberShifts {
    /// Those of exchanges, by index of the rank.
    exchanges: BTreeMap<(usize, GroupKey), i64>,
    /// By how many steps those of a rank are later than those of the same name.
    pub steps: BTreeMap<usize, i64>,
}

impl NumberShifts {
    /// Finds shifts that are the same in all steps.
    pub fn find(job: &TrainingJob, calls: &[Vec<CollectiveCall>]) -> Self {
        let ranks: Vec<_> = calls.iter().enumerate().map(|(rank, calls)| numbers(job, rank, calls)).collect();
        let groups: BTreeSet<&GroupKey> = ranks.iter().flat_map(BTreeMap::keys).collect();
        let ends = StepEnds::find(job, calls);
        let mut shifts = NumberShifts::default();
        for group in groups {
            let mut members = ranks.iter().enumerate().filter_map(|(rank, own)| Some((rank, own.get(group)?)));
            let Some(first) = members.next() else { continue };
            for other in members {
                let pair = RankPair { job, first, other };
                let Some((by, count)) = pair.shift() else { continue };
                match (by % count == 0).then(|| by / count).filter(|steps| pair.are_steps_shifted(*steps, count, &ends))
                {
                    Some(steps) => _ = shifts.steps.insert(other.0, steps),
                    None => _ = shifts.exchanges.insert((other.0, group.clone()), by),
                }
            }
        }
        let is_numbered = ranks.iter().any(|groups| !groups.is_empty());
        if !is_numbered {
            shifts.steps = ends.later_steps();
        }
        shifts.steps = relative_to_most(job.ranks.len(), shifts.steps);
        shifts
    }

    /// The number that the first rank of the group gives an exchange.
    pub fn common(&self, rank: usize, group: &str, ranks: &str, sequence: u64) -> u64 {
        if self.exchanges.is_empty() {
            return sequence;
        }
        let key = (rank, (group.to_owned(), ranks.to_owned()));
        sequence.saturating_add_signed(-self.exchanges.get(&key).copied().unwrap_or(0))
    }

    /// Whether the numbers of a group differ between ranks, so that those that are made of them do, too.
    pub fn is_shifted(&self, group: &str, ranks: &str) -> bool {
        self.exchanges.keys().any(|(_, own)| own.0 == group && own.1 == ranks)
    }

    /// What was found, in sentences.
    pub fn warnings(&self, job: &TrainingJob) -> Vec<String> {
        let ranks: BTreeSet<usize> = self.exchanges.keys().map(|(rank, _)| *rank).collect();
        let sentence = |rank: usize| {
            format!(
                "rank {} numbers its exchanges (Seq) otherwise than the others, by the same difference in all steps: they are matched by that",
                job.ranks[rank].number
            )
        };
        ranks.into_iter().map(sentence).collect()
    }
}

/// The numbers of a group's exchanges in each step of a rank, by the index in its steps.
type NumbersByStep = BTreeMap<usize, SequenceNumbers>;

/// By how many steps those of ranks are later than those of most.
fn relative_to_most(ranks: usize, later: BTreeMap<usize, i64>) -> BTreeMap<usize, i64> {
    let by = |rank: usize| later.get(&rank).copied().unwrap_or(0);
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    (0..ranks).for_each(|rank| *counts.entry(by(rank)).or_default() += 1);
    let most = counts.iter().max_by_key(|(by, count)| (**count, **by == 0)).map_or(0, |(by, _)| *by);
    (0..ranks).map(|rank| (rank, by(rank) - most)).filter(|(_, by)| *by != 0).collect()
}

/// The numbers of the exchanges of each group of a rank.
fn numbers(job: &TrainingJob, rank: usize, calls: &[CollectiveCall]) -> BTreeMap<GroupKey, NumbersByStep> {
    let mut numbers: BTreeMap<GroupKey, NumbersByStep> = BTreeMap::new();
    let base = job.ranks[rank].trace.header.base;
    for call in calls.iter().filter(|call| !call.operation.is_between_two()) {
        let Some((step, sequence)) = call.step.zip(call.arguments.sequence) else { continue };
        let (own, end) = (i64::try_from(sequence).unwrap_or(i64::MAX), call.time.1.saturating_add(base));
        let group = (call.arguments.group.clone(), call.arguments.ranks.clone());
        let steps = numbers.entry(group).or_default();
        let known = steps.entry(step).or_insert(SequenceNumbers { first: own, count: 0, end });
        known.count += 1;
        if own < known.first {
            (known.first, known.end) = (own, end);
        }
    }
    numbers
}

/// Two ranks of a group, by index, with its numbers on each.
struct RankPair<'a> {
    job: &'a TrainingJob,
    first: (usize, &'a NumbersByStep),
    other: (usize, &'a NumbersByStep),
}

impl RankPair<'_> {
    /// By how much the numbers of the second rank are higher in all steps, and how many there are in each; none if that differs, or is
    /// nothing. In a single one the traces may begin and end at other exchanges, as where a flight recorder keeps the last ones of each rank.
    fn shift(&self) -> Option<(i64, i64)> {
        if self.job.steps.len() < 2 {
            return None;
        }
        let of_step = |step: &JobStep| {
            let (one, two) = (self.first.1.get(&step.of[self.first.0])?, self.other.1.get(&step.of[self.other.0])?);
            (one.count == two.count).then_some((two.first.saturating_sub(one.first), one.count))
        };
        let all: Option<BTreeSet<(i64, i64)>> = self.job.steps.iter().map(of_step).collect();
        let mut all = all?.into_iter();
        all.next().filter(|(by, _)| *by != 0 && all.next().is_none())
    }

    /// Whether numbers that are higher by those of so many steps are of later steps, not of other exchanges. The ends of exchanges tell; else, of
    /// several numbers a step, nothing else explains such a difference, and of one a single message between some ranks does, so that
    /// the clocks decide.
    fn are_steps_shifted(&self, steps: i64, count: i64, ends: &StepEnds) -> bool {
        match ends.shift_by_scatter(self.first.0, self.other.0) {
            Some(found) => found == steps,
            None => count > 1 || self.end_distance(steps) < self.end_distance(0),
        }
    }

    /// How far exchanges end apart, in nanoseconds, where the steps of the second rank are so many later than those of the same name.
    fn end_distance(&self, steps: i64) -> f64 {
        let of_step = |step: &JobStep| {
            let own = self.job.ranks[self.other.0].earlier_step(step.of[self.other.0], steps)?;
            let [one, two] = [self.first.1.get(&step.of[self.first.0])?, self.other.1.get(&own)?].map(|step| step.end);
            Some(one.saturating_sub(two).saturating_abs() as f64)
        };
        let all: Vec<f64> = self.job.steps.iter().filter_map(of_step).collect();
        if all.is_empty() { f64::INFINITY } else { median(&all) }
    }
}
