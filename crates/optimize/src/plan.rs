//! A plan: how a transformer is split over GPUs, and what its parts compute.

use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The size of GPT-2's vocabulary, padded to a multiple of 1,024 as Megatron-LM does for eight ranks.
pub const GPT2_VOCABULARY: u64 = 51_200;

/// A training step of a decoder-only transformer, split by tensor, data and pipeline parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TransformerPlan {
    /// GPUs of the job; the product of the three degrees.
    pub gpus: u64,
    /// Samples of a step, over all replicas.
    pub global_batch: u64,
    /// Samples of a micro-batch of one replica.
    pub micro_batch: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Attention heads of a layer.
    pub heads: u64,
    /// Transformer layers.
    pub layers: u64,
    /// Tokens of a sample.
    pub sequence: u64,
    /// Words of the vocabulary.
    pub vocabulary: u64,
    /// Degree of tensor parallelism.
    pub tensor_parallel: u64,
    /// Degree of data parallelism: replicas.
    pub data_parallel: u64,
    /// Degree of pipeline parallelism: stages.
    pub pipeline_parallel: u64,
}

/// A plan and what its step took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPlan {
    /// The plan.
    pub plan: TransformerPlan,
    /// Time of a step in milliseconds.
    pub step_ms: f64,
}

/// Beyond this, times of steps are no numbers.
const MOST: u64 = 1_000_000_000_000_000;

impl TransformerPlan {
    /// Refuses numbers that contradict each other.
    ///
    /// # Errors
    /// A zero; degrees that do not multiply to the number of GPUs; samples, layers, heads or width that do not divide.
    pub fn check(&self) -> Result<()> {
        let named = self.numbers();
        if let Some((name, _)) = named.iter().find(|(_, value)| *value == 0) {
            return Err(Error::input(format!("{name} is 0")).expected("a whole number from 1"));
        }
        if let Some((name, value)) = named.iter().find(|(_, value)| *value > MOST) {
            return Err(Error::input(format!("{name} is {value}")).expected("at most a thousand million million"));
        }
        self.check_degrees()?;
        let replica = self.micro_batch.saturating_mul(self.data_parallel);
        divides(self.global_batch, replica, "global_batch", "micro_batch x data_parallel")?;
        divides(self.layers, self.pipeline_parallel, "layers", "pipeline_parallel")?;
        divides(self.heads, self.tensor_parallel, "heads", "tensor_parallel")?;
        divides(self.hidden, self.heads, "hidden", "heads")
    }

    fn check_degrees(&self) -> Result<()> {
        let (t, d, p) = (self.tensor_parallel, self.data_parallel, self.pipeline_parallel);
        if t.checked_mul(d).and_then(|product| product.checked_mul(p)) == Some(self.gpus) {
            return Ok(());
        }
        let problem = format!("the degrees {t} (tensor) x {d} (data) x {p} (pipeline) do not give {} GPUs", self.gpus);
        Err(Error::input(problem).expected("tensor_parallel x data_parallel x pipeline_parallel = gpus"))
    }

    /// Every number with the name of its column.
    pub fn numbers(&self) -> [(&'static str, u64); 11] {
        [
            ("gpus", self.gpus),
            ("global_batch", self.global_batch),
            ("micro_batch", self.micro_batch),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("layers", self.layers),
            ("sequence", self.sequence),
            ("vocabulary", self.vocabulary),
            ("tensor_parallel", self.tensor_parallel),
            ("data_parallel", self.data_parallel),
            ("pipeline_parallel", self.pipeline_parallel),
        ]
    }

    /// Micro-batches of a replica in a step.
    pub fn micro_batches(&self) -> u64 {
        self.global_batch / (self.micro_batch * self.data_parallel)
    }

    /// Weights of a layer: attention 4 h², the two products of the MLP 8 h².
    pub fn layer_weights(&self) -> f64 {
        12.0 * (self.hidden as f64).powi(2)
    }

    /// FLOPs of a layer for one micro-batch, forward and backward, over all tensor ranks.
    ///
    /// Per sample `72 s h² + 12 s² h`: 24 s h² + 4 s² h forward (Narayanan et al., SC 2021), twice that backward.
    pub fn layer_flops(&self) -> f64 {
        let (b, s, h) = (self.micro_batch as f64, self.sequence as f64, self.hidden as f64);
        b * (72.0 * s * h * h + 12.0 * s * s * h)
    }

    /// FLOPs of the logits for one micro-batch, forward and backward, over all tensor ranks: `6 s h V` a sample.
    pub fn logit_flops(&self) -> f64 {
        6.0 * self.micro_batch as f64 * self.sequence as f64 * self.hidden as f64 * self.vocabulary as f64
    }

    /// FLOPs of a step on each GPU, on average.
    pub fn flops_per_gpu(&self) -> f64 {
        let micro_batch = self.layers as f64 * self.layer_flops() + self.logit_flops();
        micro_batch * (self.global_batch / self.micro_batch) as f64 / self.gpus as f64
    }
}

fn divides(whole: u64, part: u64, whole_name: &str, part_name: &str) -> Result<()> {
    match whole.is_multiple_of(part) {
        true => Ok(()),
        false => Err(Error::input(format!("{whole_name} is {whole}, no multiple of {part_name} = {part}"))
            .expected(format!("a {whole_name} that {part_name} divides"))),
    }
}
