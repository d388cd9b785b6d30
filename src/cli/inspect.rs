//! The arguments of `perf4sight inspect`.

use super::extents::ExtentsArguments;
use super::step::StepArguments;
use super::words;
use clap::{Args, value_parser};
use perf4sight_base::error::Result;
use perf4sight_cost::verbs::inspect;
use perf4sight_network::zoo::Dataset;
use perf4sight_step::workload::{LARGEST_BATCH, Stage, Step, Workload};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// An ONNX file, the name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|NAME|NAME@LEVEL")]
    network: String,

    /// Batch size that the costs are for
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = value_parser!(u64).range(1..=LARGEST_BATCH))]
    bs: u64,

    /// What one step does; training adds the backward pass [default: inference, with --memory training]
    #[arg(long, value_parser = Stage::ALL.map(Stage::name))]
    stage: Option<String>,

    /// Show what lies in memory while the step runs, simulated, instead of the layers
    #[arg(long)]
    memory: bool,

    /// On what kind of device memory is simulated; a file describes another [default: cpu]
    #[arg(long, value_name = "NAME|FILE.json", requires = "memory", value_parser = words::targets(), hide_possible_values = true)]
    target: Option<String>,

    /// Write a page, with --memory with a chart of it over the step
    #[arg(long, value_name = "FILE.html", value_parser = words::page)]
    html: Option<PathBuf>,

    /// Replace that file though perf4sight did not write it
    #[arg(long, requires = "html")]
    overwrite: bool,

    #[command(flatten)]
    step: StepArguments,

    /// Whose images and classes a known network is built for
    #[arg(long, default_value = "imagenet", value_parser = Dataset::ALL.map(Dataset::name))]
    dataset: String,

    #[command(flatten)]
    extents: ExtentsArguments,
}

impl Inspect {
    pub fn into_verb(self) -> Result<inspect::Inspect> {
        let stage = match &self.stage {
            Some(stage) => Stage::parse(stage)?,
            None if self.memory => Stage::Training,
            None => Stage::Inference,
        };
        // Layers cost the same whatever becomes of gradients.
        let asked = if self.memory { Step::usual(stage) } else { Step::published(stage) };
        let workload = Workload { step: self.step.changes(stage)?.of(asked), batch: self.bs };
        workload.check()?;
        let device = self.target.unwrap_or_else(|| "cpu".to_owned());
        Ok(inspect::Inspect {
            network: self.network,
            dataset: Dataset::parse(&self.dataset)?,
            workload,
            extents: self.extents.extents()?,
            memory: self.memory.then_some(device),
            html: self.html,
            overwrite: self.overwrite,
        })
    }
}
