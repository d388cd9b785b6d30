//! Submits what is missing, waits, merges: one way for a first command and for every repetition of it.

use super::cluster::SlurmCluster;
use super::division::{count, divide};
use super::follow::{self, WaitEnding};
use super::job_script::{
    JobArray, TaskPlace, array_arguments, merge_arguments, merge_script, node_choice, task_script,
};
use super::run_folder::{OUTPUT, SubmittedRun, TaskShare};
use super::settings::SlurmSettings;
use super::standing::{RunStanding, is_finished};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::{self, lock_folder};
use perf4sight_base::units::count_text;
use perf4sight_verb::{Context, Divisible, PlannedFiles, Summary, WorkItem};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs};

/// The folder of runs, in the folder of the results.
const RUNS: &str = "slurm";

/// How long another program may submit or merge.
const PATIENCE: Duration = Duration::from_secs(120);

/// A limit of twice the expected time ends what hangs; starting and a slow file system get ten minutes.
const MARGIN: (u32, Duration) = (2, Duration::from_secs(600));

/// What became of a section.
#[derive(Debug)]
pub enum SectionEnd {
    /// All its items have results: the summary of the section.
    Complete(Summary),
    /// Work is left: later sections cannot run yet.
    Left(Summary),
}

/// A section, and how it becomes runs.
struct SlurmRequest<'a> {
    section: &'a dyn Divisible,
    /// Its name.
    name: &'a str,
    settings: &'a SlurmSettings,
    /// The folder of its runs.
    runs: PathBuf,
}

/// What is under way, and what became of earlier tasks.
struct SubmittedRuns {
    active: Vec<SubmittedRun>,
    /// How many tasks failed that nobody waited for.
    failed: usize,
    /// Why.
    failures: Vec<String>,
}

/// A section that is submitted.
struct Submission<'a> {
    request: SlurmRequest<'a>,
    cluster: SlurmCluster,
    /// The section of a configuration file, for runs of earlier configurations.
    of_config: &'a SectionOfConfig<'a>,
}

/// Calls with the section of this name of a configuration file.
pub type SectionOfConfig<'a> = dyn Fn(&Path, &str, &mut dyn FnMut(&dyn Divisible) -> Result<()>) -> Result<()> + 'a;

/// Submits the items of a section that have no result and are not under way, and waits for all of them.
///
/// # Errors
/// No Slurm, a controller that does not answer, a refused job, results that cannot be merged.
pub fn run(
    section: &dyn Divisible,
    name: &str,
    settings: &SlurmSettings,
    of_config: &SectionOfConfig<'_>,
    context: &mut Context,
) -> Result<SectionEnd> {
    let submission =
        Submission { request: SlurmRequest::new(section, name, settings)?, cluster: SlurmCluster, of_config };
    let (mut tried, mut outputs) = (BTreeSet::new(), Vec::new());
    loop {
        let SubmittedRuns { active, failed, failures } = submission.submit_missing(context)?;
        failures.iter().for_each(|failure| context.warn(failure));
        if context.cancelled() && active.is_empty() {
            return Ok(SectionEnd::Left(cancelled(0)));
        }
        if settings.detach && !active.is_empty() {
            return submission.report_standing(&active, failed, context).map(SectionEnd::Left);
        }
        let failures = match follow::follow(&active, settings, submission.cluster, context)? {
            WaitEnding::Cancelled(tasks) => return Ok(SectionEnd::Left(cancelled(tasks))),
            WaitEnding::All(failures) => failures,
        };
        submission.merge_all(&active, context)?;
        failures.iter().for_each(|failure| context.warn(failure));
        let own = active.iter().filter(|run| run.is_of(&context.config));
        tried.extend(own.flat_map(SubmittedRun::items).map(str::to_owned));
        outputs.extend(active.iter().map(|run| run.folder.join(OUTPUT).display().to_string()));
        let missing = section.items(&PlannedFiles::default(), context)?;
        // What was tried in vain is left to the next command.
        if missing.iter().all(|item| tried.contains(&item.name)) {
            return conclude(section, missing.len(), &outputs, context);
        }
    }
}

