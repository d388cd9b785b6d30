//! A state of the search: which units are fused, in which order all run, and when each ends.
//!
//! The order is kept topological while units are fused and parted, in the part that a change affects (Pearce, Kelly: A
//! Dynamic Topological Sort Algorithm for Directed Acyclic Graphs, 2006).

use super::{FusionClass, UnitGraph};
use serde::{Deserialize, Serialize};

const NONE: u32 = u32::MAX;

/// A change of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FusionMove {
    /// Computes the group of the first unit together with that of the second, which reads it.
    Fuse(u32, u32),
    /// Computes the units of a group up to this one apart from the rest.
    Part(u32),
}

/// Units in groups. One unit of a group stands for it: the last one, unless groups changed their order.
#[derive(Debug, Clone)]
pub struct FusionState<'a> {
    graph: &'a UnitGraph,
    /// Whether a group costs what was published for simulations, or what its traffic says.
    simulate: bool,
    /// The unit that stands for the group of each unit.
    group: Vec<u32>,
    /// The next unit of its group, in a circle.
    next: Vec<u32>,
    /// Groups before and behind it on its thread, stream or link.
    before: Vec<u32>,
    after: Vec<u32>,
    /// Units in a topological order, and where each is in it; of a group only one counts.
    order: Vec<u32>,
    place: Vec<u32>,
    time: Vec<u64>,
    end: Vec<u64>,
    dirty: Vec<bool>,
    /// The moves that led here.
    made: Vec<FusionMove>,
}

impl<'a> FusionState<'a> {
    /// Bytes of a state for each unit: six numbers of units, two times, a mark.
    pub(super) const BYTES_OF_UNIT: u64 = 6 * size_of::<u32>() as u64 + 2 * size_of::<u64>() as u64 + 1;

    /// Every unit on its own.
    pub fn new(graph: &'a UnitGraph, simulate: bool) -> Self {
        let count = graph.units.len();
        let all = || (0..count as u32).collect::<Vec<u32>>();
        let [mut before, mut after] = [vec![NONE; count], vec![NONE; count]];
        let mut last_on: Vec<u32> = Vec::new();
        for (unit, own) in graph.units.iter().enumerate() {
            last_on.resize(last_on.len().max(own.resource as usize + 1), NONE);
            let last = std::mem::replace(&mut last_on[own.resource as usize], unit as u32);
            before[unit] = last;
            if last != NONE {
                after[last as usize] = unit as u32;
            }
        }
        let time = graph.units.iter().map(|unit| unit.duration).collect();
        let (end, dirty) = (vec![0; count], vec![true; count]);
        let (group, next, order, place) = (all(), all(), all(), all());
        let made = Vec::new();
        let mut fused =
            FusionState { graph, simulate, group, next, before, after, order, place, time, end, dirty, made };
        fused.replay(0);
        fused
    }

