//! The rule for replacing files: the program replaces its own files, which it recognises by content, never by name;
//! other files only with `overwrite`.

use crate::atomic_write;
use crate::error::{Error, Result};
use crate::input_file;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The generator that pages name.
pub const PROGRAM: &str = "perf4sight";
/// The element for it in the head of a page.
const GENERATOR: &str = r#"<meta name="generator" content="perf4sight">"#;
/// The beginning, without blanks, of pages by earlier versions, which named no generator.
const EARLIER: &str = r#"<!doctypehtml><htmllang="en"><head><metacharset="utf-8"><metaname="viewport"content="width=device-width,initial-scale=1"><metaname="color-scheme"content="lightdark"><title>"#;
const COLOUR: &str = "--paper:";
/// Bytes at the beginning of a page or a table that are searched.
const HEAD: u64 = 64 << 10;

/// Writes a page, a table or JSON with [`atomic_write::save`]. It replaces only a file that the program wrote: a page with its generator, a
/// table or JSON that shares most columns or fields with the new one.
///
/// # Errors
/// A file of others, unless `overwrite`; see [`atomic_write::save`].
pub fn save(file: &Path, contents: impl AsRef<[u8]>, overwrite: bool) -> Result<()> {
    let contents = contents.as_ref();
    check_contents(file, contents, overwrite)?;
    atomic_write::save(file, contents)
}

/// Refuses what [`save`] refuses, before there is anything to write: `contents` are of the same kind.
///
/// # Errors
/// A file of others, unless `overwrite`; one that cannot be read.
pub fn check_contents(file: &Path, contents: impl AsRef<[u8]>, overwrite: bool) -> Result<()> {
    check(file, overwrite, |old| is_alike(&marks(old), &marks(contents.as_ref())))
}

/// Refuses to replace a file that is not empty, unless `is_ours` recognises it.
///
/// # Errors
/// A file of others, unless `overwrite`; one that cannot be read.
pub fn check(file: &Path, overwrite: bool, is_ours: impl FnOnce(File) -> bool) -> Result<()> {
    if overwrite || !is_in_the_way(file) || is_ours(input_file::open(file, "check who wrote this file")?) {
        return Ok(());
    }
    let problem = "a file that perf4sight did not write would be replaced";
    let error = Error::usage(problem).help("choose another place, or replace it (--overwrite, or overwrite = True)");
    Err(error.file(atomic_write::named(file)))
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
        check(&file, overwrite, |old| is_ours && (!is_page || marks(old).contains(GENERATOR)))
    })
}

/// Whether there is a regular file that is not empty. What a shell redirects to is meant to be written.
fn is_in_the_way(file: &Path) -> bool {
    !input_file::is_inherited(file) && fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() > 0)
}

/// The marks that identify a text: its columns or fields, or the generator of a page.
fn marks(text: impl Read) -> BTreeSet<String> {
    let mut text = BufReader::new(text);
    match text.fill_buf().ok().and_then(|start| start.first().copied()) {
        Some(b'<') => page(text).into_iter().collect(),
        Some(b'{') => serde_json::from_reader(text).map_or(BTreeSet::new(), fields),
        Some(b'[') => serde_json::from_reader(text)
            .map_or(BTreeSet::new(), |all: Vec<Fields>| all.into_iter().flat_map(fields).collect()),
        _ => columns(text),
    }
}

type Fields = BTreeMap<String, IgnoredAny>;

fn fields(object: Fields) -> BTreeSet<String> {
    object.into_keys().collect()
}

fn page(text: impl BufRead) -> Option<String> {
    let mut head = Vec::new();
    text.take(HEAD).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let bare = || head.split_whitespace().collect::<String>().to_lowercase();
    let is_earlier = || bare().starts_with(EARLIER) && head.contains(COLOUR);
    (head.contains(GENERATOR) || is_earlier()).then(|| GENERATOR.to_owned())
}

fn columns(text: impl BufRead) -> BTreeSet<String> {
    let mut header = String::new();
    let _ = text.take(HEAD).read_line(&mut header);
    header.trim_end().split([',', ';']).filter(|column| !column.is_empty()).map(str::to_owned).collect()
}

/// Whether both share most marks: versions and settings add and leave out some.
fn is_alike(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    2 * one.intersection(other).count() > one.union(other).count()
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
        assert!(replaces("batch,latency,memory\n1,2,3\n", "batch,latency,memory,level\n1,2,3,4\n", false));
        assert!(replaces("{\"network\": 1, \"rows\": []}", "{\"network\": 2, \"rows\": [3]}", false));
        assert!(replaces("[{\"gpu\": 1}]", "[{\"gpu\": 1}, {\"gpu\": 2}]", false));
        assert!(replaces("", "a,b\n", false));
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
