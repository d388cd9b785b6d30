//! The outlines of the sections, and what each refuses before anything runs: inputs that cannot be used, places that cannot be written to.

use super::ParsedSection;
use super::inputs;
use super::place::{self, PlaceForm};
use perf4sight_base::error::{Error, FailureKind, Result};
use perf4sight_base::path_name::display_path;
use perf4sight_report::Console;
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles};
use serde_json::{Value, json};
use std::time::Duration;

/// The outline of each section, in order; later sections may read the files that one section writes.
/// `left_out`: the sections that do not run. `elsewhere`: other machines do the work of those that can be divided.
pub(super) fn outlines<'a>(
    sections: &'a [ParsedSection<'_>],
    left_out: &[ParsedSection],
    elsewhere: bool,
    context: &mut Context,
) -> Result<Vec<Outline<'a>>> {
    let mut planned = PlannedFiles::default();
    let mut outlines = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let outline =
            outlined(section, elsewhere, &planned, context).map_err(|error| match misplaced(&sections[index..]) {
                Some(late) => in_order(error, late, section.name()),
                None => error,
            })?;
        usable(&outline, section, &planned, context)?;
        written_once(&outline, section, sections.iter().zip(&outlines))?;
        outline.warnings.iter().for_each(|warning| context.warn(warning));
        planned.add(&outline);
        outlines.push(outline);
    }
    inputs::stay([sections, left_out], &outlines, elsewhere, context)?;
    for (early, late) in out_of_order(sections, &outlines) {
        context.warn(format!(
            "[{early}] reads what [{late}] writes, and runs before it: sections run in the order of the file"
        ));
    }
    Ok(outlines)
}

/// Refuses a configuration that leaves nothing to Slurm, and names the sections that run here all the same.
pub(super) fn divisible(sections: &[ParsedSection], context: &Context) -> Result<()> {
    let local: Vec<String> = (sections.iter().filter(|section| section.work.divisible().is_none()))
        .map(|section| format!("[{}]", section.name()))
        .collect();
    if local.len() == sections.len() {
        return Err(Error::usage("--slurm: none of these sections can be divided among tasks")
            .expected("[profile], [detection], [sensitivity], or [optimize] of traces")
            .help("leave --slurm out; sbatch can run the whole command on a node"));
    }
    if !local.is_empty() {
        context.console.note(format_args!("on this machine, not by Slurm: {}", local.join(", ")));
    }
    Ok(())
}

/// The outline of a section; refuses inputs that neither exist nor will be written.
pub(super) fn outlined<'a>(
    section: &'a ParsedSection<'_>,
    elsewhere: bool,
    planned: &PlannedFiles,
    context: &mut Context,
) -> Result<Outline<'a>> {
    let outline = match section.work.divisible().filter(|_| elsewhere) {
        Some(section) => section.outline_elsewhere(planned, context),
        None => section.work.outline(planned, context),
    };
    let outline = outline.map_err(|error| {
        let error = error.as_config_error();
        let has_place = error.kind() == FailureKind::Config || error.has_line();
        section.values.at_section(if has_place { error } else { error.about(&format!("[{}]", section.name())) })
    })?;
    outline.reads.iter().try_for_each(|read| readable(read, section, planned))?;
    Ok(outline)
}

/// Refuses places that cannot be written to, and files that are there and cannot be used.
fn usable(outline: &Outline, section: &ParsedSection, planned: &PlannedFiles, context: &mut Context) -> Result<()> {
    outline.fills.iter().try_for_each(|folder| writable(folder, PlaceForm::Folder, section))?;
    outline.writes.iter().try_for_each(|file| writable(file, PlaceForm::File, section))?;
    let mut known = outline.checks.iter().filter(|check| !check.reads.iter().any(|read| planned.is_written(read)));
    known.try_for_each(|check| (check.run)(context).map_err(|error| section.values.refused(check.key, error)))
}

fn readable(read: &KeyedPath, section: &ParsedSection, planned: &PlannedFiles) -> Result<()> {
    let path = display_path(&read.path);
    match planned.exists(&read.path) {
        true => Ok(()),
        false => Err(section
            .values
            .error(read.key, format!("{path} does not exist"))
            .expected("a path, relative to the current directory, that exists or that an earlier section writes")),
    }
}

