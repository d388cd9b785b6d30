//! The time of a step: stages of a pipeline with their messages, gradients, update.

use super::{KnownCluster, PipelineStage, PlanQuantity, StagedPlan};
use perf4sight_base::error::Result;

/// Bytes of an activation in half precision.
const HALF: f64 = 2.0;
/// Bytes of a gradient in single precision.
const SINGLE: f64 = 4.0;

/// What of a step does not depend on parameters, in seconds.
pub(super) struct StagedStep {
    stages: Vec<StageSlot>,
    micro_batches: f64,
    update: f64,
    gradients: f64,
}

/// One micro-batch in one stage.
struct StageSlot {
    layers: f64,
    count: f64,
    messages: f64,
}

impl StagedStep {
    /// # Errors
    /// Layers, GPUs or links that the cluster does not know.
    pub fn new(plan: &StagedPlan, cluster: &KnownCluster) -> Result<Self> {
        let stages = (0..plan.stages.len()).map(|at| StageSlot::new(plan, at, cluster)).collect::<Result<Vec<_>>>()?;
        let mut update: f64 = 0.0;
        for stage in &plan.stages {
            update = update.max(slowest(stage, cluster, plan.micro_batch, |(_, update)| update)?);
        }
        Ok(StagedStep {
            stages,
            micro_batches: plan.micro_batches() as f64,
            update,
            gradients: gradients(plan, cluster)?,
        })
    }
}

impl StageSlot {
    fn new(plan: &StagedPlan, at: usize, cluster: &KnownCluster) -> Result<Self> {
        let stage = &plan.stages[at];
        let activations = HALF * (plan.micro_batch * cluster.shape.sequence * cluster.shape.hidden) as f64;
        let neighbours = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        let mut messages = 0.0;
        for neighbour in neighbours.filter_map(|at| plan.stages.get(at)) {
            // Activations one way, their gradients the other; the slower node counts.
            messages += 2.0 * slowest_link([stage, neighbour], cluster, activations)?;
        }
        let layers = slowest(stage, cluster, plan.micro_batch, |(time, _)| time)?;
        Ok(StageSlot { layers, count: stage.layers.len() as f64, messages })
    }
}

/// The largest sum over its layers among the replicas of a stage.
fn slowest(
    stage: &PipelineStage,
    cluster: &KnownCluster,
    micro_batch: u64,
    part: fn((f64, f64)) -> f64,
) -> Result<f64> {
    let mut slowest: f64 = 0.0;
    let mut replicas: Vec<_> = stage.replicas.iter().map(|one| (one.gpu.as_str(), one.tensor_parallel)).collect();
    replicas.sort_unstable();
    replicas.dedup();
    for (gpu, tensor) in replicas {
        let layers = stage.layers.iter().map(|layer| cluster.layers.layer(gpu, tensor, *layer, micro_batch).map(part));
        slowest = slowest.max(layers.sum::<Result<f64>>()?);
    }
    Ok(slowest)
}

fn slowest_link(stages: [&PipelineStage; 2], cluster: &KnownCluster, bytes: f64) -> Result<f64> {
    let gpus = stages.into_iter().flat_map(|stage| &stage.replicas).map(|replica| &replica.gpu);
    gpus.map(|gpu| cluster.links.seconds(gpu, bytes)).try_fold(0.0, |slowest: f64, one| Ok(slowest.max(one?)))
}

/// The ring all-reduce of the gradients of a stage, on the slowest link.
fn gradients(plan: &StagedPlan, cluster: &KnownCluster) -> Result<f64> {
    let replicas = plan.replicas() as f64;
    if replicas < 2.0 {
        return Ok(0.0);
    }
    let shape = &cluster.shape;
    let weights = 12.0 * plan.last_layer().saturating_sub(1) as f64 * (shape.hidden as f64).powi(2)
        + (shape.vocabulary * shape.hidden) as f64;
    let bytes = SINGLE * weights / plan.stages.len() as f64;
    let mut slowest: f64 = 0.0;
    for stage in &plan.stages {
        slowest = slowest.max(slowest_link([stage, stage], cluster, bytes)?);
    }
    Ok(2.0 * (replicas - 1.0) / replicas * slowest)
}

/// Factors of layers, milliseconds of the host a layer, factors of messages and gradients, milliseconds of a step.
impl PlanQuantity<5> for StagedStep {
    const NAMES: [&'static str; 5] = [
        "of the times of layers that are given",
        "ms of the host a layer",
        "of the times of messages between stages",
        "of the times of all-reduces of gradients",
        "ms of each step",
    ];
    const SCATTERS: bool = true;
    const INPUTS: &'static str = "gbs and mbs, the files of layers and links, and hidden and sequence of the shape";
    const MEDIANS: [f64; 5] = [1.0, 0.25, 1.0, 0.5, 5.0];
    const SPREADS: [f64; 5] = [0.15, 0.7, 0.7, 1.0, 1.0];

    fn value(&self, logs: &[f64; 5]) -> f64 {
        let [layers, host, messages, gradients, constant] = logs.map(f64::exp);
        let slots = self
            .stages
            .iter()
            .map(|stage| layers * stage.layers + 1e-3 * host * stage.count + messages * stage.messages);
        // One forward, one backward: the slowest stage works without a pause, the others fill and drain.
        let longest = slots.clone().fold(0.0, f64::max);
        (self.micro_batches - 1.0) * longest
            + slots.sum::<f64>()
            + self.update
            + gradients * self.gradients
            + 1e-3 * constant
    }
}
