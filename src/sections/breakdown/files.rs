//! The files of a breakdown, which take the place of an earlier one's together.

use crate::error::{Error, Result};
use crate::whole_file;
use std::fs;
use std::path::{Path, PathBuf};

/// What tells that a folder's files are a breakdown's.
const MARK: &str = "breakdown.json";
/// What others write under the same name.
const SHARED_NAME: &str = "report.html";

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
        if out.join(SHARED_NAME).exists() && !out.join(MARK).exists() {
            return Err(Error::usage("a report lies here that is not a breakdown's")
                .file(out.join(SHARED_NAME))
                .help("choose another folder (out)"));
        }
        Ok(Files { out: out.to_owned(), files: Vec::new() })
    }

    /// One more.
    pub fn with(mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), contents.into()));
        self
    }

    /// Writes them all beside the folder's files, and only then lets them take their places.
    ///
    /// # Errors
    /// When they cannot be written; an earlier breakdown is then as it was.
    pub fn place(self) -> Result<()> {
        let out = &self.out;
        let failed = |doing: &'static str| move |cause: std::io::Error| Error::io(out, doing, &cause);
        fs::create_dir_all(out).map_err(failed("make this folder"))?;
        let fresh =
            tempfile::Builder::new().prefix("new.").tempdir_in(out).map_err(failed("write into this folder"))?;
        for (name, contents) in &self.files {
            whole_file::save(&fresh.path().join(name), contents)?;
        }
        for (name, _) in &self.files {
            let file = self.out.join(name);
            fs::rename(fresh.path().join(name), &file)
                .map_err(|cause| Error::io(&file, "replace this file", &cause))?;
        }
        Ok(())
    }
}
