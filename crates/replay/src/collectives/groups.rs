//! Which process group an exchange is of, where the trace of it does not say: gloo records none. The traces list the groups,
//! and by the clocks (see `offsets`) no rank may have ended an exchange before all of its group began it.

use super::{CollectiveCall, offsets};
use crate::ranks::TrainingJob;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

/// What is known of process groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKnowledge {
    /// Traces name them, or there is one alone.
    Known,
    /// Each exchange was taken for one of the group whose ranks end it together.
    Assumed,
    /// No choice of groups was found that is possible by the clocks.
    Unknown,
}

/// Clocks differ by less, in nanoseconds, after what `offsets` found is taken out (see `clocks`).
const TOLERANCE: i64 = 1_000_000;
/// Ways to choose groups that are tried at most.
const TRIES: usize = 20_000;
/// Gives the calls without a process group one.
pub(super) fn assign(job: &TrainingJob, calls: &mut [Vec<CollectiveCall>]) -> GroupKnowledge {
    let groups = of_several(job);
    if groups.len() < 2 || !calls.iter().flatten().any(|call| call.step.is_some() && lacks_group(call)) {
        return GroupKnowledge::Known;
    }
    let Some(steps) = in_steps(job, calls) else { return GroupKnowledge::Unknown };
    let Some(chosen) = most_likely(job, calls, &groups, &steps) else { return GroupKnowledge::Unknown };
    let mut heads = vec![0; job.ranks.len()];
    for group in chosen {
        let members = &groups[group];
        let numbers: Vec<String> = members.iter().map(|rank| job.ranks[*rank].number.to_string()).collect();
        for &rank in members {
            for &call in &steps[rank][heads[rank]] {
                calls[rank][call].arguments.ranks = format!("[{}]", numbers.join(", "));
            }
            heads[rank] += 1;
        }
    }
    GroupKnowledge::Assumed
}

/// The groups of the exchanges in order, by the clocks as they were recorded or by what `offsets` adds to them; none if no groups are possible.
fn most_likely(
    job: &TrainingJob,
    calls: &[Vec<CollectiveCall>],
    groups: &[Vec<usize>],
    steps: &[Vec<Vec<usize>>],
) -> Option<Vec<usize>> {
    let search = |offsets: Vec<i64>| GroupSearch { job, calls, groups, steps, offsets, usual: TOLERANCE, exchange: 0 };
    let mut searches = [vec![0; job.ranks.len()], offsets::estimate_offsets(job, calls, steps)].map(search);
    let usual = searches.iter().map(GroupSearch::usually_apart).min().unwrap_or(TOLERANCE);
    for search in &mut searches {
        search.usual = usual;
        search.exchange = search.unlikely(search.usually_lasts());
    }
    let found = searches.iter().filter_map(|search| search.cheapest().or_else(|| search.largest_groups()));
    found.min_by_key(|(cost, _)| *cost).map(|(_, chosen)| chosen)
}

/// The groups of several given ranks that any trace lists, as indices of ranks, the largest first.
fn of_several(job: &TrainingJob) -> Vec<Vec<usize>> {
    let place = |number: &u32| job.ranks.iter().position(|rank| rank.number == *number);
    let listed = job.ranks.iter().flat_map(|rank| &rank.trace.header.groups);
    let groups: BTreeSet<BTreeSet<usize>> = listed.map(|group| group.iter().filter_map(place).collect()).collect();
    let mut groups: Vec<Vec<usize>> = groups
        .into_iter()
        .map(|group| group.into_iter().collect())
        .filter(|group: &Vec<usize>| group.len() > 1)
        .collect();
    groups.sort_by_key(|group| Reverse(group.len()));
    groups
}

fn lacks_group(call: &CollectiveCall) -> bool {
    call.arguments.group.is_empty() && call.arguments.ranks.is_empty() && !call.operation.is_between_two()
}

