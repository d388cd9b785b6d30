//! Arguments to a plain struct to a run.

mod words;

use crate::device;
use crate::device::names::DeviceName;
use crate::error::{Error, Result, suggestion};
use crate::frame::Context;
use crate::network::zoo::Dataset;
use crate::pipeline::{self, Ending};
use crate::report::{Console, Mode, Settings};
use crate::sections;
use crate::sections::calibrate::{Measuring, Source};
use crate::sections::fingerprints::Fingerprints;
use crate::sections::networks::Networks;
use crate::sections::predict::Form;
use crate::units::Bytes;
use crate::workload::{LARGEST_BATCH, Stage, Workload};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const VERSION: &str = match cfg!(feature = "torch") {
    true => concat!(env!("CARGO_PKG_VERSION"), " (libtorch: yes)"),
    false => concat!(env!("CARGO_PKG_VERSION"), " (libtorch: no)"),
};

const AFTER_HELP: &str = "\
Examples:
  perf4sight config.ini                                    run every section in order
  perf4sight --config-file config.ini --check              show what would run and how long it takes
  perf4sight --config-file config.ini --only profile --set profile.bs=[1,8]
  perf4sight fingerprints                                  list the stored fingerprints
  perf4sight networks --export models/imagenet             list the known networks, write seven of them
  perf4sight profile --check-noise                         how far measurements here lie apart, in a minute
  perf4sight predict resnet18@50 --fingerprint fingerprinting/cpu/imagenet --bs 1,8,32
  perf4sight predict mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --bs 16 --mem-limit 8GiB --require-fit
  perf4sight predict nets/ --fingerprint fingerprinting/cpu/imagenet --bs 1,8 --csv > predictions.csv
  perf4sight calibrate mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --measure --save fingerprinting/mine
  perf4sight inspect mynetwork.onnx --bs 8 --stage training
  perf4sight completions bash > ~/.local/share/bash-completion/completions/perf4sight

Exit codes:
  0    everything asked for was done
  2    the command line is wrong, or a level in it such as resnet18@100
  3    the configuration is wrong, or a network or device has an unknown name; nothing was run
  4    an input file (network, CSV, fingerprint) is there but cannot be used
  5    the device cannot do what was asked, or measured nothing of it
  6    reading or writing failed, as where a file is missing
  7    with --require-fit: a step may not fit
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; the same command goes on where it stopped";

const CHECK_NOISE_HELP: &str = "\
Examples:
  perf4sight profile --check-noise                                 the processor, a minute
  perf4sight profile --check-noise --threads 1 --bs 1,4,16 --network resnet18 --seconds 120
  perf4sight profile --check-noise --device tx2 --worker 'python3 workers/torch_worker.py'
  perf4sight profile --check-noise --config-file config.ini --json";

/// Tells what training or running a neural network will cost on a device, before it runs there.
#[derive(Debug, Parser)]
#[command(name = "perf4sight", version = VERSION, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Run the sections of this file
    #[arg(long, value_name = "FILE", group = "configuration")]
    config_file: Option<PathBuf>,

    /// The same
    #[arg(value_name = "CONFIG.ini", group = "configuration", value_parser = configuration)]
    config: Option<PathBuf>,

    /// Run only this section; may be given several times
    #[arg(long, value_name = "SECTION", requires = "configuration", value_parser = words::sections(), hide_possible_values = true)]
    only: Vec<String>,

    /// Use this value instead of the file's; may be given several times
    #[arg(long, value_name = "SECTION.KEY=VALUE", requires = "configuration", value_parser = words::keys(), hide_possible_values = true)]
    set: Vec<String>,

    /// Check everything and show the plan, the number of runs and about how long they take; run nothing
    #[arg(long, requires = "configuration")]
    check: bool,

    /// Print results and warnings only
    #[arg(long, global = true)]
    quiet: bool,

    /// Print one JSON summary instead of tables
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the known networks; write the usual ones as ONNX files
    Networks {
        /// Write them to this folder
        #[arg(long, value_name = "DIR")]
        export: Option<PathBuf>,
        /// Whose images and classes: imagenet, cifar10 or cifar100
        #[arg(long, default_value_t, value_parser = Dataset::parse)]
        dataset: Dataset,
    },
    /// List the stored fingerprints below a folder: of what device, stage and networks, and how good
    Fingerprints {
        /// Where to look
        #[arg(value_name = "DIR", default_value = "fingerprinting")]
        folder: PathBuf,
    },
    /// Show a network layer by layer: shapes, parameters, MACs, bytes, and how much of it is understood
    Inspect(Inspect),
    /// Measure how far measurements of the same thing lie apart on a device, before profiling it
    Profile(CheckNoise),
    /// Predict latency, memory and whether it fits, from stored fingerprints
    Predict(Predict),
    /// Refit stored fingerprints with a few measured rows of a new network, or say which to measure
    Calibrate(Calibrate),
    /// Print a script that completes these arguments in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Measure one configuration: one line of JSON in, one out (see `device::protocol`)
    #[command(hide = true)]
    Worker {
        /// Tell about this worker instead
        #[arg(long)]
        about: bool,
        /// Also use GPUs, with the CUDA libtorch at PATH; without one, at LIBTORCH_CUDA or where python3 finds PyTorch
        #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
        cuda: Option<Option<PathBuf>>,
    },
}

