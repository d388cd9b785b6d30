//! The folder of a run: the configuration, the items of every task, what became of each. All nodes see it.
//!
//! Every file has one writer: the submitting program writes `run.json` and `config.ini`, task 7 writes `task-7.json` and a
//! folder of its own, and whoever merges that, under a lock, writes a mark next to it. So the folder is safe on NFS, where
//! two writers of one file are not.

use nix::sys::statvfs::statvfs;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder;
use perf4sight_base::{atomic_write, checksum, input_file};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The version of the files.
const FORMAT: u32 = 1;
const RUN: &str = "run.json";
/// The numbers of its arrays, each with its first task.
const JOBS: &str = "jobs.json";
/// The names of its jobs begin with this.
const NAME: &str = "perf4sight-";
const CONFIG: &str = "config.ini";
const MERGED: &str = "merged";
const CANCELLED: &str = "cancelled";
/// Job output goes here.
pub(crate) const OUTPUT: &str = "output";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SubmittedRun {
    format: u32,
    /// The version of the program that submitted it.
    pub version: String,
    /// The section that was divided.
    pub section: String,
    /// The beginning of the names of its jobs, by which the queue is searched.
    pub name: String,
    /// The time limit of a task, in minutes.
    pub minutes: u64,
    /// The options of `sbatch` that choose nodes.
    #[serde(default)]
    pub choice: Vec<String>,
    /// The work of each task.
    pub tasks: Vec<TaskShare>,
    /// Its folder.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// The work of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskShare {
    /// Names of items.
    pub items: Vec<String>,
    /// The expected seconds.
    pub seconds: f64,
}

/// What a task wrote about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskNote {
    /// How far it is.
    pub state: TaskState,
    /// The node.
    pub node: String,
    /// Its error, or the headline of its results.
    pub words: String,
    /// The nodes of another kind that it left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskState {
    /// It has begun. It stays so where the task is killed.
    Running,
    /// It ended in order before its work was done: the time limit, a cancelled job.
    Stopped,
    /// It ended with an error.
    Failed,
    /// Its node was of another kind, and Slurm gives it another one.
    Moved,
    /// It did its work.
    Finished,
}

