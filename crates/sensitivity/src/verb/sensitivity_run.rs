//! Measures one configuration after another until the answer is known or the budget is spent.

use super::Sensitivity;
use super::points::{MeasuredPoint, PointOutcome, ResourceConfiguration};
use super::refusal::check_runs;
use super::runner::{LEAST_RUN, RunGoal, Runner};
use super::store::PointStore;
use crate::{CpuGrid, NextMeasurement, RateCurve, next, round};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_limit::Resource;
use perf4sight_report::Progress;
use perf4sight_verb::Context;
use std::time::Duration;

/// How often a disturbed run is repeated.
const REPEATS: usize = 2;
/// The usual number of points of a search, for a progress bar without a known total.
const MOSTLY: u64 = 7;

/// Why measuring stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    Done,
    Budget,
    Cancelled,
}

/// Measures a job in one configuration after another.
pub(super) struct SensitivityRun<'a> {
    pub asked: &'a Sensitivity,
    pub runner: &'a dyn Runner,
    pub store: PointStore,
    pub grid: CpuGrid,
    /// Iterations of each run that read data which is not in memory yet.
    pub cold: u64,
    pub found: usize,
    pub measured: usize,
}

/// Points of this request that were found in the folder: how many, and how many of them are run again.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundPoints {
    pub points: usize,
    pub due: usize,
    /// How many of those failed.
    pub failed: usize,
}

