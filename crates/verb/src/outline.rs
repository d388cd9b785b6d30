//! The work, inputs and outputs of a section, known before anything runs.

use crate::Context;
use crate::planned::place;
use perf4sight_base::error::Result;
use std::collections::HashSet;
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
    /// The rows that it adds to files at most, each in words by which a later section counts those that it needs.
    pub rows: Vec<(PathBuf, String)>,
    /// What must hold of their contents.
    pub checks: Vec<InputCheck<'a>>,
    /// What a reader should know before it runs.
    pub warnings: Vec<String>,
}

/// What a section would refuse at its start: inputs that it cannot use, files in the place of its results that are not its own. It takes
/// seconds at most, and is left out where an earlier section writes what it reads.
pub struct InputCheck<'a> {
    /// The key of the section that a refusal is about.
    pub key: &'static str,
    /// The files and folders that are read.
    pub reads: Vec<PathBuf>,
    /// Refuses.
    pub run: CheckFunction<'a>,
}

type CheckFunction<'a> = Box<dyn Fn(&mut Context) -> Result<()> + 'a>;

impl<'a> Outline<'a> {
    /// Adds a check of the value of a key, for which files and folders are read.
    #[must_use]
    pub fn check(
        mut self,
        key: &'static str,
        reads: impl IntoIterator<Item = impl Into<PathBuf>>,
        run: impl Fn(&mut Context) -> Result<()> + 'a,
    ) -> Self {
        self.checks.push(InputCheck { key, reads: reads.into_iter().map(Into::into).collect(), run: Box::new(run) });
        self
    }

    /// Adds a check of the value of a key, which rests on nothing that an earlier section writes.
    #[must_use]
    pub fn check_value(self, key: &'static str, run: impl Fn() -> Result<()> + 'a) -> Self {
        self.check(key, [""; 0], move |_| run())
    }

    /// Adds a check of each input of a key.
    #[must_use]
    pub fn check_each(self, key: &'static str, run: impl Fn(&Path) -> Result<()> + Copy + 'a) -> Self {
        let own: Vec<PathBuf> =
            self.reads.iter().filter(|read| read.key == key).map(|read| read.path.clone()).collect();
        own.into_iter().fold(self, |outline, path| outline.check(key, [path.clone()], move |_| run(&path)))
    }

    /// Adds a folder of results, by the key that names it, and the names of the files in it.
    #[must_use]
    pub fn results(
        mut self,
        key: &'static str,
        folder: &Path,
        names: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Self {
        self.fills.push(KeyedPath::new(key, folder));
        self.writes.extend(names.into_iter().map(|name| KeyedPath::new(key, folder.join(name))));
        self
    }

    /// All that it writes or fills.
    pub fn written(&self) -> impl Iterator<Item = &KeyedPath> {
        self.writes.iter().chain(&self.fills)
    }

    /// What an earlier section writes and would lose by this one, or this one could not write for that: a file of both, or a file in the
    /// place of a folder. The key of this one, and the earlier path.
    pub fn collides<'b>(&self, earlier: &'b Outline<'_>) -> Option<(&'static str, &'b Path)> {
        let others = earlier.places();
        self.places().iter().find_map(|own| Some((own.key, others.iter().find(|other| own.collides(other))?.path)))
    }

    /// The first file that it would write twice, so that the later contents replace the earlier ones.
    pub fn written_twice(&self) -> Option<&KeyedPath> {
        let mut places = HashSet::new();
        self.writes.iter().find(|file| is_kept(&file.path) && !places.insert(place(&file.path)))
    }

    /// The files that are there already, and that it writes although they are this input, or in this folder of inputs.
    pub fn replaces<'b>(&'b self, input: &Path) -> impl Iterator<Item = &'b KeyedPath> {
        let input = place(input);
        let is_there =
            |file: &&KeyedPath| fs::metadata(&file.path).is_ok_and(|about| about.is_file() && about.len() > 0);
        self.writes.iter().filter(is_there).filter(move |file| place(&file.path).starts_with(&input))
    }

    /// Whether this reads something that a later section writes.
    pub fn reads_from(&self, later: &Outline<'_>) -> bool {
        let reads: Vec<PathBuf> = self.reads.iter().map(|read| place(&read.path)).collect();
        let touches = |written: &PlacedPath| {
            reads.iter().any(|read| read.starts_with(&written.place) || written.place.starts_with(read))
        };
        later.places().iter().any(touches)
    }

    /// All that it writes or fills, and where that is.
    fn places(&self) -> Vec<PlacedPath<'_>> {
        let files = self.writes.iter().map(|file| (file, is_kept(&file.path)));
        let all = files.chain(self.fills.iter().map(|folder| (folder, false)));
        all.map(|(KeyedPath { key, path }, is_file)| PlacedPath { key, path, place: place(path), is_file }).collect()
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

/// A path that is written to, and its place, however it is spelled.
struct PlacedPath<'a> {
    key: &'static str,
    path: &'a Path,
    place: PathBuf,
    is_file: bool,
}

impl PlacedPath<'_> {
    fn collides(&self, other: &PlacedPath<'_>) -> bool {
        self.is_file && other.place.starts_with(&self.place) || other.is_file && self.place.starts_with(&other.place)
    }
}

/// Whether what is written to a file replaces what was written before; in a pipe or a device it follows it.
fn is_kept(file: &Path) -> bool {
    fs::metadata(file).map_or(true, |about| about.is_file() || about.is_dir())
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