    /// All that decides what moves lead to, in words.
    pub(super) fn description(&self) -> impl Iterator<Item = String> + '_ {
        let graph = self.graph;
        let unit = |unit: usize| {
            let [inputs, readers] = [&graph.inputs[unit], &graph.readers[unit]];
            format!("{:?} {inputs:?} {readers:?}", graph.units[unit])
        };
        (0..graph.units.len()).map(unit).chain([self.simulate.to_string()])
    }

    /// Nanoseconds until everything has ended.
    pub fn step(&self) -> u64 {
        self.end.iter().copied().max().unwrap_or(0)
    }

    /// The units of the group of a unit, in their order.
    pub fn members(&self, unit: u32) -> Vec<u32> {
        // The one that stands for a group comes last: mostly these are in order already.
        let mut members = vec![self.next[unit as usize]];
        while let Some(last) = members.last().filter(|last| **last != unit) {
            members.push(self.next[*last as usize]);
        }
        members.sort_unstable();
        members
    }

    /// All groups of several units.
    pub fn groups(&self) -> Vec<Vec<u32>> {
        let last = (0..self.group.len() as u32).filter(|unit| self.group[*unit as usize] == *unit);
        last.filter(|unit| self.next[*unit as usize] != *unit).map(|unit| self.members(unit)).collect()
    }

    /// The units that stand for groups, in the order in which these run.
    #[cfg(test)]
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter().copied().filter(|unit| self.group[*unit as usize] == *unit)
    }

    /// Nanoseconds of the group of a unit.
    pub fn time_of(&self, unit: u32) -> u64 {
        self.time[self.group[unit as usize] as usize]
    }

    /// Moves that change a group on the chain of groups that decides when the step ends, the first first.
    pub fn candidate_moves(&self) -> Vec<FusionMove> {
        let mut moves = Vec::new();
        for group in self.critical_path() {
            let members = self.members(group);
            let readers = members.iter().flat_map(|unit| &self.graph.readers[*unit as usize]);
            let other = readers.filter(|reader| self.group[**reader as usize] != group);
            moves.extend(other.map(|reader| FusionMove::Fuse(group, self.group[*reader as usize])));
            moves.extend(members.iter().take(members.len() - 1).map(|unit| FusionMove::Part(*unit)));
        }
        moves.sort_unstable();
        moves.dedup();
        moves
    }

    /// Nanoseconds of a unit on average, at least one.
    pub fn mean_time(&self) -> f64 {
        let all: u64 = self.time.iter().sum();
        (all as f64 / self.time.len().max(1) as f64).max(1.0)
    }

    /// All moves that fuse two units.
    pub fn pairs(&self) -> Vec<FusionMove> {
        self.graph.pairs().map(|(first, second)| FusionMove::Fuse(first, second)).collect()
    }

    /// Makes a move; false if it cannot be made, because groups would wait for each other.
    pub fn apply(&mut self, made: FusionMove) -> bool {
        let done = match made {
            FusionMove::Fuse(first, second) => self.fuse(self.group[first as usize], self.group[second as usize]),
            FusionMove::Part(unit) => self.part_group(unit),
        };
        self.made.extend(done.then_some(made));
        done
    }

    /// The moves that led from units on their own to this state.
    pub fn moves_made(&self) -> &[FusionMove] {
        &self.made
    }

    /// The state that moves lead to from this one; none if one of them cannot be made, or is of another graph.
    pub fn after_moves(&self, moves: &[FusionMove]) -> Option<Self> {
        let count = self.group.len() as u32;
        let is_known = |made: &FusionMove| match *made {
            FusionMove::Fuse(first, second) => first.max(second) < count,
            FusionMove::Part(unit) => unit < count,
        };
        let mut state = self.clone();
        moves.iter().all(|made| is_known(made) && state.apply(*made)).then_some(state)
    }

    fn fuse(&mut self, first: u32, second: u32) -> bool {
        let [from, to] = [first, second].map(|group| self.place[group as usize] as usize);
        if first == second || from > to {
            return false;
        }
        let Some(behind) = self.waiting_between(first, second) else { return false };
        let rest: Vec<u32> =
            self.order[from..=to].iter().copied().filter(|unit| *unit != first && *unit != second).collect();
        let (later, earlier): (Vec<u32>, Vec<u32>) =
            rest.into_iter().partition(|unit| behind[self.place[*unit as usize] as usize - from]);
        self.arrange(from, earlier.into_iter().chain([first, second]).chain(later));
        self.unlink(first);
        self.members(first).into_iter().for_each(|unit| self.group[unit as usize] = second);
        self.next.swap(first as usize, second as usize);
        self.end[first as usize] = 0;
        self.settle(&[first, second], from);
        true
    }

    /// For each place from that of the first group to that of the second whether its unit waits for the first; none if the second
    /// waits for it in another way than by reading it.
    fn waiting_between(&self, first: u32, second: u32) -> Option<Vec<bool>> {
        let [from, to] = [first, second].map(|group| self.place[group as usize] as usize);
        let mut behind = vec![false; to - from + 1];
        let mut open: Vec<u32> = Vec::new();
        let mut visit = |group: u32, open: &mut Vec<u32>| {
            let place = self.place[group as usize] as usize;
            if place <= to && !std::mem::replace(&mut behind[place - from], true) {
                open.push(group);
            }
        };
        let targets = |group: u32| {
            let own = self.members(group).into_iter().flat_map(|unit| &self.graph.outputs[unit as usize]);
            own.map(|target| self.group[*target as usize]).filter(move |target| *target != group).collect::<Vec<_>>()
        };
        targets(first).into_iter().filter(|target| *target != second).for_each(|target| visit(target, &mut open));
        while let Some(group) = open.pop() {
            if group == second {
                return None;
            }
            targets(group).into_iter().for_each(|target| visit(target, &mut open));
            if self.after[group as usize] != NONE {
                visit(self.after[group as usize], &mut open);
            }
        }
        Some(behind)
    }

    fn part_group(&mut self, last: u32) -> bool {
        let group = self.group[last as usize];
        let members = self.members(group);
        // A group that parted before may run behind one that was behind it at first; such a one stays as it is.
        if group == last || members.last() != Some(&group) {
            return false;
        }
        let (first, rest): (Vec<u32>, Vec<u32>) = members.into_iter().partition(|unit| *unit <= last);
        for part in [&first, &rest] {
            for (unit, next) in part.iter().zip(part.iter().cycle().skip(1)) {
                self.group[*unit as usize] = part[part.len() - 1];
                self.next[*unit as usize] = *next;
            }
        }
        let next = self.slot(last, group);
        self.link_before(last, next);
        let [from, to] = [last, next].map(|unit| self.place[unit as usize] as usize);
        let units = &self.order[from.min(to)..=from.max(to)];
        let others: Vec<u32> = units.iter().copied().filter(|unit| *unit != last && *unit != next).collect();
        // What waits for the first part waited for the whole group until now, and stays behind both.
        let (before, after) = if from < to { (others, Vec::new()) } else { (Vec::new(), others) };
        self.arrange(from.min(to), before.into_iter().chain([last, next]).chain(after));
        self.dirty[next as usize] = true;
        self.settle(&[last, group], from.min(to));
        true
    }

    /// The group before which the first part of another runs: that before which it ran at first, or a later one behind what
    /// it waits for.
    fn slot(&self, last: u32, group: u32) -> u32 {
        let inputs = self.members(last).into_iter().flat_map(|unit| &self.graph.inputs[unit as usize]);
        let places = inputs.map(|input| self.group[*input as usize]).filter(|input| *input != last);
        let latest = places.map(|input| self.place[input as usize]).max();
        let mut slot = group;
        loop {
            let before = self.before[slot as usize];
            if before == NONE || before < last || latest >= Some(self.place[before as usize]) {
                return slot;
            }
            slot = before;
        }
    }

    /// Puts units into the order from a place on.
    fn arrange(&mut self, from: usize, units: impl Iterator<Item = u32>) {
        for (offset, unit) in units.enumerate() {
            self.order[from + offset] = unit;
            self.place[unit as usize] = (from + offset) as u32;
        }
    }

    fn unlink(&mut self, group: u32) {
        let [before, after] = [self.before[group as usize], self.after[group as usize]];
        if before != NONE {
            self.after[before as usize] = after;
        }
        if after != NONE {
            self.before[after as usize] = before;
            self.dirty[after as usize] = true;
        }
    }

    fn link_before(&mut self, group: u32, other: u32) {
        let before = std::mem::replace(&mut self.before[other as usize], group);
        self.before[group as usize] = before;
        self.after[group as usize] = other;
        if before != NONE {
            self.after[before as usize] = group;
        }
    }

    /// Sets the times of changed groups and of what launches them, and replays from a place on.
    fn settle(&mut self, changed: &[u32], from: usize) {
        let mut from = from;
        for unit in changed {
            let is_last = self.group[*unit as usize] == *unit;
            let time = if is_last { self.cost(*unit) } else { 0 };
            self.set_time(*unit, time);
            let graph = self.graph;
            let stays = is_last || !graph.units[*unit as usize].launch_goes();
            for launch in &graph.units[*unit as usize].launches {
                let own = graph.units[*launch as usize].duration;
                self.set_time(*launch, if stays { own } else { 0 });
                from = from.min(self.place[*launch as usize] as usize);
            }
            let last = self.group[*unit as usize];
            self.dirty[last as usize] = true;
            self.mark_waiting(last);
        }
        self.replay(from);
    }

    fn set_time(&mut self, unit: u32, time: u64) {
        self.time[unit as usize] = time;
        self.dirty[unit as usize] = true;
    }

    /// Nanoseconds of a group: its units, without what its traffic saves.
    fn cost(&self, group: u32) -> u64 {
        let members = self.members(group);
        let all: u64 = members.iter().map(|unit| self.graph.units[*unit as usize].duration).sum();
        if self.simulate {
            let last = self.graph.units[group as usize].duration;
            return last + (SIMULATED * (all - last) as f64).round() as u64;
        }
        let saved: f64 =
            members.iter().zip(self.read_counts(&members)).map(|(unit, reads)| self.saved_time(*unit, reads)).sum();
        let fixed: u64 =
            members.iter().filter(|unit| **unit != group).map(|unit| self.graph.units[*unit as usize].fixed).sum();
        all - (saved.round() as u64 + fixed).min(all)
    }

    /// How many results of a group each of its members reads.
    fn read_counts(&self, members: &[u32]) -> Vec<u32> {
        let mut reads = vec![0; members.len()];
        for reader in members.iter().flat_map(|unit| &self.graph.readers[*unit as usize]) {
            if let Ok(place) = members.binary_search(reader) {
                reads[place] += 1;
            }
        }
        reads
    }

    /// Nanoseconds that a unit of a group does not need: to write what only the group reads, to read what the group wrote.
    fn saved_time(&self, unit: u32, reads: u32) -> f64 {
        let own = &self.graph.units[unit as usize];
        let Some(operation) = own.operation else { return 0.0 };
        let tensors = operation.reads + operation.writes;
        let readers = &self.graph.readers[unit as usize];
        let inside = |reader: &u32| self.group[*reader as usize] == self.group[unit as usize];
        let unread = |reader: &u32| {
            inside(reader) && !self.graph.units[*reader as usize].operation.is_some_and(|reader| reader.keeps_input)
        };
        let is_kept = readers.is_empty()
            || !readers.iter().all(unread)
            || self.graph.outputs[unit as usize].iter().any(|to| !inside(to));
        let written = if is_kept { 0.0 } else { operation.writes };
        // Products read and write while they compute.
        let share = match operation.class == FusionClass::Product {
            true => 0.0,
            false => (written + f64::from(reads).min(operation.reads)) / tensors,
        };
        (own.duration - own.fixed) as f64 * share
    }

    /// Computes again when groups end that changed, and those that wait for them.
    fn replay(&mut self, from: usize) {
        for place in from..self.order.len() {
            let group = self.order[place];
            if !std::mem::replace(&mut self.dirty[group as usize], false) || self.group[group as usize] != group {
                continue;
            }
            let end = self.ready_time(group).0 + self.time[group as usize];
            if std::mem::replace(&mut self.end[group as usize], end) != end {
                self.mark_waiting(group);
            }
        }
    }

    fn mark_waiting(&mut self, group: u32) {
        let graph = self.graph;
        let mut unit = group;
        loop {
            for target in &graph.outputs[unit as usize] {
                self.dirty[self.group[*target as usize] as usize] = true;
            }
            unit = self.next[unit as usize];
            if unit == group {
                break;
            }
        }
        let after = self.after[group as usize];
        if after != NONE {
            self.dirty[after as usize] = true;
        }
    }

    /// When a group may start, and the group that it waits for until then.
    fn ready_time(&self, group: u32) -> (u64, u32) {
        let before = self.before[group as usize];
        let mut ready = if before == NONE { (0, NONE) } else { (self.end[before as usize], before) };
        let mut unit = group;
        loop {
            for input in &self.graph.inputs[unit as usize] {
                let input = self.group[*input as usize];
                if input != group && self.end[input as usize] > ready.0 {
                    ready = (self.end[input as usize], input);
                }
            }
            unit = self.next[unit as usize];
            if unit == group {
                return ready;
            }
        }
    }

    /// The groups each of which starts when the one before it ends, up to the end of the step.
    fn critical_path(&self) -> Vec<u32> {
        let is_group = |unit: &u32| self.group[*unit as usize] == *unit;
        let last = (0..self.group.len() as u32).filter(is_group).rev().max_by_key(|unit| self.end[*unit as usize]);
        let cause = |group: &u32| Some(self.ready_time(*group).1).filter(|cause| *cause != NONE);
        let mut path: Vec<u32> = std::iter::successors(last, cause).collect();
        path.reverse();
        path
    }
}

/// What was published for operations of a group but the last, where no model predicts it (`SIMULATE_FUSION_RATIO`).
const SIMULATED: f64 = 0.8;
