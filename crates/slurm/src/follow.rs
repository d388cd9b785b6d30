//! Waits for runs: reports how far they are, survives a controller that restarts, cancels on Ctrl-C.

use super::cluster::{SlurmCluster, TaskEnd};
use super::queue::QueuedTask;
use super::run_folder::{OUTPUT, SubmittedRun, TaskNote, TaskState};
use super::settings::SlurmSettings;
use super::standing::{RunStanding, is_finished, time_left};
use perf4sight_base::error::Result;
use perf4sight_verb::Context;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, SystemTime};

/// Pauses between two looks at the queue. The first are short, for runs of seconds; later ones spare the controller.
const PAUSES: [(Duration, Duration); 3] = [
    (Duration::from_secs(60), Duration::from_secs(1)),
    (Duration::from_secs(900), Duration::from_secs(5)),
    (Duration::MAX, Duration::from_secs(20)),
];

/// How often Ctrl-C, and the end of the last task, is looked for.
const BLINK: Duration = Duration::from_millis(100);

/// How long a controller may stay away: a restart takes seconds, and the array goes on without this program.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How long what a node writes may take to be seen here: NFS keeps the names of a folder for up to 60 s.
const SIGHT: Duration = Duration::from_secs(60);

/// How the waiting ended.
pub(crate) enum WaitEnding {
    /// No task is in the queue any more; what became of those that did not do their work.
    All(Vec<String>),
    /// Ctrl-C: so many tasks were cancelled.
    Cancelled(usize),
}

/// Waits until no task of the runs is in the queue.
///
/// # Errors
/// A controller that stays away.
pub(crate) fn follow(
    runs: &[SubmittedRun],
    settings: &SlurmSettings,
    cluster: SlurmCluster,
    context: &mut Context,
) -> Result<WaitEnding> {
    let all: usize = runs.iter().flat_map(|run| &run.tasks).map(|share| share.items.len()).sum();
    let progress = context.console.progress(all as u64, "slurm");
    let began = context.now();
    let (mut done, mut unseen, mut stuck) = (0, false, BTreeSet::new());
    loop {
        let Some(queue) = queue(cluster, context)? else { return cancel(runs, cluster, context) };
        let standings: Vec<RunStanding<'_>> = runs.iter().map(|run| RunStanding::from_queue(run, &queue)).collect();
        let now = standings.iter().map(RunStanding::done).sum::<usize>();
        // Once tasks are done, the time left goes by them.
        progress.set_item(text_of_each(&standings, |standing| match now {
            0 => standing_text(standing, settings, context),
            _ => standing.counts().to_string(),
        }));
        progress.advance((now - done.min(now)) as u64);
        done = done.max(now);
        if standings.iter().all(|standing| standing.live.is_empty()) {
            return Ok(WaitEnding::All(standings.iter().flat_map(|standing| failures(standing, cluster)).collect()));
        }
        warn_of_stuck(&standings, &mut stuck, context);
        warn_of_moved(&standings, &mut stuck, context);
        unseen = unseen || warn_of_unseen(&standings, began, context);
        let finished = || standings.iter().all(RunStanding::is_finished_now);
        if !wait(pause(began, context), context, &finished) {
            return cancel(runs, cluster, context);
        }
    }
}

/// What is to be said of each run; by its number where there are several.
pub(crate) fn text_of_each(standings: &[RunStanding<'_>], say: impl Fn(&RunStanding<'_>) -> String) -> String {
    let numbered = |standing: &RunStanding<'_>| format!("run {}: {}", standing.run.number(), say(standing));
    match standings {
        [one] => say(one),
        several => several.iter().map(numbered).collect::<Vec<_>>().join("; "),
    }
}

/// "tasks: 2 queued (Resources), 3 running, 5 done, 0 failed; about 12m left"
pub(crate) fn standing_text(standing: &RunStanding<'_>, settings: &SlurmSettings, context: &Context) -> String {
    let left = time_left(standing.seconds(), settings.tasks, elapsed(standing.run.began(), context));
    let left = match left.as_secs() {
        0 => String::new(),
        seconds => format!("; about {} left", humantime::format_duration(Duration::from_secs(seconds))),
    };
    format!("{}{left}", standing.counts())
}

