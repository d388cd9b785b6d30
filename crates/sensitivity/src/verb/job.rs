//! Runs the real job, on this node and on the following nodes.

use super::Sensitivity;
use super::monitor::RunMonitor;
use super::nodes::NodeTeam;
use super::points::{PointRun, ResourceConfiguration};
use super::progress::{JobProgress, VARIABLE};
use super::runner::{EndDecision, RunGoal, Runner, SingleNode};
use perf4sight_base::error::Result;
use perf4sight_limit::{JobEnd, LimitSurvey, LimitedJob, Limiter};
use perf4sight_machine::{ResourceLimits, RunWatch, foreground};
use perf4sight_record::python::RecorderFolder;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The variable with Python's module folders.
const MODULES: &str = "PYTHONPATH";

/// The limiter of this node, and the watch.
#[derive(Clone, Copy)]
pub(super) struct JobHost<'a> {
    pub limiter: &'a Limiter,
    pub watch: RunWatch<'a>,
}

pub(super) struct JobRunner<'a> {
    pub asked: &'a Sensitivity,
    pub words: &'a [String],
    pub host: JobHost<'a>,
    /// The resources that can be limited: on several nodes, those that all of them can limit.
    pub survey: &'a LimitSurvey,
    /// The other nodes, where there are any and this one leads.
    pub team: Option<&'a NodeTeam>,
    /// The clock, and the start time of the measurement.
    pub clock: fn() -> SystemTime,
    pub begun: SystemTime,
}

impl Runner for JobRunner<'_> {
    fn survey(&self) -> &LimitSurvey {
        self.survey
    }

    fn nodes(&self) -> usize {
        self.team.map_or(1, |team| team.machines().count())
    }

    fn elapsed(&self) -> Duration {
        (self.clock)().duration_since(self.begun).unwrap_or_default()
    }

    fn run(&self, configuration: ResourceConfiguration, goal: RunGoal) -> Result<Option<PointRun>> {
        let ResourceConfiguration { cpus, memory, storage } = configuration;
        let limits = ResourceLimits { cpus: Some(cpus), memory, storage };
        match self.team {
            None => self.run_here(limits, goal, &mut SingleNode(goal.time)),
            Some(team) => team.run(&limits, goal, &self.host.watch, &mut |pace| self.run_here(limits, goal, pace)),
        }
    }
}

impl JobRunner<'_> {
    /// Runs it once on this node; `pace` decides when it ends. None after Ctrl-C.
    ///
    /// # Errors
    /// See [`Runner::run`], without those of other nodes.
    pub fn run_here(
        &self,
        limits: ResourceLimits,
        goal: RunGoal,
        pace: &mut dyn EndDecision,
    ) -> Result<Option<PointRun>> {
        let python = RecorderFolder::write(&env::temp_dir())?;
        let progress = JobProgress::new(&python.reports(), self.asked.step_pattern.as_ref().map(|pattern| &pattern.0));
        let mut environment = environment(&progress.file(), &python.modules());
        environment.extend(self.asked.nodes.iter().flat_map(|nodes| nodes.environment(self.asked.processes())));
        let job = LimitedJob {
            words: self.words,
            environment: &environment,
            limits,
            processes: self.asked.processes(),
            // The whole search holds the measurement lock.
            alone: false,
            ..LimitedJob::default()
        };
        let mut monitor = RunMonitor::new(self.asked, goal, progress);
        let ended = self.host.limiter.run(&job, &self.host.watch, &mut |seen| {
            monitor.progress.add(&seen.lines, seen.after);
            pace.ends(monitor.is_enough(seen.after), seen.after)
        })?;
        Ok(ended.map(|mut ended| {
            match ended.end {
                JobEnd::Exited(_) => monitor.progress.read_the_rest(ended.until_gone),
                JobEnd::Enough | JobEnd::TimeUp | JobEnd::Stopped => {
                    monitor.progress.read_what_was_kept(ended.until_gone)
                }
            }
            if pace.is_closing() && matches!(ended.end, JobEnd::Exited(status) if !status.success()) {
                ended.end = JobEnd::Enough;
            }
            monitor.outcome(&ended)
        }))
    }
}

/// The environment of the job: the file for its steps, and the folder from which Python loads the hooks.
fn environment(file: &Path, modules: &Path) -> Vec<(String, OsString)> {
    let folders = foreground::with_first(MODULES, modules);
    let own: [(&str, OsString); 3] = [(VARIABLE, file.into()), (MODULES, folders), ("PYTHONUNBUFFERED", "1".into())];
    own.map(|(name, value)| (name.to_owned(), value)).into()
}
