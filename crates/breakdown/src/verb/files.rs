//! The files of a breakdown, which replace those of an earlier breakdown together.

use super::json::FORMAT;
use super::published;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::lock_folder;
use perf4sight_base::temporary_folder::TemporaryFolder;
use perf4sight_base::{atomic_write, overwrite};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file that identifies a folder as one of a breakdown.
const MARK: &str = perf4sight_traces::BREAKDOWN;
/// The report. Other verbs write a file of the same name.
const REPORT: &str = "report.html";
/// The prefix of folders with files that have not been moved to their places.
const UNFINISHED: &str = ".breakdown.";
/// The time to wait for another breakdown that is writing its files.
const PATIENCE: Duration = Duration::from_secs(10);
/// The advice if that takes longer.
const HELD: &str = "wait until it has ended, or choose another folder (out)";
/// The other files, in addition to those of the published toolkit.
const OTHERS: [&str; 2] = ["breakdown.csv", "stacks.folded"];

/// Files to write into a folder.
pub(super) struct Files {
    out: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// An empty list of files.
    ///
    /// # Errors
    /// A folder in which a file would be replaced that is an input, or that is not from an earlier breakdown.
    pub fn new<'a>(out: &Path, mut inputs: impl Iterator<Item = &'a Path>) -> Result<Self> {
        let replaced: Vec<PathBuf> = all_names().map(|name| out.join(name)).filter(|file| file.exists()).collect();
        let refused = |what: &str, file: &Path| Err(Error::usage(what).file(file).help("choose another folder (out)"));
        let is_replaced = |input: &&Path| replaced.iter().any(|file| is_same(file, input));
        if let Some(input) = inputs.find(is_replaced) {
            return refused("an input would be replaced by a file of the breakdown", input);
        }
        let ours = !replaced.is_empty() && is_breakdown(&out.join(MARK));
        overwrite::check_folder(out, all_names(), ours, false)?;
        Ok(Files { out: out.to_owned(), files: Vec::new() })
    }

    pub fn add(&mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) {
        self.files.push((name.into(), contents.into()));
    }

    /// Writes all files into a temporary folder, then moves them to their places. Files of an earlier breakdown that
    /// this one does not write are removed, so that they are not mistaken for its results.
    ///
    /// # Errors
    /// An I/O error; the files of an earlier breakdown are then unchanged unless moving had begun.
    pub fn place(self) -> Result<()> {
        let out = &self.out;
        let failed = |doing: &'static str| move |cause: io::Error| Error::io(out, doing, &cause);
        fs::create_dir_all(out).map_err(failed("make this folder"))?;
        // Of two breakdowns at the same time, the later one replaces all files of the other.
        let _held = lock_folder(out, PATIENCE, HELD)?;
        let fresh = TemporaryFolder::named(UNFINISHED, out)?;
        for (name, contents) in &self.files {
            atomic_write::save(&fresh.path().join(name), contents)?;
        }
        let written: BTreeSet<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        // The file that identifies the folder is moved first: if an error follows, the next breakdown may still replace
        // the others.
        let first = written.get(MARK).into_iter();
        for name in first.chain(written.iter().filter(|name| **name != MARK)) {
            let file = out.join(name);
            fs::rename(fresh.path().join(name), &file)
                .map_err(|cause| Error::io(&file, "replace this file", &cause))?;
        }
        all_names().filter(|name| !written.contains(name.as_str())).try_for_each(|name| remove(&out.join(name)))
    }
}

/// The names of all files that a breakdown may write, beginning with the one that identifies the folder.
fn all_names() -> impl Iterator<Item = String> {
    [MARK, REPORT].into_iter().chain(OTHERS).map(str::to_owned).chain(published::names())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The top level of `breakdown.json`.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(rename = "ranks")]
    _ranks: Vec<IgnoredAny>,
    #[serde(rename = "warnings")]
    _warnings: Vec<IgnoredAny>,
}

fn is_breakdown(file: &Path) -> bool {
    let head = fs::File::open(file).map(BufReader::new).map(serde_json::from_reader::<_, Head>);
    matches!(head, Ok(Ok(Head { format: 1..=FORMAT, .. })))
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(file, "remove what an earlier breakdown wrote", &cause))
        }
        _ => Ok(()),
    }
}
