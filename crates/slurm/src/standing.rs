//! Where a run stands: what is queued, runs, is done or failed, and how long it may still take.

use super::job_script::MERGE;
use super::queue::QueuedTask;
use super::run_folder::{SubmittedRun, TaskNote, TaskState};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The task of a run that is in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveTask {
    /// Its array.
    pub job: u64,
    /// Its index in the array.
    pub index: usize,
    /// Whether it waits, and for what.
    pub waits: Option<String>,
}

/// A run and the queue at one moment.
#[derive(Debug)]
pub(crate) struct RunStanding<'a> {
    /// The run.
    pub run: &'a SubmittedRun,
    /// Its tasks in the queue.
    pub live: BTreeMap<usize, LiveTask>,
    /// Its job that merges, where it waits.
    pub merge: Option<u64>,
    notes: Vec<Option<TaskNote>>,
}

impl<'a> RunStanding<'a> {
    /// Where a run stands by this queue.
    pub fn from_queue(run: &'a SubmittedRun, queue: &[QueuedTask]) -> Self {
        let notes: Vec<Option<TaskNote>> = (0..run.tasks.len()).map(|task| run.note(task)).collect();
        let own = queue.iter().filter_map(|queued| Some((queued, queued.name.strip_prefix(&run.name)?)));
        let mut live = BTreeMap::new();
        let mut merge = None;
        for (queued, end) in own {
            match (end.parse::<usize>(), queued.task) {
                // Slurm lists a task for some seconds after it did its work.
                (Ok(first), Some(index)) if is_finished(notes.get(first + index).and_then(Option::as_ref)) => {}
                (Ok(first), Some(index)) => {
                    let waits = queued.pending.then(|| queued.reason.clone());
                    live.insert(first + index, LiveTask { job: queued.job, index, waits });
                }
                // One that runs ends by itself.
                _ if end == MERGE && queued.pending => merge = Some(queued.job),
                _ => {}
            }
        }
        RunStanding { run, live, merge, notes }
    }

    /// Whether all tasks in the queue have done their work since.
    pub fn is_finished_now(&self) -> bool {
        self.live.keys().all(|task| is_finished(self.run.note(*task).as_ref()))
    }

    /// The arrays in the queue.
    pub fn arrays(&self) -> Vec<u64> {
        let mut jobs: Vec<u64> = self.live.values().map(|live| live.job).collect();
        jobs.dedup();
        jobs
    }

    /// The items of tasks in the queue.
    pub fn claimed(&self) -> impl Iterator<Item = &str> {
        self.live
            .keys()
            .filter_map(|task| self.run.tasks.get(*task))
            .flat_map(|share| share.items.iter().map(String::as_str))
    }

    /// The tasks that have ended, with what they wrote.
    pub fn ended_tasks(&self) -> impl Iterator<Item = (usize, Option<&TaskNote>)> {
        self.notes
            .iter()
            .enumerate()
            .filter(|(task, _)| !self.live.contains_key(task))
            .map(|(task, note)| (task, note.as_ref()))
    }

    /// What tasks wrote that wait for another node.
    pub fn moved_notes(&self) -> impl Iterator<Item = &TaskNote> {
        self.live
            .keys()
            .filter_map(|task| self.notes.get(*task)?.as_ref())
            .filter(|note| note.state == TaskState::Moved)
    }

    /// The items of tasks that did their work.
    pub fn done(&self) -> usize {
        self.ended_tasks()
            .filter(|(_, note)| is_finished(*note))
            .map(|(task, _)| self.run.tasks[task].items.len())
            .sum()
    }

    /// Tasks that wait, run, did their work, or failed.
    pub fn counts(&self) -> TaskCounts {
        let waiting = self.live.values().filter(|live| live.waits.is_some()).count();
        let done = self.ended_tasks().filter(|(_, note)| is_finished(*note)).count();
        let failed = self.ended_tasks().count() - done;
        let mut reasons: Vec<String> =
            self.live.values().filter_map(|live| live.waits.clone()).filter(|reason| reason != "None").collect();
        reasons.sort();
        reasons.dedup();
        TaskCounts { waiting, running: self.live.len() - waiting, done, failed, reasons }
    }

