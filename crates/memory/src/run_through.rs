//! A schedule run through an allocator at one batch size.

use crate::allocator::{Allocate, AllocatorCounters, BlockId, CachingAllocator, RoundingAllocator};
use crate::step::{AllocationSchedule, PlacedSegment, StepPeriod};
use crate::tensor::ScheduleEvent;
use perf4sight_platform::{Allocator, CounterReadings, Platform};

/// The peaks of one batch size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepPeaks {
    /// Peaks as the device's profiler reports them.
    pub reported: PeakBytes,
    /// Peaks over all steps.
    pub highest: PeakBytes,
    /// The most bytes of tensors within passes, as the graph says.
    pub of_passes: u64,
    /// Bytes of tensors behind a pass, as the graph says.
    pub after_pass: u64,
    /// When the most bytes were allocated.
    pub moment: PeakMoment,
}

/// Peak bytes of tensors, and of the memory that the allocator reserved for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PeakBytes {
    pub allocated: u64,
    pub reserved: u64,
}

/// Bytes that a module takes beyond what the schedule says, less than nothing where it takes less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ExtraBytes {
    /// At the peak of a pass.
    pub in_pass: i64,
    /// From the end of a pass to the next one: while the weights change.
    pub after_pass: i64,
}

/// Right after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeakMoment {
    pub period: StepPeriod,
    pub event: usize,
}

/// The peaks of a schedule, to which the module adds what it takes beyond that.
pub(crate) fn run_through(
    schedule: &AllocationSchedule,
    platform: &Platform,
    batch: u64,
    beyond: ExtraBytes,
) -> StepPeaks {
    match platform.allocator {
        // Every request goes directly to the system.
        Allocator::Direct => AllocatorRun { beyond, ..AllocatorRun::new(schedule, batch, RoundingAllocator::new(1)) }
            .run(platform.readings),
        Allocator::Caching(sizes) => {
            AllocatorRun { beyond, ..AllocatorRun::new(schedule, batch, CachingAllocator::new(sizes)) }
                .run(platform.readings)
        }
    }
}

/// A lower bound of the reported peaks: an allocator takes at least the bytes alive, and exactly those if it caches
/// nothing.
pub(crate) fn at_least(
    schedule: &AllocationSchedule,
    platform: &Platform,
    batch: u64,
    beyond: ExtraBytes,
) -> PeakBytes {
    let round = match platform.allocator {
        Allocator::Direct => 1,
        Allocator::Caching(sizes) => sizes.round,
    };
    let run = AllocatorRun {
        by_summaries: true,
        beyond,
        ..AllocatorRun::new(schedule, batch, RoundingAllocator::new(round))
    };
    run.run(platform.readings).reported
}

struct AllocatorRun<'a, A> {
    schedule: &'a AllocationSchedule,
    allocator: A,
    batch: u64,
    beyond: ExtraBytes,
    /// Whether whole segments are taken by their summaries; the moment of the peak is then not found.
    by_summaries: bool,
    blocks: Vec<BlockId>,
    moment: PeakMoment,
    most: u64,
    /// The peaks of the step so far.
    so_far: PeakBytes,
    of_passes: u64,
    after_pass: u64,
    /// The last reading of the published profiler's hook.
    at_backward: PeakBytes,
}