impl SensitivityRun<'_> {
    /// Measures the curve over CPUs.
    ///
    /// # Errors
    /// A job that fails with the most CPUs, or reports no iteration; files that cannot be written.
    pub fn search(&mut self, context: &mut Context) -> Result<StopReason> {
        let progress = self.progress(self.mostly(), context);
        loop {
            let points: Vec<_> = self.curve_points().filter_map(MeasuredPoint::on_curve).collect();
            let asked = self.asked;
            if let Some(point) = self.out_of_memory_at_most_cpus().filter(|_| points.is_empty()) {
                check_runs(point, asked)?;
            }
            let wanted = next(&self.possible_cpus(), &points);
            let due = self.curve_points().find(|point| self.store.is_due(point.configuration));
            let cpus = match (due, wanted) {
                (Some(due), _) => due.configuration.cpus,
                (None, NextMeasurement::Measure(cpus)) => cpus,
                (None, NextMeasurement::Done) => return Ok(StopReason::Done),
            };
            if self.is_time_up() {
                return Ok(StopReason::Budget);
            }
            let configuration = self.configuration(cpus, asked.memory);
            let Some(point) = self.measure(configuration, self.goal(), &progress)? else {
                return Ok(StopReason::Cancelled);
            };
            // A job that may never have run is not saved: the next attempt starts afresh. Running out of memory is a
            // result.
            if points.is_empty() && !point.is_out_of_memory() {
                check_runs(&point, asked)?;
            }
            self.keep(point, &progress)?;
        }
    }

    /// How many points a search usually has.
    fn mostly(&self) -> u64 {
        MOSTLY.min(self.grid.cpus().len() as u64)
    }

    /// The part of the budget that is left for a point: of the curve an equal part of what all points take that usually
    /// are still to come, or others that disturb the first one would leave nothing for them.
    fn share(&self, configuration: ResourceConfiguration) -> Option<Duration> {
        let is_known = |point: &&MeasuredPoint| !self.store.is_due(point.configuration);
        let is_of_curve = configuration == self.configuration(configuration.cpus, self.asked.memory);
        let to_come = match is_of_curve {
            true => self.mostly().saturating_sub(self.curve_points().filter(is_known).count() as u64).max(1),
            false => 1,
        };
        self.budget_left().map(|left| left / u32::try_from(to_come).unwrap_or(1))
    }

    /// When a run of the curve ends.
    pub fn goal(&self) -> RunGoal {
        // In a small cache the hit rate changes over an epoch, so that a part of an epoch has another rate.
        let warm_up = self.asked.warm_up.max(self.cold);
        RunGoal { warm_up, least: self.cold, most: None, time: self.asked.point_time }
    }

    /// The numbers of CPUs without those that the job failed with.
    fn possible_cpus(&self) -> CpuGrid {
        let failed = self.curve_points().filter(|point| point.rate().is_none());
        self.grid.clone().without(&failed.map(|point| point.configuration.cpus).collect::<Vec<_>>())
    }

    /// The configurations of the curve that can be measured at once.
    pub fn round(&self) -> Vec<ResourceConfiguration> {
        let points: Vec<_> = self.curve_points().filter_map(MeasuredPoint::on_curve).collect();
        let cpus = round(&self.possible_cpus(), &points);
        cpus.into_iter().map(|cpus| self.configuration(cpus, self.asked.memory)).collect()
    }

    fn out_of_memory_at_most_cpus(&self) -> Option<&MeasuredPoint> {
        let most = self.grid.cpus().last()?;
        self.curve_points().find(|point| point.configuration.cpus == *most && point.is_out_of_memory())
    }

    /// Whether a configuration is within the limits of this request and has its memory: a folder may hold points of
    /// more CPUs.
    pub fn is_asked(&self, configuration: ResourceConfiguration) -> bool {
        configuration.memory == self.asked.memory
            && self.grid.cpus().last().is_some_and(|most| configuration.cpus <= *most)
    }

    /// The configuration with these CPUs and this memory. Where memory is limited and storage can be limited, storage
    /// has the bandwidth that the user specified.
    pub fn configuration(&self, cpus: f64, memory: Option<Bytes>) -> ResourceConfiguration {
        let can = memory.is_some() && self.runner.survey().by(Resource::Storage).is_some();
        ResourceConfiguration { cpus, memory, storage: self.asked.storage_bandwidth.filter(|_| can) }
    }

    /// Points of this request that were found in the folder, without those with less memory.
    pub fn found_points(&self) -> FoundPoints {
        let known = || self.store.points.iter().filter(|point| self.is_asked(point.configuration));
        let due = || known().filter(|point| self.store.is_due(point.configuration));
        FoundPoints {
            points: known().count(),
            due: due().count(),
            failed: due().filter(|point| point.has_failed()).count(),
        }
    }

    pub fn curve_points(&self) -> impl Iterator<Item = &MeasuredPoint> {
        let of_curve = |it: ResourceConfiguration| self.is_asked(it) && it == self.configuration(it.cpus, it.memory);
        self.store.points.iter().filter(move |point| of_curve(point.configuration))
    }

    pub fn curve(&self) -> Option<RateCurve> {
        RateCurve::new(&self.curve_points().filter_map(MeasuredPoint::on_curve).collect::<Vec<_>>())
    }

    /// Runs the job until a run counts, the repeats are used up or its part of the budget is spent. A point that was
    /// disturbed before is run once more. None after Ctrl-C.
    pub fn measure(
        &mut self,
        configuration: ResourceConfiguration,
        goal: RunGoal,
        progress: &Progress,
    ) -> Result<Option<MeasuredPoint>> {
        let mut point = self.store.unfinished_point(configuration);
        let until = self.share(configuration).map(|share| self.runner.elapsed() + share);
        let runner = self.runner;
        let left = || until.map(|until| until.saturating_sub(runner.elapsed()));
        for repeat in point.runs.len()..=REPEATS.max(point.runs.len()) {
            let again = if repeat == 0 { "" } else { ", again, for it was disturbed" };
            progress.set_item(format!("{}{again}", configuration.to_text()));
            let time = left().map_or(goal.time, |left| goal.time.min(left.max(LEAST_RUN)));
            let Some(run) = self.runner.run(configuration, RunGoal { time, ..goal })? else { return Ok(None) };
            let disturbed = matches!(run.outcome, PointOutcome::Disturbed { .. });
            point.runs.push(run);
            if !disturbed || left().is_some_and(|left| left.is_zero()) {
                break;
            }
            // The repeat may take long and be interrupted.
            self.store.begin(&point)?;
        }
        Ok(Some(point))
    }

    pub fn keep(&mut self, point: MeasuredPoint, progress: &Progress) -> Result<()> {
        self.store.add(point)?;
        self.measured += 1;
        progress.advance(1);
        Ok(())
    }

    pub fn is_time_up(&self) -> bool {
        self.budget_left().is_some_and(|left| left.is_zero())
    }

    /// A progress bar for so many points, limited by the budget.
    pub fn progress(&self, points: u64, context: &Context) -> Progress {
        let progress = context.console.progress(points, "measuring");
        match self.budget_left() {
            Some(left) => progress.with_limit(left),
            None => progress,
        }
    }

    pub fn budget_left(&self) -> Option<Duration> {
        self.asked.budget.map(|budget| budget.saturating_sub(self.runner.elapsed()))
    }
}
