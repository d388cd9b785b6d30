//! What a job of Slurm runs: one task of a section, or the merging after all of them.

use super::{ParsedSection, RunEnding, ending, parse, tables};
use perf4sight_base::error::{Error, Result};
use perf4sight_slurm::task::{self, RunningTask};
use perf4sight_verb::config::ConfigDocument;
use perf4sight_verb::{Context, Divisible, Spec};
use std::path::Path;

/// A task of a run, as Slurm names it.
#[derive(Debug, Clone, Copy)]
pub struct TaskOptions<'a> {
    /// The folder of the run.
    pub run: &'a Path,
    /// The number of the task.
    pub task: usize,
    /// The name of its node.
    pub node: &'a str,
    /// Its job, such as 12_3.
    pub job: &'a str,
    /// The name of the run.
    pub name: &'a str,
}

/// Does the work of one task.
///
/// # Errors
/// A folder without the run; the error of the section.
pub fn run_task(specs: &[&Spec], options: &TaskOptions<'_>, context: &mut Context) -> Result<RunEnding> {
    let task = RunningTask::load(options.run, options.name, options.task, [options.node, options.job])?;
    let summary = task.perform(context, |part, context| {
        let document = ConfigDocument::load(task.config())?;
        context.config = document.to_string();
        with_section(specs, &document, task.section(), |section| section.run_part(part, context))
    })?;
    summary.failure.map_or(Ok(ending(context)), Err)
}

/// Merges what the tasks of a run measured.
///
/// # Errors
/// A folder without the run, results that cannot be merged.
pub fn merge(specs: &[&Spec], run: &Path, context: &mut Context) -> Result<RunEnding> {
    let (section, config) = task::about(run)?;
    let document = ConfigDocument::load(config)?;
    with_section(specs, &document, &section, |section| perf4sight_slurm::merge(run, section, context))?;
    Ok(ending(context))
}

/// Runs `work` on a section of a configuration file that can be divided.
///
/// # Errors
/// A file without such a section; those of `work`.
pub(super) fn with_file(
    specs: &[&Spec],
    file: &Path,
    name: &str,
    work: &mut dyn FnMut(&dyn Divisible) -> Result<()>,
) -> Result<()> {
    with_section(specs, &ConfigDocument::load(file)?, name, work)
}

/// Runs `work` on a section of a configuration.
fn with_section<T>(
    specs: &[&Spec],
    document: &ConfigDocument,
    name: &str,
    work: impl FnOnce(&dyn Divisible) -> Result<T>,
) -> Result<T> {
    let tables = tables(specs);
    let sections: Vec<ParsedSection<'_>> = parse(specs, &tables, document)?;
    let section = sections.iter().find(|section| section.name() == name);
    let divisible = section.and_then(|section| section.work.divisible());
    work(
        divisible
            .ok_or_else(|| Error::config(format!("no section [{name}] that can be divided")).file(document.file()))?,
    )
}
