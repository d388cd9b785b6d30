//! The optimizer's part of a step, recorded once for all steps that change the same weights in the same way.

use super::amount::Amount;
use super::event::{Phase, Role, TensorId};
use super::optimizer::{Update, at_once, is_at_once, keeps_last, one_by_one};
use super::plan::Plan;
use super::recorder::Recorder;
use super::recording::Recording;
use perf4sight_network::NodeId;
use std::sync::Arc;

/// Updates of the weights, behind whatever: their tensors are all their own.
#[derive(Debug)]
pub(super) struct Updates {
    /// The first one, which leaves the optimizer's state behind.
    pub first: Arc<Recording>,
    /// Any later one.
    pub later: Arc<Recording>,
}

/// An update being taken.
struct Updating {
    recorder: Recorder,
    has_state: bool,
}

impl Updates {
    /// Records those of a step.
    pub fn new(plan: &Plan) -> Self {
        let [first, later] = [false, true].map(|has_state| Arc::new(taken(plan, has_state)));
        Updates { first, later }
    }
}

fn taken(plan: &Plan, has_state: bool) -> Recording {
    let rules = plan.network.iter().zip(plan.rules);
    let weights = rules.flat_map(|((id, _), rule)| {
        let learned = rule.weights.iter().enumerate().filter(move |(tensor, _)| plan.learns(id, *tensor));
        learned.map(move |(_, &amount)| (id, amount))
    });
    let weights: Vec<_> = weights.collect();
    let optimizer = plan.step.optimizer;
    let all_at_once = is_at_once(plan.step, plan.platform.framework.updates);
    let made = if all_at_once { at_once(optimizer) } else { one_by_one(optimizer) };
    let mut updating = Updating { recorder: Recorder::behind(0, made.len() * weights.len()), has_state };
    // The loop's variable holds what one weight borrowed last until the next one has borrowed as much.
    let (mut held, each) = (Vec::new(), if all_at_once { weights.len() } else { 1 });
    for weights in weights.chunks(each.max(1)) {
        let mut borrowed = updating.update(weights, made);
        let kept = borrowed.split_off(borrowed.len() - usize::from(keeps_last(optimizer)).min(borrowed.len()));
        updating.release(std::mem::replace(&mut held, kept));
        updating.release(borrowed);
    }
    updating.release(held);
    updating.recorder.take()
}

impl Updating {
    /// The update of some weights at once; gives what they borrowed.
    fn update(&mut self, weights: &[(NodeId, Amount)], made: &[Update]) -> Vec<TensorId> {
        let Some(&(first, _)) = weights.first() else { return Vec::new() };
        self.recorder.begin(Phase::Update, first);
        let mut borrowed: Vec<TensorId> = Vec::new();
        for made in made {
            for &(id, amount) in weights {
                match made {
                    Update::Borrow => borrowed.push(self.recorder.allocate(amount, Role::Workspace, id)),
                    Update::State if self.has_state => {}
                    Update::State => {
                        self.recorder.allocate(amount, Role::OptimizerState, id);
                    }
                }
            }
        }
        borrowed
    }

    fn release(&mut self, tensors: Vec<TensorId>) {
        tensors.into_iter().for_each(|tensor| self.recorder.release(tensor));
    }
}