/// For each rank the calls without a group, by their order in a step: the call in each step. None if steps differ in them.
fn in_steps(job: &TrainingJob, calls: &[Vec<CollectiveCall>]) -> Option<Vec<Vec<Vec<usize>>>> {
    let of_rank = |(rank, calls): (usize, &Vec<CollectiveCall>)| -> Option<Vec<Vec<usize>>> {
        let of_step = |step: usize| -> Vec<usize> {
            let own = calls.iter().enumerate().filter(|(_, call)| call.step == Some(step) && lacks_group(call));
            own.map(|(index, _)| index).collect()
        };
        let steps: Vec<Vec<usize>> = job.steps.iter().map(|step| of_step(step.of[rank])).collect();
        let count = steps.first()?.len();
        let alike = steps.iter().all(|own| own.len() == count);
        alike.then(|| (0..count).map(|nth| steps.iter().map(|own| own[nth]).collect()).collect())
    };
    calls.iter().enumerate().map(of_rank).collect()
}

/// A search for groups of all calls, one after the other.
struct GroupSearch<'a> {
    job: &'a TrainingJob,
    calls: &'a [Vec<CollectiveCall>],
    groups: &'a [Vec<usize>],
    /// Of each rank, its calls in a step in order, each in every step.
    steps: &'a [Vec<Vec<usize>>],
    /// Nanoseconds that are added to the times of each rank.
    offsets: Vec<i64>,
    /// By how many nanoseconds calls of one exchange usually end apart.
    usual: i64,
    /// What each exchange costs: it may end at any time while its calls last, so that more exchanges than there are can always explain more.
    exchange: i64,
}

