//! The section divided among machines: points as items, one a task, each machine with points of its own, and the points of
//! all of them in one.
//!
//! What is measured next depends on the points so far, so it goes in rounds: the points of one round do not depend on
//! each other, and the next round is known when they are there. The first task looks at its machine and measures the
//! most CPUs; the others use what it saw, on machines of the same kind.

use super::job::JobHost;
use super::points::{MeasuredPoint, PointRun, ResourceConfiguration};
use super::refusal::check_runs;
use super::runner::{RunGoal, Runner};
use super::sensitivity_run::SensitivityRun;
use super::store::{self, PointStore};
use super::surroundings::{self, JobSurroundings};
use super::{Sensitivity, conclusion, interrupted, lock, write};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::shell::command_text;
use perf4sight_base::units::count_text;
use perf4sight_base::{atomic_write, input_file};
use perf4sight_limit::{LimitSurvey, Limiter};
use perf4sight_machine::description::MachineDescription;
use perf4sight_machine::{MachineProperties, RunWatch, check_kind};
use perf4sight_verb::{
    Context, CountedNoun, Divisible, Outline, PlannedFiles, Summary, WorkItem, WorkPart, check_keeps_results,
};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the first machine saw, for the others.
pub(super) const FILE: &str = "surroundings.json";

/// The item of the first task, before it is known how many CPUs a machine has.
const FIRST: &str = "the most CPUs";

/// How many times as long as one run a point may take: a disturbed run is repeated twice.
const RUNS: u32 = 3;

/// A point to measure: the name of its item in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct WantedPoint {
    configuration: ResourceConfiguration,
    goal: RunGoal,
}

impl Divisible for Sensitivity {
    fn results(&self) -> &Path {
        &self.out
    }

    fn most_items(&self) -> usize {
        1
    }

    fn outline_elsewhere(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        self.check_divisible()?;
        let outline = Outline {
            steps: vec![format!(
                "runs {} with several numbers of CPUs on other machines, by Slurm",
                command_text(&self.command)
            )],
            time: self.budget,
            ..Outline::default()
        };
        Ok(self.checked(outline).results("out", &self.out, write::all_names()))
    }

    fn noun(&self) -> CountedNoun {
        CountedNoun { one: "point", several: "points" }
    }

    fn items(&self, _: &PlannedFiles, context: &mut Context) -> Result<Vec<WorkItem>> {
        self.check_divisible()?;
        let item = |name: String, time: Duration| WorkItem { group: name.clone(), name, time: RUNS * time };
        let Some(around) = self.first_surroundings()? else {
            self.check_unmeasured()?;
            return Ok(vec![item(FIRST.to_owned(), self.point_time)]);
        };
        let wanted = self.measurable_points(&around, context)?;
        let time = |wanted: &WantedPoint| wanted.goal.time;
        Ok(wanted.iter().map(|wanted| item(json(wanted), time(wanted))).collect())
    }

    fn run_part(&self, part: &WorkPart<'_>, context: &mut Context) -> Result<Summary> {
        let known = self.first_surroundings()?;
        let spent = known.as_ref().map_or(Ok(0.0), |around| self.seconds(around))?;
        let own = Sensitivity { out: part.folder.to_owned(), budget: part.budget(self.budget, spent), ..self.clone() };
        let cancel = Arc::clone(&context.cancel);
        let watch = RunWatch::quiet(&cancel);
        let looked = match known {
            Some(around) => around.with_limiter_here(&own, &watch)?,
            None if part.items == [FIRST] => JobSurroundings::look(&own, &watch, context)?,
            None => {
                return Err(Error::input("what the first task saw is not here")
                    .file(self.out.join(FILE))
                    .help("the node sees other files than the machine that submitted: both need the same folder"));
            }
        };
        let Some((around, limiter)) = looked else { return Ok(interrupted()) };
        atomic_write::save(&part.folder.join(FILE), json(&around) + "\n")?;
        let Some(_lock) = lock(&cancel, context)? else { return Ok(interrupted()) };
        let runner = own.runner(&around, JobHost { limiter: &limiter, watch }, None, context);
        let mut campaign = own.campaign(&around, &runner)?;
        around.warm(&own, &watch, context);
        for name in part.items {
            let wanted = WantedPoint::parse(name, &campaign, around.most)?;
            if campaign.store.find(wanted.configuration).is_some() || campaign.is_time_up() {
                continue;
            }
            let progress = campaign.progress(1, context);
            let Some(point) = campaign.measure(wanted.configuration, wanted.goal, &progress)? else {
                return Ok(interrupted());
            };
            if name == FIRST {
                check_runs(&point, &own)?;
            }
            campaign.keep(point, &progress)?;
        }
        Ok(Summary { headline: self.noun().count_text(campaign.measured), ..Summary::default() })
    }

