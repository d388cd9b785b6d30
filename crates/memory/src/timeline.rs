//! The memory of a step from one operation to the next, and the tensors that are alive at its peak.

use crate::Simulation;
use crate::peak::tensors_at;
use crate::run_through::Moment;
use crate::step::{Period, Schedule};
use crate::tensor::{Event, Mark, Phase, Role, Tensor};
use perf4sight_base::units::Bytes;

/// The memory of one step over its operations: of the step that holds the peak of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// Whether it is the very first step, which makes the optimizer's state, or any later one.
    pub is_first: bool,
    /// In the order of time; there is at least one.
    pub entries: Vec<TimelineEntry>,
    /// The index of the entry that holds the peak.
    pub peak: usize,
    /// The tensors that are alive at the peak, the largest first.
    pub alive: Vec<Live>,
    /// What the allocator takes from the system at most, in any step.
    pub reserved: Bytes,
}

/// Memory while one operation runs, is differentiated, or has its weights changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// What is done.
    pub phase: Phase,
    /// The name of the operation's node.
    pub layer: String,
    /// Bytes of tensors by [`Role::ALL`], at the moment of the entry when they are most.
    pub bytes: [u64; Role::ALL.len()],
}

/// A tensor that is alive at the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The name of the node that it belongs to.
    pub layer: String,
    /// What it is for.
    pub role: Role,
    /// Its size.
    pub bytes: Bytes,
}

impl TimelineEntry {
    /// All tensors together.
    pub fn total(&self) -> Bytes {
        Bytes(sum(&self.bytes))
    }
}

impl Simulation<'_> {
    /// The memory of the step that holds the peak, operation by operation.
    pub fn timeline(&self, batch: u64) -> Timeline {
        let (schedule, samples) = self.schedule(batch);
        let outcome = self.outcome((&schedule, samples));
        // What is there from the beginning is the most where a step does nothing.
        let period = outcome.moment.period.max(Period::First);
        let entries = self.entries(&schedule, samples, period);
        let highest = entries.iter().map(TimelineEntry::total).max();
        let peak = entries.iter().position(|entry| Some(entry.total()) == highest).unwrap_or_default();
        let alive = self.alive_at(&schedule, samples, outcome.moment);
        let reserved = Bytes(outcome.highest.reserved);
        Timeline { is_first: period == Period::First, entries, peak, alive, reserved }
    }

    fn entries(&self, schedule: &Schedule, batch: u64, period: Period) -> Vec<TimelineEntry> {
        let tensors = schedule.tensors().map(|tensor| (tensor.role as usize, tensor.amount.bytes(batch))).collect();
        let mut tally = Tally { tensors, bytes: [0; Role::ALL.len()] };
        for earlier in Period::ALL.into_iter().filter(|earlier| *earlier < period) {
            schedule.events(earlier).for_each(|event| tally.count(event));
        }
        let (events, marks): (Vec<Event>, Vec<Mark>) =
            (schedule.events(period).collect(), schedule.marks(period).collect());
        let mut begin = 0;
        let entry = |(index, mark): (usize, &Mark)| {
            let end = marks.get(index + 1).map_or(events.len(), |next| next.event);
            let mut most = tally.bytes;
            for event in &events[begin..end] {
                tally.count(*event);
                if sum(&tally.bytes) > sum(&most) {
                    most = tally.bytes;
                }
            }
            begin = end;
            TimelineEntry { phase: mark.phase, layer: self.memo.network.node(mark.node).name.clone(), bytes: most }
        };
        marks.iter().enumerate().map(entry).collect()
    }

    fn alive_at(&self, schedule: &Schedule, batch: u64, moment: Moment) -> Vec<Live> {
        let live = |tensor: &Tensor| Live {
            layer: self.memo.network.node(tensor.node).name.clone(),
            role: tensor.role,
            bytes: Bytes(tensor.amount.bytes(batch)),
        };
        let mut alive: Vec<Live> = tensors_at(schedule, moment).into_iter().map(live).collect();
        alive.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes));
        alive
    }
}

/// What is alive, by role.
struct Tally {
    /// Of each tensor its role and its size.
    tensors: Vec<(usize, u64)>,
    bytes: [u64; Role::ALL.len()],
}

impl Tally {
    fn count(&mut self, event: Event) {
        match event {
            Event::Allocate(tensor) => {
                let (role, bytes) = self.tensors[tensor as usize];
                self.bytes[role] = self.bytes[role].saturating_add(bytes);
            }
            Event::Free(tensor) => {
                let (role, bytes) = self.tensors[tensor as usize];
                self.bytes[role] = self.bytes[role].saturating_sub(bytes);
            }
            Event::Settle(_) | Event::BackwardDone => {}
        }
    }
}

fn sum(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}
