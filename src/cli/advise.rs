//! The arguments of `perf4sight advise`.

use super::extents::ExtentsArguments;
use super::step::StepArguments;
use super::words::{self, memory, page};
use clap::{ArgGroup, Args, value_parser};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_cost::verbs::advise;
use perf4sight_cost::verbs::source::Source;
use perf4sight_step::workload::{LARGEST_BATCH, Stage};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").args(["fingerprint", "target"]).required(true)))]
pub(super) struct Advise {
    /// An ONNX file, the name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|NAME|NAME@LEVEL", value_parser = words::networks(), hide_possible_values = true)]
    network: String,

    /// The folder that [fingerprint] wrote, such as fingerprinting/cpu/imagenet
    #[arg(long, value_name = "DIR")]
    fingerprint: Option<PathBuf>,

    /// Ask without a fingerprint: what is believed of a kind of device before anything is measured, such as orin; a file describes another
    #[arg(long, value_name = "NAME|FILE.json", conflicts_with_all = ["fingerprint", "device"], value_parser = words::targets(), hide_possible_values = true)]
    target: Option<String>,

    /// Samples of a step
    #[arg(long = "batch", visible_alias = "bs", value_name = "SIZE", value_parser = value_parser!(u64).range(1..=LARGEST_BATCH))]
    batch: u64,

    /// The memory a step must fit into, all that it uses, such as 8GiB; by default what the profiled device had
    #[arg(long, value_name = "MEMORY", value_parser = memory)]
    mem_limit: Option<Bytes>,

    /// What one step does
    #[arg(long, default_value = "training", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    #[command(flatten)]
    step: StepArguments,

    /// Refuse a fingerprint of another device
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Refuse a fingerprint of another dataset; with --target the one whose images known networks read, by default imagenet
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,

    #[command(flatten)]
    extents: ExtentsArguments,

    /// Write a page as well: time against memory, and what lies in memory while the step runs
    #[arg(long, value_name = "FILE.html", value_parser = page)]
    html: Option<PathBuf>,

    /// Replace that file though perf4sight did not write it
    #[arg(long, requires = "html")]
    overwrite: bool,
}

impl Advise {
    pub fn into_verb(self) -> Result<advise::Advise> {
        let stage = Stage::parse(&self.stage)?;
        let targets = self.target.into_iter().collect();
        Ok(advise::Advise {
            network: self.network,
            source: self.fingerprint.map_or(Source::Targets(targets), Source::Fingerprint),
            batch: self.batch,
            stage,
            changes: self.step.changes(stage)?,
            limit: self.mem_limit,
            device: self.device,
            dataset: self.dataset,
            extents: self.extents.extents()?,
            output: self.html.into_iter().collect(),
            overwrite: self.overwrite,
        })
    }
}
