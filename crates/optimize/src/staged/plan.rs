//! A plan in stages.

use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What memory and messages need to know of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkShape {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Attention heads of a layer.
    pub heads: u64,
    /// Tokens of a sample.
    pub sequence: u64,
    /// Words of the vocabulary.
    pub vocabulary: u64,
}

impl NetworkShape {
    /// Refuses a plan that divides heads otherwise than they can be.
    ///
    /// # Errors
    /// A degree of tensor parallelism that does not divide the heads.
    pub fn check(&self, plan: &StagedPlan) -> Result<()> {
        match plan.tensor_degrees().find(|degree| !self.heads.is_multiple_of(*degree)) {
            None => Ok(()),
            Some(degree) => Err(Error::input(format!(
                "{}: {} heads cannot be divided by tensor degree {degree}",
                plan.name, self.heads
            ))
            .expected("the network's own number of heads (shape), which each degree divides")),
        }
    }
}

/// A training step of a network whose layers are in stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedPlan {
    /// What it is called in its file.
    pub name: String,
    /// Its stages.
    pub stages: Vec<PipelineStage>,
    /// Samples of a micro-batch of one replica.
    pub micro_batch: u64,
    /// Samples of a step, over all replicas.
    pub global_batch: u64,
}

/// A stage: the same layers in each replica.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PipelineStage {
    /// Its layers, by their number: 0 is the embedding, the last one the head.
    pub layers: Vec<u64>,
    /// Its replicas.
    pub replicas: Vec<StageReplica>,
}

/// The GPUs of one replica of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StageReplica {
    /// The kind of its GPUs.
    pub gpu: String,
    /// Degree of tensor parallelism.
    pub tensor_parallel: u64,
}

/// A plan and what was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredStagedPlan {
    /// The plan.
    pub plan: StagedPlan,
    /// Seconds of a step.
    pub step_s: Option<f64>,
    /// Peak bytes of the fullest GPU.
    pub peak_bytes: Option<f64>,
}

impl StagedPlan {
    /// All that distinguishes it from other plans; its name does not.
    pub fn identity(&self) -> (&[PipelineStage], u64, u64) {
        (&self.stages, self.micro_batch, self.global_batch)
    }

    /// Degree of data parallelism.
    pub fn replicas(&self) -> u64 {
        self.stages.first().map_or(0, |stage| stage.replicas.len() as u64)
    }

    /// Micro-batches of a replica in a step.
    pub fn micro_batches(&self) -> u64 {
        self.global_batch / (self.micro_batch * self.replicas())
    }

    /// The degree of tensor parallelism of each replica.
    pub fn tensor_degrees(&self) -> impl Iterator<Item = u64> {
        self.stages.iter().flat_map(|stage| &stage.replicas).map(|replica| replica.tensor_parallel)
    }

    /// The kind of each replica's GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().flat_map(|stage| &stage.replicas).map(|replica| replica.gpu.as_str())
    }

    /// The number of the last layer, which is the head.
    pub fn last_layer(&self) -> u64 {
        self.stages.iter().flat_map(|stage| &stage.layers).copied().max().unwrap_or(0)
    }
}