fn elapsed(since: Option<SystemTime>, context: &Context) -> Duration {
    since.and_then(|since| context.now().duration_since(since).ok()).unwrap_or_default()
}

/// The queue; none after Ctrl-C. A controller that does not answer is asked again.
fn queue(cluster: SlurmCluster, context: &mut Context) -> Result<Option<Vec<QueuedTask>>> {
    let began = context.now();
    let mut warned = false;
    loop {
        let error = match cluster.queue() {
            Ok(queue) => return Ok(Some(queue)),
            Err(error) => error,
        };
        if elapsed(Some(began), context) > PATIENCE {
            return Err(error.help("the tasks go on without this program, and the same command shows where they stand"));
        }
        if !warned {
            context.console.note(format_args!("waiting for Slurm: {error}"));
            warned = true;
        }
        if !wait(pause(began, context), context, &|| false) {
            return Ok(None);
        }
    }
}

fn pause(began: SystemTime, context: &Context) -> Duration {
    let elapsed = elapsed(Some(began), context);
    PAUSES.iter().find(|(until, _)| elapsed < *until).map_or(BLINK, |(_, pause)| *pause)
}

/// Waits for so long, or until it is over; false after Ctrl-C.
fn wait(time: Duration, context: &Context, is_over: &dyn Fn() -> bool) -> bool {
    for _ in 0..time.as_millis() / BLINK.as_millis() {
        if context.cancelled() {
            return false;
        }
        if is_over() {
            break;
        }
        thread::sleep(BLINK);
    }
    !context.cancelled()
}

/// Cancels what this configuration has in the queue. The job that merges runs all the same.
fn cancel(runs: &[SubmittedRun], cluster: SlurmCluster, context: &mut Context) -> Result<WaitEnding> {
    let (own, of_others): (Vec<&SubmittedRun>, Vec<&SubmittedRun>) =
        runs.iter().partition(|run| run.is_of(&context.config));
    context.console.note("cancelling the tasks");
    for run in of_others {
        context.warn(format!("{} is of another configuration, and goes on", run.folder.display()));
    }
    own.iter().try_for_each(|run| run.set_cancelled())?;
    let numbers = own.iter().map(|run| arrays(run, cluster)).collect::<Result<Vec<_>>>();
    numbers
        .and_then(|numbers| cluster.cancel(&numbers.concat()))
        .map_err(|error| error.help("the tasks were not cancelled; scancel does it"))?;
    let is_done = |run: &SubmittedRun, task: usize| is_finished(run.note(task).as_ref());
    let left = |run: &&SubmittedRun| (0..run.tasks.len()).filter(|task| !is_done(run, *task)).count();
    Ok(WaitEnding::Cancelled(own.iter().map(left).sum()))
}

/// The numbers of a run's arrays. A busy controller may take longer to list them than Ctrl-C is waited for, so that it is asked only where
/// the program that submitted them was killed before it wrote them down.
fn arrays(run: &SubmittedRun, cluster: SlurmCluster) -> Result<Vec<u64>> {
    match run.jobs() {
        Some(jobs) => Ok(jobs.into_iter().map(|(_, job)| job).collect()),
        None => Ok(RunStanding::from_queue(run, &cluster.queue()?).arrays()),
    }
}

/// Reasons for which Slurm keeps a task waiting until somebody does something, with what to do.
const STUCK: [(&str, &str); 8] = [
    (
        "PartitionTimeLimit",
        "the partition allows less time: cancel (Ctrl-C), then set time, and more chunks, in [slurm]",
    ),
    (
        "PartitionConfig",
        "the partition cannot run such tasks (scontrol show partition lists its limits): cancel (Ctrl-C), then correct [slurm]",
    ),
    ("PartitionDown", "the partition is down; sinfo shows it"),
    ("BadConstraints", "no node fits extra of [slurm]: cancel (Ctrl-C), then correct it"),
    (
        "held",
        "they are held; scontrol release JOB lets them run when the cause is gone, which the log of the node says",
    ),
    ("Held", "they are held; scontrol release JOB lets them run"),
    ("InvalidAccount", "cancel (Ctrl-C), then set --account in extra of [slurm]"),
    ("ReqNodeNotAvail", "the nodes are drained, down or reserved; sinfo -R says why"),
];

