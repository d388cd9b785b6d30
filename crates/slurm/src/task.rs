//! What runs on a node: the items of one task, or the merging after all of them.

use super::cluster::Cluster;
use super::job_script::NOTICE;
use super::run_folder::{Note, Run, State};
use super::standing::Standing;
use super::submission::{lock, merge_ended};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::lock_folder;
use perf4sight_verb::{Context, Divisible, Part, Summary};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the earlier process of a requeued task may take to end; Slurm kills it 30 s after SIGTERM by default (KillWait).
const EARLIER: Duration = Duration::from_secs(60);

/// A task on its node.
#[derive(Debug)]
pub struct Task {
    run: Run,
    index: usize,
    node: String,
    /// The task as Slurm names it, such as 12_3.
    job: String,
}

impl Task {
    /// The task of a run.
    ///
    /// # Errors
    /// A folder without a run, a run without such a task.
    pub fn load(folder: &Path, index: usize, node: &str, job: &str) -> Result<Self> {
        let run = Run::load(folder)?;
        if index >= run.tasks.len() {
            let problem = format!("the run has no task {index}");
            return Err(Error::usage(problem)
                .file(folder)
                .expected(format!("a task from 0 to {}", run.tasks.len() - 1)));
        }
        Ok(Task { run, index, node: node.to_owned(), job: job.to_owned() })
    }

    /// The name of its section.
    pub fn section(&self) -> &str {
        &self.run.section
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.run.config()
    }

    /// Does the work in `work`, and writes down what became of it.
    ///
    /// # Errors
    /// As `work`; another version of the program than the one that submitted.
    pub fn perform(
        &self,
        context: &mut Context,
        work: impl FnOnce(&Part<'_>, &mut Context) -> Result<Summary>,
    ) -> Result<Summary> {
        self.write(State::Running, "")?;
        let (began, before) = (context.now(), self.size());
        let done = self.check_version().and_then(|()| self.make_folder()).and_then(|()| {
            let (items, share) = (&self.run.tasks[self.index].items, self.run.share(self.index));
            work(&Part { items, folder: &self.folder(), run: &self.run.folder, share }, context)
        });
        match &done {
            Err(error) => self.write(State::Failed, &error.to_string())?,
            Ok(_) if context.cancelled() => {
                self.write(State::Stopped, "")?;
                let took = context.now().duration_since(began).unwrap_or_default();
                if self.is_at_limit(took) && self.size() > before {
                    Cluster.requeue(&self.job)?;
                }
            }
            Ok(summary) => match &summary.failure {
                Some(error) => self.write(State::Failed, &error.to_string())?,
                None => self.write(State::Finished, &summary.headline)?,
            },
        }
        done
    }

    fn folder(&self) -> PathBuf {
        self.run.results(self.index)
    }

    /// A requeued task may begin while its earlier process still ends, which holds the folder until then.
    fn make_folder(&self) -> Result<()> {
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(|cause| Error::io(&folder, "make this folder", &cause))?;
        lock_folder(&folder, EARLIER, "wait for it to finish, then run the same command again").map(drop)
    }

    /// Rows of two versions may mean different things.
    fn check_version(&self) -> Result<()> {
        let (own, other) = (env!("CARGO_PKG_VERSION"), &self.run.version);
        match own == other {
            true => Ok(()),
            false => {
                Err(Error::device(format!("perf4sight {other} submitted this, and {} has version {own}", self.node))
                    .help("install the same version on all nodes, or set program in [slurm] to one that they share"))
            }
        }
    }

    /// Whether the time limit is the reason to end, and not somebody who cancelled the job.
    fn is_at_limit(&self, took: Duration) -> bool {
        took + 2 * Duration::from_secs(NOTICE) >= Duration::from_secs(60 * self.run.minutes)
    }

    /// Bytes of its results: a task that was requeued and added nothing is not requeued again.
    fn size(&self) -> u64 {
        bytes(&self.folder())
    }

    fn write(&self, state: State, words: &str) -> Result<()> {
        self.run.write(self.index, &Note { state, node: self.node.clone(), words: words.to_owned() })
    }
}

fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(
            |entry| {
                if entry.path().is_dir() {
                    bytes(&entry.path())
                } else {
                    entry.metadata().map_or(0, |about| about.len())
                }
            },
        )
        .sum()
}

/// The section and the configuration of a run.
///
/// # Errors
/// A folder without a run.
pub fn about(folder: &Path) -> Result<(String, PathBuf)> {
    Run::load(folder).map(|run| (run.section.clone(), run.config()))
}

/// Merges the results of a run whose tasks have all ended, as the dependency of its job says.
///
/// # Errors
/// See [`Divisible::merge`].
pub fn merge(folder: &Path, section: &dyn Divisible, context: &mut Context) -> Result<()> {
    let run = Run::load(folder)?;
    let _lock = lock(folder.parent().unwrap_or(folder))?;
    merge_ended(section, &Standing::of(&run, &[]), context)
}
