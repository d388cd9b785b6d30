//! The clocks for steps and their operations: the processor's clock, or events of a GPU.

use super::gpu::{Event, Handle};
use super::process;
use perf4sight_step::sampling::Sample;
use std::time::{Duration, Instant};
use tch::TchError;

#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    /// The processor's, which does the work itself.
    Processor,
    /// A GPU's. GPU work is asynchronous; only CUDA events give its timestamps.
    Gpu(Handle),
}

#[derive(Debug)]
pub(super) enum Mark {
    Processor(Instant),
    Gpu(Event),
}

impl Clock {
    /// Now; on a GPU, after all work queued so far.
    pub fn now(self) -> Result<Mark, TchError> {
        match self {
            Clock::Processor => Ok(Mark::Processor(Instant::now())),
            Clock::Gpu(gpu) => gpu.mark().map(Mark::Gpu),
        }
    }

    /// Waits until all queued work is finished, so that every moment has a time.
    pub fn settle(self) -> Result<(), TchError> {
        match self {
            Clock::Processor => Ok(()),
            Clock::Gpu(gpu) => gpu.settle(),
        }
    }

    /// Times one step. A GPU has nothing to do when it begins, and has done all when it ends.
    pub fn time(self, step: impl FnOnce() -> Result<(), TchError>) -> Result<Sample, TchError> {
        self.settle()?;
        let before = process::load();
        let start = self.now()?;
        step()?;
        let end = self.now()?;
        self.settle()?;
        Ok(Sample { wall: end.since(&start)?, load: process::load().since(before) })
    }

    /// How many threads must have a processor all the time for a step to be undisturbed: a GPU is kept busy by one.
    pub fn threads(self, threads: usize) -> usize {
        match self {
            Clock::Processor => threads,
            Clock::Gpu(_) => 1,
        }
    }
}

impl Mark {
    /// The time since an earlier moment of the same clock.
    pub fn since(&self, earlier: &Mark) -> Result<Duration, TchError> {
        match (self, earlier) {
            (Mark::Processor(now), Mark::Processor(then)) => Ok(*now - *then),
            (Mark::Gpu(now), Mark::Gpu(then)) => now.since(then),
            (Mark::Processor(_), Mark::Gpu(_)) | (Mark::Gpu(_), Mark::Processor(_)) => {
                Err(TchError::Shape("moments of two clocks".to_owned()))
            }
        }
    }
}
