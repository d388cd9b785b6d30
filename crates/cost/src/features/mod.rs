//! Features of a step: from a network, a batch size and a stage to named numbers.
//!
//! The published feature sets of perf4sight: 56 numbers for a training step and their forward part, 15 numbers, for
//! inference, each a formula for one way to compute a convolution, summed over the network's convolutions.

mod convolution;
pub mod physical;

use convolution::ConvolutionSizes;
use perf4sight_network::{Network, Op};
use perf4sight_step::workload::{Stage, Workload};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The features that describe a step; stored with every fingerprint, so that one fitted on other features is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureSchema {
    /// Distinguishes sets of features in files.
    pub name: String,
    /// Raised whenever a formula or the order changes.
    pub version: u32,
}

impl FeatureSchema {
    /// The names of what [`features`] computes for a stage.
    pub fn for_stage(stage: Stage) -> Self {
        FeatureSchema { name: format!("perf4sight-{stage}"), version: 1 }
    }
}

impl fmt::Display for FeatureSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name, self.version)
    }
}

/// Names of [`features`] in their order: the published ones, with their tile sizes `{m}-{r}` filled in.
pub fn names(stage: Stage) -> &'static [&'static str] {
    match stage {
        Stage::Training => &convolution::TRAINING,
        Stage::Inference => &convolution::INFERENCE,
    }
}

/// The numbers that describe one step of `network`, named by [`names`].
///
/// ```
/// use perf4sight_cost::features::{features, names};
/// use perf4sight_network::zoo::{Dataset, build};
/// use perf4sight_step::workload::{Stage, Workload};
/// let squeezenet = build("squeezenet", Dataset::Imagenet)?;
/// let step = features(&squeezenet, Workload::published(Stage::Training, 2));
/// assert_eq!(names(Stage::Training)[0], "tensor-weights");
/// // All parameters of squeezenet but the biases of its 26 convolutions.
/// assert_eq!(step[0], 1_248_424.0 - 3_976.0);
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
pub fn features(network: &Network, workload: Workload) -> Vec<f64> {
    let formulas = match workload.step.stage {
        Stage::Training => ConvolutionSizes::training,
        Stage::Inference => ConvolutionSizes::inference,
    };
    let mut sums = vec![0.0; names(workload.step.stage).len()];
    for node in network.nodes() {
        if let Op::Conv(conv) = &node.op {
            let layer = ConvolutionSizes::new(conv, network.input_of(node, 0), &node.shape, workload.batch);
            sums.iter_mut().zip(formulas(&layer)).for_each(|(sum, value)| *sum += value);
        }
    }
    sums
}