    fn merge(&self, folders: &[PathBuf], _: &mut Context) -> Result<()> {
        for folder in folders.iter().filter(|folder| folder.join(store::FILE).exists()) {
            let Some(around) = seen_in(folder)? else { continue };
            // Those of the first task stay.
            atomic_write::save_new(&self.out.join(FILE), json(&around) + "\n")?;
            self.merge_points(folder)?;
        }
        Ok(())
    }

    fn conclude(&self, context: &mut Context) -> Result<Summary> {
        let none = Summary { headline: "no point was measured".to_owned(), ..Summary::default() };
        let Some(around) = self.first_surroundings()? else { return Ok(none) };
        let planner = PointPlanner::new(&around.survey, self.seconds(&around)?);
        let campaign = self.planned(&around, &planner)?;
        let points = campaign.store.points.len() as u64;
        let headline = format!("{} in {}", count_text(points, "point"), self.out.display());
        Ok(Summary { headline, ..Sensitivity::conclude(self, &around, campaign, context)? })
    }
}

impl Sensitivity {
    fn check_divisible(&self) -> Result<()> {
        if self.nodes.is_some() {
            return Err(Error::config("nnodes and --slurm at once")
                .expected("one of them")
                .help("a job on several nodes is one measurement: run the section within an allocation of your own"));
        }
        check_keeps_results(self.overwrite)
    }

    /// Points without what their machine was cannot be compared with those of nodes.
    fn check_unmeasured(&self) -> Result<()> {
        match self.out.join(store::FILE).exists() {
            true => Err(Error::usage("the points here were measured without --slurm, on this or another machine")
                .file(&self.out)
                .expected("a folder of its own for points of nodes (out)")),
            false => write::check_files(&self.out, false, false),
        }
    }

    /// What the first task saw; none before it has ended.
    fn first_surroundings(&self) -> Result<Option<JobSurroundings>> {
        seen_in(&self.out)?.map(|around| around.with_settings(self)).transpose()
    }

    /// The points that can be measured now.
    fn measurable_points(&self, around: &JobSurroundings, context: &mut Context) -> Result<Vec<WantedPoint>> {
        let planner = PointPlanner::new(&around.survey, self.seconds(around)?);
        let mut campaign = self.planned(around, &planner)?;
        conclusion::measure(around, &mut campaign, context)?;
        let Some(next) = planner.next.take() else { return Ok(Vec::new()) };
        let is_on_curve = next.configuration == campaign.configuration(next.configuration.cpus, self.memory);
        let round = if is_on_curve { campaign.round() } else { vec![next.configuration] };
        Ok(round.into_iter().map(|configuration| WantedPoint { configuration, ..next }).collect())
    }

