//! One step after the other, as PyTorch runs them: passes, then the optimizer.

use super::amount::Amount;
use super::event::{Phase, Role, TensorId};
use super::optimizer::{Update, at_once, is_at_once, one_by_one};
use super::pass::{Left, Pass, set_up};
use super::plan::Plan;
use super::recorder::Recorder;
use super::recording::Stretch;
use crate::network::NodeId;
use crate::workload::ZeroGrad;
use std::sync::Arc;

/// Steps being taken, and what they leave behind.
pub(super) struct Steps<'a> {
    plan: &'a Plan<'a>,
    /// What every pass of such a step is.
    pass: &'a Pass,
    recorder: Recorder,
    /// What happened since it was last taken.
    stretches: Vec<Stretch>,
    /// Gradients of the weights, once there are any.
    gradients: Vec<TensorId>,
    has_state: bool,
    /// What an update borrows; empty between two.
    borrowed: Vec<TensorId>,
}

impl<'a> Steps<'a> {
    /// Nothing but what lies there before the first step.
    pub fn new(plan: &'a Plan<'a>, pass: &'a Pass) -> Self {
        let (recorder, stretches) = (set_up(plan), Vec::new());
        Steps { plan, pass, recorder, stretches, gradients: Vec::new(), has_state: false, borrowed: Vec::new() }
    }

    /// What happened since this was last asked.
    pub fn take(&mut self) -> Vec<Stretch> {
        self.close();
        std::mem::take(&mut self.stretches)
    }

    /// What was recorded so far is a stretch of its own.
    fn close(&mut self) {
        let recording = self.recorder.take();
        if !recording.is_empty() {
            self.stretches.push(Stretch { begin: recording.before, begun: false, recording: Arc::new(recording) });
        }
    }

    /// One step.
    pub fn step(&mut self) {
        let step = self.plan.step;
        if !step.trains() {
            self.pass();
            return;
        }
        if step.zero_grad == ZeroGrad::Free {
            let gradients = std::mem::take(&mut self.gradients);
            self.release(gradients);
        }
        let mut left = Vec::new();
        // From the second on passes are alike.
        for _ in 0..step.accumulate.passes().min(2) {
            let last = std::mem::replace(&mut left, self.pass());
            self.release(last);
        }
        self.recorder.backward_done();
        self.optimize();
        self.release(left);
    }

    /// One pass; gives what the program holds until the next one.
    fn pass(&mut self) -> Vec<TensorId> {
        let begun = !self.gradients.is_empty();
        self.close();
        let Left { stretch, held, gradients } = self.pass.play(&mut self.recorder, begun);
        self.stretches.push(stretch);
        self.gradients.extend(gradients);
        held
    }

    fn release(&mut self, tensors: Vec<TensorId>) {
        tensors.into_iter().for_each(|tensor| self.recorder.release(tensor));
    }

    fn optimize(&mut self) {
        let plan = self.plan;
        let rules = plan.network.iter().zip(plan.rules);
        let weights = rules.flat_map(|((id, _), rule)| {
            let learned = rule.weights.iter().enumerate().filter(move |(tensor, _)| plan.learns(id, *tensor));
            learned.map(move |(_, &amount)| (id, amount))
        });
        let optimizer = plan.step.optimizer;
        if is_at_once(plan.step, plan.platform.framework.updates) {
            let weights: Vec<_> = weights.collect();
            self.update(&weights, at_once(optimizer));
        } else {
            weights.for_each(|weight| self.update(&[weight], one_by_one(optimizer)));
        }
        self.has_state = true;
    }

    /// The update of some weights at once.
    fn update(&mut self, weights: &[(NodeId, Amount)], made: &[Update]) {
        if let Some(&(first, _)) = weights.first() {
            self.recorder.begin(Phase::Update, first);
        }
        for made in made {
            for &(id, amount) in weights {
                match made {
                    Update::Borrow => self.borrowed.push(self.recorder.allocate(amount, Role::Workspace, id)),
                    Update::State if self.has_state => {}
                    Update::State => {
                        self.recorder.allocate(amount, Role::OptimizerState, id);
                    }
                }
            }
        }
        self.borrowed.drain(..).for_each(|tensor| self.recorder.release(tensor));
    }
}
