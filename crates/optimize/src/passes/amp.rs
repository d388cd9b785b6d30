//! Less precise numbers: of products (TF32, autocast), and of the gradients that are sent.

use super::{ChangeProposal, LearningEffect, OptimizationPass, PassResults, PassSettings};
use crate::changes::{HalfGradients, HalfPrecision, has_kernels};
use crate::search::ContinueSearch;
use crate::start::RecordedStart;
use perf4sight_base::error::Result;
use perf4sight_replay::what_if::{HalfRates, StepChange, Tf32};
use std::sync::Arc;

/// The pass.
#[derive(Debug)]
pub(super) struct Amp;

pub(super) const NAME: &str = "amp";
const TF32: &str = "torch.set_float32_matmul_precision(\"high\"): products on tensor cores, in TF32";
const AUTOCAST: &str = "torch.autocast(device, dtype=torch.bfloat16) around forward and loss";
const SHARDED: &str = "FSDP: fully_shard(..., mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16))";
const HOOK: &str = "ddp.register_comm_hook(None, default_hooks.bf16_compress_hook), or fp16_compress_hook";
/// PyTorch that is built without CUDA refuses bf16_compress_hook (`_check_comm_hook` in torch/nn/parallel/distributed.py).
const HOOK_OF_PROCESSORS: &str = "ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)";

impl OptimizationPass for Amp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, start: &RecordedStart, wanted: &PassSettings) -> Result<()> {
        wanted.autocast.check(start.recorded.typical.graph.calls().names())
    }

    fn run(&self, start: &RecordedStart, wanted: &PassSettings, _: &ContinueSearch<'_>) -> Result<PassResults> {
        let step = &start.recorded.typical;
        let hook = match (step.is_sharded(), has_kernels(step)) {
            (true, _) => SHARDED,
            (false, true) => HOOK,
            (false, false) => HOOK_OF_PROCESSORS,
        };
        let mut found = PassResults::default();
        let rates = HalfRates::from_known(&start.known);
        found.nothing.extend(
            rates
                .unknown()
                .map(|why| format!("the model of operations does not say what half precision brings: {why}")),
        );
        let in_half = start.known.in_half.clone();
        let autocast = HalfPrecision { lists: wanted.autocast.clone(), rates, in_half: in_half.clone() };
        let edits: [(&str, Arc<dyn StepChange>); 2] =
            [(AUTOCAST, Arc::new(autocast)), (hook, Arc::new(HalfGradients { in_half, ..HalfGradients::default() }))];
        let tf32 = Some(Tf32::from_known(&start.known)).filter(Tf32::is_known);
        let tf32 = tf32.map(|edit| (TF32, Arc::new(edit) as Arc<dyn StepChange>));
        tf32.into_iter().chain(edits).for_each(|(change, edit)| {
            found.propose(ChangeProposal::new(NAME, change, edit, LearningEffect::Rounded, start), change)
        });
        Ok(found)
    }
}
