//! The files of a breakdown, which take the place of an earlier one's together.

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

/// What tells that a folder's files are a breakdown's.
const MARK: &str = perf4sight_traces::BREAKDOWN;
/// What others write under the same name.
const REPORT: &str = "report.html";
/// How folders of files that have not taken their places begin.
const UNFINISHED: &str = ".breakdown.";
/// So long another breakdown may take to write its files.
const PATIENCE: Duration = Duration::from_secs(10);
/// What to do where it stays held.
const HELD: &str = "wait until it has ended, or choose another folder (out)";
/// What else there is beside what was published.
const OTHERS: [&str; 2] = ["breakdown.csv", "stacks.folded"];

/// Files that are to be written into a folder.
pub(super) struct Files {
    out: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// None yet.
    ///
    /// # Errors
    /// A folder where a file would be replaced that is not an earlier breakdown's, or that is to be read.
    pub fn new<'a>(out: &Path, mut inputs: impl Iterator<Item = &'a Path>) -> Result<Self> {
        let replaced: Vec<PathBuf> = all_names().map(|name| out.join(name)).filter(|file| file.exists()).collect();
        let refused = |what: &str, file: &Path| Err(Error::usage(what).file(file).help("choose another folder (out)"));
        let is_replaced = |input: &&Path| replaced.iter().any(|file| is_same(file, input));
        if let Some(input) = inputs.find(is_replaced) {
            return refused("what is to be broken down lies where a file of the breakdown goes", input);
        }
        let ours = !replaced.is_empty() && is_breakdown(&out.join(MARK));
        overwrite::check_folder(out, all_names(), ours, false)?;
        Ok(Files { out: out.to_owned(), files: Vec::new() })
    }

    /// One more.
    pub fn add(&mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) {
        self.files.push((name.into(), contents.into()));
    }

    /// Writes them all beside the folder's files, and only then lets them take their places. What an earlier breakdown wrote and this one
    /// does not goes, so that nobody takes it for this one's.
    ///
    /// # Errors
    /// When they cannot be written; an earlier breakdown is then as it was.
    pub fn place(self) -> Result<()> {
        let out = &self.out;
        let failed = |doing: &'static str| move |cause: io::Error| Error::io(out, doing, &cause);
        fs::create_dir_all(out).map_err(failed("make this folder"))?;
        // Of two breakdowns at once the later one replaces the other as a whole.
        let _held = lock_folder(out, PATIENCE, HELD)?;
        let fresh = TemporaryFolder::named(UNFINISHED, out)?;
        for (name, contents) in &self.files {
            atomic_write::save(&fresh.path().join(name), contents)?;
        }
        let written: BTreeSet<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        // What tells whose the folder is goes first: whatever happens after it, the next breakdown may replace the others.
        let first = written.get(MARK).into_iter();
        for name in first.chain(written.iter().filter(|name| **name != MARK)) {
            let file = out.join(name);
            fs::rename(fresh.path().join(name), &file)
                .map_err(|cause| Error::io(&file, "replace this file", &cause))?;
        }
        all_names().filter(|name| !written.contains(name.as_str())).try_for_each(|name| remove(&out.join(name)))
    }
}

/// The names of all files that a breakdown may write, the one that tells whose they are first.
fn all_names() -> impl Iterator<Item = String> {
    [MARK, REPORT].into_iter().chain(OTHERS).map(str::to_owned).chain(published::names())
}

/// Whether both are one file, whatever way leads there.
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// What `breakdown.json` has at its top.
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
