//! What runs on a node: the items of one task, or the merging after all of them.

use super::cluster::SlurmCluster;
use super::job_script::NOTICE;
use super::run_folder::{SubmittedRun, TaskNote, TaskState};
use super::standing::RunStanding;
use super::submission::{lock, merge_ended};
use perf4sight_base::error::{Error, FailureKind, Result};
use perf4sight_base::output_folder::{self, lock_folder};
use perf4sight_verb::{Context, Divisible, Summary, WorkPart};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long the earlier process of a requeued task may take to end; Slurm kills it 30 s after SIGTERM by default (KillWait).
const EARLIER: Duration = Duration::from_secs(60);

/// The most nodes of another kind that a task leaves: where all are, it fails while somebody still looks.
const MOST_LEFT: usize = 4;

/// How often a requeued task is kept away from its node, within the time that Slurm leaves it to end.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// A task on its node.
#[derive(Debug)]
pub struct RunningTask {
    run: SubmittedRun,
    index: usize,
    node: String,
    /// The task as Slurm names it, such as 12_3.
    job: String,
}

impl RunningTask {
    /// The task of the run with this name.
    ///
    /// # Errors
    /// A folder without a run or with another one, a run without such a task.
    pub fn load(folder: &Path, name: &str, index: usize, [node, job]: [&str; 2]) -> Result<Self> {
        let run = SubmittedRun::load(folder)?;
        if run.name != name {
            return Err(
                Error::usage("the folder of this task's run was removed, and is another run's now").file(folder)
            );
        }
        if index >= run.tasks.len() {
            let problem = format!("the run has no task {index}");
            return Err(Error::usage(problem)
                .file(folder)
                .expected(format!("a task from 0 to {}", run.tasks.len() - 1)));
        }
        Ok(RunningTask { run, index, node: node.to_owned(), job: job.to_owned() })
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
        work: impl FnOnce(&WorkPart<'_>, &mut Context) -> Result<Summary>,
    ) -> Result<Summary> {
        let left = self.run.note(self.index).map_or(Vec::new(), |note| note.left);
        self.write(TaskState::Running, "", &left)?;
        let (began, before) = (context.now(), self.size());
        let done = self
            .check_version()
            .and_then(|()| self.check_open())
            .and_then(|()| self.check_own())
            .and_then(|()| self.make_folder())
            .and_then(|()| {
                let (items, share) = (&self.run.tasks[self.index].items, self.run.share(self.index));
                work(&WorkPart { items, folder: &self.folder(), run: &self.run.folder, share }, context)
            });
        match &done {
            Err(error) if error.kind() == FailureKind::OtherKind => {
                if let Err(why) = self.leave_node(error, left.clone()) {
                    self.write(TaskState::Failed, &format!("{error}\n  it goes to no other node: {why}"), &left)?;
                }
            }
            Err(error) => self.write(TaskState::Failed, &error.to_string(), &left)?,
            Ok(_) if context.cancelled() => {
                self.write(TaskState::Stopped, "", &left)?;
                let took = context.now().duration_since(began).unwrap_or_default();
                if self.is_at_limit(took) && self.size() > before && SlurmCluster.goes_on(&self.job) {
                    SlurmCluster.requeue(&self.job)?;
                }
            }
            Ok(summary) => match &summary.failure {
                Some(error) => self.write(TaskState::Failed, &error.to_string(), &left)?,
                None => self.write(TaskState::Finished, &summary.headline, &left)?,
            },
        }
        done
    }

    /// Lets Slurm give the task another node, and the waiting tasks of its run too: a node on which every task fails at
    /// once is always free, and would take all of them.
    fn leave_node(&self, error: &Error, mut left: Vec<String>) -> Result<()> {
        if left.contains(&self.node) {
            return Err(Error::device(format!("Slurm gave it {} again", self.node)));
        }
        if left.len() >= MOST_LEFT {
            return Err(Error::device(format!("{} were of another kind as well", left.join(", "))));
        }
        left.push(self.node.clone());
        let of_others = (0..self.run.tasks.len()).filter_map(|task| self.run.note(task)).flat_map(|note| note.left);
        let nodes: BTreeSet<String> = left.iter().cloned().chain(of_others).collect();
        // What the user excluded stays so.
        let nodes = nodes.into_iter().chain([SlurmCluster.excluded(&self.job)?]).filter(|nodes| !nodes.is_empty());
        let nodes = nodes.collect::<Vec<_>>().join(",");
        SlurmCluster.check_without(&self.run.choice, &nodes)?;
        for array in RunStanding::from_queue(&self.run, &SlurmCluster.queue()?).arrays() {
            // Fails where tasks of the array run, which need no other node.
            let _ = SlurmCluster.exclude(&array.to_string(), &nodes);
        }
        self.write(TaskState::Moved, &error.to_string(), &left)?;
        SlurmCluster.requeue(&self.job)?;
        // Only a task that waits can be kept away from nodes, and Slurm's signal to this one may end the first command.
        let excluded = || {
            thread::sleep(PAUSE);
            SlurmCluster.exclude(&self.job, &nodes).is_ok()
        };
        (0..ATTEMPTS).any(|_| excluded());
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        self.run.results(self.index)
    }

    /// A requeued task may begin while its earlier process still ends, which holds the folder until then.
    fn make_folder(&self) -> Result<()> {
        let folder = self.folder();
        output_folder::make(&folder)?;
        lock_folder(&folder, EARLIER, "wait for it to finish, then run the same command again").map(drop)
    }

    /// A run that was taken for failed while its jobs were on their way to the queue was submitted again.
    fn check_open(&self) -> Result<()> {
        let problem = match (self.run.is_closed(), self.run.is_cancelled()) {
            (false, _) => return Ok(()),
            (true, true) => "this run was cancelled before its tasks began",
            (true, false) => "this run was closed before its tasks began, and its work submitted again",
        };
        Err(Error::usage(problem).file(&self.run.folder))
    }

    /// A task that was killed and requeued by hand may find its work given to another one since.
    fn check_own(&self) -> Result<()> {
        let own = &self.run.tasks[self.index].items;
        let runs = SubmittedRun::open(self.run.folder.parent().unwrap_or(&self.run.folder))?;
        let later = runs.iter().skip_while(|run| run.folder != self.run.folder).skip(1);
        match later.into_iter().find(|run| run.items().any(|item| own.iter().any(|one| one == item))) {
            None => Ok(()),
            Some(run) => Err(Error::usage("the work of this task was submitted again since").file(&run.folder)),
        }
    }

    /// Rows of two versions may mean different things.
    fn check_version(&self) -> Result<()> {
        let (own, other) = (env!("CARGO_PKG_VERSION"), &self.run.version);
        match own == other {
            true => Ok(()),
            false => Err(Error::other_kind(format!(
                "perf4sight {other} submitted this, and {} has version {own}",
                self.node
            ))
            .help("install the same version on all nodes, or set program in [slurm] to one that they share")),
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

    /// Nothing where the folder was removed, and is another run's now.
    fn write(&self, state: TaskState, words: &str, left: &[String]) -> Result<()> {
        if SubmittedRun::load(&self.run.folder)?.name != self.run.name {
            return Ok(());
        }
        let (node, words, left) = (self.node.clone(), words.to_owned(), left.to_owned());
        self.run.write(self.index, &TaskNote { state, node, words, left })
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
    SubmittedRun::load(folder).map(|run| (run.section.clone(), run.config()))
}

/// Merges the results of a run whose tasks have all ended, as the dependency of its job says.
///
/// # Errors
/// See [`Divisible::merge`].
pub fn merge(folder: &Path, section: &dyn Divisible, context: &mut Context) -> Result<()> {
    let run = SubmittedRun::load(folder)?;
    let _lock = lock(folder.parent().unwrap_or(folder))?;
    let standing = RunStanding::from_queue(&run, &[]);
    merge_ended(section, &standing, context)?;
    // What failed is said by the next command, where nobody waits.
    if standing.counts().failed == 0 { run.mark_closed() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_folder::TaskShare;
    use std::time::SystemTime;

    /// A killed task is submitted again, and then requeued by hand all the same.
    #[test]
    fn work_that_was_submitted_again_is_not_done_twice() -> Result<()> {
        let folder = tempfile::TempDir::new().map_err(|cause| Error::input(cause.to_string()))?;
        let run = |items: &[&str]| -> Result<SubmittedRun> {
            let items = items.iter().map(|item| (*item).to_owned()).collect();
            let run = SubmittedRun::new(
                folder.path(),
                "profile",
                SystemTime::UNIX_EPOCH,
                vec![TaskShare { items, seconds: 1.0 }],
            )?;
            run.save("", &[]).map(|()| run)
        };
        let runs = [run(&["a", "b"])?, run(&["c"])?, run(&["b"])?];
        let may = |run: &SubmittedRun| RunningTask::load(&run.folder, &run.name, 0, ["board1", "1_0"])?.check_own();
        assert!(may(&runs[0]).is_err_and(|error| error.to_string().contains("submitted again since")));
        may(&runs[1])?;
        may(&runs[2])?;
        assert!(RunningTask::load(&runs[1].folder, &runs[0].name, 0, ["board1", "1_0"]).is_err());
        Ok(())
    }
}