/// Batch sizes as one argument: `1,8,32`, or a list as configurations write it, `[1,8,32]`.
#[derive(Debug, Clone)]
struct Sizes(Vec<u64>);

impl Sizes {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let text = text.trim();
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let size = |word: &str| match word.trim().parse::<u64>() {
            Ok(size @ 1..=LARGEST_BATCH) => Ok(size),
            _ => Err(format!("{} is not in 1..={LARGEST_BATCH}; batch sizes are such as 1,8,32", word.trim())),
        };
        match inner.trim().trim_end_matches(',') {
            "" => Err("there is no batch size in it; write such as 1,8,32".to_owned()),
            sizes => sizes.split(',').map(size).collect::<std::result::Result<_, _>>().map(Sizes),
        }
    }

    /// Of an argument that may be given several times.
    fn all(given: Vec<Sizes>) -> Vec<u64> {
        given.into_iter().flat_map(|Sizes(sizes)| sizes).collect()
    }
}

/// An amount of memory of at least a MiB.
fn memory(text: &str) -> std::result::Result<Bytes, String> {
    let bytes = Bytes::parse(text).filter(|bytes| bytes.mib() >= 1.0);
    bytes.ok_or_else(|| "that is no amount of memory from 1 MiB on; write such as 8GiB or 1300MiB".to_owned())
}

#[derive(Debug, Args)]
struct Predict {
    /// ONNX files, folders of them, patterns, names of known networks, NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|DIR|NAME|NAME@LEVEL", required = true, value_parser = words::networks(), hide_possible_values = true)]
    networks: Vec<String>,

    /// The folder that [fingerprint] wrote, such as fingerprinting/cpu/imagenet
    #[arg(long, value_name = "DIR")]
    fingerprint: PathBuf,

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

    /// Refuse a fingerprint of another device
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Refuse a fingerprint of another dataset
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,

    /// Print comma-separated rows, one per network and batch size, instead of tables
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Debug, Args)]
struct Calibrate {
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

    /// Measure even where this is not the device that the fingerprint is of
    #[arg(long, requires = "measure")]
    force: bool,

    /// Batch sizes to measure and to show; by default those worth measuring
    #[arg(long, value_name = "SIZES", value_parser = Sizes::parse)]
    bs: Vec<Sizes>,

    /// What one step does
    #[arg(long, default_value = "training", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    /// Store the refitted fingerprints in this folder; without it they are only shown
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Replace fingerprints that lie there already
    #[arg(long, requires = "save")]
    overwrite: bool,
}

impl Calibrate {
    fn into_verb(self) -> Result<sections::calibrate::Calibrate> {
        let source = match self.measure {
            Some(device) => Source::Device(Measuring { device: DeviceName::parse(&device)?, force: self.force }),
            None if self.rows.is_empty() => Source::Nowhere,
            None => Source::Files(self.rows),
        };
        Ok(sections::calibrate::Calibrate {
            network: self.network,
            fingerprints: self.fingerprint,
            stage: Stage::parse(&self.stage)?,
            source,
            batches: Sizes::all(self.bs),
            save: self.save,
            overwrite: self.overwrite,
        })
    }
}