impl SubmittedRun {
    /// A new run below `runs`, not yet saved. Its name is its own even where the folder of an earlier one was removed.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn new(runs: &Path, section: &str, now: SystemTime, tasks: Vec<TaskShare>) -> Result<Self> {
        let folder = runs.join(numbers(runs)?.last().map_or(1, |last| last + 1).to_string());
        let about = format!("{} {now:?}", folder.display());
        let name = format!("{NAME}{section}-{}-", checksum::checksum(about.bytes()));
        let minutes = 0;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (section, choice) = (section.to_owned(), Vec::new());
        Ok(SubmittedRun { format: FORMAT, version, section, name, minutes, choice, tasks, folder })
    }

    /// Writes its folder, with the configuration and these scripts.
    ///
    /// # Errors
    /// A folder that cannot be made or written.
    pub fn save(&self, config: &str, scripts: &[(&str, String)]) -> Result<()> {
        let output = self.folder.join(OUTPUT);
        output_folder::make(&output)?;
        atomic_write::save(&self.config(), config)?;
        scripts.iter().try_for_each(|(name, script)| atomic_write::save(&self.folder.join(name), script))?;
        atomic_write::save(&self.folder.join(RUN), json(self)?)
    }

    /// The run in a folder.
    ///
    /// # Errors
    /// A folder without one, or one of another version.
    pub fn load(folder: &Path) -> Result<Self> {
        let file = folder.join(RUN);
        let text = input_file::text_if_there(&file, "read the run")?.ok_or_else(|| {
            Error::input("there is no run in this folder")
                .file(folder)
                .expected(RUN)
                .help("the nodes must see the folder of the results under the same path, as on NFS: set log_dir or out to such a folder")
        })?;
        let unknown = |problem: String| {
            Error::input(problem).file(&file).help(
                "it was submitted by another version of perf4sight: finish it with that version, or remove its folder",
            )
        };
        let run: SubmittedRun =
            serde_json::from_str(&text).map_err(|cause| unknown(format!("this run cannot be understood: {cause}")))?;
        if run.format != FORMAT {
            return Err(unknown(format!("the run has format {} instead of {FORMAT}", run.format)));
        }
        // By any other name it would take jobs for its own that are none.
        match run.name.starts_with(NAME) && run.name.ends_with('-') {
            true => Ok(SubmittedRun { folder: folder.to_owned(), ..run }),
            false => Err(unknown(format!("the run has the name {:?}", run.name))),
        }
    }

    /// The runs below `runs` that may still give results, oldest first.
    ///
    /// # Errors
    /// See [`SubmittedRun::load`].
    pub fn open(runs: &Path) -> Result<Vec<Self>> {
        let folders = numbers(runs)?.into_iter().map(|number| runs.join(number.to_string()));
        // A program that was killed while it submitted left a folder without a run.
        folders
            .filter(|folder| folder.join(RUN).exists() && !folder.join(MERGED).exists())
            .map(|folder| SubmittedRun::load(&folder))
            .collect()
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.join(CONFIG)
    }

    /// Its number among the runs of its section.
    pub fn number(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes down the jobs that Slurm gave it: each array's first task and number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_jobs(&self, jobs: &[(usize, u64)]) -> Result<()> {
        atomic_write::save(&self.folder.join(JOBS), json(&jobs)?)
    }

    /// The array of a task, and its index there; none where nobody knows whether Slurm has it.
    pub fn job(&self, task: usize) -> Option<(u64, usize)> {
        let jobs = self.jobs()?;
        let (first, job) = jobs.into_iter().rfind(|(first, _)| *first <= task)?;
        Some((job, task - first))
    }

    /// Whether no job of it is known, nor anything that one did: the program was killed, or Slurm did not answer.
    pub fn is_unsubmitted(&self) -> bool {
        self.jobs().is_none() && (0..self.tasks.len()).all(|task| self.note(task).is_none())
    }

    /// Its arrays, each with its first task; none where nobody knows whether Slurm has them.
    pub fn jobs(&self) -> Option<Vec<(usize, u64)>> {
        let text = input_file::text_if_there(&self.folder.join(JOBS), "read the jobs of a run").ok()??;
        serde_json::from_str(&text).ok()
    }

    /// Whether it was submitted with this configuration.
    pub fn is_of(&self, config: &str) -> bool {
        input_file::text_if_there(&self.config(), "read the configuration of a run")
            .is_ok_and(|own| own.as_deref() == Some(config))
    }

    /// When it was submitted.
    pub fn began(&self) -> Option<SystemTime> {
        fs::metadata(self.folder.join(RUN)).ok()?.modified().ok()
    }

    /// The folder of the results of a task: its own even where the folder of an earlier run was removed while that still worked.
    pub fn results(&self, task: usize) -> PathBuf {
        self.folder.join(format!("{}{task}", self.name))
    }

    /// The items of all tasks.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().flat_map(|share| share.items.iter().map(String::as_str))
    }

    /// The expected time of the longest task.
    pub fn longest(&self) -> Duration {
        let seconds = self.tasks.iter().map(|share| share.seconds).fold(0.0, f64::max);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The share of a task in the expected time of all.
    pub fn share(&self, task: usize) -> f64 {
        let all: f64 = self.tasks.iter().map(|share| share.seconds).sum();
        let items: usize = self.tasks.iter().map(|share| share.items.len()).sum();
        match all > 0.0 {
            true => self.tasks[task].seconds / all,
            false => self.tasks[task].items.len() as f64 / items.max(1) as f64,
        }
    }

    /// What a task wrote about itself; none where it has not begun, or cannot see this folder.
    pub fn note(&self, task: usize) -> Option<TaskNote> {
        let text = input_file::text_if_there(&self.note_file(task), "read the state of a task").ok()??;
        serde_json::from_str(&text).ok()
    }

    /// Writes what a task says about itself.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, task: usize, note: &TaskNote) -> Result<()> {
        atomic_write::save(&self.note_file(task), json(note)?)
    }

    /// The last line that a task printed; none where its node made no file for it.
    pub fn printed(&self, task: usize) -> Option<String> {
        let files = fs::read_dir(self.folder.join(OUTPUT)).ok()?.flatten();
        let file = files.map(|entry| entry.path()).find(|file| task_of(file) == Some(task))?;
        Some(last_line(&file).unwrap_or_default())
    }

    /// Whether nothing more can be written into the folder.
    pub fn is_disk_full(&self) -> bool {
        statvfs(&self.folder).is_ok_and(|disk| disk.blocks_available() == 0)
    }

    /// Whether the results of a task are among the others.
    pub fn is_merged(&self, task: usize) -> bool {
        self.results(task).with_extension(MERGED).exists()
    }

    /// Marks that the results of a task are among the others.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_merged(&self, task: usize) -> Result<()> {
        atomic_write::save(&self.results(task).with_extension(MERGED), "")
    }

    /// Marks that nothing more will come of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn mark_closed(&self) -> Result<()> {
        atomic_write::save(&self.folder.join(MERGED), "")
    }

    /// Marks that its tasks end because somebody cancelled them, which is no failure.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_cancelled(&self) -> Result<()> {
        atomic_write::save(&self.folder.join(CANCELLED), "")
    }

    /// Whether somebody cancelled it.
    pub fn is_cancelled(&self) -> bool {
        self.folder.join(CANCELLED).exists()
    }

    /// Whether nothing more comes of it.
    pub fn is_closed(&self) -> bool {
        self.folder.join(MERGED).exists()
    }

    fn note_file(&self, task: usize) -> PathBuf {
        self.folder.join(format!("task-{task}.json"))
    }
}

/// The task that printed into a file, whose name is the first task of its array and the index in it, such as 5+2.
fn task_of(file: &Path) -> Option<usize> {
    let (first, index) = file.file_name()?.to_str()?.split_once('+')?;
    first.parse::<usize>().ok()?.checked_add(index.parse().ok()?)
}

/// The last line of a file with something in it, of the last thousand bytes.
fn last_line(file: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(1000)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    Ok(text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned())
}

fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|cause| Error::input(format!("a run cannot be written: {cause}")))
}

/// The numbers of the runs, ascending.
fn numbers(runs: &Path) -> Result<Vec<u64>> {
    let listed = match fs::read_dir(runs) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|cause| Error::io(runs, "list the runs", &cause))?,
    };
    // Larger ones are not ours.
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u64> = listed.flatten().filter_map(number).map(u64::from).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