    /// For programs: its folder, its arrays in the queue, and how many tasks are how far.
    pub fn json(&self) -> Value {
        let TaskCounts { waiting, running, done, failed, reasons } = self.counts();
        json!({
            "folder": self.run.folder.to_string_lossy(), "jobs": self.arrays(),
            "queued": waiting, "running": running, "done": done, "failed": failed, "reasons": reasons,
        })
    }

    /// The expected seconds of tasks that have not ended, and of those that did their work.
    pub fn seconds(&self) -> [f64; 2] {
        let sum = |tasks: &mut dyn Iterator<Item = usize>| {
            tasks.filter_map(|task| self.run.tasks.get(task)).map(|share| share.seconds).sum()
        };
        [
            sum(&mut self.live.keys().copied()),
            sum(&mut self.ended_tasks().filter(|(_, note)| is_finished(*note)).map(|(task, _)| task)),
        ]
    }
}

/// Whether a task did its work, by what it wrote.
pub(crate) fn is_finished(note: Option<&TaskNote>) -> bool {
    note.is_some_and(|note| note.state == TaskState::Finished)
}

/// How many tasks wait, run, did their work, and failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskCounts {
    pub waiting: usize,
    pub running: usize,
    pub done: usize,
    pub failed: usize,
    /// Why tasks wait, in Slurm's words.
    pub reasons: Vec<String>,
}

impl fmt::Display for TaskCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.reasons.is_empty() { String::new() } else { format!(" ({})", self.reasons.join(", ")) };
        write!(
            f,
            "tasks: {} queued{why}, {} running, {} done, {} failed",
            self.waiting, self.running, self.done, self.failed
        )
    }
}

/// The time left: the expected time of tasks that have not ended, `at_once` at a time, scaled by how long the others
/// took. `elapsed` is the time since the run began.
pub(crate) fn time_left([ahead, done]: [f64; 2], at_once: usize, elapsed: Duration) -> Duration {
    let factor = if done > 0.0 { elapsed.as_secs_f64() * at_once as f64 / done } else { 1.0 };
    Duration::try_from_secs_f64(ahead * factor / at_once.max(1) as f64).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_goes_by_the_time_that_others_took() {
        // 4 at once did 400 s of expected work in 200 s, twice as long as expected: 100 s of it are another 50 s.
        assert_eq!(time_left([100.0, 400.0], 4, Duration::from_secs(200)), Duration::from_secs(50));
        assert_eq!(time_left([100.0, 0.0], 4, Duration::from_secs(9)), Duration::from_secs(25));
    }

    #[test]
    fn tasks_are_counted_by_the_queue_and_their_notes() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::TempDir::new()?;
        let share = |item: &str| super::super::run_folder::TaskShare { items: vec![item.to_owned()], seconds: 1.0 };
        let run = SubmittedRun::new(
            folder.path(),
            "profile",
            std::time::SystemTime::UNIX_EPOCH,
            ["a", "b", "c", "d"].map(share).into(),
        )?;
        run.save("", &[])?;
        let note = |state| TaskNote { state, node: "board1".into(), words: String::new(), left: Vec::new() };
        run.write(0, &note(TaskState::Finished))?;
        run.write(1, &note(TaskState::Running))?;
        let queued = |task: usize, state: &str| format!("7|{task}|{state}|Resources||{}2\n", run.name);
        let text = format!(
            "{}9|N/A|PENDING|Dependency||{}merge\n9|0|RUNNING|None|b|other-0\n",
            queued(0, "PENDING"),
            run.name
        );
        let queue = super::super::queue::parse(&text)?;
        let standing = RunStanding::from_queue(&run, &queue);
        // Task 0 did its work, 1 was killed, 2 waits, 3 never began.
        let TaskCounts { waiting, running, done, failed, reasons } = standing.counts();
        assert_eq!([waiting, running, done, failed], [1, 0, 1, 2]);
        assert_eq!((reasons, standing.merge, standing.done()), (vec!["Resources".to_owned()], Some(9), 1));
        assert_eq!(standing.claimed().collect::<Vec<_>>(), ["c"]);
        Ok(())
    }
}
