//! A schedule run through an allocator at one batch size.

use crate::allocator::{Allocate, Block, Caching, Counters, Rounded};
use crate::step::{Period, PlacedSegment, Schedule};
use crate::tensor::Event;
use perf4sight_platform::{Allocator, Platform, Readings};

/// The peaks of one batch size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    /// Peaks as the device's profiler reports them.
    pub reported: Peaks,
    /// Peaks over all steps.
    pub highest: Peaks,
    /// The most bytes of tensors within passes, as the graph says.
    pub of_passes: u64,
    /// Bytes of tensors behind a pass, as the graph says.
    pub after_pass: u64,
    /// When the most bytes were allocated.
    pub moment: Moment,
}

/// Peak bytes of tensors, and of the memory that the allocator reserved for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Peaks {
    pub allocated: u64,
    pub reserved: u64,
}

/// Bytes that a module takes beyond what the schedule says, less than nothing where it takes less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Beyond {
    /// At the peak of a pass.
    pub in_pass: i64,
    /// From the end of a pass to the next one: while the weights change.
    pub after_pass: i64,
}

/// Right after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub period: Period,
    pub event: usize,
}

/// The peaks of a schedule, to which the module adds what it takes beyond that.
pub(crate) fn run_through(schedule: &Schedule, platform: &Platform, batch: u64, beyond: Beyond) -> Outcome {
    match platform.allocator {
        // Every request goes directly to the system.
        Allocator::Direct => Run { beyond, ..Run::new(schedule, batch, Rounded::new(1)) }.run(platform.readings),
        Allocator::Caching(sizes) => {
            Run { beyond, ..Run::new(schedule, batch, Caching::new(sizes)) }.run(platform.readings)
        }
    }
}

/// A lower bound of the reported peaks: an allocator takes at least the bytes alive, and exactly those if it caches
/// nothing.
pub(crate) fn at_least(schedule: &Schedule, platform: &Platform, batch: u64, beyond: Beyond) -> Peaks {
    let round = match platform.allocator {
        Allocator::Direct => 1,
        Allocator::Caching(sizes) => sizes.round,
    };
    let run = Run { by_summaries: true, beyond, ..Run::new(schedule, batch, Rounded::new(round)) };
    run.run(platform.readings).reported
}

struct Run<'a, A> {
    schedule: &'a Schedule,
    allocator: A,
    batch: u64,
    beyond: Beyond,
    /// Whether whole segments are taken by their summaries; the moment of the peak is then not found.
    by_summaries: bool,
    blocks: Vec<Block>,
    moment: Moment,
    most: u64,
    /// The peaks of the step so far.
    so_far: Peaks,
    of_passes: u64,
    after_pass: u64,
    /// The last reading of the published profiler's hook.
    at_backward: Peaks,
}

impl<'a, A: Allocate> Run<'a, A> {
    fn new(schedule: &'a Schedule, batch: u64, allocator: A) -> Self {
        let blocks = vec![0; schedule.count()];
        let moment = Moment { period: Period::SetUp, event: 0 };
        let [so_far, at_backward] = [Peaks::default(); 2];
        let (beyond, by_summaries, [most, of_passes, after_pass]) = (Beyond::default(), false, [0; 3]);
        Run {
            schedule,
            allocator,
            batch,
            beyond,
            by_summaries,
            blocks,
            moment,
            most,
            so_far,
            of_passes,
            after_pass,
            at_backward,
        }
    }

    fn run(mut self, readings: Readings) -> Outcome {
        self.run_period(Period::SetUp);
        let first = self.step(Period::First);
        let left_by_first = self.allocator.counters().reserved;
        let backward = self.at_backward;
        // A steady step frees all it allocates, so the next one finds the same blocks in the same places: one
        // represents all.
        let steady = self.step(Period::Later);
        let left_by_steady = self.allocator.counters().reserved;
        let after = |left: u64| Peaks { reserved: steady.reserved.max(left), ..steady };
        let highest =
            Peaks { allocated: first.allocated.max(steady.allocated), reserved: first.reserved.max(steady.reserved) };
        let reported = match readings {
            Readings::Highest => highest,
            // Peaks were reset before the cache was emptied: memory that one step left reserved counts in the next.
            Readings::Published => {
                mean([backward, first, after(left_by_first), after(left_by_steady), after(left_by_steady)])
            }
        };
        Outcome { reported, highest, of_passes: self.of_passes, after_pass: self.after_pass, moment: self.moment }
    }