impl GroupSearch<'_> {
    /// From when to when a call of a rank lasts, in nanoseconds from the Unix epoch by the clock that is assumed for it.
    fn time(&self, rank: usize, call: usize) -> [i64; 2] {
        let base = self.job.ranks[rank].trace.header.base.saturating_add(self.offsets[rank]);
        let (start, end) = self.calls[rank][call].time;
        [start, end].map(|moment| moment.saturating_add(base))
    }

    /// What the groups of the exchanges in order cost that cost least, and these; none if no groups are possible, or too many were tried (Hart, Nilsson and
    /// Raphael 1968: what may lead to the end at the least cost goes on first).
    fn cheapest(&self) -> Option<(i64, Vec<usize>)> {
        let start = vec![0; self.job.ranks.len()];
        let mut open =
            BinaryHeap::from([Reverse((self.at_least(&start), self.remaining_calls(&start), start.clone()))]);
        let mut reached: HashMap<Vec<usize>, (i64, Vec<usize>)> = HashMap::from([(start, (0, Vec::new()))]);
        while let Some(Reverse((_, left, heads))) = open.pop() {
            let (cost, chosen) = reached[&heads].clone();
            if left == 0 {
                return Some((cost, chosen));
            }
            if reached.len() > TRIES {
                return None;
            }
            let costs = self.groups.iter().map(|group| self.cost(group, &heads));
            for (place, own) in costs.enumerate().filter_map(|(place, own)| Some((place, own?))) {
                let (mut next, cost) = (heads.clone(), cost.saturating_add(own));
                self.groups[place].iter().for_each(|rank| next[*rank] += 1);
                if reached.get(&next).is_none_or(|(known, _)| cost < *known) {
                    open.push(Reverse((
                        cost.saturating_add(self.at_least(&next)),
                        self.remaining_calls(&next),
                        next.clone(),
                    )));
                    reached.insert(next, (cost, [chosen.as_slice(), &[place]].concat()));
                }
            }
        }
        None
    }

    /// What the groups of the exchanges in order cost, each the largest that is possible, and these, for steps with too many exchanges to
    /// try all; none if that leads nowhere.
    fn largest_groups(&self) -> Option<(i64, Vec<usize>)> {
        let (mut heads, mut sum, mut chosen) = (vec![0; self.steps.len()], 0i64, Vec::new());
        while self.remaining_calls(&heads) > 0 {
            let mut groups = self.groups.iter().enumerate();
            let (next, cost) = groups.find_map(|(place, group)| Some((place, self.cost(group, &heads)?)))?;
            self.groups[next].iter().for_each(|rank| heads[*rank] += 1);
            sum = sum.saturating_add(cost);
            chosen.push(next);
        }
        Some((sum, chosen))
    }

    /// The number of calls that are left.
    fn remaining_calls(&self, heads: &[usize]) -> usize {
        heads.iter().zip(self.steps).map(|(head, own)| own.len() - head).sum()
    }

    /// What these cost at least.
    fn at_least(&self, heads: &[usize]) -> i64 {
        self.exchange * self.remaining_calls(heads).div_ceil(self.groups[0].len()) as i64
    }

    /// What it costs to take the next calls of a group's ranks for parts of one exchange in each step: how unlikely it is that they end as
    /// far apart as they do, on average, and something for each exchange, so that as few as possible are found. None if that is not possible.
    fn cost(&self, group: &[usize], heads: &[usize]) -> Option<i64> {
        let next: Option<Vec<&Vec<usize>>> = group.iter().map(|rank| self.steps[*rank].get(heads[*rank])).collect();
        let next = next?;
        let in_step = |step: usize| {
            let parts = group.iter().zip(&next).map(|(rank, steps)| (*rank, steps[step]));
            self.in_step(&parts.collect::<Vec<(usize, usize)>>())
        };
        let steps = self.job.steps.len();
        let sum: i64 = (0..steps).map(in_step).sum::<Option<i64>>()?;
        Some(self.exchange + sum / steps.max(1) as i64)
    }

    /// How unlikely it is that calls of an exchange end as far from the middle one as they do; none if they cannot be parts of one exchange.
    fn in_step(&self, parts: &[(usize, usize)]) -> Option<i64> {
        let call = |(rank, call): &(usize, usize)| &self.calls[*rank][*call];
        let first = call(&parts[0]);
        let times: Vec<[i64; 2]> = parts.iter().map(|(rank, call)| self.time(*rank, *call)).collect();
        let last_start = times.iter().map(|[start, _]| *start).max()?;
        let mut ends: Vec<i64> = times.iter().map(|[_, end]| *end).collect();
        ends.sort_unstable();
        let is_possible = !first.operation.synchronises() || last_start <= ends[0].saturating_add(TOLERANCE);
        let middle = ends[(ends.len() - 1) / 2];
        let sum = ends.iter().map(|end| self.unlikely(end.saturating_sub(middle).saturating_abs())).sum();
        (is_possible && parts.iter().all(|part| first.is_alike(call(part)))).then_some(sum)
    }

    /// How unlikely it is that calls of one exchange end as many nanoseconds apart, as the logarithm in thousandths: a thread that gets no
    /// processor for long after an exchange says little, many calls that all end apart much.
    fn unlikely(&self, apart: i64) -> i64 {
        (1e3 * (apart as f64 / self.usual as f64).ln_1p()) as i64
    }

    /// How many nanoseconds calls last, in the median.
    fn usually_lasts(&self) -> i64 {
        let calls =
            self.steps.iter().enumerate().flat_map(|(rank, own)| own.iter().flatten().map(move |call| (rank, *call)));
        let mut lasts: Vec<i64> =
            calls.map(|(rank, call)| self.time(rank, call)).map(|[start, end]| end.saturating_sub(start)).collect();
        lasts.sort_unstable();
        lasts.get(lasts.len() / 2).copied().unwrap_or(0).max(0)
    }

    /// By how many nanoseconds calls of one exchange usually end apart: in the median, the next one that is alike and of another rank.
    fn usually_apart(&self) -> i64 {
        let mut nearest = Vec::new();
        for step in 0..self.job.steps.len() {
            let of_rank = |rank: usize| self.steps[rank].iter().map(move |call| (rank, call[step]));
            let mut all: Vec<(usize, usize)> = (0..self.steps.len()).flat_map(of_rank).collect();
            all.sort_by_key(|(rank, call)| self.time(*rank, *call)[1]);
            let apart: Vec<i64> = all.windows(2).map(|pair| self.ends_apart(pair[0], pair[1])).collect();
            let beside = |index: usize| [index.checked_sub(1), Some(index)].into_iter().flatten();
            nearest.extend((0..all.len()).filter_map(|index| beside(index).filter_map(|place| apart.get(place)).min()));
        }
        nearest.sort_unstable();
        nearest.get(nearest.len() / 2).copied().unwrap_or(0).clamp(1_000, TOLERANCE)
    }

    /// By how many nanoseconds two calls end apart, if they can be parts of one exchange.
    fn ends_apart(&self, one: (usize, usize), other: (usize, usize)) -> i64 {
        let [first, second] = [one, other].map(|(rank, call)| &self.calls[rank][call]);
        let [end, own] = [one, other].map(|(rank, call)| self.time(rank, call)[1]);
        if one.0 != other.0 && first.is_alike(second) { own.saturating_sub(end).saturating_abs() } else { i64::MAX }
    }
}
