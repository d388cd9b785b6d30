//! The arguments about Slurm: those of a configuration, and the subcommands that its jobs run.

use super::option;
use crate::pipeline::part::{self, TaskOptions};
use crate::pipeline::{RunEnding, SlurmOptions};
use crate::verbs::SPECS;
use clap::{Arg, ArgMatches, Command, value_parser};
use perf4sight_base::error::{Error, Result};
use perf4sight_verb::Context;
use std::path::PathBuf;

const TASK: &str = "slurm-task";
const MERGE: &str = "slurm-merge";

/// The arguments of a configuration.
pub(super) fn arguments() -> [Arg; 3] {
    [
        option("slurm", "Let Slurm measure, as set in [slurm]; the same command continues with what is missing")
            .requires("configuration"),
        option("detach", "With --slurm: submit, show where it stands, and do not wait").requires("slurm"),
        option("print_script", "With --slurm: show what would be submitted").long("print-script").requires("slurm"),
    ]
}

/// How Slurm is to be used; none where it is not.
pub(super) fn options(typed: &ArgMatches) -> Option<SlurmOptions> {
    let flag = |name| typed.get_flag(name);
    flag("slurm").then(|| SlurmOptions { detach: flag("detach"), print_script: flag("print_script") })
}

/// What a task of an array runs.
pub(super) fn task() -> Command {
    let argument = |name: &'static str| Arg::new(name).required(true);
    hidden(TASK, "Measure the configurations of one task")
        .arg(argument("task").value_parser(value_parser!(usize)))
        .args([argument("node"), argument("job"), argument("name")])
}

/// What runs after an array.
pub(super) fn merge() -> Command {
    hidden(MERGE, "Merge what the tasks of a run measured")
}

fn hidden(name: &'static str, about: &'static str) -> Command {
    let run = Arg::new("run").required(true).value_parser(value_parser!(PathBuf));
    Command::new(name).about(about).hide(true).arg(run)
}

/// Runs one of these subcommands; none where it is another one.
pub(super) fn run(name: &str, typed: &ArgMatches, context: &mut Context) -> Option<Result<RunEnding>> {
    match name {
        TASK => Some(task_options(typed).and_then(|options| part::run_task(SPECS, &options, context))),
        MERGE => Some(run_folder(typed).and_then(|run| part::merge(SPECS, run, context))),
        _ => None,
    }
}

fn task_options(typed: &ArgMatches) -> Result<TaskOptions<'_>> {
    let word = |name: &str| typed.get_one::<String>(name).map(String::as_str).ok_or_else(|| missing(name));
    let task = typed.get_one("task").copied().ok_or_else(|| missing("task"))?;
    Ok(TaskOptions { run: run_folder(typed)?, task, node: word("node")?, job: word("job")?, name: word("name")? })
}

fn run_folder(typed: &ArgMatches) -> Result<&PathBuf> {
    typed.get_one("run").ok_or_else(|| missing("run"))
}

fn missing(name: &str) -> Error {
    Error::usage(format!("{name} is missing"))
}
