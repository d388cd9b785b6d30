//! One step after the other, as PyTorch runs them: passes, then the optimizer.

use super::amount::Amount;
use super::event::{Phase, Role, TensorId};
use super::optimizer::{Update, at_once, is_at_once, one_by_one};
use super::pass::{Left, Pass, set_up};
use super::plan::Plan;
use super::recorder::Recorder;
use crate::network::NodeId;
use crate::workload::ZeroGrad;
use std::sync::Arc;

/// No update makes more tensors of a weight.
const MOST_MADE: usize = 4;

/// Steps being taken, and what they leave behind.
pub(super) struct Steps<'a, Passes> {
    plan: &'a Plan<'a>,
    /// A pass of such a step, by whether another one has left gradients behind.
    passes: Passes,
    pub recorder: Recorder,
    /// Gradients of the weights, once there are any.
    gradients: Vec<TensorId>,
    has_state: bool,
    /// What an update borrows; empty between two.
    borrowed: Vec<TensorId>,
}

impl<'a, Passes: Fn(bool) -> Arc<Pass>> Steps<'a, Passes> {
    /// Nothing but what lies there before the first step.
    pub fn new(plan: &'a Plan<'a>, passes: Passes) -> Self {
        Steps { plan, passes, recorder: set_up(plan), gradients: Vec::new(), has_state: false, borrowed: Vec::new() }
    }

    /// One step.
    pub fn step(&mut self) {
        let step = self.plan.step;
        if !step.trains() {
            (self.passes)(false).play(&mut self.recorder);
            return;
        }
        self.expect();
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

    /// Makes room for what a step will make.
    fn expect(&mut self) {
        let begun = !self.gradients.is_empty() && self.plan.step.zero_grad == ZeroGrad::Keep;
        let [tensors, events] = (self.passes)(begun).size();
        let passes = self.plan.step.accumulate.passes().min(2) as usize;
        let weights: usize = self.plan.rules.iter().map(|rule| rule.weights.len()).sum();
        // The first step has another one behind it, whose tensors lie behind its own.
        let steps = if self.has_state { 1 } else { 2 };
        self.recorder
            .expect(steps * (passes * tensors + MOST_MADE * weights), passes * events + 2 * MOST_MADE * weights);
    }

    /// One pass; gives what the program holds until the next one.
    fn pass(&mut self) -> Vec<TensorId> {
        let begun = !self.gradients.is_empty();
        let Left { held, gradients } = (self.passes)(begun).play(&mut self.recorder);
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
