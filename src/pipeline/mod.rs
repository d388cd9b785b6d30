//! Parses all sections, refuses invalid ones, then runs them in order.

mod check;
mod closing;
mod findings;
mod inputs;
pub mod part;
mod place;

use closing::Closing;
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_report::Console;
use perf4sight_slurm as slurm;
use perf4sight_verb::config::{ConfigDocument, SectionText, SettingTable, SettingValues};
use perf4sight_verb::{Context, Divisible, Outline, PlannedFiles, Section, Spec, Summary, Verb};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// Options of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// The configuration.
    pub config_file: PathBuf,
    /// The sections to run; all of them where empty.
    pub only: Vec<String>,
    /// Values that replace those of the file, each as `section.key=value`.
    pub set: Vec<String>,
    /// Show the planned work and stop there.
    pub check: bool,
    /// Let Slurm do the work of sections that can be divided.
    pub slurm: Option<SlurmOptions>,
}

/// How Slurm is used.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SlurmOptions {
    /// Leave the tasks running instead of waiting for them.
    pub detach: bool,
    /// Show what would be submitted and stop there.
    pub print_script: bool,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// All requested work was done.
    Finished,
    /// Ctrl-C; parts finished until then are kept.
    Interrupted,
}

/// A section that passed all checks of its own.
pub(crate) struct ParsedSection<'a> {
    spec: &'a Spec,
    /// Its place among all sections, which are listed in the order in which they usually run.
    usual_position: usize,
    values: SettingValues<'a>,
    work: Box<dyn Section>,
}

/// The context of this process.
///
/// # Errors
/// The system does not report the path of this program.
pub fn context(console: Console, cancel: Arc<AtomicBool>) -> Result<Context> {
    let executable = env::current_exe()
        .map_err(|cause| Error::io("/proc/self/exe", "find this program to start workers", &cause))?;
    Ok(Context::new(console, SystemTime::now, cancel, executable, String::new()))
}

/// Runs the sections of a configuration, which may be any of the `specs`.
///
/// # Errors
/// Any error in any section, before the first one runs; later the error that stops a section.
pub fn run(specs: &[&Spec], options: &RunOptions, context: &mut Context) -> Result<RunEnding> {
    let mut document = ConfigDocument::load(&options.config_file)?;
    options.set.iter().try_for_each(|assignment| document.set(assignment))?;
    let tables = tables(specs);
    let (sections, left_out) = chosen(parse(specs, &tables, &document)?, &options.only, &document)?;
    // Checked even where it is not used.
    let settings = slurm_settings(&document, &tables)?;
    let slurm = options.slurm.map(|SlurmOptions { detach, .. }| slurm::SlurmSettings { detach, ..settings });
    if slurm.is_some() {
        check::divisible(&sections, context)?;
    }
    let outlines = check::outlines(&sections, &left_out, slurm.is_some(), context)?;
    if options.check {
        check::show(&sections, &outlines, &context.console);
        return Ok(RunEnding::Finished);
    }
    if let (Some(settings), Some(SlurmOptions { print_script: true, .. })) = (&slurm, options.slurm) {
        show_scripts(&sections, &outlines, settings, context)?;
        return Ok(RunEnding::Finished);
    }
    context.config = document.to_string();
    run_all(specs, &sections, slurm.as_ref(), context)
}

/// Shows what would be submitted, as if the sections before had written their files.
fn show_scripts(
    sections: &[ParsedSection],
    outlines: &[Outline],
    settings: &slurm::SlurmSettings,
    context: &mut Context,
) -> Result<()> {
    let mut planned = PlannedFiles::default();
    for (section, outline) in sections.iter().zip(outlines) {
        if let Some(work) = section.work.divisible() {
            slurm::show(work, section.name(), settings, &planned, context)?;
        }
        planned.add(outline);
    }
    Ok(())
}

