//! The files of a verb's results in a folder, which replace those of earlier results together.

use crate::error::{Error, Result};
use crate::output_folder::{self, lock_folder};
use crate::temporary_folder::TemporaryFolder;
use crate::{atomic_write, overwrite};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time to wait for another program that is writing its files.
const PATIENCE: Duration = Duration::from_secs(10);
/// The advice if that takes longer.
const HELD: &str = "wait until it has ended, or choose another folder (out)";

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
    /// Whether a file with the name of the mark was written by this verb.
    fn is_written_by(&self, file: &Path) -> bool {
        let read = fs::File::open(file).ok().and_then(|file| serde_json::from_reader(BufReader::new(file)).ok());
        read.is_some_and(|object: Map<String, Value>| {
            let format = object.get("format").and_then(Value::as_u64).unwrap_or(0);
            (1..=u64::from(self.format)).contains(&format)
                && self.lists.iter().all(|list| object.get(*list).is_some_and(Value::is_array))
        })
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
        let ours = !replaced.is_empty() && results.is_written_by(&out.join(results.mark));
        // No verb with such a folder replaces files of others.
        overwrite::check_folder(out, &results.names, ours, false)
            .map_err(|error| error.help("choose another folder (out)"))?;
        Ok(ResultFiles { out: out.to_owned(), results, files: Vec::new() })
    }

    /// Where a file will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Adds a file, which [`ResultFiles::write_all`] writes.
    pub fn add(&mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) {
        self.files.push((name.into(), contents.into()));
    }

    /// Writes all files into a temporary folder, then moves them to their places. Files of earlier results that these do
    /// not have are removed, so that they are not mistaken for theirs.
    ///
    /// # Errors
    /// An I/O error; earlier files are then unchanged unless moving had begun.
    pub fn write_all(self) -> Result<()> {
        let (out, mark) = (&self.out, self.results.mark);
        output_folder::make(out)?;
        // Of two programs at the same time, the later one replaces all files of the other.
        let _held = lock_folder(out, PATIENCE, HELD)?;
        let fresh = TemporaryFolder::with_prefix(self.results.unfinished, out)?;
        for (name, contents) in &self.files {
            make_parent(&fresh.path().join(name))?;
            make_parent(&out.join(name))?;
            atomic_write::save(&fresh.path().join(name), contents)?;
        }
        let written: BTreeSet<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        // The file that identifies the folder is moved first: if an error follows, the next program may still replace
        // the others.
        let first = written.get(mark).into_iter();
        for name in first.chain(written.iter().filter(|name| **name != mark)) {
            let file = out.join(name);
            fs::rename(fresh.path().join(name), &file)
                .map_err(|cause| Error::io(&file, "replace this file", &cause))?;
        }
        let names = self.results.names.iter().filter(|name| !written.contains(name.as_str()));
        names.into_iter().try_for_each(|name| remove(&out.join(name)))
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