    /// The peaks of one step, taken with an emptied cache.
    fn step(&mut self, period: Period) -> Peaks {
        self.allocator.empty_cache();
        self.so_far = Peaks::default();
        self.run_period(period);
        self.so_far
    }

    fn run_period(&mut self, period: Period) {
        let schedule = self.schedule;
        let mut begin = 0;
        for segment in schedule.segments(period) {
            self.allocator.counters().reset_peaks();
            if !(self.by_summaries && self.allocator.apply_summary(segment, self.batch)) {
                self.run_events(segment, Moment { period, event: begin });
            }
            self.note_peaks(segment, period);
            begin += segment.segment.events.len();
        }
    }

    /// Takes the peaks of the segment that ran into those of the step.
    fn note_peaks(&mut self, segment: &PlacedSegment, period: Period) {
        let peaks = peaks(self.allocator.counters());
        if segment.is_pass() {
            self.of_passes = self.of_passes.max(peaks.allocated);
            self.after_pass = self.allocator.counters().allocated;
        }
        self.so_far = self.so_far.max(peaks.and(self.beyond_in(segment, period)));
    }

    fn beyond_in(&self, segment: &PlacedSegment, period: Period) -> i64 {
        match period {
            Period::SetUp => 0,
            Period::First | Period::Later if segment.is_pass() => self.beyond.in_pass,
            Period::First | Period::Later => self.beyond.after_pass,
        }
    }

    /// One event after the other; `begin` is the moment of the first.
    fn run_events(&mut self, segment: &PlacedSegment, begin: Moment) {
        let (schedule, batch) = (self.schedule, self.batch);
        let beyond = self.beyond_in(segment, begin.period);
        let bytes = |tensor| segment.own(tensor).unwrap_or_else(|| schedule.tensor(tensor)).amount.bytes(batch);
        for (index, event) in segment.events().enumerate() {
            match event {
                Event::Allocate(tensor) => {
                    self.blocks[tensor as usize] = self.allocator.allocate(bytes(tensor));
                    let allocated = self.allocator.counters().allocated.saturating_add_signed(beyond);
                    if allocated > self.most {
                        self.most = allocated;
                        self.moment = Moment { event: begin.event + index, ..begin };
                    }
                }
                Event::Free(tensor) => self.allocator.free(self.blocks[tensor as usize], bytes(tensor)),
                Event::Settle(_) => {}
                Event::BackwardDone => self.at_backward = self.so_far.max(peaks(self.allocator.counters())),
            }
        }
    }
}

impl Peaks {
    fn max(self, other: Peaks) -> Peaks {
        Peaks { allocated: self.allocated.max(other.allocated), reserved: self.reserved.max(other.reserved) }
    }

    /// With so many bytes more.
    fn and(self, beyond: i64) -> Peaks {
        let [allocated, reserved] = [self.allocated, self.reserved].map(|bytes| bytes.saturating_add_signed(beyond));
        Peaks { allocated, reserved }
    }
}

fn peaks(counters: &Counters) -> Peaks {
    Peaks { allocated: counters.peak_allocated, reserved: counters.peak_reserved }
}

fn mean(peaks: [Peaks; 5]) -> Peaks {
    let mean = |bytes: fn(&Peaks) -> u64| {
        let (sum, count) = (peaks.iter().map(|peak| u128::from(bytes(peak))).sum::<u128>(), peaks.len() as u128);
        ((sum + count / 2) / count) as u64
    };
    Peaks { allocated: mean(|peak| peak.allocated), reserved: mean(|peak| peak.reserved) }
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
    fn summaries_of_segments_give_the_peaks_of_their_requests_one_by_one() {
        let network = build("mobilenetv2", Dataset::Imagenet).unwrap();
        for (name, is_exact) in [("cpu", true), ("orin", false)] {
            let platform = Platform::named(name).unwrap();
            for (step, batch) in steps().into_iter().flat_map(|step| [(step, 4), (step, 12)]) {
                let simulation = Simulation::new(&network, step, &platform);
                let (schedule, samples) = simulation.schedule(batch);
                let least = at_least(&schedule, &platform, samples, Beyond::default());
                let whole = run_through(&schedule, &platform, samples, Beyond::default()).reported;
                assert!(least.reserved > 0 && least.reserved <= whole.reserved, "{name}, {step}: {least:?}, {whole:?}");
                assert!(!is_exact || least == whole, "{name}, {step}: {least:?}, {whole:?}");
            }
        }
    }
}