fn tables<'a>(specs: &'a [&'a Spec]) -> Vec<&'a SettingTable> {
    specs.iter().map(|spec| &spec.table).collect()
}

/// The values of `[slurm]`, or its defaults.
fn slurm_settings(document: &ConfigDocument, tables: &[&SettingTable]) -> Result<slurm::SlurmSettings> {
    let absent = SectionText { name: slurm::TABLE.section.to_owned(), line: 0, entries: Vec::new() };
    let section = document.section(slurm::TABLE.section).unwrap_or(&absent);
    slurm::SlurmSettings::parse(&SettingValues::check(document, section, &slurm::TABLE, tables)?)
}

/// Runs a verb of the command line and shows its summary.
///
/// # Errors
/// The error that stopped the verb, or that of the part that failed while the rest succeeded.
pub fn run_verb(verb: &dyn Verb, context: &mut Context) -> Result<RunEnding> {
    let summary = verb.run(context)?;
    show(&summary, &context.console);
    closing::show_files(&summary.files, &context.console);
    context.console.json(&summary.to_json());
    summary.failure.map_or(Ok(ending(context)), Err)
}

/// Checks the values of all sections before the first is parsed, because defaults refer to other sections.
fn parse<'a>(
    specs: &[&'a Spec],
    tables: &'a [&'a SettingTable],
    document: &'a ConfigDocument,
) -> Result<Vec<ParsedSection<'a>>> {
    let sections = document.sections().iter().filter(|section| section.name != slurm::TABLE.section);
    let checked = sections.map(|section| {
        let (position, spec) = spec(specs, section, document)?;
        Ok((position, spec, SettingValues::check(document, section, &spec.table, tables)?))
    });
    let checked: Vec<(usize, &Spec, SettingValues)> = checked.collect::<Result<_>>()?;
    let parsed = |(usual_position, spec, values): (usize, &'a Spec, SettingValues<'a>)| {
        let work = (spec.parse)(&values).map_err(|error| values.at_section(error.as_config_error()))?;
        Ok(ParsedSection { spec, usual_position, values, work })
    };
    checked.into_iter().map(parsed).collect()
}

fn spec<'a>(specs: &[&'a Spec], section: &SectionText, document: &ConfigDocument) -> Result<(usize, &'a Spec)> {
    specs.iter().copied().enumerate().find(|(_, spec)| spec.table.section == section.name).ok_or_else(|| {
        let known = specs.iter().map(|spec| spec.table.section).chain([slurm::TABLE.section]);
        let known: Vec<&str> = known.collect();
        Error::config(format!("there is no section [{}]", section.name))
            .file(document.file())
            .line(section.line)
            .help(suggestion(&section.name, known))
    })
}

/// The sections to run, and those to leave out.
fn chosen<'a>(
    sections: Vec<ParsedSection<'a>>,
    only: &[String],
    document: &ConfigDocument,
) -> Result<(Vec<ParsedSection<'a>>, Vec<ParsedSection<'a>>)> {
    let present: Vec<&str> = sections.iter().map(ParsedSection::name).collect();
    if present.is_empty() {
        return Err(Error::config("no section to run").file(document.file()).expected("[profile], for example"));
    }
    if let Some(absent) = only.iter().find(|name| !present.contains(&name.as_str())) {
        return Err(Error::usage(format!("--only {absent}: {} has no such section", document.file().display()))
            .help(suggestion(absent, present)));
    }
    Ok(sections.into_iter().partition(|section| only.is_empty() || only.iter().any(|name| name == section.name())))
}

fn run_all(
    specs: &[&Spec],
    sections: &[ParsedSection],
    slurm: Option<&slurm::SlurmSettings>,
    context: &mut Context,
) -> Result<RunEnding> {
    let mut closing = Closing::new(sections.iter().map(|section| section.spec.subject));
    let (mut failure, mut is_left) = (None, false);
    for section in sections.iter() {
        if context.cancelled() {
            break;
        }
        context.console.note("");
        context.console.note(format_args!("[{}] {}", section.name(), section.spec.table.about));
        let (mut summary, goes_on) = run_one(specs, section, slurm, context)?;
        show(&summary, &context.console);
        failure = failure.or(summary.failure.take());
        closing.add(section.name(), section.spec.subject, summary);
        if !goes_on {
            is_left = true;
            break;
        }
    }
    let ending = ending(context);
    closing.show(ending, is_left, context);
    failure.map_or(Ok(ending), Err)
}

/// Runs a section here, or by Slurm if it can be divided. Returns its summary, and whether the next sections may run.
fn run_one(
    specs: &[&Spec],
    section: &ParsedSection,
    slurm: Option<&slurm::SlurmSettings>,
    context: &mut Context,
) -> Result<(Summary, bool)> {
    let of_config = |file: &Path, name: &str, work: &mut dyn FnMut(&dyn Divisible) -> Result<()>| {
        part::with_file(specs, file, name, work)
    };
    match slurm.zip(section.work.divisible()) {
        None => section.work.run(context).map(|summary| (summary, true)),
        Some((settings, work)) => Ok(match slurm::run(work, section.name(), settings, &of_config, context)? {
            slurm::SectionEnd::Complete(summary) => (summary, true),
            slurm::SectionEnd::Left(summary) => (summary, false),
        }),
    }
}

fn ending(context: &Context) -> RunEnding {
    if context.cancelled() { RunEnding::Interrupted } else { RunEnding::Finished }
}

fn show(summary: &Summary, console: &Console) {
    if !summary.answer.is_empty() {
        console.line(&summary.answer);
    }
    summary.tables.iter().for_each(|table| console.table(table));
    if !summary.headline.is_empty() {
        console.line(&summary.headline);
    }
}

impl<'a> ParsedSection<'a> {
    fn name(&self) -> &'a str {
        self.spec.table.section
    }
}
