//! The work, inputs and outputs of a section, known before anything runs.

use crate::Context;
use perf4sight_base::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The planned work of a section.
#[derive(Default)]
pub struct Outline<'a> {
    /// One line each, for people.
    pub steps: Vec<String>,
    /// The number of runs on a device.
    pub runs: usize,
    /// Approximate duration, where known.
    pub time: Option<Duration>,
    /// Files and folders that must exist, or be written by an earlier section, for it to start.
    pub reads: Vec<KeyedPath>,
    /// Files it writes.
    pub writes: Vec<KeyedPath>,
    /// Folders it writes files into.
    pub fills: Vec<KeyedPath>,
    /// What must hold of their contents.
    pub checks: Vec<Check<'a>>,
    /// What a reader should know before it runs.
    pub warnings: Vec<String>,
}

/// What a section would refuse at its start: inputs that it cannot use, files in the place of its results that are not its own. It takes
/// seconds at most, and is left out where an earlier section writes what it reads.
pub struct Check<'a> {
    /// The key of the section that a refusal is about.
    pub key: &'static str,
    /// The files and folders that are read.
    pub reads: Vec<PathBuf>,
    /// Refuses.
    pub run: Refuses<'a>,
}

type Refuses<'a> = Box<dyn Fn(&mut Context) -> Result<()> + 'a>;

impl<'a> Outline<'a> {
    /// Adds a check of the value of a key, for which files and folders are read.
    #[must_use]
    pub fn check(
        mut self,
        key: &'static str,
        reads: impl IntoIterator<Item = impl Into<PathBuf>>,
        run: impl Fn(&mut Context) -> Result<()> + 'a,
    ) -> Self {
        self.checks.push(Check { key, reads: reads.into_iter().map(Into::into).collect(), run: Box::new(run) });
        self
    }

    /// Adds a check of what may stand in the place of results.
    #[must_use]
    pub fn check_results(self, key: &'static str, run: impl Fn() -> Result<()> + 'a) -> Self {
        self.check(key, [""; 0], move |_| run())
    }

    /// Adds a check of each input of a key.
    #[must_use]
    pub fn check_each(self, key: &'static str, run: impl Fn(&Path) -> Result<()> + Copy + 'a) -> Self {
        let own: Vec<PathBuf> =
            self.reads.iter().filter(|read| read.key == key).map(|read| read.path.clone()).collect();
        own.into_iter().fold(self, |outline, path| outline.check(key, [path.clone()], move |_| run(&path)))
    }

    /// All that it writes or fills.
    pub fn written(&self) -> impl Iterator<Item = &KeyedPath> {
        self.writes.iter().chain(&self.fills)
    }

    /// The outline of a section that reads traces; `doing` says what it does with them.
    pub fn of_traces(doing: &str, traces: &[PathBuf]) -> Self {
        let named: Vec<String> = traces.iter().map(|path| path.display().to_string()).collect();
        Outline {
            steps: vec![format!("{doing} {}", named.join(", "))],
            reads: traces.iter().map(|path| KeyedPath::new("traces", path)).collect(),
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
    pub fn add(&mut self, outline: &Outline<'_>) {
        self.written.extend(outline.written().map(|written| written.path.clone()));
    }

    /// Whether a file or folder will be there. In a folder that an earlier section fills, every file may be.
    pub fn exists(&self, path: &Path) -> bool {
        path.exists() || self.is_written(path)
    }

    /// Whether an earlier section will write a file or folder, or something in it, whether or not it is there already.
    pub fn is_written(&self, path: &Path) -> bool {
        self.written.iter().any(|written| written.starts_with(path) || path.starts_with(written))
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