/// Warns, once for every reason, where tasks wait for somebody to do something.
fn warn_of_stuck(standings: &[RunStanding<'_>], known: &mut BTreeSet<String>, context: &mut Context) {
    for reason in standings.iter().flat_map(|standing| standing.counts().reasons) {
        let remedy = STUCK.iter().find(|(part, _)| reason.contains(part));
        if let (Some((_, remedy)), true) = (remedy, known.insert(reason.clone())) {
            context.warn(format!("tasks wait ({reason}): {remedy}"));
        }
    }
}

/// Warns, once for every node, where a task goes to another one.
fn warn_of_moved(standings: &[RunStanding<'_>], known: &mut BTreeSet<String>, context: &mut Context) {
    for note in standings.iter().flat_map(RunStanding::moved_notes) {
        if known.insert(note.node.clone()) {
            context.warn(format!("{} gets no more tasks, and this one another node: {}", note.node, note.words));
        }
    }
}

/// Warns where a task runs for a while and nothing of it is seen here, not even the file that its node prints into.
fn warn_of_unseen(standings: &[RunStanding<'_>], began: SystemTime, context: &mut Context) -> bool {
    let runs_unseen = |standing: &RunStanding<'_>| {
        standing.live.iter().any(|(task, live)| {
            let printed = || standing.run.printed(*task);
            live.waits.is_none() && standing.run.note(*task).is_none() && printed().is_none()
        })
    };
    let Some(standing) = standings.iter().find(|standing| runs_unseen(standing)) else { return false };
    if elapsed(Some(began), context) < SIGHT {
        return false;
    }
    let folder = standing.run.folder.display();
    context.warn(format!("a task runs, but nothing that it writes is seen in {folder}: {UNSHARED}"));
    true
}

const UNSHARED: &str = "the nodes must see this folder under the same path, as on NFS; set log_dir or out to a folder that they share, \
                        and start perf4sight from one";

/// What became of a task that did not do its work: "failed" on "board2" ": no GPU".
#[derive(Debug, PartialEq)]
struct TaskFailure {
    what: &'static str,
    node: Option<String>,
    why: String,
}

/// What became of the tasks that did not do their work; once where it is the same of several.
pub(crate) fn failures(standing: &RunStanding<'_>, cluster: SlurmCluster) -> Vec<String> {
    let mut alike: Vec<(Vec<usize>, Vec<TaskFailure>)> = Vec::new();
    for (task, note) in standing.ended_tasks() {
        let fate = || standing.run.job(task).and_then(|(job, index)| cluster.fate(job, index));
        let Some(failure) = failure(standing.run, task, note, fate) else { continue };
        let is_alike = |known: &[TaskFailure]| known[0].what == failure.what && known[0].why == failure.why;
        match alike.iter_mut().find(|(_, known)| is_alike(known)) {
            Some((tasks, known)) => {
                tasks.push(task);
                known.push(failure);
            }
            None => alike.push((vec![task], vec![failure])),
        }
    }
    alike.iter().map(|(tasks, failures)| failures_text(tasks, failures)).collect()
}

/// "task 3 failed on board2: no GPU", "4 tasks (3 on board1, 5 on board2 and 2 more): each failed: no GPU".
fn failures_text(tasks: &[usize], failures: &[TaskFailure]) -> String {
    let on = |failure: &TaskFailure| failure.node.as_ref().map_or(String::new(), |node| format!(" on {node}"));
    if let ([task], [failure]) = (tasks, failures) {
        return format!("task {task} {}{}{}", failure.what, on(failure), failure.why);
    }
    let named = tasks.iter().zip(failures).map(|(task, failure)| format!("{task}{}", on(failure)));
    let more = match tasks.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = named.take(SHOWN).collect::<Vec<_>>().join(", ");
    let TaskFailure { what, why, .. } = &failures[0];
    format!("{} tasks ({shown}{more}): each {what}{why}", tasks.len())
}

/// Of tasks that failed alike, so many are named.
const SHOWN: usize = 8;

fn failure(
    run: &SubmittedRun,
    task: usize,
    note: Option<&TaskNote>,
    fate: impl Fn() -> Option<TaskEnd>,
) -> Option<TaskFailure> {
    let Some(TaskNote { state, node, words, .. }) = note else { return Some(never_began(run, task, fate())) };
    let slurm = || fate().map_or(String::new(), |fate| format!(" (Slurm: {})", fate.words));
    let (what, why) = match state {
        TaskState::Finished => return None,
        TaskState::Moved => ("ended", format!(" before it got another node: {words}")),
        TaskState::Running => ("was killed", format!("{}: the part of its work that it had done is kept", slurm())),
        TaskState::Stopped => ("was ended", format!("{} before its work was done", slurm())),
        TaskState::Failed => ("failed", format!(": {words}")),
    };
    Some(TaskFailure { what, node: Some(node.clone()), why })
}

/// What is known of a task that wrote nothing about itself. A node that printed into the folder of the run sees it.
fn never_began(run: &SubmittedRun, task: usize, fate: Option<TaskEnd>) -> TaskFailure {
    let slurm = fate.as_ref().map_or(String::new(), |fate| format!(" (Slurm: {})", fate.words));
    let folder = run.folder.display();
    let (what, why) = match (&fate, run.printed(task)) {
        (Some(fate), _) if fate.words.starts_with("CANCELLED") => ("was cancelled", " before it began".to_owned()),
        (_, Some(line)) if !line.is_empty() => (
            "ended",
            format!(" before its work began{slurm}: \"{line}\", the last line that it printed into {folder}/{OUTPUT}"),
        ),
        _ if run.is_disk_full() => ("left nothing", format!("{slurm}: the disk of {folder} is full")),
        (_, Some(_)) => ("ended", format!(" before its work began{slurm}, and printed nothing into {folder}/{OUTPUT}")),
        (Some(_), None) => ("left nothing", format!(" in {folder}{slurm}: {UNSHARED}")),
        (None, None) => (
            "left nothing",
            format!(" in {folder}, and Slurm does not know it any more: it was cancelled, or {UNSHARED}"),
        ),
    };
    TaskFailure { what, node: fate.and_then(|fate| fate.node), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_folder::TaskShare;
    use std::path::Path;

    #[test]
    fn every_end_of_a_task_has_its_own_words() -> Result<()> {
        let share = TaskShare { items: vec!["a".into(), "b".into()], seconds: 1.0 };
        let run = SubmittedRun::new(Path::new("/absent/runs"), "profile", SystemTime::UNIX_EPOCH, vec![share])?;
        let fate = || Some(TaskEnd { words: "FAILED, exit code 0:9".to_owned(), node: Some("board2".to_owned()) });
        let found = |state| {
            let note = TaskNote { state, node: "board2".into(), words: "no GPU".into(), left: Vec::new() };
            failure(&run, 0, Some(&note), fate)
        };
        assert_eq!(found(TaskState::Finished), None);
        let words =
            |tasks: &[usize], state| failures_text(tasks, &tasks.iter().flat_map(|_| found(state)).collect::<Vec<_>>());
        let killed = words(&[0], TaskState::Running);
        assert!(killed.starts_with("task 0 was killed on board2 (Slurm: FAILED, exit code 0:9): the part"), "{killed}");
        assert_eq!(words(&[7], TaskState::Failed), "task 7 failed on board2: no GPU");
        assert_eq!(words(&[1, 2], TaskState::Failed), "2 tasks (1 on board2, 2 on board2): each failed: no GPU");
        let many = words(&(0..10).collect::<Vec<_>>(), TaskState::Failed);
        assert!(many.contains("7 on board2 and 2 more): each"), "{many}");
        let unseen = failures_text(&[0], &[never_began(&run, 0, None)]);
        assert!(unseen.contains("/absent/runs/1") && unseen.contains("NFS"), "{unseen}");
        Ok(())
    }
}
