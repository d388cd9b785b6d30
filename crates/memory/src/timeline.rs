//! The memory of a step from one operation to the next, and the tensors that are alive at its peak.

use crate::Simulation;
use crate::peak::Alive;
use crate::step::{Period, Schedule};
use crate::tensor::{Event, Mark, Phase, Role};
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
    /// The tensors alive at the peak.
    pub alive: Alive,
}

/// Memory while one operation runs, is differentiated, or has its weights changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// The phase of the step.
    pub phase: Phase,
    /// The name of the operation's node.
    pub layer: String,
    /// Bytes of tensors by [`Role::ALL`], at the moment of the entry when they are most.
    pub bytes: [u64; Role::ALL.len()],
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
        // The setup holds the peak where a step allocates nothing; the first step is shown then.
        let period = outcome.moment.period.max(Period::First);
        let entries = self.entries(&schedule, samples, period);
        let highest = entries.iter().map(TimelineEntry::total).max();
        let peak = entries.iter().position(|entry| Some(entry.total()) == highest).unwrap_or_default();
        Timeline { is_first: period == Period::First, entries, peak, alive: self.alive(batch) }
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
}

/// The bytes alive, by role.
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
