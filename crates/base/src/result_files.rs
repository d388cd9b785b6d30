//! The files of a verb's results in a folder, which replace those of earlier results together.

use crate::checksum::checksum;
use crate::error::{Error, Result};
use crate::output_folder::{self, lock_folder};
use crate::temporary_folder::TemporaryFolder;
use crate::{atomic_write, overwrite};
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time to wait for another program that is writing its files.
const PATIENCE: Duration = Duration::from_secs(10);
/// The advice if that takes longer.
const HELD: &str = "wait until it has ended, or choose another folder (out)";
/// The field of the mark with the checksum of each other file, so that a later run replaces no file that somebody changed or put there.
const CHECKSUMS: &str = "files";

/// What a verb may write into a folder.
pub struct ResultNames {
    /// The file that identifies a folder as one of these results.
    pub mark: &'static str,
    /// The prefix of folders with files that have not been moved to their places.
    pub unfinished: &'static str,
    /// The latest format of that file, a JSON object with the number under `format`.
    pub format: u32,
    /// Fields of that object with lists.
    pub lists: [&'static str; 2],
    /// The problem if an input is in the place of a file.
    pub replaces_input: &'static str,
    /// The names of all files that a run may write, with that of the mark.
    pub names: Vec<String>,
}

impl ResultNames {
    /// The fields of the mark in a folder, if this verb wrote it.
    fn read_mark(&self, out: &Path) -> Option<Map<String, Value>> {
        let file = fs::File::open(out.join(self.mark)).ok()?;
        let fields: Map<String, Value> = serde_json::from_reader(BufReader::new(file)).ok()?;
        let format = fields.get("format").and_then(Value::as_u64).unwrap_or(0);
        let is_own = (1..=u64::from(self.format)).contains(&format)
            && self.lists.iter().all(|list| fields.get(*list).is_some_and(Value::is_array));
        is_own.then_some(fields)
    }

    /// Refuses files that are not as an earlier run wrote them. Its mark names none if it is of a version that took no checksums.
    fn check_unchanged(&self, out: &Path, mark: &Map<String, Value>) -> Result<()> {
        let Some(Value::Object(written)) = mark.get(CHECKSUMS) else { return Ok(()) };
        let is_changed = |name: &&String| {
            let contents = fs::read(out.join(name)).unwrap_or_default();
            !contents.is_empty() && written.get(*name).and_then(Value::as_str) != Some(&checksum(contents))
        };
        match self.names.iter().filter(|name| *name != self.mark).find(is_changed) {
            None => Ok(()),
            Some(name) => Err(Error::usage("this file is not as an earlier run wrote it, and would be replaced")
                .file(out.join(name))
                .help("move it, or choose another folder (out)")),
        }
    }
}

/// Files to write into a folder.
pub struct ResultFiles {
    out: PathBuf,
    results: ResultNames,
    files: Vec<(String, Vec<u8>)>,
}

impl ResultFiles {
    /// An empty list of files.
    ///
    /// # Errors
    /// A folder in which a file would be replaced that is an input, or that is not from earlier results.
    pub fn new<'a>(out: &Path, results: ResultNames, mut inputs: impl Iterator<Item = &'a Path>) -> Result<Self> {
        output_folder::check_no_file(out)?;
        let files: Vec<PathBuf> = results.names.iter().map(|name| out.join(name)).collect();
        files.iter().filter_map(|file| file.parent()).try_for_each(output_folder::check_no_file)?;
        let replaced: Vec<&PathBuf> = files.iter().filter(|file| file.exists()).collect();
        let refused = |what: &str, file: &Path| Err(Error::usage(what).file(file).help("choose another folder (out)"));
        let is_replaced = |input: &&Path| replaced.iter().any(|file| overwrite::is_same(file, input));
        if let Some(input) = inputs.find(is_replaced) {
            return refused(results.replaces_input, input);
        }
        // They are moved to their places, where they would not be written to what a link or a device stands for.
        let is_other = |file: &&PathBuf| fs::symlink_metadata(file).is_ok_and(|about| !about.is_file());
        if let Some(other) = files.iter().find(is_other) {
            return refused("a link, a folder or a device is in the place of a result", other);
        }
        let mark = results.read_mark(out);
        // No verb with such a folder replaces files of others.
        overwrite::check_folder(out, &results.names, mark.is_some(), false)
            .map_err(|error| error.help("choose another folder (out)"))?;
        mark.iter().try_for_each(|mark| results.check_unchanged(out, mark))?;
        Ok(ResultFiles { out: out.to_owned(), results, files: Vec::new() })
    }

