//! A schedule played through an allocator at one batch size.

use super::allocator::{Allocate, Block, Caching, Counters, Direct};
use super::schedule::{Event, Schedule};
use crate::target::{Allocator, Readings, Target};

/// What one batch size came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// Peaks as the device's profiler reports them.
    pub reported: Peaks,
    /// Peaks over all steps.
    pub highest: Peaks,
    /// When the most bytes were allocated.
    pub moment: Moment,
}

/// Peak bytes of tensors, and of what the allocator took for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Peaks {
    pub allocated: u64,
    pub reserved: u64,
}

/// Right after an event of one of the parts: setup, first step, later steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Moment {
    pub part: usize,
    pub event: usize,
}

/// Steps the published profiler takes after its warm-up.
const PUBLISHED_STEPS: usize = 3;

/// Plays a schedule on a device's allocator.
pub(super) fn replay(schedule: &Schedule, target: &Target, batch: u64) -> Outcome {
    match target.allocator {
        Allocator::Direct => Replay::new(schedule, batch, Direct::default()).run(target.readings),
        Allocator::Caching { .. } => {
            let caching = Caching::new(target.allocator).expect("it is a caching one");
            Replay::new(schedule, batch, caching).run(target.readings)
        }
    }
}

struct Replay<'a, A> {
    schedule: &'a Schedule,
    allocator: A,
    bytes: Vec<u64>,
    blocks: Vec<Block>,
    moment: Moment,
    most: u64,
    /// What the published profiler's hook read last.
    at_backward: Peaks,
}

impl<'a, A: Allocate> Replay<'a, A> {
    fn new(schedule: &'a Schedule, batch: u64, allocator: A) -> Self {
        let bytes: Vec<u64> = schedule.tensors.iter().map(|tensor| tensor.amount.bytes(batch)).collect();
        let blocks = vec![0; bytes.len()];
        let (moment, at_backward) = (Moment::default(), Peaks::default());
        Replay { schedule, allocator, bytes, blocks, moment, most: 0, at_backward }
    }

    fn run(mut self, readings: Readings) -> Outcome {
        self.play(0, &self.schedule.setup);
        let mut peaks = vec![self.step(1, &self.schedule.first)];
        let backward = self.at_backward;
        peaks.extend((0..PUBLISHED_STEPS).map(|_| self.step(2, &self.schedule.steady)));
        let highest = Peaks {
            allocated: peaks.iter().map(|peak| peak.allocated).max().unwrap_or(0),
            reserved: peaks.iter().map(|peak| peak.reserved).max().unwrap_or(0),
        };
        let reported = match readings {
            Readings::Highest => highest,
            Readings::Published => {
                peaks.push(backward);
                mean(&peaks)
            }
        };
        Outcome { reported, highest, moment: self.moment }
    }

    /// One step as the published profiler takes it: peaks are reset before the cache is emptied.
    fn step(&mut self, part: usize, events: &[Event]) -> Peaks {
        self.allocator.counters().reset_peaks();
        self.allocator.empty_cache();
        self.play(part, events);
        peaks(self.allocator.counters())
    }

    fn play(&mut self, part: usize, events: &[Event]) {
        for (index, event) in events.iter().enumerate() {
            match *event {
                Event::Allocate(tensor) => {
                    let tensor = tensor as usize;
                    self.blocks[tensor] = self.allocator.allocate(self.bytes[tensor]);
                    let allocated = self.allocator.counters().allocated;
                    if allocated > self.most {
                        self.most = allocated;
                        self.moment = Moment { part, event: index };
                    }
                }
                Event::Free(tensor) => self.allocator.free(self.blocks[tensor as usize], self.bytes[tensor as usize]),
                Event::BackwardDone => self.at_backward = peaks(self.allocator.counters()),
            }
        }
    }
}

fn peaks(counters: &Counters) -> Peaks {
    Peaks { allocated: counters.peak_allocated, reserved: counters.peak_reserved }
}

fn mean(peaks: &[Peaks]) -> Peaks {
    let of = |part: fn(&Peaks) -> u64| {
        let (sum, count) = (peaks.iter().map(|peak| u128::from(part(peak))).sum::<u128>(), peaks.len() as u128);
        ((sum + count / 2) / count) as u64
    };
    Peaks { allocated: of(|peak| peak.allocated), reserved: of(|peak| peak.reserved) }
}