/// Prints what [`run`] would submit; earlier sections may still have to write what this one reads.
///
/// # Errors
/// Earlier results that cannot be read, words that no script can hold.
pub fn show(
    section: &dyn Divisible,
    name: &str,
    settings: &SlurmSettings,
    planned: &PlannedFiles,
    context: &mut Context,
) -> Result<()> {
    SlurmRequest::new(section, name, settings)?.show(planned, context)
}

/// The summary, with what is missing: later sections would take a part of the results for all of them.
fn conclude(section: &dyn Divisible, missing: usize, outputs: &[String], context: &mut Context) -> Result<SectionEnd> {
    let mut summary = section.conclude(context)?;
    if missing > 0 {
        let have = if missing == 1 { "has" } else { "have" };
        let error = Error::device(format!("{} {have} no result", section.noun().count_text(missing)))
            .help(format!("the same command submits them again, and goes on with the next sections when none is missing; the output of the tasks is in {}", outputs.join(", ")));
        summary.failure = summary.failure.or(Some(error));
        return Ok(SectionEnd::Left(summary));
    }
    Ok(SectionEnd::Complete(summary))
}

fn cancelled(tasks: usize) -> Summary {
    let headline = format!(
        "interrupted; cancelled {} of Slurm: the same command goes on from what they measured",
        count_text(tasks as u64, "task")
    );
    Summary { headline, ..Summary::default() }
}

impl<'a> SlurmRequest<'a> {
    fn new(section: &'a dyn Divisible, name: &'a str, settings: &'a SlurmSettings) -> Result<Self> {
        let results = section.results();
        let whole = std::path::absolute(results).map_err(|cause| Error::io(results, "find this folder", &cause))?;
        Ok(SlurmRequest { section, name, settings, runs: whole.join(RUNS) })
    }

    /// The run of these items.
    fn plan(&self, items: &[WorkItem], now: SystemTime) -> Result<SubmittedRun> {
        let count = self.settings.chunks.unwrap_or_else(|| count(items, self.settings.tasks));
        let count = count.max(items.len().div_ceil(self.section.most_items()));
        let share = |part: Vec<WorkItem>| TaskShare {
            seconds: part.iter().map(|item| item.time.as_secs_f64()).sum(),
            items: part.into_iter().map(|item| item.name).collect(),
        };
        let tasks = divide(items, count).into_iter().map(share).collect();
        let mut run = SubmittedRun::new(&self.runs, self.name, now, tasks)?;
        let limit =
            self.settings.time.unwrap_or_else(|| run.longest().saturating_mul(MARGIN.0).saturating_add(MARGIN.1));
        run.minutes = limit.as_secs().div_ceil(60);
        run.choice = node_choice(self.settings, run.minutes, self.section.measures());
        Ok(run)
    }

    fn place(&self, context: &Context) -> Result<TaskPlace<'_>> {
        let folder = env::current_dir().map_err(|cause| Error::io(".", "find the current folder", &cause))?;
        Ok(TaskPlace { settings: self.settings, executable: context.executable.clone(), folder })
    }

    /// Prints what would be submitted.
    fn show(&self, planned: &PlannedFiles, context: &mut Context) -> Result<()> {
        let items = self.section.items(planned, context)?;
        if items.is_empty() {
            context.console.line(format_args!("[{}] nothing is left to submit", self.name));
            return Ok(());
        }
        let (run, place) = (self.plan(&items, context.now())?, self.place(context)?);
        let words = array_arguments(&run, &place, JobArray { first: 0, count: run.tasks.len() }, None)?;
        let quoted =
            shlex::try_join(words.iter().map(String::as_str)).map_err(|cause| Error::usage(cause.to_string()))?;
        context
            .console
            .json(&json!({ "section": self.name, "arguments": words, "script": task_script(&run, &place)? }));
        context.console.line(format_args!(
            "sbatch {quoted}\n\n{}\n[{}] {} in {}; nothing was submitted",
            task_script(&run, &place)?,
            self.name,
            self.section.noun().count_text(items.len()),
            count_text(run.tasks.len() as u64, "task")
        ));
        Ok(())
    }
}

