//! The arguments of `perf4sight inspect`.

use super::step::StepArguments;
use crate::error::Result;
use crate::network::onnx::{self, parse_dim};
use crate::network::zoo::Dataset;
use crate::sections::inspect;
use crate::workload::{LARGEST_BATCH, Stage, Step, Workload};
use clap::{Args, value_parser};

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// An ONNX file, the name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|NAME|NAME@LEVEL")]
    network: String,

    /// Batch size that the costs are for
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = value_parser!(u64).range(1..=LARGEST_BATCH))]
    bs: u64,

    /// What one step does; training adds the backward pass
    #[arg(long, default_value = "inference", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    #[command(flatten)]
    step: StepArguments,

    /// Whose images and classes a known network is built for
    #[arg(long, default_value = "imagenet", value_parser = Dataset::ALL.map(Dataset::name))]
    dataset: String,

    /// How large a dimension is that the file leaves open, by its name there, such as tokens=197; once for each
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dim)]
    dims: Vec<(String, u64)>,
}

impl Inspect {
    pub fn into_verb(self) -> Result<inspect::Inspect> {
        let Inspect { network, bs: batch, stage, step, dataset, dims } = self;
        let stage = Stage::parse(&stage)?;
        let workload = Workload { step: step.changes(stage)?.of(Step::published(stage)), batch };
        workload.check()?;
        Ok(inspect::Inspect { network, dataset: Dataset::parse(&dataset)?, workload, dims: onnx::dims(dims)? })
    }
}
