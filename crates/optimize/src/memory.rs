//! The memory of a plan, from published formulas: nothing of it was measured.

use crate::plan::TransformerPlan;
use perf4sight_base::units::Bytes;

/// Bytes a weight of mixed precision with Adam: weight and gradient in half precision; weight, two moments and the
/// gradient that the optimizer reads in single precision (Rajbhandari et al., SC 2020: 16, and 4 for the gradient).
const BYTES_PER_WEIGHT: f64 = 20.0;
/// Bytes of a logit: in half precision, in single precision for the loss, and its gradient.
const BYTES_PER_LOGIT: f64 = 2.0 + 4.0 + 4.0;
/// What a GPU holds before anything is computed: the CUDA context and NCCL's buffers, about 1 GiB.
const CONTEXT_BYTES: f64 = 1_073_741_824.0;
/// How far the formulas may be off to either side. They leave out what the allocator rounds up and the workspaces.
pub const ASSUMED_ERROR: f64 = 0.2;

/// The peak of the fullest GPU: weights with optimizer, activations of the micro-batches in flight, logits.
pub fn peak(plan: &TransformerPlan) -> Bytes {
    let stage = [weights(plan) + activations(plan), last_stage(plan)];
    Bytes((stage.into_iter().fold(0.0, f64::max) + CONTEXT_BYTES) as u64)
}

/// The last stage: one micro-batch in flight, with logits.
fn last_stage(plan: &TransformerPlan) -> f64 {
    let logits = plan.micro_batch as f64 * plan.sequence as f64 * plan.vocabulary as f64;
    let in_flight = in_flight(plan);
    weights(plan) + activations(plan) / in_flight + BYTES_PER_LOGIT * logits / plan.tensor_parallel as f64
}

/// Weights of a stage with an embedding, with their gradients and optimizer.
fn weights(plan: &TransformerPlan) -> f64 {
    let layers = plan.layers as f64 / plan.pipeline_parallel as f64 * plan.layer_weights();
    let embedding = (plan.vocabulary + plan.sequence) as f64 * plan.hidden as f64;
    BYTES_PER_WEIGHT * (layers + embedding) / plan.tensor_parallel as f64
}

/// Activations that the first stage keeps, without recomputing any: `s b h (10 + 24 / t + 5 a s / (h t))` a layer in
/// half precision (Korthikanti et al., MLSys 2023), for as many micro-batches as there are stages.
fn activations(plan: &TransformerPlan) -> f64 {
    let (s, b, h) = (plan.sequence as f64, plan.micro_batch as f64, plan.hidden as f64);
    let tensor = plan.tensor_parallel as f64;
    let layer = s * b * h * (10.0 + 24.0 / tensor + 5.0 * plan.heads as f64 * s / (h * tensor));
    in_flight(plan) * layer * plan.layers as f64 / plan.pipeline_parallel as f64
}

/// Micro-batches of which the first stage of a pipeline (one forward, one backward) keeps activations.
fn in_flight(plan: &TransformerPlan) -> f64 {
    plan.pipeline_parallel.min(plan.micro_batches()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPT-3 with 175 billion weights, tensor 8, pipeline 8, micro-batch 1, from table 3 and figure 1 of Korthikanti
    /// et al.: 35.4 GB of activations without recomputation would be `s b h L / p (10 + 24/t + 5 a s/(h t)) p` with
    /// s 2048, h 12288, a 96, L 96: 2048 x 12288 x 96 x (10 + 3 + 10) = 55.6 GB; and 16 to 20 bytes of
    /// 175e9 / 64 weights: 43.7 to 54.7 GB.
    #[test]
    fn gpt_3_needs_what_the_formulas_give_by_hand() {
        let plan = TransformerPlan {
            gpus: 64,
            global_batch: 64,
            micro_batch: 1,
            hidden: 12_288,
            heads: 96,
            layers: 96,
            sequence: 2048,
            vocabulary: 51_200,
            tensor_parallel: 8,
            data_parallel: 1,
            pipeline_parallel: 8,
        };
        assert!((activations(&plan) / 1e9 - 55.6).abs() < 0.1, "{}", activations(&plan));
        assert!((43.7..56.5).contains(&(weights(&plan) / 1e9)), "{}", weights(&plan));
    }
}
