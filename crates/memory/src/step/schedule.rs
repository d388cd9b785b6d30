//! The steps of a network as allocations and frees in the order PyTorch makes them, for any batch size: passes, then the optimizer, and again.

use super::pass::RecordedPass;
use super::segment::{CachedSegment, PlacedSegment};
use super::set_up::SetUp;
use super::update::WeightUpdates;
use crate::tensor::{OperationMark, ScheduleEvent, ScheduledTensor, TensorId};
use perf4sight_step::workload::{Step, ZeroGrad};
use std::sync::Arc;

/// Everything that is allocated and freed.
#[derive(Debug)]
pub(crate) struct AllocationSchedule {
    periods: [Vec<PlacedSegment>; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepPeriod {
    /// Before the first step: weights, data.
    SetUp,
    /// The first step, which leaves gradients and the optimizer's state behind.
    First,
    /// Any later step, which leaves nothing behind.
    Later,
}

impl StepPeriod {
    pub const ALL: [StepPeriod; 3] = [StepPeriod::SetUp, StepPeriod::First, StepPeriod::Later];
}

impl AllocationSchedule {
    pub fn new(step: Step, set_up: &SetUp, pass: &RecordedPass, updates: &WeightUpdates) -> Self {
        let mut steps = StepsBuilder::new(step, pass, updates);
        steps.place(&set_up.segment, false);
        let set_up = steps.take();
        let [first, later] = [(); 2].map(|()| {
            steps.step();
            steps.take()
        });
        AllocationSchedule { periods: [set_up, first, later] }
    }

    /// All tensors, each at the index that events use.
    pub fn tensors(&self) -> impl Iterator<Item = &ScheduledTensor> {
        self.periods.iter().flatten().flat_map(|placed| &placed.segment.tensors)
    }

    pub fn tensor(&self, id: TensorId) -> &ScheduledTensor {
        let tensor = self.periods.iter().flatten().rev().find_map(|placed| placed.own_tensor(id));
        tensor.expect("events know of tensors that came to be in some segment")
    }

    /// How many tensors there are.
    pub fn count(&self) -> usize {
        self.periods.iter().flatten().map(|placed| placed.segment.tensors.len()).sum()
    }

    pub fn segments(&self, period: StepPeriod) -> &[PlacedSegment] {
        &self.periods[period as usize]
    }

    pub fn events(&self, period: StepPeriod) -> impl Iterator<Item = ScheduleEvent> {
        self.segments(period).iter().flat_map(PlacedSegment::events)
    }

    /// Whether an event of a period is within a pass.
    pub fn is_in_pass(&self, period: StepPeriod, event: usize) -> bool {
        let mut end = 0;
        let within = |placed: &&PlacedSegment| {
            end += placed.segment.events.len();
            event < end
        };
        self.segments(period).iter().find(within).is_some_and(PlacedSegment::is_pass)
    }

    /// Which operation runs when in one period, in order.
    pub fn marks(&self, period: StepPeriod) -> impl Iterator<Item = OperationMark> {
        let mut begin = 0;
        self.segments(period).iter().flat_map(move |placed| {
            let first = begin;
            begin += placed.segment.events.len();
            placed.segment.marks.iter().map(move |mark| OperationMark { event: first + mark.event, ..*mark })
        })
    }
}

/// The steps under construction, and the tensors that they leave behind.
struct StepsBuilder<'a> {
    step: Step,
    pass: &'a RecordedPass,
    updates: &'a WeightUpdates,
    /// The segments since they were last taken.
    segments: Vec<PlacedSegment>,
    /// Frees after these segments.
    between: Vec<ScheduleEvent>,
    /// The number of tensors so far.
    count: usize,
    /// Gradients of the weights, once there are any.
    gradients: Vec<TensorId>,
    has_state: bool,
}

impl<'a> StepsBuilder<'a> {
    fn new(step: Step, pass: &'a RecordedPass, updates: &'a WeightUpdates) -> Self {
        let (segments, between, gradients) = Default::default();
        StepsBuilder { step, pass, updates, segments, between, count: 0, gradients, has_state: false }
    }

    /// The segments since the last call.
    fn take(&mut self) -> Vec<PlacedSegment> {
        self.finish_segment();
        std::mem::take(&mut self.segments)
    }

    fn place(&mut self, segment: &Arc<CachedSegment>, has_gradients: bool) -> PlacedSegment {
        self.finish_segment();
        let placed = PlacedSegment { segment: Arc::clone(segment), begin: self.count, has_gradients };
        self.count += segment.tensors.len();
        if !(segment.events.is_empty() && segment.marks.is_empty()) {
            self.segments.push(placed.clone());
        }
        placed
    }

    /// The frees in between are a segment of their own.
    fn finish_segment(&mut self) {
        let events = std::mem::take(&mut self.between);
        if !events.is_empty() {
            let segment = Arc::new(CachedSegment::of_events(self.count, events));
            self.segments.push(PlacedSegment { begin: self.count, has_gradients: false, segment });
        }
    }

    fn step(&mut self) {
        if !self.step.trains() {
            self.pass();
            return;
        }
        if self.step.zero_grad == ZeroGrad::Free {
            let gradients = std::mem::take(&mut self.gradients);
            self.free(gradients);
        }
        let mut left = Vec::new();
        // From the second on passes are alike.
        for _ in 0..self.step.accumulate.passes().min(2) {
            let last = std::mem::replace(&mut left, self.pass());
            self.free(last);
        }
        self.between.push(ScheduleEvent::BackwardDone);
        let update = if self.has_state { &self.updates.later } else { &self.updates.first };
        self.place(update, false);
        self.has_state = true;
        self.free(left);
    }

    /// One pass; gives the tensors freed when the program drops the references it keeps until the next one.
    fn pass(&mut self) -> Vec<TensorId> {
        let has_gradients = !self.gradients.is_empty();
        let placed = self.place(&self.pass.segment, has_gradients);
        let placed = |ids: &[TensorId]| ids.iter().map(|id| placed.tensor(*id)).collect();
        if !has_gradients {
            self.gradients = placed(&self.pass.gradients);
        }
        placed(&self.pass.left)
    }

    fn free(&mut self, tensors: Vec<TensorId>) {
        self.between.extend(tensors.into_iter().map(ScheduleEvent::Free));
    }
}