    /// Where a file will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Adds a file other than the mark, which [`ResultFiles::write_all`] writes.
    pub fn add(&mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) {
        self.files.push((name.into(), contents.into()));
    }

    /// Writes all files into a temporary folder, the mark with these fields and the checksums of the others among them, then moves them to their places
    /// instead of those of earlier results.
    ///
    /// # Errors
    /// An I/O error; earlier files are then unchanged unless moving had begun.
    pub fn write_all(mut self, mut fields: Value) -> Result<()> {
        if let Value::Object(fields) = &mut fields {
            fields.insert(CHECKSUMS.to_owned(), self.checksums().into());
        }
        let mark = self.results.mark;
        // It is moved first: if an error follows, the next program may still replace the others.
        self.files.insert(0, (mark.to_owned(), format!("{fields:#}\n").into_bytes()));
        let out = &self.out;
        output_folder::make(out)?;
        // Of two programs at the same time, the later one replaces all files of the other.
        let _held = lock_folder(out, PATIENCE, HELD)?;
        let fresh = TemporaryFolder::with_prefix(self.results.unfinished, out)?;
        for (name, contents) in &self.files {
            make_parent(&fresh.path().join(name))?;
            make_parent(&out.join(name))?;
            atomic_write::save(&fresh.path().join(name), contents)?;
        }
        // The new mark goes with none of them.
        self.results.names.iter().filter(|name| *name != mark).try_for_each(|name| remove(&out.join(name)))?;
        self.files.iter().try_for_each(|(name, _)| {
            let file = out.join(name);
            fs::rename(fresh.path().join(name), &file).map_err(|cause| Error::io(&file, "replace this file", &cause))
        })
    }

    /// The checksums of the files, and those that an earlier run wrote and this one keeps.
    fn checksums(&self) -> Map<String, Value> {
        let written = self.results.read_mark(&self.out).and_then(|mut mark| mark.remove(CHECKSUMS));
        let mut checksums = written.and_then(|written| written.as_object().cloned()).unwrap_or_default();
        checksums.retain(|name, _| !self.results.names.contains(name));
        checksums.extend(
            self.files.iter().map(|(name, contents)| (name.clone(), checksum(contents.iter().copied()).into())),
        );
        checksums
    }
}

/// Makes the folder of a file, for names such as `spec/parts.txt`.
fn make_parent(file: &Path) -> Result<()> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.map_err(|cause| Error::io(file, "make the folder of this file", &cause))
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(file, "remove this file of earlier results", &cause))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMES: [&str; 4] = ["mark.json", "table.csv", "spec/parts.txt", "groups.txt"];

    fn results(out: &Path, names: &[&str]) -> Result<ResultFiles> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let lists = ["rows", "warnings"];
        let results =
            ResultNames { mark: "mark.json", unfinished: ".new.", format: 1, lists, replaces_input: "an input", names };
        ResultFiles::new(out, results, std::iter::empty())
    }

    fn run(out: &Path, names: &[&str]) -> Result<()> {
        let mut files = results(out, names)?;
        names.iter().filter(|name| **name != "mark.json").for_each(|name| files.add(*name, "1\n"));
        files.write_all(json!({"format": 1, "rows": [], "warnings": []}))
    }

    #[test]
    fn files_that_somebody_changed_or_put_among_results_stay() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        run(out, &NAMES[..3]).unwrap();
        run(out, &NAMES[..3]).unwrap();
        for (name, contents) in [("table.csv", "1\n2\n"), ("groups.txt", "mine\n")] {
            fs::write(out.join(name), contents).unwrap();
            let error = run(out, &NAMES).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("not as an earlier run wrote it"), "{error}");
            assert_eq!(fs::read_to_string(out.join(name)).unwrap(), contents);
            fs::remove_file(out.join(name)).unwrap();
        }
        run(out, &NAMES).unwrap();
    }

    /// `optimize` keeps groups of an earlier run that it reads.
    #[test]
    fn files_that_a_run_keeps_are_replaced_by_a_later_one() {
        let folder = tempfile::tempdir().unwrap();
        for names in [&NAMES[..], &NAMES[..3], &NAMES] {
            run(folder.path(), names).unwrap();
        }
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_is_found_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("spec"), "").unwrap();
        let error = results(folder.path(), &NAMES).err().unwrap().to_string();
        assert!(error.contains("spec") && error.contains("is a file"), "{error}");
    }
}
