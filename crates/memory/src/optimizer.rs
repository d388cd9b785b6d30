//! What optimizers keep for every weight, and what they borrow while they update it.

use perf4sight_platform::Updates;
use perf4sight_step::workload::{Optimizer, Step};

/// One tensor, as large as the weight, that an update makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// It stays, made in the first step.
    State,
    /// It goes when the weight is done.
    Borrow,
}

/// What an update of one weight makes, in order, one weight after the other (torch/csrc/api/src/optim/sgd.cpp, adam.cpp, adamw.cpp,
/// rmsprop.cpp; `_single_tensor_*` of torch/optim).
pub(super) fn one_by_one(optimizer: Optimizer) -> &'static [Update] {
    use Update::{Borrow, State};
    match optimizer {
        // grad.add(weight, decay) is a new tensor, momentum starts as its clone.
        Optimizer::Sgd => &[Borrow, State],
        // weight.add_(grad).
        Optimizer::SgdWithoutMomentum => &[],
        // Two averages; then the root and the denominator. AdamW decays the weight where it lies.
        Optimizer::Adam | Optimizer::AdamW => &[State, State, Borrow, Borrow],
        // An average; then its root, which becomes the denominator.
        Optimizer::RmsProp => &[State, Borrow],
    }
}

/// The same where all weights are updated at once: what is borrowed is borrowed for all of them (`_multi_tensor_*` of torch/optim, whose
/// denominators are made where the roots lie).
pub(super) fn at_once(optimizer: Optimizer) -> &'static [Update] {
    use Update::{Borrow, State};
    match optimizer {
        Optimizer::Sgd => &[Borrow, State],
        Optimizer::SgdWithoutMomentum => &[],
        Optimizer::Adam | Optimizer::AdamW => &[State, State, Borrow],
        Optimizer::RmsProp => &[State, Borrow],
    }
}

/// Whether what is borrowed last has a name in the loop over weights: `denom` and `avg` of `_single_tensor_adam`, `_single_tensor_rmsprop`. libtorch's
/// own loops are taken to do the same.
pub(super) fn keeps_last(optimizer: Optimizer) -> bool {
    match optimizer {
        Optimizer::Sgd | Optimizer::SgdWithoutMomentum => false,
        Optimizer::Adam | Optimizer::AdamW | Optimizer::RmsProp => true,
    }
}

/// Whether a step updates all weights at once: the published one never does, wherever it runs.
pub(super) fn is_at_once(step: Step, updates: Updates) -> bool {
    updates == Updates::AtOnce && step.optimizer != Optimizer::Sgd
}
