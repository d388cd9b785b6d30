//! The files of a breakdown, which take the place of an earlier one's together.

use super::published;
use crate::error::{Error, Result};
use crate::whole_file;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What tells that a folder's files are a breakdown's.
const MARK: &str = crate::traces::BREAKDOWN;
/// What others write under the same name.
const REPORT: &str = "report.html";
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
    /// A folder with a report that is not a breakdown's.
    pub fn new(out: &Path) -> Result<Self> {
        if out.join(REPORT).exists() && !out.join(MARK).exists() {
            return Err(Error::usage("a report lies here that is not a breakdown's")
                .file(out.join(REPORT))
                .help("choose another folder (out)"));
        }
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
        let fresh = tempfile::Builder::new().prefix(".breakdown.").tempdir_in(out);
        let fresh = fresh.map_err(failed("write into this folder"))?;
        for (name, contents) in &self.files {
            whole_file::save(&fresh.path().join(name), contents)?;
        }
        let written: BTreeSet<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        for name in &written {
            let file = out.join(name);
            fs::rename(fresh.path().join(name), &file)
                .map_err(|cause| Error::io(&file, "replace this file", &cause))?;
        }
        let known = published::names().chain(OTHERS.map(str::to_owned));
        known.filter(|name| !written.contains(name.as_str())).try_for_each(|name| remove(&out.join(name)))
    }
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(file, "remove what an earlier breakdown wrote", &cause))
        }
        _ => Ok(()),
    }
}
