//! The arguments of `perf4sight predict`.

use super::extents::ExtentsArguments;
use super::sizes::Sizes;
use super::step::StepArguments;
use super::words::{self, memory, page};
use clap::{ArgGroup, Args};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_cost::verbs::predict;
use perf4sight_cost::verbs::predict::Form;
use perf4sight_cost::verbs::source::Source;
use perf4sight_step::workload::Stage;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").args(["fingerprint", "target"]).required(true)))]
pub(super) struct Predict {
    /// ONNX files, folders of them, patterns, names of known networks, NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|DIR|NAME|NAME@LEVEL", required = true, value_parser = words::networks(), hide_possible_values = true)]
    networks: Vec<String>,

    /// The folder that [fingerprint] wrote, such as fingerprinting/cpu/imagenet
    #[arg(long, value_name = "DIR")]
    fingerprint: Option<PathBuf>,

    /// Ask without a fingerprint: what is believed of kinds of devices before anything is measured, such as orin,tx2, or all; a file describes
    /// another
    #[arg(long, value_name = "NAME|FILE.json|all", value_delimiter = ',', conflicts_with_all = ["fingerprint", "device"], value_parser = words::targets(), hide_possible_values = true)]
    target: Vec<String>,

    /// Batch sizes, such as 1,8,32
    #[arg(long, value_name = "SIZES", default_value = "1", value_parser = Sizes::parse)]
    bs: Vec<Sizes>,

    /// The memory a step must fit into, all that it uses, such as 8GiB; by default what the profiled device had
    #[arg(long, value_name = "MEMORY", value_parser = memory)]
    mem_limit: Option<Bytes>,

    /// End with exit code 7 where a step may not fit
    #[arg(long)]
    require_fit: bool,

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

    /// Print comma-separated rows, one per network and batch size, instead of tables
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Write a page as well, of one network with a chart of what lies in memory while a step runs
    #[arg(long, value_name = "FILE.html", value_parser = page)]
    html: Option<PathBuf>,

    /// Replace that file though perf4sight did not write it
    #[arg(long, requires = "html")]
    overwrite: bool,
}

impl Predict {
    pub fn into_verb(self) -> Result<predict::Predict> {
        self.check_sizes()?;
        let stage = Stage::parse(&self.stage)?;
        let predict = predict::Predict {
            networks: self.networks,
            source: self.fingerprint.map_or(Source::Targets(self.target), Source::Fingerprint),
            batches: Sizes::all(self.bs),
            stage,
            changes: self.step.changes(stage)?,
            limit: self.mem_limit,
            require_fit: self.require_fit,
            device: self.device,
            dataset: self.dataset,
            extents: self.extents.extents()?,
            output: self.html.into_iter().collect(),
            overwrite: self.overwrite,
            form: if self.csv { Form::Csv } else { Form::Tables },
        };
        predict.check()?;
        Ok(predict)
    }
}

impl Predict {
    /// Batch sizes that stand apart look like networks.
    fn check_sizes(&self) -> Result<()> {
        let is_size = |word: &&String| word.parse::<u64>().is_ok() && !Path::new(word).exists();
        let apart: Vec<&str> = self.networks.iter().filter(is_size).map(String::as_str).collect();
        let Some(first) = apart.first() else { return Ok(()) };
        let asked = Sizes::all(self.bs.clone()).into_iter().map(|size| size.to_string());
        let all: Vec<String> = asked.chain(apart.iter().map(|&word| word.to_owned())).collect();
        Err(Error::usage(format!("\"{first}\" is no network"))
            .expected("batch sizes in one word, networks by name or file")
            .help(format!("write batch sizes with commas: --bs {}", all.join(","))))
    }
}
