//! The clocks for steps and their operations: the processor's clock, or events of a GPU.

use super::gpu::{GpuEvent, GpuHandle};
use super::process;
use perf4sight_step::sampling::TimedSample;
use std::time::{Duration, Instant};
use tch::TchError;

#[derive(Debug, Clone, Copy)]
pub(super) enum StepClock {
    /// The processor's, which does the work itself.
    Processor,
    /// A GPU's. GPU work is asynchronous; only CUDA events give its timestamps.
    Gpu(GpuHandle),
}

#[derive(Debug)]
pub(super) enum ClockMark {
    Processor(Instant),
    Gpu(GpuEvent),
}

impl StepClock {
    /// Now; on a GPU, after all work queued so far.
    pub fn now(self) -> Result<ClockMark, TchError> {
        match self {
            StepClock::Processor => Ok(ClockMark::Processor(Instant::now())),
            StepClock::Gpu(gpu) => gpu.mark().map(ClockMark::Gpu),
        }
    }

    /// Waits until all queued work is finished, so that every moment has a time.
    pub fn settle(self) -> Result<(), TchError> {
        match self {
            StepClock::Processor => Ok(()),
            StepClock::Gpu(gpu) => gpu.settle(),
        }
    }

    /// Times one step. A GPU has nothing to do when it begins, and has done all when it ends.
    pub fn time(self, step: impl FnOnce() -> Result<(), TchError>) -> Result<TimedSample, TchError> {
        self.settle()?;
        let before = process::load();
        let start = self.now()?;
        step()?;
        let end = self.now()?;
        self.settle()?;
        Ok(TimedSample { wall: end.since(&start)?, load: process::load().since(before) })
    }

    /// How many threads must have a processor all the time for a step to be undisturbed: a GPU is kept busy by one.
    pub fn threads(self, threads: usize) -> usize {
        match self {
            StepClock::Processor => threads,
            StepClock::Gpu(_) => 1,
        }
    }
}

impl ClockMark {
    /// The time since an earlier moment of the same clock.
    pub fn since(&self, earlier: &ClockMark) -> Result<Duration, TchError> {
        match (self, earlier) {
            (ClockMark::Processor(now), ClockMark::Processor(then)) => Ok(*now - *then),
            (ClockMark::Gpu(now), ClockMark::Gpu(then)) => now.since(then),
            (ClockMark::Processor(_), ClockMark::Gpu(_)) | (ClockMark::Gpu(_), ClockMark::Processor(_)) => {
                Err(TchError::Shape("moments of two clocks".to_owned()))
            }
        }
    }
}