#[derive(Debug, Args)]
#[command(after_help = CHECK_NOISE_HELP)]
struct CheckNoise {
    /// Measure the noise floor, in about a minute (profiles themselves run from --config-file)
    #[arg(long, required = true)]
    check_noise: bool,

    /// Take the device from the section [profile] of this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "device_source", "worker", "gpu_id", "threads", "seed"])]
    config_file: Option<PathBuf>,

    /// What to measure on, as the key device of [profile] names it
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// For a simulated device a JSON file of what it can do
    #[arg(long, value_name = "FILE")]
    device_source: Option<PathBuf>,

    /// The command of another worker, in quotes
    #[arg(long, value_name = "COMMAND")]
    worker: Option<String>,

    /// Which GPU of several
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    gpu_id: u32,

    /// Threads of the compute library; by default as many as the machine runs at the same time
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// The name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(long, value_name = "NAME", default_value = "squeezenet", value_parser = words::networks(), hide_possible_values = true)]
    network: String,

    /// Batch sizes
    #[arg(long, value_name = "SIZES", default_value = "1,8", value_parser = Sizes::parse)]
    bs: Vec<Sizes>,

    /// What one step does
    #[arg(long, default_value = "training", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    /// How long to measure; one batch size is measured twice in any case
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,

    /// Seed of weights, data and simulated noise
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

impl CheckNoise {
    fn into_verb(self) -> Result<sections::profile::CheckNoise> {
        let device = match &self.config_file {
            Some(file) => sections::profile::device_of(file)?,
            None => self.device()?,
        };
        Ok(sections::profile::CheckNoise {
            device,
            network: self.network,
            batches: Sizes::all(self.bs),
            stage: Stage::parse(&self.stage)?,
            time: Duration::from_secs(self.seconds),
        })
    }

    fn device(&self) -> Result<device::Options> {
        let worker = self.worker.as_deref().unwrap_or_default();
        Ok(device::Options {
            source: self.device_source.clone(),
            worker: worker.split_whitespace().map(str::to_owned).collect(),
            gpu: device::GpuOptions { index: self.gpu_id, ..device::GpuOptions::default() },
            threads: self.threads.map(usize::from),
            seed: self.seed,
            ..device::Options::new(DeviceName::parse(&self.device)?)
        })
    }
}

#[derive(Debug, Args)]
struct Inspect {
    /// An ONNX file, the name of a known network, or NAME@LEVEL for one pruned to that percentage
    #[arg(value_name = "NET.onnx|NAME|NAME@LEVEL")]
    network: String,

    /// Batch size that the costs are for
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = value_parser!(u64).range(1..=LARGEST_BATCH))]
    bs: u64,

    /// What one step does; training adds the backward pass
    #[arg(long, default_value = "inference", value_parser = Stage::ALL.map(Stage::name))]
    stage: String,

    /// Whose images and classes a known network is built for
    #[arg(long, default_value = "imagenet", value_parser = Dataset::ALL.map(Dataset::name))]
    dataset: String,
}

impl Inspect {
    fn into_verb(self) -> Result<sections::inspect::Inspect> {
        let Inspect { network, bs: batch, stage, dataset } = self;
        let workload = Workload { stage: Stage::parse(&stage)?, batch };
        Ok(sections::inspect::Inspect { network, dataset: Dataset::parse(&dataset)?, workload })
    }
}

impl Predict {
    fn into_verb(self) -> Result<sections::predict::Predict> {
        Ok(sections::predict::Predict {
            networks: self.networks,
            fingerprints: self.fingerprint,
            batches: Sizes::all(self.bs),
            stage: Stage::parse(&self.stage)?,
            limit: self.mem_limit,
            require_fit: self.require_fit,
            device: self.device,
            dataset: self.dataset,
            output: Vec::new(),
            form: if self.csv { Form::Csv } else { Form::Tables },
        })
    }
}

/// Does what the arguments ask for; `cancel` is set by Ctrl-C.
///
/// # Errors
/// Whatever stopped it; [`Error::kind`] decides the exit code.
pub fn run(arguments: Arguments, cancel: Arc<AtomicBool>) -> Result<Ending> {
    arguments.check_one_thing()?;
    let mut context = pipeline::context(arguments.console(), cancel)?;
    let ending = match arguments.verb {
        Some(verb) => {
            verb.run(&mut context)?;
            if context.cancelled() { Ending::Interrupted } else { Ending::Finished }
        }
        None => pipeline::run(sections::SPECS, &arguments.into_options()?, &mut context)?,
    };
    context.console.finish()?;
    Ok(ending)
}

