//! A schedule played through an allocator at one batch size.

use super::allocator::{Allocate, Block, Caching, Counters, Direct, Rounded};
use super::event::Event;
use super::recording::Stretch;
use super::schedule::{Part, Schedule};
use perf4sight_platform::{Allocator, Platform, Readings};

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

/// Right after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub part: Part,
    pub event: usize,
}

/// Plays a schedule on a device's allocator.
pub(super) fn replay(schedule: &Schedule, platform: &Platform, batch: u64) -> Outcome {
    match platform.allocator {
        Allocator::Direct => Replay::new(schedule, batch, Direct::default()).run(platform.readings),
        Allocator::Caching(sizes) => Replay::new(schedule, batch, Caching::new(sizes)).run(platform.readings),
    }
}

/// The peaks that a replay reports at least: no allocator takes less than what lies there, and one that caches nothing takes no more.
pub(super) fn at_least(schedule: &Schedule, platform: &Platform, batch: u64) -> Peaks {
    let round = match platform.allocator {
        Allocator::Direct => 1,
        Allocator::Caching(sizes) => sizes.round,
    };
    Replay::new(schedule, batch, Rounded::new(round)).run(platform.readings).reported
}

struct Replay<'a, A> {
    schedule: &'a Schedule,
    allocator: A,
    batch: u64,
    blocks: Vec<Block>,
    moment: Moment,
    most: u64,
    /// What the published profiler's hook read last.
    at_backward: Peaks,
}

impl<'a, A: Allocate> Replay<'a, A> {
    fn new(schedule: &'a Schedule, batch: u64, allocator: A) -> Self {
        let blocks = vec![0; schedule.count()];
        let moment = Moment { part: Part::Setup, event: 0 };
        Replay { schedule, allocator, batch, blocks, moment, most: 0, at_backward: Peaks::default() }
    }

    fn run(mut self, readings: Readings) -> Outcome {
        self.play(Part::Setup);
        let first = self.step(Part::First);
        let left_by_first = self.allocator.counters().reserved;
        let backward = self.at_backward;
        // A steady step frees all it allocates, so the next one finds the same blocks in the same places: one stands for all.
        let steady = self.step(Part::Steady);
        let left_by_steady = self.allocator.counters().reserved;
        let after = |left: u64| Peaks { reserved: steady.reserved.max(left), ..steady };
        let highest =
            Peaks { allocated: first.allocated.max(steady.allocated), reserved: first.reserved.max(steady.reserved) };
        let reported = match readings {
            Readings::Highest => highest,
            // Peaks were reset before the cache was emptied: what one step left reserved counts in the next.
            Readings::Published => {
                mean([backward, first, after(left_by_first), after(left_by_steady), after(left_by_steady)])
            }
        };
        Outcome { reported, highest, moment: self.moment }
    }

    /// The peaks of one step, taken with an emptied cache.
    fn step(&mut self, part: Part) -> Peaks {
        self.allocator.empty_cache();
        self.allocator.counters().reset_peaks();
        self.play(part);
        peaks(self.allocator.counters())
    }

    fn play(&mut self, part: Part) {
        let schedule = self.schedule;
        let mut begin = 0;
        for stretch in schedule.stretches(part) {
            if !self.allocator.leap(stretch, self.batch) {
                self.walk(stretch, Moment { part, event: begin });
            }
            begin += stretch.recording.events.len();
        }
    }

    /// One event after the other, the first of which is that of a moment.
    fn walk(&mut self, stretch: &Stretch, begin: Moment) {
        let (schedule, batch) = (self.schedule, self.batch);
        let bytes = |tensor| stretch.own(tensor).unwrap_or_else(|| schedule.tensor(tensor)).amount.bytes(batch);
        for (index, event) in stretch.events().enumerate() {
            match event {
                Event::Allocate(tensor) => {
                    self.blocks[tensor as usize] = self.allocator.allocate(bytes(tensor));
                    let allocated = self.allocator.counters().allocated;
                    if allocated > self.most {
                        self.most = allocated;
                        self.moment = Moment { event: begin.event + index, ..begin };
                    }
                }
                Event::Free(tensor) => self.allocator.free(self.blocks[tensor as usize], bytes(tensor)),
                Event::Settle(_) => {}
                Event::BackwardDone => self.at_backward = peaks(self.allocator.counters()),
            }
        }
    }
}

fn peaks(counters: &Counters) -> Peaks {
    Peaks { allocated: counters.peak_allocated, reserved: counters.peak_reserved }
}

fn mean(peaks: [Peaks; 5]) -> Peaks {
    let of = |part: fn(&Peaks) -> u64| {
        let (sum, count) = (peaks.iter().map(|peak| u128::from(part(peak))).sum::<u128>(), peaks.len() as u128);
        ((sum + count / 2) / count) as u64
    };
    Peaks { allocated: of(|peak| peak.allocated), reserved: of(|peak| peak.reserved) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_step::workload::{Accumulate, Checkpoint, Optimizer, Precision, Stage, Step, Trainable, ZeroGrad};

    /// Training as published, and steps that differ in one thing each, and inference.
    fn steps() -> Vec<Step> {
        let training = Step::published(Stage::Training);
        vec![
            training,
            Step { zero_grad: ZeroGrad::Free, optimizer: Optimizer::AdamW, ..training },
            Step { trainable: Trainable::Classifier, ..training },
            Step { accumulate: Accumulate::new(4).unwrap(), ..training },
            Step { checkpoint: Checkpoint::EveryBlock, ..training },
            Step { precision: Precision::AmpBf16, ..training },
            Step::published(Stage::Inference),
        ]
    }

    #[test]
    fn passes_summed_up_come_to_what_their_requests_come_to_one_by_one() {
        let network = build("mobilenetv2", Dataset::Imagenet).unwrap();
        for (name, is_exact) in [("cpu", true), ("orin", false)] {
            let platform = Platform::named(name).unwrap();
            for (step, batch) in steps().into_iter().flat_map(|step| [(step, 4), (step, 12)]) {
                let simulation = Simulation::new(&network, step, &platform);
                let (schedule, samples) = simulation.schedule(batch);
                let (least, whole) =
                    (at_least(schedule, &platform, samples), replay(schedule, &platform, samples).reported);
                assert!(least.reserved > 0 && least.reserved <= whole.reserved, "{name}, {step}: {least:?}, {whole:?}");
                assert!(!is_exact || least == whole, "{name}, {step}: {least:?}, {whole:?}");
            }
        }
    }
}
