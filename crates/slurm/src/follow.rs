//! Waits for runs: reports how far they are, survives a controller that restarts, cancels on Ctrl-C.

use super::cluster::Cluster;
use super::queue::Queued;
use super::run_folder::{Note, Run, State};
use super::settings::Settings;
use super::standing::{Live, Standing, time_left};
use perf4sight_base::error::Result;
use perf4sight_verb::Context;
use std::collections::{BTreeMap, BTreeSet};
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
pub(crate) enum Ending {
    /// No task is in the queue any more; what became of those that did not do their work.
    All(Vec<String>),
    /// Ctrl-C: so many tasks were cancelled.
    Cancelled(usize),
}

/// The jobs of tasks, by run and task.
pub(crate) type Jobs = BTreeMap<(usize, usize), Live>;

/// Waits until no task of the runs is in the queue.
///
/// # Errors
/// A controller that stays away.
pub(crate) fn follow(runs: &[Run], settings: &Settings, cluster: Cluster, context: &mut Context) -> Result<Ending> {
    let all: usize = runs.iter().flat_map(|run| &run.tasks).map(|share| share.items.len()).sum();
    let progress = context.console.progress(all as u64, "slurm");
    let began = context.now();
    let (mut jobs, mut done, mut unseen, mut stuck) = (Jobs::new(), 0, false, BTreeSet::new());
    loop {
        let Some(queue) = queue(cluster, context)? else { return cancel(runs, cluster, context) };
        let standings: Vec<Standing<'_>> = runs.iter().map(|run| Standing::of(run, &queue)).collect();
        for (run, standing) in standings.iter().enumerate() {
            jobs.extend(standing.live.iter().map(|(task, live)| ((run, *task), live.clone())));
        }
        progress
            .doing(standings.iter().map(|standing| words(standing, settings, context)).collect::<Vec<_>>().join("; "));
        let now = standings.iter().map(Standing::done).sum::<usize>();
        progress.advance((now - done.min(now)) as u64);
        done = done.max(now);
        if standings.iter().all(|standing| standing.live.is_empty()) {
            return Ok(Ending::All(failures(&standings.iter().collect::<Vec<_>>(), &jobs, cluster)));
        }
        warn_of_stuck(&standings, &mut stuck, context);
        warn_of_moved(&standings, &mut stuck, context);
        unseen = unseen || warn_of_unseen(&standings, began, context);
        let finished = || standings.iter().all(Standing::is_finished_now);
        if !wait(pause(began, context), context, &finished) {
            return cancel(runs, cluster, context);
        }
    }
}