impl<'a, A: Allocate> AllocatorRun<'a, A> {
    fn new(schedule: &'a AllocationSchedule, batch: u64, allocator: A) -> Self {
        let blocks = vec![0; schedule.count()];
        let moment = PeakMoment { period: StepPeriod::SetUp, event: 0 };
        let [so_far, at_backward] = [PeakBytes::default(); 2];
        let (beyond, by_summaries, [most, of_passes, after_pass]) = (ExtraBytes::default(), false, [0; 3]);
        AllocatorRun {
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

    fn run(mut self, readings: CounterReadings) -> StepPeaks {
        self.run_period(StepPeriod::SetUp);
        let first = self.step(StepPeriod::First);
        let left_by_first = self.allocator.counters().reserved;
        let backward = self.at_backward;
        // A steady step frees all it allocates, so the next one finds the same blocks in the same places: one
        // represents all.
        let steady = self.step(StepPeriod::Later);
        let left_by_steady = self.allocator.counters().reserved;
        let after = |left: u64| PeakBytes { reserved: steady.reserved.max(left), ..steady };
        let highest = PeakBytes {
            allocated: first.allocated.max(steady.allocated),
            reserved: first.reserved.max(steady.reserved),
        };
        let reported = match readings {
            CounterReadings::Highest => highest,
            // Peaks were reset before the cache was emptied: memory that one step left reserved counts in the next.
            CounterReadings::Published => {
                mean([backward, first, after(left_by_first), after(left_by_steady), after(left_by_steady)])
            }
        };
        StepPeaks { reported, highest, of_passes: self.of_passes, after_pass: self.after_pass, moment: self.moment }
    }

    /// The peaks of one step, taken with an emptied cache.
    fn step(&mut self, period: StepPeriod) -> PeakBytes {
        self.allocator.empty_cache();
        self.so_far = PeakBytes::default();
        self.run_period(period);
        self.so_far
    }

    fn run_period(&mut self, period: StepPeriod) {
        let schedule = self.schedule;
        let mut begin = 0;
        for segment in schedule.segments(period) {
            self.allocator.counters().reset_peaks();
            if !(self.by_summaries && self.allocator.apply_summary(segment, self.batch)) {
                self.run_events(segment, PeakMoment { period, event: begin });
            }
            self.note_peaks(segment, period);
            begin += segment.segment.events.len();
        }
    }

    /// Takes the peaks of the segment that ran into those of the step.
    fn note_peaks(&mut self, segment: &PlacedSegment, period: StepPeriod) {
        let peaks = peaks(self.allocator.counters());
        if segment.is_pass() {
            self.of_passes = self.of_passes.max(peaks.allocated);
            self.after_pass = self.allocator.counters().allocated;
        }
        self.so_far = self.so_far.max(peaks.plus(self.beyond_in(segment, period)));
    }

    fn beyond_in(&self, segment: &PlacedSegment, period: StepPeriod) -> i64 {
        match period {
            StepPeriod::SetUp => 0,
            StepPeriod::First | StepPeriod::Later if segment.is_pass() => self.beyond.in_pass,
            StepPeriod::First | StepPeriod::Later => self.beyond.after_pass,
        }
    }

    /// One event after the other; `begin` is the moment of the first.
    fn run_events(&mut self, segment: &PlacedSegment, begin: PeakMoment) {
        let (schedule, batch) = (self.schedule, self.batch);
        let beyond = self.beyond_in(segment, begin.period);
        let bytes = |tensor| segment.own_tensor(tensor).unwrap_or_else(|| schedule.tensor(tensor)).amount.bytes(batch);
        for (index, event) in segment.events().enumerate() {
            match event {
                ScheduleEvent::Allocate(tensor) => {
                    self.blocks[tensor as usize] = self.allocator.allocate(bytes(tensor));
                    let allocated = self.allocator.counters().allocated.saturating_add_signed(beyond);
                    if allocated > self.most {
                        self.most = allocated;
                        self.moment = PeakMoment { event: begin.event + index, ..begin };
                    }
                }
                ScheduleEvent::Free(tensor) => self.allocator.free(self.blocks[tensor as usize], bytes(tensor)),
                ScheduleEvent::Settle(_) => {}
                ScheduleEvent::BackwardDone => self.at_backward = self.so_far.max(peaks(self.allocator.counters())),
            }
        }
    }
}

impl PeakBytes {
    fn max(self, other: PeakBytes) -> PeakBytes {
        PeakBytes { allocated: self.allocated.max(other.allocated), reserved: self.reserved.max(other.reserved) }
    }

    /// With so many bytes more.
    fn plus(self, beyond: i64) -> PeakBytes {
        let [allocated, reserved] = [self.allocated, self.reserved].map(|bytes| bytes.saturating_add_signed(beyond));
        PeakBytes { allocated, reserved }
    }
}

fn peaks(counters: &AllocatorCounters) -> PeakBytes {
    PeakBytes { allocated: counters.peak_allocated, reserved: counters.peak_reserved }
}

fn mean(peaks: [PeakBytes; 5]) -> PeakBytes {
    let mean = |bytes: fn(&PeakBytes) -> u64| {
        let (sum, count) = (peaks.iter().map(|peak| u128::from(bytes(peak))).sum::<u128>(), peaks.len() as u128);
        ((sum + count / 2) / count) as u64
    };
    PeakBytes { allocated: mean(|peak| peak.allocated), reserved: mean(|peak| peak.reserved) }
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
            let platform = Platform::for_name(name).unwrap();
            for (step, batch) in steps().into_iter().flat_map(|step| [(step, 4), (step, 12)]) {
                let simulation = Simulation::new(&network, step, &platform);
                let (schedule, samples) = simulation.schedule(batch);
                let least = at_least(&schedule, &platform, samples, ExtraBytes::default());
                let whole = run_through(&schedule, &platform, samples, ExtraBytes::default()).reported;
                assert!(least.reserved > 0 && least.reserved <= whole.reserved, "{name}, {step}: {least:?}, {whole:?}");
                assert!(!is_exact || least == whole, "{name}, {step}: {least:?}, {whole:?}");
            }
        }
    }
}
