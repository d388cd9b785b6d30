//! What optimizers keep for every weight, and what they borrow while they update it.

use crate::workload::Optimizer;

/// One tensor, as large as the weight, that an update makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    /// It stays, made in the first step.
    State,
    /// It goes when the weight is done.
    Borrow,
}

/// What an update of one weight makes, in order, in PyTorch's one-tensor-at-a-time form (torch/csrc/api/src/optim/sgd.cpp,
/// adam.cpp, adamw.cpp; torch/optim from 1.5 on).
pub(super) fn updates(optimizer: Optimizer) -> &'static [Update] {
    use Update::{Borrow, State};
    match optimizer {
        // grad.add(weight, decay) is a new tensor, momentum starts as its clone.
        Optimizer::Sgd => &[Borrow, State],
        Optimizer::SgdWithoutMomentum => &[Borrow],
        // Two averages; then the decayed gradient, the root and the denominator.
        Optimizer::Adam => &[State, State, Borrow, Borrow, Borrow],
        Optimizer::AdamW => &[State, State, Borrow, Borrow],
    }
}
