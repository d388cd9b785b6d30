//! A step as the sum of its parts: layers, head, and the rest.

use super::parameters::{LogParameters, Parameters};
use crate::all_reduce::AllReduceTimes;
use crate::plan::TransformerPlan;

/// Bytes of a value in half precision.
const HALF: f64 = 2.0;
/// Reads and writes of each activation, forward and backward: written, read again, its gradient written.
const PASSES: f64 = 3.0;
/// Traffic of the update is in bytes a weight at this bandwidth, in bytes a millisecond: an A100's, rounded.
const UPDATE_BYTES_PER_MS: f64 = 1.5e9;
/// Bytes of a logit and its gradient in single precision, each written and read.
const LOGIT_BYTES: f64 = 16.0;

/// A plan with what of it does not depend on parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreparedPlan {
    pub plan: TransformerPlan,
    /// Milliseconds of an all-reduce of tensor parallelism, of which a layer does two forward and two backward.
    tensor_all_reduce: f64,
    /// Milliseconds of the all-reduce of a layer's gradients.
    data_all_reduce: f64,
    /// By how much the latency of an all-reduce of tensor parallelism is beyond that of two ranks, as a share of it.
    late: f64,
}

/// Milliseconds of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepTimeParts {
    /// Layers over all slots of the pipeline.
    pub layers: f64,
    /// Logits and loss of the last stage.
    pub head: f64,
    /// Update, all-reduce of gradients, start and end of the step.
    pub rest: f64,
}

impl PreparedPlan {
    pub fn new(plan: TransformerPlan, all_reduce: &AllReduceTimes) -> Self {
        let activations = HALF * plan.micro_batch as f64 * plan.sequence as f64 * plan.hidden as f64;
        let gradients = HALF * plan.layer_weights() / plan.tensor_parallel as f64;
        PreparedPlan {
            plan,
            tensor_all_reduce: all_reduce.milliseconds(plan.tensor_parallel, activations),
            data_all_reduce: all_reduce.milliseconds(plan.data_parallel, gradients),
            late: (all_reduce.latency_ms(plan.tensor_parallel) / all_reduce.latency_ms(2) - 1.0).max(0.0),
        }
    }

    /// The same with all-reduces of tensor parallelism and of gradients that take so many times as long.
    pub fn slower(self, [tensor, data]: [f64; 2]) -> Self {
        PreparedPlan {
            tensor_all_reduce: tensor * self.tensor_all_reduce,
            data_all_reduce: data * self.data_all_reduce,
            ..self
        }
    }

    /// The parts of its step.
    pub fn parts(&self, logs: &LogParameters) -> StepTimeParts {
        let parameters = Parameters::from(logs);
        let (stages, batches) = (self.plan.pipeline_parallel as f64, self.plan.micro_batches() as f64);
        // One forward, one backward: the last stage, which has the head, works without a pause; the others fill and drain.
        let slots = batches + stages - 1.0;
        StepTimeParts {
            layers: slots * self.layers_of_stage() * self.layer(&parameters),
            head: batches * self.head(&parameters),
            rest: self.remaining_milliseconds(&parameters),
        }
    }

    fn layers_of_stage(&self) -> f64 {
        self.plan.layers as f64 / self.plan.pipeline_parallel as f64
    }

    /// A layer for one micro-batch: forward and backward each take the longer of host and device.
    fn layer(&self, of: &Parameters) -> f64 {
        let host = 1.0 + of.host_late * self.late;
        let (device, link) = (self.layer_device(of), 2.0 * self.tensor_all_reduce * of.tensor_all_reduce);
        let longer = |one: f64, other: f64| smooth_maximum(one, other, of.sharpness);
        longer(of.host_forward * host, device / 3.0 + link) + longer(of.host_backward * host, device * 2.0 / 3.0 + link)
    }

    /// Products, element-wise kernels and attention of a layer on each tensor rank, and what its kernels take however little they
    /// compute.
    ///
    /// The bytes of activations are those of Korthikanti et al. (MLSys 2023): `s b h (10 + 24 / t)`, of which ten are
    /// not split by tensor parallelism, and `5 a s² b / t` of attention.
    fn layer_device(&self, of: &Parameters) -> f64 {
        let plan = &self.plan;
        let tensor = plan.tensor_parallel as f64;
        let (b, s, h, a) = (plan.micro_batch as f64, plan.sequence as f64, plan.hidden as f64, plan.heads as f64);
        let products = plan.layer_flops() / tensor / (of.product * 1e9);
        let element_wise = PASSES * (10.0 + 24.0 / tensor) * s * b * h / (of.element_wise * 1e9);
        let attention = PASSES * 5.0 * a * s * s * b / tensor / (of.attention * 1e9);
        of.kernels + products + element_wise + attention
    }

    fn head(&self, of: &Parameters) -> f64 {
        let plan = &self.plan;
        let tensor = plan.tensor_parallel as f64;
        let logits = plan.micro_batch as f64 * plan.sequence as f64 * plan.vocabulary as f64 / tensor;
        of.head_host + plan.logit_flops() / tensor / (of.product * 1e9) + LOGIT_BYTES * logits / (of.head * 1e9)
    }

    fn remaining_milliseconds(&self, of: &Parameters) -> f64 {
        let plan = &self.plan;
        let tensor = plan.tensor_parallel as f64;
        let weights = self.layers_of_stage() * plan.layer_weights() / tensor;
        let embedding = plan.vocabulary as f64 * plan.hidden as f64 / tensor;
        let update = (weights * of.update + embedding * of.embedding_update) / UPDATE_BYTES_PER_MS;
        let gradients = of.data_all_reduce * self.layers_of_stage() * self.data_all_reduce;
        update + gradients + of.stage * (plan.pipeline_parallel as f64 - 1.0) + of.constant
    }
}

impl StepTimeParts {
    pub fn total(&self) -> f64 {
        self.layers + self.head + self.rest
    }
}

/// The smooth maximum of two positive numbers: `(x^n + y^n)^(1/n)`, without overflow.
fn smooth_maximum(one: f64, other: f64, sharpness: f64) -> f64 {
    let (long, short) = (one.max(other), one.min(other));
    long * (1.0 + (short / long).powf(sharpness)).powf(sharpness.recip())
}
