//! The rule for replacing files: the program replaces its own files, which it recognises by content, never by name;
//! other files only with `overwrite`.

use crate::atomic_write;
use crate::error::{Error, Result};
use crate::input_file;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The generator that pages name.
pub const PROGRAM: &str = "perf4sight";
/// The element in the head of a page that names it. Passed to [`check_contents`] it stands for a page.
pub const GENERATOR: &str = r#"<meta name="generator" content="perf4sight">"#;
/// The beginning, without blanks, of pages by earlier versions, which named no generator.
const EARLIER: &str = r#"<!doctypehtml><htmllang="en"><head><metacharset="utf-8"><metaname="viewport"content="width=device-width,initial-scale=1"><metaname="color-scheme"content="lightdark"><title>"#;
const COLOUR: &str = "--paper:";
/// Bytes at the beginning of a page or a table that are searched.
const HEAD: u64 = 64 << 10;

/// Writes a page, a table or JSON with [`atomic_write::save`]. It replaces only a file that the program wrote: a page with its generator, a
/// table with the same columns in the same order, JSON of the same format that shares most fields with the new one.
///
/// # Errors
/// A file of others, unless `overwrite`; see [`atomic_write::save`].
pub fn save(file: &Path, contents: impl AsRef<[u8]>, overwrite: bool) -> Result<()> {
    let contents = contents.as_ref();
    check_contents(file, contents, overwrite)?;
    atomic_write::save(file, contents)
}

/// Writes a table whose columns people write by hand too, such as measurements: only the same table is replaced.
///
/// # Errors
/// Another file, unless `overwrite`; see [`atomic_write::save`].
pub fn save_measured(file: &Path, contents: impl AsRef<[u8]>, overwrite: bool) -> Result<()> {
    check_measured(file, contents.as_ref(), overwrite)?;
    atomic_write::save(file, contents)
}

/// Refuses what [`save_measured`] refuses, before anything else is done.
///
/// # Errors
/// Another file, unless `overwrite`; one that cannot be read.
pub fn check_measured(file: &Path, contents: impl AsRef<[u8]>, overwrite: bool) -> Result<()> {
    // By its columns alone it may be of the program or of people.
    check_for("a table with other measurements would be replaced", file, overwrite, |mut old| {
        let mut there = Vec::new();
        old.read_to_end(&mut there).is_ok() && there == contents.as_ref()
    })
}

/// Refuses to replace an input, which `overwrite` does not allow either.
///
/// # Errors
/// A file to write that is one of the inputs.
pub fn check_inputs<'a>(file: &Path, mut inputs: impl Iterator<Item = &'a Path>) -> Result<()> {
    match inputs.any(|input| is_same(file, input)) {
        false => Ok(()),
        true => {
            Err(Error::usage("an input would be replaced by a result").file(file).help("choose another file (out)"))
        }
    }
}

/// Whether both paths lead to the same file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Refuses what [`save`] refuses, before there is anything to write: `contents` are of the same kind.
///
/// # Errors
/// A file of others, unless `overwrite`; one that cannot be read.
pub fn check_contents(file: &Path, contents: impl AsRef<[u8]>, overwrite: bool) -> Result<()> {
    check(file, overwrite, |old| FileMark::read(old).is_alike(&FileMark::read(contents.as_ref())))
}

/// Refuses to replace a file that is not empty, unless `is_ours` recognises it.
///
/// # Errors
/// A file of others, unless `overwrite`; one that cannot be read.
pub fn check(file: &Path, overwrite: bool, is_ours: impl FnOnce(File) -> bool) -> Result<()> {
    check_for("a file that this command did not write would be replaced", file, overwrite, is_ours)
}

fn check_for(problem: &str, file: &Path, overwrite: bool, is_ours: impl FnOnce(File) -> bool) -> Result<()> {
    if overwrite || !is_in_the_way(file) || is_ours(input_file::open(file, "check who wrote this file")?) {
        return Ok(());
    }
    let error = Error::usage(problem).help("choose another place, or replace it (--overwrite, or overwrite = True)");
    Err(error.file(atomic_write::display_name(file)))
}