impl Verb {
    fn run(self, context: &mut Context) -> Result<()> {
        match self {
            Verb::Networks { export, dataset } => {
                let summary = Networks { export, dataset }.run(context)?;
                pipeline::present(summary, &context.console)
            }
            Verb::Fingerprints { folder } => pipeline::present(Fingerprints { folder }.run(context)?, &context.console),
            Verb::Inspect(arguments) => pipeline::present(arguments.into_verb()?.run(context)?, &context.console),
            Verb::Profile(arguments) => pipeline::present(arguments.into_verb()?.run(context)?, &context.console),
            Verb::Predict(arguments) => pipeline::present(arguments.into_verb()?.predict(context)?, &context.console),
            Verb::Calibrate(arguments) => pipeline::present(arguments.into_verb()?.run(context)?, &context.console),
            Verb::Completions { shell } => {
                context.console.line(completions(shell));
                Ok(())
            }
            Verb::Worker { about: true, cuda } => {
                device::program::tell_about(io::stdout(), cuda.as_ref().map(Option::as_deref))
            }
            Verb::Worker { about: false, cuda } => {
                device::run_worker(io::stdin().lock(), io::stdout(), cuda.flatten().as_deref())
            }
        }
    }
}

impl Arguments {
    /// Whether this program was started to measure one configuration.
    pub fn is_worker(&self) -> bool {
        matches!(self.verb, Some(Verb::Worker { .. }))
    }

    /// A verb runs no configuration.
    fn check_one_thing(&self) -> Result<()> {
        match self.config_file.as_ref().or(self.config.as_ref()) {
            Some(file) if self.verb.is_some() => {
                Err(Error::usage(format!("a configuration ({}) and a subcommand at once", file.display()))
                    .expected("one of them"))
            }
            _ => Ok(()),
        }
    }

    fn console(&self) -> Console {
        let mode = match (self.json, self.quiet) {
            (true, true) => Mode::QuietJson,
            (true, false) => Mode::Json,
            (false, true) => Mode::Quiet,
            (false, false) => Mode::Normal,
        };
        Console::new(Settings::of_terminal(mode, env::var_os("NO_COLOR").is_none()))
    }

    fn into_options(self) -> Result<pipeline::Options> {
        let config_file = self.config_file.or(self.config).ok_or_else(nothing_asked)?;
        Ok(pipeline::Options { config_file, only: self.only, set: self.set, check: self.check })
    }
}

/// The arguments of this process; what cannot be understood is said, and ends it.
///
/// clap would complain of what follows a mistyped subcommand, not of the subcommand.
pub fn arguments() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|error| {
        let first = env::args_os().nth(1).and_then(|word| word.into_string().ok());
        let verb = first.filter(|word| !word.starts_with('-') && !is_verb(word));
        match verb.map(|word| configuration(&word)) {
            Some(Err(problem)) => Arguments::command().error(ErrorKind::InvalidSubcommand, problem).exit(),
            _ => error.exit(),
        }
    })
}

/// A configuration without its flag; whatever else stands there was meant to be a subcommand.
fn configuration(word: &str) -> std::result::Result<PathBuf, String> {
    match word.ends_with(".ini") || Path::new(word).exists() {
        true => Ok(PathBuf::from(word)),
        false => {
            let verbs = verbs();
            let known = verbs.iter().map(String::as_str);
            Err(format!("there is no file and no subcommand \"{word}\"; {}", suggestion(word, known)))
        }
    }
}

fn is_verb(word: &str) -> bool {
    word == "help" || Arguments::command().find_subcommand(word).is_some()
}

fn verbs() -> Vec<String> {
    let command = Arguments::command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(|verb| verb.get_name().to_owned()).collect()
}

fn nothing_asked() -> Error {
    let help = match Path::new("config.ini").exists() {
        true => "perf4sight --config-file config.ini runs the configuration in this folder",
        false => "perf4sight --help lists what there is; --config-file FILE runs a configuration",
    };
    Error::usage("nothing to do").expected("--config-file FILE or a subcommand").help(help)
}

fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "perf4sight", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