/// Refuses a file that the section writes twice, and a result in a place that an earlier section writes too: one would replace the other, or be in
/// its way.
fn written_once<'a>(
    outline: &Outline,
    section: &ParsedSection,
    mut earlier: impl Iterator<Item = (&'a ParsedSection<'a>, &'a Outline<'a>)>,
) -> Result<()> {
    if let Some(file) = outline.written_twice() {
        let problem = format!("{} is written twice", display_path(&file.path));
        return Err(section.values.error(file.key, problem).expected("a file of its own for each result"));
    }
    let twice = earlier.find_map(|(other, others)| Some((other, outline.collides(others)?)));
    twice.map_or(Ok(()), |(other, (key, file))| {
        let problem = format!("[{}] writes {}, too", other.name(), display_path(file));
        Err(section.values.error(key, problem).expected("a place of its own for each section"))
    })
}

/// A section below the first of these that usually runs before it.
fn misplaced<'a>(sections: &[ParsedSection<'a>]) -> Option<&'a str> {
    let (first, later) = sections.split_first()?;
    later.iter().find(|section| section.usual_position < first.usual_position).map(ParsedSection::name)
}

/// The same error, with the order of sections as its possible cause.
fn in_order(error: Error, late: &str, early: &str) -> Error {
    let order = format!("sections run in the order of the file, and [{late}] stands below [{early}]");
    let help = error.remedy().map_or(order.clone(), |remedy| format!("{remedy}; {order}"));
    error.help(help)
}

/// Sections that read what a later one writes, each with that one.
fn out_of_order<'a>(sections: &[ParsedSection<'a>], outlines: &[Outline]) -> Vec<(&'a str, &'a str)> {
    let early = sections.iter().zip(outlines).enumerate();
    let pairs = early.filter_map(|(index, (early, reads))| {
        let mut later = sections.iter().zip(outlines).skip(index + 1);
        let late = later.find(|(_, writes)| reads.reads_from(writes))?;
        Some((early.name(), late.0.name()))
    });
    pairs.collect()
}

/// Refuses a file or folder that cannot be written before hours of measurements, not after them.
fn writable(written: &KeyedPath, form: PlaceForm, section: &ParsedSection) -> Result<()> {
    place::check(&written.path, form).map_err(|why| {
        section.values.error(written.key, format!("cannot write {}: {why}", display_path(&written.path)))
    })
}

/// Prints the plan.
pub(super) fn show(sections: &[ParsedSection], outlines: &[Outline], console: &Console) {
    for (section, outline) in sections.iter().zip(outlines) {
        console.line(format_args!("[{}] {}", section.name(), effort(outline.runs, outline.time)));
        outline.steps.iter().for_each(|step| console.line(format_args!("  {step}")));
    }
    let (runs, time) = total(outlines);
    console.line(format_args!("In all {}. Nothing was run.", effort(runs, time)));
    let sections =
        sections.iter().zip(outlines).map(|(section, outline)| (section.name().to_string(), described(outline)));
    console.json(
        &json!({ "sections": sections.collect::<serde_json::Map<_, _>>(), "runs": runs, "seconds": seconds(time) }),
    );
}

fn total(outlines: &[Outline]) -> (usize, Option<Duration>) {
    let runs = outlines.iter().map(|outline| outline.runs).sum();
    (runs, outlines.iter().filter_map(|outline| outline.time).reduce(|sum, time| sum + time))
}

fn described(outline: &Outline) -> Value {
    json!({ "steps": outline.steps, "runs": outline.runs, "seconds": seconds(outline.time) })
}

fn seconds(time: Option<Duration>) -> Option<u64> {
    time.map(|time| time.as_secs_f64().ceil() as u64)
}

/// "140 runs, about 3m 20s".
fn effort(runs: usize, time: Option<Duration>) -> String {
    let runs = match runs {
        0 => "no runs on a device".to_string(),
        1 => "1 run".to_string(),
        runs => format!("{runs} runs"),
    };
    match seconds(time) {
        Some(seconds) => format!("{runs}, about {}", humantime::format_duration(Duration::from_secs(seconds))),
        None => runs,
    }
}
