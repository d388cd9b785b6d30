//! The optimizer's part of a step: its state for every weight, and its workspace during an update.

use super::context::StepContext;
use super::recorder::EventRecorder;
use super::segment::CachedSegment;
use crate::amount::BatchBytes;
use crate::tensor::{StepPhase, TensorId, TensorRole};
use perf4sight_network::{FollowedModule, NodeId};
use perf4sight_platform as platform;
use perf4sight_step::workload::Optimizer;
use std::sync::Arc;

/// Updates of the weights; all tensors are their own.
#[derive(Debug)]
pub(crate) struct WeightUpdates {
    /// The first one, which leaves the optimizer's state behind.
    pub first: Arc<CachedSegment>,
    pub later: Arc<CachedSegment>,
}

/// One tensor, as large as the weight, that an update makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpdateTensor {
    /// It stays, made in the first step.
    State,
    /// It is freed when the weight is done.
    Borrowed,
}

struct UpdateRecorder {
    recorder: EventRecorder,
    has_state: bool,
}

impl WeightUpdates {
    pub fn record(context: &StepContext) -> Self {
        let [first, later] = [false, true].map(|has_state| Arc::new(record(context, has_state)));
        WeightUpdates { first, later }
    }
}

fn record(context: &StepContext, has_state: bool) -> CachedSegment {
    let rules = context.network.iter().zip(context.rules());
    let weights = rules.flat_map(|((id, _), rule)| {
        let learned = rule.weights.iter().enumerate().filter(move |(tensor, _)| context.trains(id, *tensor));
        learned.map(move |(_, &amount)| (id, amount))
    });
    let followed = context.network.followed().filter(|followed| followed.is_of(context.step));
    let weights = in_order(weights.collect(), followed.map_or(&[], FollowedModule::weights));
    let optimizer = context.step.optimizer;
    // The published step never updates all weights at once, wherever it runs.
    let at_once = context.platform.framework.updates == platform::UpdateOrder::AtOnce && optimizer != Optimizer::Sgd;
    let made = update_tensors(optimizer, at_once);
    let mut update =
        UpdateRecorder { recorder: EventRecorder::starting_after(0, made.len() * weights.len()), has_state };
    // The loop's variable holds the last tensor borrowed for one weight until the next one has borrowed as much.
    let (mut held, each) = (Vec::new(), if at_once { weights.len() } else { 1 });
    for weights in weights.chunks(each.max(1)) {
        let mut borrowed = update.run(weights, made);
        let kept = borrowed.split_off(borrowed.len() - usize::from(keeps_last(optimizer)).min(borrowed.len()));
        update.recorder.release_all(std::mem::replace(&mut held, kept));
        update.recorder.release_all(borrowed);
    }
    update.recorder.release_all(held);
    update.recorder.take()
}

/// The weights as the module registers them, which is the order of its optimizer's loop: each belongs to the first node that has one of its size. A graph
/// has them in the order in which they are read, and may hold several as one, as where a table is computed from them.
fn in_order(weights: Vec<(NodeId, BatchBytes)>, sizes: &[u64]) -> Vec<(NodeId, BatchBytes)> {
    let Some(&(any, _)) = weights.first().filter(|_| !sizes.is_empty()) else { return weights };
    let mut left = weights;
    let each = sizes.iter().map(|&size| {
        let found = left.iter().position(|(_, amount)| amount.bytes(1) == size);
        found.map_or((any, BatchBytes::constant(size)), |place| left.remove(place))
    });
    each.collect()
}

impl UpdateRecorder {
    /// The update of some weights at once; returns the borrowed tensors.
    fn run(&mut self, weights: &[(NodeId, BatchBytes)], made: &[UpdateTensor]) -> Vec<TensorId> {
        let Some(&(first, _)) = weights.first() else { return Vec::new() };
        self.recorder.begin(StepPhase::Update, first);
        let mut borrowed: Vec<TensorId> = Vec::new();
        for made in made {
            for &(id, amount) in weights {
                match made {
                    UpdateTensor::Borrowed => borrowed.push(self.recorder.allocate(amount, TensorRole::Workspace, id)),
                    UpdateTensor::State if self.has_state => {}
                    UpdateTensor::State => {
                        self.recorder.allocate(amount, TensorRole::OptimizerState, id);
                    }
                }
            }
        }
        borrowed
    }
}

/// The tensors that an update of one weight makes, in order (torch/csrc/api/src/optim/sgd.cpp, adam.cpp, adamw.cpp,
/// rmsprop.cpp; `_single_tensor_*` of torch/optim). Where all weights are updated at once, tensors are borrowed for all
/// of them, and denominators replace the roots in place (`_multi_tensor_*`).
fn update_tensors(optimizer: Optimizer, at_once: bool) -> &'static [UpdateTensor] {
    use UpdateTensor::{Borrowed, State};
    match optimizer {
        // grad.add(weight, decay) is a new tensor, momentum starts as its clone.
        Optimizer::Sgd => &[Borrowed, State],
        // Momentum starts as the gradient's clone.
        Optimizer::SgdWithoutWeightDecay => &[State],
        // weight.add_(grad).
        Optimizer::SgdWithoutMomentum => &[],
        // Two averages; then the root and the denominator. AdamW decays the weight in place.
        Optimizer::Adam | Optimizer::AdamW if at_once => &[State, State, Borrowed],
        Optimizer::Adam | Optimizer::AdamW => &[State, State, Borrowed, Borrowed],
        // An average; then its root, which becomes the denominator.
        Optimizer::RmsProp => &[State, Borrowed],
    }
}

/// Whether the last borrowed tensor has a name in the loop over weights: `denom` and `avg` of `_single_tensor_adam`,
/// `_single_tensor_rmsprop`. libtorch's own loops are assumed to do the same.
fn keeps_last(optimizer: Optimizer) -> bool {
    match optimizer {
        Optimizer::Sgd | Optimizer::SgdWithoutWeightDecay | Optimizer::SgdWithoutMomentum => false,
        Optimizer::Adam | Optimizer::AdamW | Optimizer::RmsProp => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::{NetworkBuilder, Shape};

    #[test]
    fn weights_are_updated_in_the_order_of_the_module() {
        // BertModel of transformers registers words, positions, types, and reads words, types, positions: `denom` of the words is there while that of the
        // positions is made.
        let id = NetworkBuilder::new("bert", Shape::new([1])).input();
        let weights = |bytes: &[u64]| bytes.iter().map(|&bytes| (id, BatchBytes::constant(bytes))).collect::<Vec<_>>();
        let read = weights(&[76_800, 512, 131_072, 256, 256]);
        // DebertaModel registers a projection of 16,384 bytes and, at the end, positions of 262,144, which its graph reads as one table.
        let sizes = [76_800, 131_072, 512, 16_384, 256, 262_144];
        assert_eq!(in_order(weights(&[76_800, 512, 131_072, 256, 278_528]), &sizes), weights(&sizes));
        assert_eq!(in_order(read.clone(), &[]), read);
    }
}
