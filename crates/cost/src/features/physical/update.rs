//! The cost of a weight's update, relative to the published optimizer.

use perf4sight_step::workload::{Optimizer, Step, ZeroGrad};

/// Traffic and launches of an update of a weight.
pub(super) struct UpdateEffort {
    /// Elements read and written for each element.
    pub moved: f64,
    /// Launches, relative to the published update.
    pub started: f64,
}

/// The PyTorch functions that an update calls one after the other: their number, and how many tensors of the weight's
/// size they read and write in total.
#[derive(Clone, Copy)]
struct UpdateCalls {
    called: f64,
    touched: f64,
}

const FILL: UpdateCalls = UpdateCalls { called: 1.0, touched: 1.0 };

/// Tensors that the published update moves, as calibrated with the devices' speeds: some of the tensors that its
/// functions touch are still in caches. Zeros are written; gradient, weight and momentum are read, and the latter two
/// written.
const PUBLISHED: f64 = 6.0;

impl UpdateEffort {
    /// From the functions that the published update and this one call.
    pub(super) fn new(step: Step) -> Self {
        let [published, own] = [Step::published(step.stage), step].map(functions);
        UpdateEffort { moved: PUBLISHED * own.touched / published.touched, started: own.called / published.called }
    }
}

fn functions(step: Step) -> UpdateCalls {
    let UpdateCalls { called, touched } = update(step.optimizer);
    match step.zero_grad {
        ZeroGrad::Keep => UpdateCalls { called: called + FILL.called, touched: touched + FILL.touched },
        ZeroGrad::Free => UpdateCalls { called, touched },
    }
}

/// As in torch/csrc/api/src/optim, one weight after the other. PyTorch 2 on accelerators calls each function for all
/// weights at once, with fewer launches. In brackets: the tensors that each reads and writes.
fn update(optimizer: Optimizer) -> UpdateCalls {
    let [called, touched] = match optimizer {
        // add (3), mul_ (2), add_ (3), add_ (3).
        Optimizer::Sgd => [4.0, 11.0],
        // mul_ (2), add_ (3), add_ (3).
        Optimizer::SgdWithoutWeightDecay => [3.0, 8.0],
        // add_ (3).
        Optimizer::SgdWithoutMomentum => [1.0, 3.0],
        // mul_ (2), add_ (3), mul_ (2), addcmul_ (3), sqrt (2), div (2), add_ (2), addcdiv_ (4).
        Optimizer::Adam => [8.0, 20.0],
        // mul_ (2) before.
        Optimizer::AdamW => [9.0, 22.0],
        // mul_ (2), addcmul_ (3), sqrt (2), add_ (2), addcdiv_ (4).
        Optimizer::RmsProp => [5.0, 13.0],
    };
    UpdateCalls { called, touched }
}
