//! `overwrite = True` replaces files in the places of results, but never a file that a section reads.

use super::ParsedSection;
use super::check::outlined;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::path_name::display_path;
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles};
use std::path::Path;

/// The key that lets a section replace files of others.
const OVERWRITE: &str = "overwrite";

/// A file that must not be replaced, and who reads it.
struct ProtectedInput<'a> {
    reader: String,
    path: &'a Path,
}

/// Refuses a section whose result would replace the configuration, or an input of any section, also of those that are left out. Excepted are files
/// that the section would replace even without `overwrite`: an earlier run wrote them, and a later section reads what this run writes.
pub(super) fn stay(
    [sections, left_out]: [&[ParsedSection]; 2],
    outlines: &[Outline],
    elsewhere: bool,
    context: &mut Context,
) -> Result<()> {
    if !sections.iter().any(overwrites) {
        return Ok(());
    }
    // A section that cannot run now does not report what it reads.
    let unused =
        left_out.iter().map(|section| section.work.outline(&PlannedFiles::default(), context).unwrap_or_default());
    let unused: Vec<Outline> = unused.collect();
    let inputs = inputs(sections.iter().zip(outlines).chain(left_out.iter().zip(&unused)));
    let mut planned = PlannedFiles::default();
    for (section, outline) in sections.iter().zip(outlines) {
        let replaced = if overwrites(section) { replaced(section, outline, &inputs) } else { Vec::new() };
        if !replaced.is_empty() {
            let own = own_keys(section, elsewhere, &planned, context).unwrap_or_default();
            let others = replaced.into_iter().find(|(file, _)| !own.contains(&file.key));
            others.map_or(Ok(()), |(file, reader)| Err(refused(section, file, reader)))?;
        }
        planned.add(outline);
    }
    Ok(())
}

/// What these sections read, and the configuration.
fn inputs<'a>(sections: impl Iterator<Item = (&'a ParsedSection<'a>, &'a Outline<'a>)>) -> Vec<ProtectedInput<'a>> {
    let mut sections = sections.peekable();
    let config = sections
        .peek()
        .map(|(section, _)| ProtectedInput { reader: "this program".to_owned(), path: section.values.file() });
    let read = sections.flat_map(|(section, outline)| {
        outline.reads.iter().map(|read| ProtectedInput { reader: format!("[{}]", section.name()), path: &read.path })
    });
    config.into_iter().chain(read).collect()
}

fn overwrites(section: &ParsedSection) -> bool {
    section.spec.table.setting(OVERWRITE).is_some() && section.values.get(OVERWRITE).unwrap_or(false)
}

/// The inputs in the places of a section's results, each with its reader, except those that the section certainly wrote.
fn replaced<'a>(
    section: &ParsedSection,
    outline: &'a Outline,
    inputs: &'a [ProtectedInput],
) -> Vec<(&'a KeyedPath, &'a str)> {
    let of_input = |input: &'a ProtectedInput| outline.replaces(input.path).map(|file| (file, input.reader.as_str()));
    inputs.iter().flat_map(of_input).filter(|(file, _)| !section.work.is_from_earlier_run(&file.path)).collect()
}

/// The keys of the results that the section would write even without `overwrite`.
fn own_keys(
    section: &ParsedSection,
    elsewhere: bool,
    planned: &PlannedFiles,
    context: &mut Context,
) -> Result<Vec<&'static str>> {
    let values = section.values.without(OVERWRITE);
    let careful = ParsedSection { values, work: (section.spec.parse)(&values)?, ..*section };
    let outline = outlined(&careful, elsewhere, planned, context)?;
    let refused: Vec<&str> =
        outline.checks.iter().filter(|check| (check.run)(context).is_err()).map(|check| check.key).collect();
    Ok(outline.writes.iter().map(|file| file.key).filter(|key| !refused.contains(key)).collect())
}

fn refused(section: &ParsedSection, file: &KeyedPath, reader: &str) -> Error {
    let problem = format!("{} would be replaced, and {reader} reads it", display_path(&file.path));
    let error = section.values.error(file.key, problem).expected("another path");
    error.help("overwrite = True never replaces an input")
}
