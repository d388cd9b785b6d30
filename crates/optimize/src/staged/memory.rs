//! The peak of memory: weights with their optimizer, activations in flight, logits, and what a process holds anyway.

use super::{Quantity, Shape, Stage, StagedPlan};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// What of the peak does not depend on parameters, by stage.
pub(super) struct Peak(Vec<Contents>);

struct Contents {
    weights: f64,
    /// Bytes, by formula.
    activations: f64,
    logits: f64,
}

impl Peak {
    pub fn new(plan: &StagedPlan, shape: &Shape) -> Self {
        Peak((0..plan.stages.len()).map(|at| Contents::new(plan, at, shape)).collect())
    }
}

impl Contents {
    fn new(plan: &StagedPlan, at: usize, shape: &Shape) -> Self {
        let stage = &plan.stages[at];
        let (h, s, b) = (shape.hidden as f64, shape.sequence as f64, plan.micro_batch as f64);
        // The replica with the fewest GPUs to share with holds the most.
        let tensor = stage.replicas.iter().map(|replica| replica.tensor_parallel).min().unwrap_or(1) as f64;
        let last = plan.last_layer();
        let layers = stage.layers.iter().filter(|layer| **layer != 0 && **layer != last).count() as f64;
        let embedding = shape.vocabulary as f64 * h;
        let weights = layers * 12.0 * h * h + embeddings(stage, last) * embedding;
        // Korthikanti et al. (MLSys 2023), without recomputing any; a stage keeps as many micro-batches as stages follow.
        let kept = s * b * h * (10.0 + 24.0 / tensor + 5.0 * shape.heads as f64 * s / (h * tensor));
        let in_flight = (plan.stages.len() - at).min(plan.micro_batches() as usize) as f64;
        let has_head = if stage.layers.contains(&last) { 1.0 } else { 0.0 };
        Contents {
            weights: weights / tensor,
            activations: layers * kept * in_flight,
            logits: has_head * b * s * shape.vocabulary as f64 / tensor,
        }
    }
}

/// Embedding and head each hold a weight for each word.
fn embeddings(stage: &Stage, last: u64) -> f64 {
    stage.layers.iter().filter(|layer| **layer == 0 || **layer == last).count() as f64
}

/// Bytes a weight, factor of activations, bytes a logit, GiB of context, NCCL and allocator.
impl Quantity<4> for Peak {
    const MEDIANS: [f64; 4] = [20.0, 1.0, 10.0, 1.0];
    const SPREADS: [f64; 4] = [0.3, 0.15, 0.3, 0.5];

    fn value(&self, logs: &[f64; 4]) -> f64 {
        let [weight, activations, logit, context] = logs.map(f64::exp);
        let stages =
            self.0.iter().map(|stage| weight * stage.weights + activations * stage.activations + logit * stage.logits);
        stages.fold(0.0, f64::max) + context * GIB
    }
}
