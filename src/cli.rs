//! Arguments to a plain struct to a run.

mod advise;
mod breakdown;
mod calibrate;
mod check_noise;
mod detection;
mod extents;
mod inspect;
mod predict;
mod prune;
mod record;
mod sensitivity;
mod sizes;
mod step;
mod words;

use crate::pipeline::{self, Ending};
use crate::verbs::SPECS;
use advise::Advise;
use breakdown::Breakdown;
use calibrate::Calibrate;
use check_noise::CheckNoise;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use detection::Detection;
use inspect::Inspect;
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_cost::device;
use perf4sight_cost::verbs::fingerprints::Fingerprints;
use perf4sight_cost::verbs::networks::Networks;
use perf4sight_network::zoo::Dataset;
use perf4sight_report::{Console, Mode, Settings};
use perf4sight_verb::{Context, Verb};
use predict::Predict;
use prune::Prune;
use record::Record;
use sensitivity::Sensitivity;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

/// The version, and whether there is a worker with libtorch.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let worker = env::current_exe().map(|program| device::program::beside(&program).is_ok());
    format!("{} (libtorch: {})", env!("CARGO_PKG_VERSION"), if worker.unwrap_or(false) { "yes" } else { "no" })
});

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
  perf4sight advise mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --batch 16 --optimizer adamw --mem-limit 8GiB
  perf4sight calibrate mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --measure --save fingerprinting/mine
  perf4sight prune mynetwork.onnx --level 50 --out mynetwork_50.onnx
  perf4sight inspect mynetwork.onnx --bs 8 --stage training
  perf4sight inspect mynetwork.onnx --bs 16 --memory --html memory.html
  perf4sight record -- python3 train.py --epochs 1
  perf4sight breakdown recording/
  perf4sight sensitivity -b 256 --data /data/imagenet -- python3 train.py
  perf4sight detection --data pets --batch-size 2,4 --num-workers 0,2
  perf4sight completions bash > ~/.local/share/bash-completion/completions/perf4sight

Exit codes:
  0    everything asked for was done
  2    the command line is wrong, or a level in it such as resnet18@100
  3    the configuration is wrong, or a network or device has an unknown name; nothing was run
  4    an input file (network, CSV, fingerprint) is there but cannot be used
  5    the device cannot do what was asked, or measured nothing of it
  6    reading or writing failed, as where a file is missing
  7    with --require-fit: a step may not fit
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; the same command does the rest";

/// Tells what training or running a neural network will cost on a device, before it runs there.
#[derive(Debug, Parser)]
#[command(name = "perf4sight", version = VERSION.as_str(), after_help = AFTER_HELP)]
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
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the known networks; write the usual ones as ONNX files
    Networks {
        /// Write them to this folder
        #[arg(long, value_name = "DIR")]
        export: Option<PathBuf>,
        /// Replace files there that perf4sight did not write
        #[arg(long, requires = "export")]
        overwrite: bool,
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
    /// Tell what makes a step fit into memory, and what each way costs
    Advise(Advise),
    /// Prune one network to a level, and tell which channels of which layer are left
    Prune(Prune),
    /// Refit stored fingerprints with a few measured rows of a new network, or say which to measure
    Calibrate(Calibrate),
    /// Run a training script, record some of its iterations, and time as many without recording
    Record(Record),
    /// Show where the iterations of recorded traces spend their time, and what changed between two recordings
    Breakdown(Breakdown),
    /// Find how many CPUs, how much memory and which storage a training job needs, from few runs of it
    Sensitivity(Box<Sensitivity>),
    /// Train a detector for some steps: images a second, where a step's time goes, which setting is best
    Detection(Box<Detection>),
    /// Print a script that completes these arguments in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Measure one configuration: one line of JSON in, one out (see `device::protocol`)
    #[command(hide = true, disable_help_flag = true)]
    Worker {
        /// What perf4sight's own worker is called with
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Does what the arguments ask for; `cancel` is set by Ctrl-C.
///
/// # Errors
/// Whatever stopped it; [`Error::kind`] decides the exit code.
pub fn run(arguments: Arguments, cancel: Arc<AtomicBool>) -> Result<Ending> {
    arguments.check_one_thing()?;
    let mut context = pipeline::context(arguments.console(), cancel)?;
    let ending = match arguments.command {
        Some(command) => command.run(&mut context)?,
        None => pipeline::run(SPECS, &arguments.into_options()?, &mut context)?,
    };
    context.console.finish()?;
    Ok(ending)
}

impl Command {
    fn run(self, context: &mut Context) -> Result<Ending> {
        let verb: Box<dyn Verb> = match self {
            Command::Networks { export, overwrite, dataset } => Box::new(Networks { export, overwrite, dataset }),
            Command::Fingerprints { folder } => Box::new(Fingerprints { folder }),
            Command::Inspect(arguments) => Box::new(arguments.into_verb()?),
            Command::Profile(arguments) => Box::new(arguments.into_verb()?),
            Command::Predict(arguments) => Box::new(arguments.into_verb()?),
            Command::Advise(arguments) => Box::new(arguments.into_verb()?),
            Command::Prune(arguments) => Box::new(arguments.into_verb()?),
            Command::Calibrate(arguments) => Box::new(arguments.into_verb()?),
            Command::Record(arguments) => Box::new(arguments.into_verb()),
            Command::Breakdown(arguments) => Box::new(arguments.into_verb()),
            Command::Sensitivity(arguments) => arguments.into_verb()?,
            Command::Detection(arguments) => arguments.into_verb()?,
            Command::Completions { shell } => {
                context.console.line(completions(shell));
                return Ok(Ending::Finished);
            }
            Command::Worker { arguments } => match device::program::become_worker(&context.executable, &arguments)? {},
        };
        pipeline::run_verb(&*verb, context)
    }
}

impl Arguments {
    /// A verb runs no configuration.
    fn check_one_thing(&self) -> Result<()> {
        match self.config_file.as_ref().or(self.config.as_ref()) {
            Some(file) if self.command.is_some() => {
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

/// The arguments of this process; what cannot be understood is said, and ends it. None where only help was asked for, and is said.
///
/// clap would complain of what follows a mistyped subcommand, not of the subcommand.
///
/// # Errors
/// Help that cannot be written.
pub fn arguments() -> Result<Option<Arguments>> {
    Arguments::try_parse().map(Some).or_else(|error| {
        if !error.use_stderr() {
            return match error.print() {
                Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
                    Err(Error::io("stdout", "write the help", &cause))
                }
                _ => Ok(None),
            };
        }
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