/// Checks the files of these names in a folder. Where `is_ours`, another file there shows that all are ours; pages are still checked one by one.
///
/// # Errors
/// See [`check`].
pub fn check_folder<Name: AsRef<Path>>(
    folder: &Path,
    names: impl IntoIterator<Item = Name>,
    is_ours: bool,
    overwrite: bool,
) -> Result<()> {
    let files = names.into_iter().map(|name| folder.join(name));
    files.into_iter().try_for_each(|file: PathBuf| {
        let is_page = file.extension().is_some_and(|ending| ending == "html");
        check(&file, overwrite, |old| is_ours && (!is_page || FileMark::read(old) == FileMark::Page))
    })
}

/// Whether there is a regular file that is not empty. What a shell redirects to is meant to be written.
fn is_in_the_way(file: &Path) -> bool {
    !input_file::is_inherited(file) && fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() > 0)
}

/// What identifies a text as one that the program wrote.
#[derive(Debug, PartialEq)]
enum FileMark {
    /// A page with the generator.
    Page,
    /// JSON that names the program in its format.
    Format,
    /// The fields of other JSON.
    Fields(BTreeSet<String>),
    /// The columns of a table, in order.
    Table(Vec<String>),
    /// What the program does not write.
    None,
}

impl FileMark {
    fn read(text: impl Read) -> Self {
        let mut text = BufReader::new(text);
        match text.fill_buf().ok().and_then(|start| start.first().copied()) {
            Some(b'<') if is_page(text.by_ref()) => FileMark::Page,
            Some(b'{') => serde_json::from_reader(text).map_or(FileMark::None, FileMark::of_object),
            Some(b'[') => {
                serde_json::from_reader(text).map_or(FileMark::None, |all: Vec<BTreeMap<String, IgnoredAny>>| {
                    FileMark::Fields(all.into_iter().flat_map(BTreeMap::into_keys).collect())
                })
            }
            Some(b'<') | None => FileMark::None,
            Some(_) => FileMark::Table(columns(text)),
        }
    }

    fn of_object(object: Map<String, Value>) -> Self {
        match object.get("format") {
            Some(Value::String(format)) if format.starts_with(PROGRAM) => FileMark::Format,
            Some(Value::String(_)) => FileMark::None,
            _ => FileMark::Fields(object.into_iter().map(|(field, _)| field).collect()),
        }
    }

    /// Whether both are of the same kind. Versions and settings add and leave out fields of JSON. A table must have the same columns,
    /// because measurements that people write share most columns with predictions.
    fn is_alike(&self, other: &FileMark) -> bool {
        match (self, other) {
            (FileMark::Fields(one), FileMark::Fields(other)) => {
                2 * one.intersection(other).count() > one.union(other).count()
            }
            (
                FileMark::None,
                FileMark::Page | FileMark::Format | FileMark::Fields(_) | FileMark::Table(_) | FileMark::None,
            ) => false,
            (FileMark::Page | FileMark::Format | FileMark::Fields(_) | FileMark::Table(_), _) => self == other,
        }
    }
}

fn is_page(text: impl BufRead) -> bool {
    let mut head = Vec::new();
    let _ = text.take(HEAD).read_to_end(&mut head);
    let head = String::from_utf8_lossy(&head);
    let bare = || head.split_whitespace().collect::<String>().to_lowercase();
    head.contains(GENERATOR) || (bare().starts_with(EARLIER) && head.contains(COLOUR))
}

