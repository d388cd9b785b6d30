//! A step from one operation to the next: what lies in memory while each is at work, and what is alive at the peak.

use super::Simulation;
use super::event::{Event, Mark, Phase, Role, Tensor};
use super::peak::tensors_at;
use super::replay::Moment;
use super::schedule::{Part, Schedule};
use perf4sight_base::units::Bytes;

/// The memory of one step over its operations: that step of all which holds the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// Whether it is the very first, which makes the optimizer's state, or any later one.
    pub is_first: bool,
    /// One leg after the other; there is at least one.
    pub legs: Vec<Leg>,
    /// Which of them holds the peak.
    pub peak: usize,
    /// The tensors that are alive at the peak, the largest first.
    pub alive: Vec<Live>,
    /// What the allocator takes from the system at most, in any step.
    pub reserved: Bytes,
}

/// While one operation runs, is differentiated, or has its weights changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// What is done.
    pub phase: Phase,
    /// The node's name that it is done to.
    pub layer: String,
    /// Bytes of tensors by [`Role::ALL`], at the moment of the leg when they are most.
    pub bytes: [u64; Role::ALL.len()],
}

/// A tensor that is alive at the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The node's name that it belongs to.
    pub layer: String,
    /// What it is for.
    pub role: Role,
    /// How large it is.
    pub bytes: Bytes,
}

impl Leg {
    /// All tensors together.
    pub fn total(&self) -> Bytes {
        Bytes(sum(&self.bytes))
    }
}

impl Simulation<'_> {
    /// The memory of the step that holds the peak, operation by operation.
    pub fn course(&self, batch: u64) -> Course {
        let (schedule, samples) = self.schedule(batch);
        let outcome = self.outcome(batch);
        // What lies there from the beginning is the most where a step does nothing.
        let part = outcome.moment.part.max(Part::First);
        let legs = self.legs(schedule, samples, part);
        let highest = legs.iter().map(Leg::total).max();
        let peak = legs.iter().position(|leg| Some(leg.total()) == highest).unwrap_or_default();
        let alive = self.alive_at(schedule, samples, outcome.moment);
        Course { is_first: part == Part::First, legs, peak, alive, reserved: Bytes(outcome.highest.reserved) }
    }

    fn legs(&self, schedule: &Schedule, batch: u64, part: Part) -> Vec<Leg> {
        let tensors = schedule.tensors().map(|tensor| (tensor.role as usize, tensor.amount.bytes(batch))).collect();
        let mut tally = Tally { tensors, bytes: [0; Role::ALL.len()] };
        for earlier in Part::ALL.into_iter().filter(|earlier| *earlier < part) {
            schedule.events(earlier).for_each(|event| tally.count(event));
        }
        let (events, marks): (Vec<Event>, Vec<Mark>) =
            (schedule.events(part).collect(), schedule.marks(part).collect());
        let mut begin = 0;
        let leg = |(index, mark): (usize, &Mark)| {
            let end = marks.get(index + 1).map_or(events.len(), |next| next.event);
            let mut most = tally.bytes;
            for event in &events[begin..end] {
                tally.count(*event);
                if sum(&tally.bytes) > sum(&most) {
                    most = tally.bytes;
                }
            }
            begin = end;
            Leg { phase: mark.phase, layer: self.network.node(mark.node).name.clone(), bytes: most }
        };
        marks.iter().enumerate().map(leg).collect()
    }

    fn alive_at(&self, schedule: &Schedule, batch: u64, moment: Moment) -> Vec<Live> {
        let live = |tensor: &Tensor| Live {
            layer: self.network.node(tensor.node).name.clone(),
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
    /// Of each tensor its role, and how large it is.
    tensors: Vec<(usize, u64)>,
    bytes: [u64; Role::ALL.len()],
}

impl Tally {
    fn count(&mut self, event: Event) {
        match event {
            Event::Allocate(tensor) => {
                let (place, bytes) = self.tensors[tensor as usize];
                self.bytes[place] = self.bytes[place].saturating_add(bytes);
            }
            Event::Free(tensor) => {
                let (place, bytes) = self.tensors[tensor as usize];
                self.bytes[place] = self.bytes[place].saturating_sub(bytes);
            }
            Event::Settle(_) | Event::BackwardDone => {}
        }
    }
}

fn sum(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}
