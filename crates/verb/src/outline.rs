//! The work, inputs and outputs of a section, known before anything runs.

use perf4sight_base::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The planned work of a section.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outline {
    /// One line each, for people.
    pub steps: Vec<String>,
    /// The number of runs on a device.
    pub runs: usize,
    /// Approximate duration, where known.
    pub time: Option<Duration>,
    /// Files and folders that must exist, or be written by an earlier section, for it to start.
    pub reads: Vec<KeyedPath>,
    /// Files and folders it writes.
    pub writes: Vec<KeyedPath>,
    /// What a reader should know before it runs.
    pub warnings: Vec<String>,
}

impl Outline {
    /// The outline of a section that reads traces and writes one file or folder; `doing` says what it does with them.
    pub fn of_traces(doing: &str, traces: &[PathBuf], out: &Path) -> Self {
        let named: Vec<String> = traces.iter().map(|path| path.display().to_string()).collect();
        Outline {
            steps: vec![format!("{doing} {}", named.join(", "))],
            reads: traces.iter().map(|path| KeyedPath::new("traces", path)).collect(),
            writes: vec![KeyedPath::new("out", out)],
            ..Outline::default()
        }
    }
}

/// A path and the key that named it, so that a message can point at the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedPath {
    /// The key in the section.
    pub key: &'static str,
    /// The file or folder.
    pub path: PathBuf,
}

impl KeyedPath {
    /// The path that a key names.
    pub fn new(key: &'static str, path: impl Into<PathBuf>) -> Self {
        KeyedPath { key, path: path.into() }
    }
}

/// The files that exist when a section starts: those on disk and those that earlier sections write.
#[derive(Debug, Clone, Default)]
pub struct Foreseen {
    written: BTreeSet<PathBuf>,
}

impl Foreseen {
    /// Adds the files that a section will write.
    pub fn add(&mut self, outline: &Outline) {
        self.written.extend(outline.writes.iter().map(|written| written.path.clone()));
    }

    /// Whether a file or folder will be there. In a folder that an earlier section fills, every file may be.
    pub fn exists(&self, path: &Path) -> bool {
        path.exists() || self.written.iter().any(|written| written.starts_with(path) || path.starts_with(written))
    }

    /// The files of a folder with this extension, sorted; none where the folder is absent.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(&self, folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
        let mut files: BTreeSet<PathBuf> =
            self.written.iter().filter(|path| path.parent() == Some(folder)).cloned().collect();
        if folder.is_dir() {
            let refused = |cause: std::io::Error| Error::io(folder, "list this folder", &cause);
            for entry in fs::read_dir(folder).map_err(refused)? {
                files.insert(entry.map_err(refused)?.path());
            }
        }
        files.retain(|path| path.extension().is_some_and(|found| found == extension));
        Ok(files.into_iter().collect())
    }
}