fn columns(text: impl BufRead) -> Vec<String> {
    let mut header = String::new();
    let _ = text.take(HEAD).read_line(&mut header);
    header.trim_end().split([',', ';']).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Whether `new` may take the place of `old`.
    fn replaces(old: &str, new: &str, overwrite: bool) -> bool {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, old).unwrap();
        let saved = save(&file, new, overwrite);
        assert_eq!(fs::read_to_string(&file).unwrap(), if saved.is_ok() { new } else { old });
        if let Err(error) = &saved {
            assert_eq!(error.kind().exit_code(), 2, "{error}");
            assert!(error.to_string().contains("overwrite"), "{error}");
        }
        saved.is_ok()
    }

    #[test]
    fn what_others_wrote_stays() {
        let page = format!("<!DOCTYPE html>\n<html lang=\"en\"><head>{GENERATOR}</head></html>");
        for new in [&page, "batch,latency,memory\n1,2,3\n", "{\"network\": 1, \"rows\": []}", "[{\"gpu\": 1}]"] {
            for old in [
                "notes\n",
                "<html><body>thesis</body></html>",
                "{\"a\": 1}",
                "{}",
                "[]",
                "[1]",
                "[section]\n",
                "a,b\n",
                "\n",
            ] {
                assert!(!replaces(old, new, false), "{old} by {new}");
                assert!(replaces(old, new, true), "{old} by {new}");
            }
        }
    }

    #[test]
    fn what_the_program_wrote_is_replaced_and_what_is_empty_too() {
        let page = |title: &str| format!("<!DOCTYPE html>\n<html lang=\"en\"><head>{GENERATOR}<title>{title}</title>");
        assert!(replaces(&page("old"), &page("new"), false));
        assert!(replaces("batch,latency,memory\n1,2,3\n", "batch,latency,memory\n1,2,4\n", false));
        assert!(replaces("{\"network\": 1, \"rows\": []}", "{\"network\": 2, \"rows\": [3]}", false));
        assert!(replaces("[{\"gpu\": 1}]", "[{\"gpu\": 1}, {\"gpu\": 2}]", false));
        assert!(replaces("", "a,b\n", false));
    }

    /// Plans as people measure them have most columns of plans as they are predicted, and other programs name a format too.
    #[test]
    fn what_is_alike_is_not_the_same() {
        let predicted = "gpus,hidden,layers,heads,sequence,predicted_ms,low_ms,high_ms\n4,1,1,1,1,1,1,1\n";
        for measured in [
            "gpus,hidden,layers,heads,sequence,step_ms\n",
            "hidden,gpus,layers,heads,sequence,predicted_ms,low_ms,high_ms\n",
        ] {
            assert!(!replaces(measured, predicted, false), "{measured}");
        }
        let model = "{\"format\": \"perf4sight model\", \"version\": 2, \"fitted\": {}}";
        for other in ["{\"format\": \"mine\", \"version\": 2, \"fitted\": {}}", "{\"version\": 2, \"fitted\": {}}"] {
            assert!(!replaces(other, model, false), "{other}");
        }
        assert!(replaces("{\"format\": \"perf4sight model\", \"version\": 1}", model, false));
    }

    #[test]
    fn tables_that_people_write_too_and_inputs_stay() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("rows.csv");
        fs::write(&file, "operation,time_us\nmine,1\n").unwrap();
        assert!(save_measured(&file, "operation,time_us\nother,2\n", false).is_err());
        assert!(save_measured(&file, "operation,time_us\nmine,1\n", false).is_ok());
        assert!(save_measured(&file, "operation,time_us\nother,2\n", true).is_ok());
        let same = folder.path().join(".").join("rows.csv");
        assert!(check_inputs(&file, std::iter::once(same.as_path())).is_err());
        assert!(check_inputs(&folder.path().join("new.csv"), std::iter::once(same.as_path())).is_ok());
    }

    /// The first bytes of `fingerprinting/epyc-1-core/imagenet/report.html`, which a version without a generator wrote.
    #[test]
    fn pages_of_earlier_versions_are_known() {
        let old = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, \
                   initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>Training fingerprint of epyc-1-core</title>\n<style>\n:root {\n  --paper: #ffffff;";
        assert!(replaces(old, &format!("<!DOCTYPE html>{GENERATOR}"), false));
    }

    #[test]
    fn a_folder_is_ours_as_a_whole_but_for_pages_of_others() {
        let folder = TempDir::new().unwrap();
        let check = |is_ours, overwrite| check_folder(folder.path(), ["curve.csv", "report.html"], is_ours, overwrite);
        assert!(check(false, false).is_ok());
        fs::write(folder.path().join("curve.csv"), "mine\n").unwrap();
        assert!(check(false, false).unwrap_err().to_string().contains("curve.csv"));
        assert!(check(true, false).is_ok() && check(false, true).is_ok());
        fs::write(folder.path().join("report.html"), "<html>mine</html>").unwrap();
        assert!(check(true, false).unwrap_err().to_string().contains("report.html"));
        fs::write(folder.path().join("report.html"), format!("<html>{GENERATOR}</html>")).unwrap();
        assert!(check(true, false).is_ok());
    }
}
