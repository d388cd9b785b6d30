//! The arguments of `perf4sight calibrate`.

use super::sizes::Sizes;
use super::words;
use clap::Args;
use perf4sight_base::error::Result;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::verbs::calibrate;
use perf4sight_cost::verbs::calibrate::Source;
use perf4sight_step::workload::{Precision, Stage};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Calibrate {
    /// An ONNX file, the name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|NAME|NAME@LEVEL", value_parser = words::networks(), hide_possible_values = true)]
    network: String,

    /// The folder that [fingerprint] wrote, such as fingerprinting/cpu/imagenet
    #[arg(long, value_name = "DIR")]
    fingerprint: PathBuf,

    /// Measured rows as [profile] writes them, 1 to 4 of latency or memory; may be given several times
    #[arg(long, value_name = "FILE.csv", conflicts_with = "measure")]
    rows: Vec<PathBuf>,

    /// Measure the rows now, on this machine
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, require_equals = true, default_missing_value = "cpu")]
    measure: Option<String>,

    /// Measure even where this is not the device that the fingerprint is of, and believe times that were disturbed
    #[arg(long)]
    force: bool,

    /// Batch sizes to measure and to show; by default those worth measuring
    #[arg(long, value_name = "SIZES", value_parser = Sizes::parse)]
    bs: Vec<Sizes>,

    /// What one step does
    #[arg(long, default_value = "training", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    /// What numbers the steps that are measured compute with; by default those of the profile. Rows of another precision tell the latency
    /// of such steps, of any network
    #[arg(long, value_parser = Precision::ALL.map(Precision::name))]
    precision: Option<String>,

    /// Store the refitted fingerprints in this folder; without it they are only shown
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Replace fingerprints that lie there already
    #[arg(long, requires = "save")]
    overwrite: bool,
}

impl Calibrate {
    pub fn into_verb(self) -> Result<calibrate::Calibrate> {
        let source = match self.measure {
            Some(device) => Source::Device(DeviceKind::parse(&device)?),
            None if self.rows.is_empty() => Source::Nowhere,
            None => Source::Files(self.rows),
        };
        Ok(calibrate::Calibrate {
            network: self.network,
            fingerprints: self.fingerprint,
            stage: Stage::parse(&self.stage)?,
            precision: self.precision.as_deref().map(Precision::parse).transpose()?,
            source,
            batches: Sizes::all(self.bs),
            force: self.force,
            save: self.save,
            overwrite: self.overwrite,
        })
    }
}