/// "tasks: 2 queued (Resources), 3 running, 5 done, 0 failed; about 12m left"
pub(crate) fn words(standing: &Standing<'_>, settings: &Settings, context: &Context) -> String {
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
fn queue(cluster: Cluster, context: &mut Context) -> Result<Option<Vec<Queued>>> {
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

/// Cancels what is in the queue. The job that merges runs all the same.
fn cancel(runs: &[Run], cluster: Cluster, context: &mut Context) -> Result<Ending> {
    let queue = cluster.queue().map_err(|error| error.help("the tasks were not cancelled; scancel does it"))?;
    let standings: Vec<Standing<'_>> = runs.iter().map(|run| Standing::of(run, &queue)).collect();
    let arrays: Vec<u64> = standings.iter().flat_map(Standing::arrays).collect();
    context.console.note("cancelling the tasks");
    runs.iter().try_for_each(Run::set_cancelled)?;
    cluster.cancel(&arrays)?;
    Ok(Ending::Cancelled(standings.iter().map(|standing| standing.live.len()).sum()))
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
fn warn_of_stuck(standings: &[Standing<'_>], known: &mut BTreeSet<String>, context: &mut Context) {
    for reason in standings.iter().flat_map(|standing| standing.counts().reasons) {
        let remedy = STUCK.iter().find(|(part, _)| reason.contains(part));
        if let (Some((_, remedy)), true) = (remedy, known.insert(reason.clone())) {
            context.warn(format!("tasks wait ({reason}): {remedy}"));
        }
    }
}

/// Warns, once for every node, where a task goes to another one.
fn warn_of_moved(standings: &[Standing<'_>], known: &mut BTreeSet<String>, context: &mut Context) {
    for note in standings.iter().flat_map(Standing::moved) {
        if known.insert(note.node.clone()) {
            context.warn(format!("{} gets no more tasks, and this one another node: {}", note.node, note.words));
        }
    }
}

/// Warns where a task runs for a while and nothing of it is seen here.
fn warn_of_unseen(standings: &[Standing<'_>], began: SystemTime, context: &mut Context) -> bool {
    let runs_unseen = |standing: &Standing<'_>| {
        standing.live.iter().any(|(task, live)| live.waits.is_none() && standing.run.note(*task).is_none())
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

/// What became of the tasks that did not do their work.
pub(crate) fn failures(standings: &[&Standing<'_>], jobs: &Jobs, cluster: Cluster) -> Vec<String> {
    let mut failures = Vec::new();
    for (at, standing) in standings.iter().enumerate() {
        for (task, note) in standing.ended() {
            let fate = || jobs.get(&(at, task)).and_then(|live| cluster.fate(live.job, live.index));
            failures.extend(failure(standing.run, task, note, fate));
        }
    }
    failures
}

fn failure(run: &Run, task: usize, note: Option<&Note>, fate: impl Fn() -> Option<String>) -> Option<String> {
    let slurm = || fate().map_or(String::new(), |fate| format!(" (Slurm: {fate})"));
    Some(match note {
        None => never_began(run, task, fate()),
        Some(Note { state: State::Finished, .. }) => return None,
        Some(Note { state: State::Moved, node, words, .. }) => {
            format!("task {task} ended before it got another node than {node}: {words}")
        }
        Some(Note { state: State::Running, node, .. }) => {
            format!("task {task} was killed on {node}{}: the part of its work that it had done is kept", slurm())
        }
        Some(Note { state: State::Stopped, node, .. }) => {
            format!("task {task} was ended on {node}{} before its work was done", slurm())
        }
        Some(Note { state: State::Failed, node, words, .. }) => format!("task {task} failed on {node}: {words}"),
    })
}

/// What is known of a task that wrote nothing about itself. A node that printed into the folder of the run sees it.
fn never_began(run: &Run, task: usize, fate: Option<String>) -> String {
    let slurm = fate.as_ref().map_or(String::new(), |fate| format!(" (Slurm: {fate})"));
    let printed = run.printed(task);
    let full = run.is_disk_full();
    match (fate, printed) {
        (Some(fate), _) if fate.starts_with("CANCELLED") => format!("task {task} was cancelled before it began"),
        (_, Some((file, line))) if !line.is_empty() => {
            format!("task {task} ended before its work began{slurm}: \"{line}\", the last line of {}", file.display())
        }
        _ if full => format!("task {task} left nothing{slurm}: the disk of {} is full", run.folder.display()),
        (_, Some((file, _))) => {
            format!("task {task} ended before its work began{slurm}, and printed nothing into {}", file.display())
        }
        (fate, None) => {
            let failed = fate.is_some_and(|fate| !fate.ends_with("exit code 0:0"));
            let or = if failed { "Slurm could not start it there, or " } else { "" };
            format!("task {task} left nothing in {}{slurm}: {or}{UNSHARED}", run.folder.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_folder::Share;
    use std::path::Path;

    #[test]
    fn every_end_of_a_task_has_its_own_words() -> Result<()> {
        let share = Share { items: vec!["a".into(), "b".into()], seconds: 1.0 };
        let run = Run::new(Path::new("/absent/runs"), "profile", 5, vec![share])?;
        let fate = || Some("FAILED on board2, exit code 0:9".to_owned());
        let words = |state| {
            failure(
                &run,
                0,
                Some(&Note { state, node: "board2".into(), words: "no GPU".into(), left: Vec::new() }),
                fate,
            )
        };
        assert_eq!(words(State::Finished), None);
        let killed = words(State::Running).unwrap_or_default();
        assert!(
            killed.contains("killed on board2 (Slurm: FAILED on board2, exit code 0:9)") && killed.contains("is kept"),
            "{killed}"
        );
        assert_eq!(words(State::Failed).as_deref(), Some("task 0 failed on board2: no GPU"));
        let unseen = failure(&run, 0, None, || None).unwrap_or_default();
        assert!(unseen.contains("/absent/runs/1") && unseen.contains("NFS"), "{unseen}");
        Ok(())
    }
}
