//! Which process group an exchange is of, where the trace of it does not say: gloo records none. The traces list the groups,
//! and by the clocks as they were recorded no rank may have ended an exchange before all of its group began it.

use super::{Call, connected};
use crate::ranks::Job;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

/// What is known of process groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// Traces name them, or there is one alone.
    Known,
    /// Each exchange was taken for one of the largest group whose ranks can have been in it together.
    Assumed,
    /// No choice of groups was found that is possible by the clocks.
    Unknown,
}

/// The clocks of processes on one host differ by less, in nanoseconds (see `clocks`).
const TOLERANCE: i64 = 1_000_000;
/// Ways to choose groups that are tried at most.
const TRIES: usize = 20_000;

/// Gives the calls without a process group one.
pub(super) fn assign(job: &Job, calls: &mut [Vec<Call>]) -> Groups {
    let groups = of_several(job);
    if groups.len() < 2 || !calls.iter().flatten().any(|call| call.step.is_some() && lacks_group(call)) {
        return Groups::Known;
    }
    let Some(steps) = in_steps(job, calls) else { return Groups::Unknown };
    let mut search = Search { job, calls, groups: &groups, steps: &steps, offsets: vec![0; job.ranks.len()] };
    let Some(mut chosen) = search.groups_in_order() else { return Groups::Unknown };
    while let Some((offsets, fewer)) = search.with_other_clocks(&chosen) {
        (search.offsets, chosen) = (offsets, fewer);
    }
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
    Groups::Assumed
}