    /// A measurement in which nothing is measured.
    fn planned<'a>(&'a self, around: &JobSurroundings, planner: &'a PointPlanner<'a>) -> Result<SensitivityRun<'a>> {
        let mut campaign = self.campaign(around, planner)?;
        campaign.store.accept_all();
        Ok(campaign)
    }

    /// Seconds that all points took.
    fn seconds(&self, around: &JobSurroundings) -> Result<f64> {
        self.store(around).map(|store| store.seconds())
    }

    fn merge_points(&self, folder: &Path) -> Result<()> {
        let Some(around) = self.first_surroundings()? else { return Ok(()) };
        let offered = PointStore::open(folder, &self.identity(&around), false)?.points;
        let mut store = self.store(&around)?;
        let is_new = |store: &PointStore, point: &MeasuredPoint| store.find(point.configuration).is_none();
        offered.into_iter().try_for_each(|point| if is_new(&store, &point) { store.add(point) } else { Ok(()) })
    }
}

impl WantedPoint {
    fn parse(name: &str, campaign: &SensitivityRun<'_>, most: f64) -> Result<Self> {
        if name == FIRST {
            let configuration = campaign.configuration(most, campaign.asked.memory);
            return Ok(WantedPoint { configuration, goal: campaign.goal() });
        }
        serde_json::from_str(name).map_err(|cause| Error::input(format!("this is not a point: {name} ({cause})")))
    }
}

impl JobSurroundings {
    /// The same with what is requested now.
    fn with_settings(self, asked: &Sensitivity) -> Result<Self> {
        let most = surroundings::most(asked, &self.survey)?;
        let grid = surroundings::grid(asked, most, &self.survey);
        let command = super::command::JobCommand::from_settings(asked);
        Ok(JobSurroundings { most, grid, command, gpus: asked.num_gpus.unwrap_or(self.gpus), ..self })
    }

    /// The same with the limiter of this machine; none after Ctrl-C.
    ///
    /// # Errors
    /// A machine of another kind.
    fn with_limiter_here(self, asked: &Sensitivity, watch: &RunWatch<'_>) -> Result<Option<(Self, Limiter)>> {
        let Some(limiter) = surroundings::limiter(asked, watch)? else { return Ok(None) };
        let before = self.hosts.first().cloned().unwrap_or_default();
        check_kind(&kind(before, &self.survey), &kind(MachineDescription::here().facts(), limiter.survey()))?;
        Ok(Some((self, limiter)))
    }
}

/// What must be equal on all machines: their facts, their CPUs, and what limits a job.
fn kind(mut facts: MachineProperties, survey: &LimitSurvey) -> MachineProperties {
    let limits = survey.resources.iter().map(|held| {
        let by = held.by.map_or("nothing".to_owned(), ToString::to_string);
        (format!("limiter of {}", held.resource), by)
    });
    facts.extend(limits.chain([("CPUs".to_owned(), survey.cpus.to_string())]));
    facts
}

/// What a task saw.
fn seen_in(folder: &Path) -> Result<Option<JobSurroundings>> {
    let file = folder.join(FILE);
    let Some(text) = input_file::text_if_there(&file, "read what the first task saw")? else { return Ok(None) };
    let unknown = |cause: serde_json::Error| {
        Error::input(format!("this was not written by this version: {cause}"))
            .file(&file)
            .help("finish with that version, or choose another folder (out)")
    };
    serde_json::from_str(&text).map(Some).map_err(unknown)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and text are JSON")
}

/// Measures nothing, and keeps what would be measured next.
struct PointPlanner<'a> {
    survey: &'a LimitSurvey,
    spent: Duration,
    next: Cell<Option<WantedPoint>>,
}

impl<'a> PointPlanner<'a> {
    fn new(survey: &'a LimitSurvey, seconds: f64) -> Self {
        let spent = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        PointPlanner { survey, spent, next: Cell::new(None) }
    }
}

impl Runner for PointPlanner<'_> {
    fn survey(&self) -> &LimitSurvey {
        self.survey
    }

    fn nodes(&self) -> usize {
        1
    }

    fn repeats(&self) -> bool {
        false
    }

    fn elapsed(&self) -> Duration {
        self.spent
    }

    fn run(&self, configuration: ResourceConfiguration, goal: RunGoal) -> Result<Option<PointRun>> {
        self.next.set(Some(WantedPoint { configuration, goal }));
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
