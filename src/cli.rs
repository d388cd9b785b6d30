//! Arguments to a verb or a configuration to a run.

mod help;
mod mistakes;
mod slurm;
mod verb;
mod words;

use crate::pipeline::{self, RunEnding};
use crate::verbs::{SPECS, VERBS};
use clap::builder::{OsStringValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_cost::device;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_verb::Context;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

/// The version, and whether there is a worker with libtorch.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let worker = env::current_exe().map(|program| device::program::own_worker(&program).is_ok());
    format!("{} (libtorch: {})", env!("CARGO_PKG_VERSION"), if worker.unwrap_or(false) { "yes" } else { "no" })
});

/// The position in the help of options that every verb has: after its own.
const LAST: usize = 900;

/// The command line: its own arguments, and the verbs with theirs.
pub fn command() -> Command {
    Command::new("perf4sight")
        .about("Tells what training or running a neural network will cost on a device, before it runs there")
        .version(VERSION.as_str())
        .after_help(help::AFTER_HELP)
        .args(of_a_configuration())
        .group(ArgGroup::new("configuration").args(["config_file", "config"]))
        .arg(option("quiet", "Print results and warnings only").global(true).display_order(LAST))
        .arg(option("json", "Print one JSON summary instead of tables").global(true).display_order(LAST))
        .subcommands(VERBS.iter().map(|spec| verb::subcommand(spec)))
        .subcommand(completions())
        .subcommand(worker())
        .subcommand(slurm::task())
        .subcommand(slurm::merge())
}

fn of_a_configuration() -> Vec<Arg> {
    let own = [
        Arg::new("config_file")
            .long("config-file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Run the sections of this file"),
        Arg::new("config").value_name("CONFIG.ini").value_parser(configuration).help("The same"),
        repeated("only", "SECTION", words::sections().into(), "Run only this section; may be given several times"),
        repeated(
            "set",
            "SECTION.KEY=VALUE",
            words::keys().into(),
            "Use this value instead of the file's; may be given several times",
        ),
        option(
            "check",
            "Check everything and show the plan, the number of runs and about how long they take; run nothing",
        )
        .requires("configuration"),
    ];
    own.into_iter().chain(slurm::arguments()).collect()
}

fn option(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

fn repeated(name: &'static str, value: &'static str, parser: ValueParser, help: &'static str) -> Arg {
    let argument = Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append);
    argument.requires("configuration").value_parser(parser).hide_possible_values(true)
}

fn completions() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").help("The shell").required(true);
    Command::new("completions")
        .about("Print a script that completes these arguments in a shell")
        .arg(shell.value_parser(value_parser!(Shell)))
}

fn worker() -> Command {
    let arguments = Arg::new("arguments").help("What perf4sight's own worker is called with").num_args(0..);
    let arguments = arguments.trailing_var_arg(true).allow_hyphen_values(true);
    Command::new("worker")
        .about("Measure one configuration: one line of JSON in, one out (see `device::protocol`)")
        .hide(true)
        .disable_help_flag(true)
        .arg(arguments.value_parser(OsStringValueParser::new()))
}

/// The arguments of this process; invalid ones are reported and end it. None where only help was requested and printed.
///
/// # Errors
/// Help that cannot be written.
pub fn arguments() -> Result<Option<ArgMatches>> {
    command().try_get_matches().map(Some).or_else(|error| match error.use_stderr() {
        false => match error.print() {
            Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::io("stdout", "write the help", &cause))
            }
            _ => Ok(None),
        },
        true => match mistakes::meant(&error, &words()) {
            Some(mistake) => Err(mistake),
            None => error.exit(),
        },
    })
}

fn words() -> Vec<String> {
    env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Runs the requested verb or configuration; `cancel` is set by Ctrl-C.
///
/// # Errors
/// The error that stopped it; [`Error::kind`] decides the exit code.
pub fn run(typed: &ArgMatches, cancel: Arc<AtomicBool>) -> Result<RunEnding> {
    let mut context = pipeline::context(console(typed), cancel)?;
    let ending = match (config_file(typed), typed.subcommand()) {
        (Some(file), Some(_)) => {
            return Err(Error::usage(format!("a configuration ({}) and a subcommand at once", file.display()))
                .expected("one of them"));
        }
        (None, Some((name, typed))) => run_subcommand(name, typed, &mut context)?,
        (Some(file), None) => pipeline::run(SPECS, &options(file, typed), &mut context)?,
        (None, None) => return Err(nothing_asked()),
    };
    context.console.finish()?;
    Ok(ending)
}

fn run_subcommand(name: &str, typed: &ArgMatches, context: &mut Context) -> Result<RunEnding> {
    if let Some(spec) = VERBS.iter().find(|spec| spec.table.section == name) {
        return pipeline::run_verb(&*verb::parse(spec, typed)?, context);
    }
    if let Some(&shell) = typed.try_get_one::<Shell>("shell").ok().flatten() {
        context.console.line(script(shell));
        return Ok(RunEnding::Finished);
    }
    if let Some(ending) = slurm::run(name, typed, context) {
        return ending;
    }
    let arguments: Vec<OsString> = typed.get_many("arguments").into_iter().flatten().cloned().collect();
    match device::program::become_worker(&context.executable, &arguments)? {}
}

fn config_file(typed: &ArgMatches) -> Option<&PathBuf> {
    typed.get_one("config_file").or_else(|| typed.get_one("config"))
}

fn options(config_file: &Path, typed: &ArgMatches) -> pipeline::RunOptions {
    let all = |name| typed.get_many(name).into_iter().flatten().cloned().collect();
    pipeline::RunOptions {
        config_file: config_file.to_path_buf(),
        only: all("only"),
        set: all("set"),
        check: typed.get_flag("check"),
        slurm: slurm::options(typed),
    }
}

fn console(typed: &ArgMatches) -> Console {
    let mode = match (typed.get_flag("json"), typed.get_flag("quiet")) {
        (true, true) => OutputMode::QuietJson,
        (true, false) => OutputMode::Json,
        (false, true) => OutputMode::Quiet,
        (false, false) => OutputMode::Normal,
    };
    Console::new(ConsoleSettings::of_terminal(mode, env::var_os("NO_COLOR").is_none()))
}

/// A configuration without its flag; any other word was meant to be a subcommand.
fn configuration(word: &str) -> std::result::Result<PathBuf, String> {
    match word.ends_with(".ini") || Path::new(word).exists() {
        true => Ok(PathBuf::from(word)),
        false => Err(no_such_subcommand(word)),
    }
}

fn no_such_subcommand(word: &str) -> String {
    let command = command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs: Vec<&str> = shown.map(Command::get_name).collect();
    format!("there is no file and no subcommand \"{word}\"; {}", suggestion(word, verbs))
}

fn nothing_asked() -> Error {
    let help = match Path::new("config.ini").exists() {
        true => "perf4sight --config-file config.ini runs the configuration in this folder",
        false => "perf4sight --help lists what there is; --config-file FILE runs a configuration",
    };
    Error::usage("nothing to do").expected("--config-file FILE or a subcommand").help(help)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "perf4sight", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