/// The groups of several given ranks that any trace lists, as indices of ranks, the largest first.
fn of_several(job: &Job) -> Vec<Vec<usize>> {
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

fn lacks_group(call: &Call) -> bool {
    call.arguments.group.is_empty() && call.arguments.ranks.is_empty() && !call.operation.is_between_two()
}

/// For each rank the calls without a group, by their order in a step: the call in each step. None if steps differ in them.
fn in_steps(job: &Job, calls: &[Vec<Call>]) -> Option<Vec<Vec<Vec<usize>>>> {
    let of_rank = |(rank, calls): (usize, &Vec<Call>)| -> Option<Vec<Vec<usize>>> {
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
struct Search<'a> {
    job: &'a Job,
    calls: &'a [Vec<Call>],
    groups: &'a [Vec<usize>],
    /// Of each rank, its calls in a step in order, each in every step.
    steps: &'a [Vec<Vec<usize>>],
    /// Nanoseconds that are added to the times of each rank.
    offsets: Vec<i64>,
}

impl Search<'_> {
    /// The groups of the exchanges in order; none if no groups are possible.
    fn groups_in_order(&self) -> Option<Vec<usize>> {
        self.cheapest().or_else(|| self.largest())
    }

    /// Offsets of clocks with which fewer exchanges explain all calls, and their groups. By the recorded clocks of different hosts, ranks that
    /// exchange with each other may seem not to; with an offset their exchanges are possible in all steps alike, which ranks that nothing
    /// synchronises fall out of. None where all exchange with the first one already.
    fn with_other_clocks(&self, chosen: &[usize]) -> Option<(Vec<i64>, Vec<usize>)> {
        let together: Vec<Vec<usize>> = chosen.iter().map(|group| self.groups[*group].clone()).collect();
        let islands = connected(self.steps.len(), together.iter());
        let other = islands.iter().position(|island| *island != 0)?;
        let moved = |offset: i64| {
            let is_own = |rank: usize| islands[rank] == islands[other];
            (0..islands.len())
                .map(|rank| self.offsets[rank] + if is_own(rank) { offset } else { 0 })
                .collect::<Vec<i64>>()
        };
        let pairs = self.steps[0].iter().flat_map(|first| self.steps[other].iter().map(move |own| (first, own)));
        let possible = pairs.filter_map(|(first, own)| self.offset([(0, first), (other, own)]));
        let found = possible.filter_map(|offset| {
            let search = Search { offsets: moved(offset), ..*self };
            let groups = search.groups_in_order()?;
            Some((search.transfers(&groups), search.offsets, groups))
        });
        let best = found.min_by_key(|(transfers, _, groups)| (groups.len(), *transfers))?;
        (best.2.len() < chosen.len()).then_some((best.1, best.2))
    }

    /// How long the transfers of exchanges take together, in nanoseconds: most of a long exchange is waiting for a rank that is late.
    fn transfers(&self, chosen: &[usize]) -> i64 {
        let (mut heads, mut sum) = (vec![0; self.steps.len()], 0i64);
        for members in chosen.iter().map(|group| &self.groups[*group]) {
            for step in 0..self.job.steps.len() {
                let times = members.iter().map(|rank| self.time(*rank, self.steps[*rank][heads[*rank]][step]));
                let [last_start, first_end] =
                    times.fold([i64::MIN, i64::MAX], |[last, first], [start, end]| [last.max(start), first.min(end)]);
                sum = sum.saturating_add(first_end.saturating_sub(last_start).max(0));
            }
            members.iter().for_each(|rank| heads[*rank] += 1);
        }
        sum
    }

    /// From when to when a call of a rank lasts, in nanoseconds from the Unix epoch by the clock that is assumed for it.
    fn time(&self, rank: usize, call: usize) -> [i64; 2] {
        let base = self.job.ranks[rank].trace.header.base.saturating_add(self.offsets[rank]);
        let (start, end) = self.calls[rank][call].time;
        [start, end].map(|moment| moment.saturating_add(base))
    }

    /// What has to be added to the times of the second rank for two calls to be parts of one exchange in every step: with which they end
    /// together, if that is possible.
    fn offset(&self, [(first, calls_of_first), (other, calls_of_other)]: [(usize, &Vec<usize>); 2]) -> Option<i64> {
        let (mut least, mut most, mut apart) = (i64::MIN, i64::MAX, Vec::new());
        for (one, two) in calls_of_first.iter().zip(calls_of_other) {
            let ([start, end], [own_start, own_end]) = (self.time(first, *one), self.time(other, *two));
            least = least.max(start.saturating_sub(own_end));
            most = most.min(end.saturating_sub(own_start));
            apart.push(end.saturating_sub(own_end));
        }
        apart.sort_unstable();
        let middle = apart.get(apart.len() / 2)?;
        (least <= most && apart.len() > 1).then(|| *middle.clamp(&least, &most))
    }

    /// The groups of the exchanges in order that cost least; none if no groups are possible, or too many were tried (Hart, Nilsson and
    /// Raphael 1968: what may lead to the end at the least cost goes on first).
    fn cheapest(&self) -> Option<Vec<usize>> {
        let start = vec![0; self.job.ranks.len()];
        let mut open = BinaryHeap::from([Reverse((self.at_least(&start), self.left(&start), start.clone()))]);
        let mut reached: HashMap<Vec<usize>, (i64, Vec<usize>)> = HashMap::from([(start, (0, Vec::new()))]);
        while let Some(Reverse((_, left, heads))) = open.pop() {
            let (cost, chosen) = reached[&heads].clone();
            if left == 0 {
                return Some(chosen);
            }
            if reached.len() > TRIES {
                return None;
            }
            let costs = self.groups.iter().map(|group| self.cost(group, &heads));
            for (place, own) in costs.enumerate().filter_map(|(place, own)| Some((place, own?))) {
                let (mut next, cost) = (heads.clone(), cost.saturating_add(own));
                self.groups[place].iter().for_each(|rank| next[*rank] += 1);
                if reached.get(&next).is_none_or(|(known, _)| cost < *known) {
                    open.push(Reverse((cost.saturating_add(self.at_least(&next)), self.left(&next), next.clone())));
                    reached.insert(next, (cost, [chosen.as_slice(), &[place]].concat()));
                }
            }
        }
        None
    }

    /// The groups of the exchanges in order, each the largest that is possible, for steps with too many exchanges to try all; none if
    /// that leads nowhere.
    fn largest(&self) -> Option<Vec<usize>> {
        let (mut heads, mut chosen) = (vec![0; self.job.ranks.len()], Vec::new());
        while self.left(&heads) > 0 {
            let next = self.groups.iter().position(|group| self.cost(group, &heads).is_some())?;
            self.groups[next].iter().for_each(|rank| heads[*rank] += 1);
            chosen.push(next);
        }
        Some(chosen)
    }

    /// The number of calls that are left.
    fn left(&self, heads: &[usize]) -> usize {
        heads.iter().zip(self.steps).map(|(head, own)| own.len() - head).sum()
    }

    /// What these cost at least.
    fn at_least(&self, heads: &[usize]) -> i64 {
        TOLERANCE * self.left(heads).div_ceil(self.groups[0].len()) as i64
    }

    /// What it costs to take the next calls of a group's ranks for parts of one exchange in each step: by how many nanoseconds they end
    /// apart, on average, and something for each exchange, so that as few as possible are found. None if that is not possible.
    fn cost(&self, group: &[usize], heads: &[usize]) -> Option<i64> {
        let next: Option<Vec<&Vec<usize>>> = group.iter().map(|rank| self.steps[*rank].get(heads[*rank])).collect();
        let next = next?;
        let apart = |step: usize| {
            let parts = group.iter().zip(&next).map(|(rank, steps)| (*rank, &self.calls[*rank][steps[step]]));
            self.apart(&parts.collect::<Vec<(usize, &Call)>>())
        };
        let steps = self.job.steps.len();
        let apart: i64 = (0..steps).map(apart).sum::<Option<i64>>()?;
        Some(TOLERANCE + apart / steps.max(1) as i64)
    }

    /// By how many nanoseconds calls end apart; none if they cannot be parts of one exchange.
    fn apart(&self, parts: &[(usize, &Call)]) -> Option<i64> {
        let first = parts[0].1;
        let is_alike = |call: &Call| {
            call.operation == first.operation && (!first.operation.is_even() || call.bytes() == first.bytes())
        };
        let times = parts.iter().map(|(rank, call)| {
            let base = self.job.ranks[*rank].trace.header.base.saturating_add(self.offsets[*rank]);
            (call.time.0.saturating_add(base), call.time.1.saturating_add(base))
        });
        let last_start = times.clone().map(|(start, _)| start).max()?;
        let first_end = times.clone().map(|(_, end)| end).min()?;
        let last_end = times.map(|(_, end)| end).max()?;
        let is_possible = !first.operation.synchronises() || last_start <= first_end.saturating_add(TOLERANCE);
        (is_possible && parts.iter().all(|(_, call)| is_alike(call))).then_some(last_end - first_end)
    }
}
