//! One step after the other, as PyTorch runs them: passes, then the optimizer.

use super::event::{Event, TensorId};
use super::ground::Recorded;
use super::recording::{Recording, Stretch};
use perf4sight_step::workload::{Step, ZeroGrad};
use std::sync::Arc;

/// Steps being taken, and what they leave behind.
pub(super) struct Steps<'a> {
    step: Step,
    recorded: &'a Recorded,
    /// What happened since it was last taken.
    stretches: Vec<Stretch>,
    /// What happened behind these, of no tensors of its own.
    between: Vec<Event>,
    /// How many tensors there are so far.
    count: usize,
    /// Gradients of the weights, once there are any.
    gradients: Vec<TensorId>,
    has_state: bool,
}

impl<'a> Steps<'a> {
    /// Nothing but what lies there before the first step.
    pub fn new(step: Step, recorded: &'a Recorded) -> Self {
        let mut steps = Steps {
            step,
            recorded,
            stretches: Vec::new(),
            between: Vec::new(),
            count: 0,
            gradients: Vec::new(),
            has_state: false,
        };
        steps.play(&recorded.set_up.recording, false);
        steps
    }

    /// What happened since this was last asked.
    pub fn take(&mut self) -> Vec<Stretch> {
        self.close();
        std::mem::take(&mut self.stretches)
    }

    /// What was recorded happens here; `begun` says whether gradients of weights lie there.
    fn play(&mut self, recording: &Arc<Recording>, begun: bool) -> Stretch {
        self.close();
        let stretch = Stretch { recording: Arc::clone(recording), begin: self.count, begun };
        self.count += recording.tensors.len();
        if !recording.is_empty() {
            self.stretches.push(stretch.clone());
        }
        stretch
    }

    /// What happened in between is a stretch of its own.
    fn close(&mut self) {
        let events = std::mem::take(&mut self.between);
        if !events.is_empty() {
            let recording = Arc::new(Recording::to(self.count, events));
            self.stretches.push(Stretch { begin: self.count, begun: false, recording });
        }
    }

    /// One step.
    pub fn step(&mut self) {
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
        self.between.push(Event::BackwardDone);
        let updates = &self.recorded.updates;
        let update = if self.has_state { &updates.later } else { &updates.first };
        self.play(update, false);
        self.has_state = true;
        self.free(left);
    }

    /// One pass; gives what goes when the program lets go what it holds until the next one.
    fn pass(&mut self) -> Vec<TensorId> {
        let pass = &self.recorded.pass;
        let begun = !self.gradients.is_empty();
        let stretch = self.play(&pass.recording, begun);
        let all = |ids: &[TensorId]| ids.iter().map(|id| stretch.tensor(*id)).collect();
        if !begun {
            self.gradients = all(&pass.gradients);
        }
        all(&pass.left)
    }

    fn free(&mut self, tensors: Vec<TensorId>) {
        self.between.extend(tensors.into_iter().map(Event::Free));
    }
}
