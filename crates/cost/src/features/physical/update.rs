//! What a weight's update costs besides the published one's.

use perf4sight_step::workload::{Optimizer, Step, ZeroGrad};

/// What an update of a weight moves and starts.
pub(super) struct Effort {
    /// Elements read and written for each element.
    pub moved: f64,
    /// How often the processor starts something, besides once for every published update.
    pub started: f64,
}

/// What is done to a weight, one function of PyTorch after the other: how many there are, and what all of them read and write of tensors as
/// large as the weight.
#[derive(Clone, Copy)]
struct Functions {
    called: f64,
    touched: f64,
}

/// `zero_`.
const FILL: Functions = Functions { called: 1.0, touched: 1.0 };

/// What the published update moves as it is known to devices' speeds: of what its functions touch, some lies in caches still. Zeros are
/// written; gradient, weight and momentum are read, and the latter two written.
const PUBLISHED: f64 = 6.0;

impl Effort {
    /// By the functions that the published update and this one call.
    pub(super) fn new(step: Step) -> Self {
        let [published, own] = [Step::published(step.stage), step].map(functions);
        Effort { moved: PUBLISHED * own.touched / published.touched, started: own.called / published.called }
    }
}

fn functions(step: Step) -> Functions {
    let Functions { called, touched } = update(step.optimizer);
    match step.zero_grad {
        ZeroGrad::Keep => Functions { called: called + FILL.called, touched: touched + FILL.touched },
        ZeroGrad::Free => Functions { called, touched },
    }
}

/// As torch/csrc/api/src/optim has them, one weight after the other; what PyTorch 2 does on accelerators, each function for all weights at once,
/// starts less. In brackets what each reads and writes.
fn update(optimizer: Optimizer) -> Functions {
    let [called, touched] = match optimizer {
        // add (3), mul_ (2), add_ (3), add_ (3).
        Optimizer::Sgd => [4.0, 11.0],
        // add_ (3).
        Optimizer::SgdWithoutMomentum => [1.0, 3.0],
        // mul_ (2), add_ (3), mul_ (2), addcmul_ (3), sqrt (2), div (2), add_ (2), addcdiv_ (4).
        Optimizer::Adam => [8.0, 20.0],
        // mul_ (2) before.
        Optimizer::AdamW => [9.0, 22.0],
        // mul_ (2), addcmul_ (3), sqrt (2), add_ (2), addcdiv_ (4).
        Optimizer::RmsProp => [5.0, 13.0],
    };
    Functions { called, touched }
}
