//! The peaks of a simulation, and the tensors alive at them.

use crate::Simulation;
use crate::run_through::{PeakBytes, PeakMoment, at_least};
use crate::step::{AllocationSchedule, StepPeriod};
use crate::tensor::{ScheduleEvent, ScheduledTensor, TensorRole};
use perf4sight_base::units::Bytes;
use perf4sight_platform::Allocator;

/// Peaks of memory, as the device's profiler reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeakMemory {
    /// Of the tensors alive at once: the column `mem_alloc`.
    pub allocated: Bytes,
    /// Of the memory that the allocator reserved from the system: the column `mem_reserved`.
    pub reserved: Bytes,
}

/// The tensors alive at the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorsAtPeak {
    /// The tensors, the largest first.
    pub tensors: Vec<TensorAtPeak>,
    /// The most memory that the allocator reserves from the system, in any step.
    pub reserved: Bytes,
}

/// A tensor that is alive at the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorAtPeak {
    /// The name of the node that it belongs to.
    pub layer: String,
    /// Its purpose.
    pub role: TensorRole,
    /// Its size.
    pub bytes: Bytes,
}

impl PeakMemory {
    pub(crate) fn combine(self, other: PeakMemory, of: fn(Bytes, Bytes) -> Bytes) -> Self {
        PeakMemory { allocated: of(self.allocated, other.allocated), reserved: of(self.reserved, other.reserved) }
    }
}

impl From<PeakBytes> for PeakMemory {
    fn from(PeakBytes { allocated, reserved }: PeakBytes) -> Self {
        PeakMemory { allocated: Bytes(allocated), reserved: Bytes(reserved) }
    }
}

impl TensorsAtPeak {
    /// All tensors of a role.
    pub fn bytes(&self, role: TensorRole) -> Bytes {
        sum(self.tensors.iter().filter(|tensor| tensor.role == role))
    }

    /// Rounding, and memory that the allocator caches or cannot use.
    pub fn fragmentation(&self) -> Bytes {
        Bytes(self.reserved.0.saturating_sub(sum(&self.tensors).0))
    }

    /// Tensors and fragmentation.
    pub fn total(&self) -> Bytes {
        sum(&self.tensors).max(self.reserved)
    }
}

fn sum<'a>(tensors: impl IntoIterator<Item = &'a TensorAtPeak>) -> Bytes {
    Bytes(tensors.into_iter().fold(0, |sum, tensor| sum.saturating_add(tensor.bytes.0)))
}

impl Simulation<'_> {
    /// The peaks at a batch size.
    pub fn peak(&self, batch: u64) -> PeakMemory {
        let (schedule, samples) = self.schedule(batch);
        match self.memo.platform.allocator {
            Allocator::Direct => self.at_least((&schedule, samples)).into(),
            Allocator::Caching(_) => self.outcome((&schedule, samples)).reported.into(),
        }
    }

    /// A lower bound of the peaks, where that is found faster than the peaks themselves.
    pub fn peak_at_least(&self, batch: u64) -> Option<PeakMemory> {
        match self.memo.platform.allocator {
            Allocator::Direct => None,
            Allocator::Caching(_) => {
                let (schedule, samples) = self.schedule(batch);
                Some(self.at_least((&schedule, samples)).into())
            }
        }
    }

    fn at_least(&self, (schedule, samples): (&AllocationSchedule, u64)) -> PeakBytes {
        at_least(schedule, self.memo.platform, samples, self.memo.extra_bytes(self.step, samples))
    }

    /// The tensors alive at the peak.
    pub fn alive(&self, batch: u64) -> TensorsAtPeak {
        let (schedule, samples) = self.schedule(batch);
        let outcome = self.outcome((&schedule, samples));
        let live = |tensor: &ScheduledTensor| TensorAtPeak {
            layer: self.memo.network.node(tensor.node).name.clone(),
            role: tensor.role,
            bytes: Bytes(tensor.amount.bytes(samples)),
        };
        let mut tensors: Vec<TensorAtPeak> = tensors_at(&schedule, outcome.moment).into_iter().map(live).collect();
        let PeakMoment { period, event } = outcome.moment;
        let beyond = self.memo.extra_bytes(self.step, samples);
        match period {
            StepPeriod::SetUp => {}
            StepPeriod::First | StepPeriod::Later if schedule.is_in_pass(period, event) => {
                self.account_for(beyond.in_pass, &mut tensors)
            }
            StepPeriod::First | StepPeriod::Later => self.account_for(beyond.after_pass, &mut tensors),
        }
        tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes));
        TensorsAtPeak { tensors, reserved: Bytes(outcome.highest.reserved) }
    }
}

impl Simulation<'_> {
    /// Adds what the module keeps beyond the tensors of the graph, or takes away from activations what it does not keep.
    fn account_for(&self, beyond: i64, tensors: &mut Vec<TensorAtPeak>) {
        if let Ok(bytes) = u64::try_from(beyond)
            && bytes > 0
        {
            let layer = self.memo.network.name().to_string();
            return tensors.push(TensorAtPeak { layer, role: TensorRole::Activations, bytes: Bytes(bytes) });
        }
        let mut less = beyond.unsigned_abs();
        tensors.sort_by_key(|tensor| (tensor.role != TensorRole::Activations, std::cmp::Reverse(tensor.bytes)));
        for tensor in tensors {
            let taken = less.min(tensor.bytes.0);
            tensor.bytes.0 -= taken;
            less -= taken;
        }
    }
}

/// The tensors alive right after an event.
fn tensors_at(schedule: &AllocationSchedule, moment: PeakMoment) -> Vec<&ScheduledTensor> {
    let mut alive = vec![false; schedule.count()];
    for period in StepPeriod::ALL.into_iter().filter(|period| *period <= moment.period) {
        let until = if period == moment.period { moment.event + 1 } else { usize::MAX };
        for event in schedule.events(period).take(until) {
            match event {
                ScheduleEvent::Allocate(tensor) => alive[tensor as usize] = true,
                ScheduleEvent::Free(tensor) => alive[tensor as usize] = false,
                ScheduleEvent::Settle(_) | ScheduleEvent::BackwardDone => {}
            }
        }
    }
    schedule.tensors().zip(alive).filter_map(|(tensor, alive)| alive.then_some(tensor)).collect()
}