impl Submission<'_> {
    /// Submits what is neither done nor under way.
    fn submit_missing(&self, context: &mut Context) -> Result<SubmittedRuns> {
        let runs = &self.request.runs;
        output_folder::make(runs)?;
        let _lock = lock(runs)?;
        let queue = self.cluster.queue()?;
        let (mut claimed, mut failed, mut failures) = (BTreeSet::new(), 0, Vec::new());
        for run in SubmittedRun::open(runs)? {
            let standing = RunStanding::from_queue(&run, &queue);
            if standing.live.is_empty() && !run.is_cancelled() && !run.is_unsubmitted() {
                failed += standing.counts().failed;
                failures.extend(follow::failures(&standing, self.cluster));
            }
            self.settle(&standing, context)?;
            claimed.extend(standing.claimed().map(str::to_owned));
        }
        self.request.section.prepare()?;
        let mut items = self.request.section.items(&PlannedFiles::default(), context)?;
        items.retain(|item| !claimed.contains(&item.name));
        if !items.is_empty() {
            self.submit(&items, context)?;
        }
        Ok(SubmittedRuns { active: SubmittedRun::open(&self.request.runs)?, failed, failures })
    }

    fn submit(&self, items: &[WorkItem], context: &mut Context) -> Result<()> {
        let run = self.request.plan(items, context.now())?;
        let place = self.request.place(context)?;
        run.save(
            &context.config,
            &[("task.sh", task_script(&run, &place)?), ("merge.sh", merge_script(&run, &place)?)],
        )?;
        let mut jobs = Vec::new();
        let arrays = JobArray::cut(run.tasks.len(), self.cluster.array_size()?);
        for &array in &arrays {
            let submitted = array_arguments(&run, &place, array, jobs.last().copied())
                .and_then(|words| self.cluster.submit(&words, &|| context.cancelled()));
            match submitted.or_else(|error| self.submitted_all_the_same(&run, array, error)) {
                Ok(job) => jobs.push(job),
                Err(_) if context.cancelled() => {
                    // Slurm may have the last array all the same: its tasks find the run closed.
                    run.set_cancelled()?;
                    run.mark_closed()?;
                    return self.cluster.cancel(&jobs);
                }
                // The controller does not answer, and may have the job: the next command looks for it.
                Err(error) if self.cluster.queue().is_err() => return Err(error),
                Err(error) => {
                    // All or nothing: the same command submits everything again.
                    let cancelled = self.cluster.cancel(&jobs);
                    run.mark_closed()?;
                    return Err(cancelled.err().unwrap_or(error));
                }
            }
        }
        run.set_jobs(&arrays.iter().map(|array| array.first).zip(jobs.iter().copied()).collect::<Vec<_>>())?;
        let numbers: Vec<String> = jobs.iter().map(u64::to_string).collect();
        context.console.note(format_args!(
            "submitted {} in {} as job {}, at most {} at once; the folder of the run is {}",
            self.request.section.noun().count_text(items.len()),
            count_text(run.tasks.len() as u64, "task"),
            numbers.join(", "),
            self.request.settings.tasks,
            run.folder.display()
        ));
        if let Err(error) =
            merge_arguments(&run, &place, &jobs).and_then(|words| self.cluster.submit(&words, &|| context.cancelled()))
        {
            context.warn(format!(
                "no job will merge the results, so the same command has to when the tasks have ended: {error}"
            ));
        }
        Ok(())
    }

    /// The array that Slurm took although its answer was lost.
    fn submitted_all_the_same(&self, run: &SubmittedRun, array: JobArray, error: Error) -> Result<u64> {
        let name = format!("{}{}", run.name, array.first);
        let queue = self.cluster.queue().unwrap_or_default();
        queue.iter().find(|queued| queued.name == name).map(|queued| queued.job).ok_or(error)
    }

    /// Where the runs stand, for whoever does not wait.
    fn report_standing(&self, active: &[SubmittedRun], failed: usize, context: &Context) -> Result<Summary> {
        let queue = self.cluster.queue()?;
        let standings: Vec<RunStanding<'_>> = active.iter().map(|run| RunStanding::from_queue(run, &queue)).collect();
        let words = follow::text_of_each(&standings, |standing| {
            follow::standing_text(standing, self.request.settings, context)
        });
        let headline = format!("{words}; the same command shows where it stands, and merges what is done");
        let failure = (failed > 0).then(|| {
            Error::device(format!(
                "{} failed and {} submitted again",
                count_text(failed as u64, "task"),
                if failed == 1 { "was" } else { "were" }
            ))
            .help("correct what the warnings name; scancel ends the tasks that are queued")
        });
        let json = json!({ "slurm": standings.iter().map(RunStanding::json).collect::<Vec<_>>() });
        Ok(Summary { headline, failure, json, ..Summary::default() })
    }

    /// Merges the results of runs that have ended.
    fn merge_all(&self, active: &[SubmittedRun], context: &mut Context) -> Result<()> {
        if active.is_empty() {
            return Ok(());
        }
        let queue = self.cluster.queue().unwrap_or_default();
        let _lock = lock(&self.request.runs)?;
        for run in active {
            self.settle(&RunStanding::from_queue(run, &queue), context)?;
        }
        Ok(())
    }

    /// Merges the results of tasks that have ended; where all have, the job that merges has nothing left to do.
    fn settle(&self, standing: &RunStanding<'_>, context: &mut Context) -> Result<()> {
        let run = standing.run;
        // Rows of networks that the configuration no longer names are results all the same.
        if run.is_of(&context.config) {
            merge_ended(self.request.section, standing, context)?;
        } else {
            let mut merge = |section: &dyn Divisible| merge_ended(section, standing, context);
            if let Err(error) = (self.of_config)(&run.config(), &run.section, &mut merge) {
                context.warn(format!("what {} measured is not among the results: {error}", run.folder.display()));
                return Ok(());
            }
        }
        if standing.live.is_empty() {
            run.mark_closed()?;
        }
        let merge = standing.merge.filter(|_| standing.live.is_empty());
        self.cluster.cancel(&merge.into_iter().collect::<Vec<_>>())
    }
}

/// Locks the runs of a section; submitting and merging are short.
pub(crate) fn lock(runs: &Path) -> Result<fs::File> {
    lock_folder(runs, PATIENCE, "wait until it has submitted or merged, then run the same command again")
}

/// Merges the results of the tasks that have ended; of those that finished once, of the others again, as they may be requeued.
pub(crate) fn merge_ended(section: &dyn Divisible, standing: &RunStanding<'_>, context: &mut Context) -> Result<()> {
    let run = standing.run;
    let is_open = |task: usize| !run.is_merged(task) && run.results(task).is_dir();
    let tasks: Vec<(usize, bool)> = standing
        .ended_tasks()
        .map(|(task, note)| (task, is_finished(note)))
        .filter(|(task, _)| is_open(*task))
        .collect();
    if !tasks.is_empty() {
        section.merge(&tasks.iter().map(|(task, _)| run.results(*task)).collect::<Vec<_>>(), context)?;
    }
    tasks.iter().filter(|(_, finished)| *finished).try_for_each(|(task, _)| run.set_merged(*task))
}
