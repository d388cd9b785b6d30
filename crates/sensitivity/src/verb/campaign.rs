//! Which points are measured, one after another, until the answer is known or the time is up.

use super::Sensitivity;
use super::plan::Found;
use super::run::{Goal, Runner};
use super::store::{Outcome, Place, Point, Store};
use super::tables;
use crate::{Curve, Grid, Model, Next, next};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_limit::{Axis, Means};
use perf4sight_report::Progress;
use perf4sight_verb::Context;
use std::time::{Duration, SystemTime};

/// How often a run is repeated that was disturbed.
const REPEATS: usize = 2;
/// What a run gets though less is left of the budget: the three seconds that a rate takes to be known, the start and the warm-up.
pub(super) const LEAST_RUN: Duration = Duration::from_secs(5);
/// How many points a search takes mostly, for a progress that cannot know.
const MOSTLY: u64 = 7;
/// Epochs behind the first that a run with little memory takes to tell its rate.
const EPOCHS: u64 = 2;
/// How much longer such a run may take than a cache that throws out what was not used for the longest time lets expect.
const PATIENCE: f64 = 1.5;

/// So far from the share of the data that tells most of a cache, another one tells as good as much.
const NEAR: f64 = 0.1;

/// Why it came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// All is known.
    Done,
    /// The time is up.
    Budget,
    /// Ctrl-C.
    Cancelled,
}

/// Measures points.
pub(super) struct Campaign<'a> {
    pub runner: Runner<'a>,
    pub store: Store,
    pub grid: Grid,
    pub begun: SystemTime,
    /// Iterations of each run that read data which is not in memory yet.
    pub cold: u64,
    /// How many points were found in the folder.
    pub found: usize,
    /// How many were measured, or measured once more.
    pub measured: usize,
}

impl Campaign<'_> {
    /// Measures the curve over CPUs.
    ///
    /// # Errors
    /// A job that fails with the most CPUs, or tells of no iteration; what cannot be written.
    pub fn search(&mut self, context: &mut Context) -> Result<Stop> {
        let progress = self.progress(MOSTLY, context);
        loop {
            let points: Vec<_> = self.curve_points().filter_map(Point::on_curve).collect();
            let asked = self.runner.asked;
            if let Some(hopeless) = self.hopeless().filter(|_| points.is_empty()) {
                refuse(hopeless, asked)?;
            }
            let failed = self.curve_points().filter(|point| point.rate().is_none());
            let failed: Vec<f64> = failed.map(|point| point.place.cpus).collect();
            let wanted = next(&self.grid.clone().without(&failed), &points);
            let due = self.curve_points().find(|point| self.store.is_due(point.place));
            let cpus = match (due, wanted) {
                (Some(due), _) => due.place.cpus,
                (None, Next::Measure(cpus)) => cpus,
                (None, Next::Done) => return Ok(Stop::Done),
            };
            if self.is_time_up(context) {
                return Ok(Stop::Budget);
            }
            let place = self.runner.place(cpus, asked.memory);
            // What is found in a cache that has little room changes over an epoch, so that parts of one tell another rate.
            let warm_up = asked.warm_up.max(self.cold);
            let goal = Goal { warm_up, least: self.cold, most: None, time: asked.point_time };
            let Some(point) = self.measure(place, goal, &progress, context)? else { return Ok(Stop::Cancelled) };
            // Nothing is kept of a job that may never have run: the next try begins anew. What memory it lacks is known.
            if points.is_empty() && !point.is_out_of_memory() {
                refuse(&point, asked)?;
            }
            self.keep(point, &progress)?;
        }
    }

    /// The point with the most CPUs, where it is known to lack memory.
    fn hopeless(&self) -> Option<&Point> {
        let most = self.grid.cpus().last()?;
        self.curve_points().find(|point| point.place.cpus == *most && point.is_out_of_memory())
    }

    /// Measures the epoch that tells most of how the machine keeps what was read; none where nothing is to be told, or nothing can be.
    ///
    /// # Errors
    /// See [`Campaign::search`].
    pub fn place_cache(&mut self, model: &Model, own: Bytes, context: &mut Context) -> Result<Stop> {
        let Some((place, cached)) = self.telling_place(model, own) else { return Ok(Stop::Done) };
        if self.store.at(place).is_some() && !self.store.is_due(place) {
            return Ok(Stop::Done);
        }
        if self.runner.limiter.survey().by(Axis::Memory).is_none() || self.ends_before_epochs(model) {
            return Ok(Stop::Done);
        }
        let longest = model.epoch(place.cpus, cached).most * (1 + EPOCHS) as f64 * PATIENCE;
        let time = Duration::from_secs_f64(longest.clamp(1.0, 1e9)).max(self.runner.asked.point_time);
        if self.is_time_up(context) || self.left(context).is_some_and(|left| time > left) {
            return Ok(Stop::Budget);
        }
        let epoch = model.iterations.ceil() as u64;
        let epochs = EPOCHS * epoch;
        let goal = Goal { warm_up: epoch.max(self.runner.asked.warm_up), least: epochs, most: Some(epochs), time };
        let progress = self.progress(1, context);
        let Some(point) = self.measure(place, goal, &progress, context)? else { return Ok(Stop::Cancelled) };
        self.keep(point, &progress)?;
        Ok(Stop::Done)
    }

    /// Whether runs end, as asked, before they are through with the epochs that tell how the machine keeps what was read.
    pub fn ends_before_epochs(&self, model: &Model) -> bool {
        let needed = (1 + EPOCHS) * model.iterations.ceil() as u64;
        self.runner.asked.max_iterations.is_some_and(|most| most < needed)
    }

    /// Where one measurement tells most of the cache, and which share of the data has room there: where one was made or begun that tells as good
    /// as most, there. What the job holds itself differs from run to run, and the place with it.
    pub fn telling_place(&self, model: &Model, own: Bytes) -> Option<(Place, f64)> {
        let cpus = model.curve.best().cpus;
        let shares: Vec<f64> = (1..10).map(|tenth| f64::from(tenth) / 10.0).collect();
        let most = model.worth_measuring(cpus, &shares)?;
        // What holds the residency of the data leaves the job's own memory alone.
        let governed = self.runner.limiter.survey().by(Axis::Memory) == Some(Means::Residency);
        let own = if governed { Bytes(0) } else { own };
        let wanted = self.runner.place(cpus, Some(Bytes(own.0 + (most * model.data.bytes) as u64)));
        let known = self.store.places().filter(|place| place.memory != self.runner.asked.memory);
        let place = nearest(wanted, NEAR * model.data.bytes, known).unwrap_or(wanted);
        let cached = place.memory.map_or(most, |memory| (memory.0 as f64 - own.0 as f64) / model.data.bytes);
        Some((place, cached))
    }

    /// Nodes that the job runs on.
    pub fn nodes(&self) -> usize {
        self.runner.team.map_or(1, |team| team.machines().count())
    }

    /// Whether something was measured with what the job may have this time, but for less memory: a folder may hold points of more CPUs.
    pub fn is_asked(&self, place: Place) -> bool {
        place.memory == self.runner.asked.memory && self.grid.cpus().last().is_some_and(|most| place.cpus <= *most)
    }

    /// Points that were found with what is asked for, but for less memory.
    pub fn known(&self) -> Found {
        let places = || self.store.points.iter().map(|point| point.place).filter(|place| self.is_asked(*place));
        Found { points: places().count(), due: places().filter(|place| self.store.is_due(*place)).count() }
    }

    /// The points of the curve.
    pub fn curve_points(&self) -> impl Iterator<Item = &Point> {
        let of_curve = |place: Place| self.is_asked(place) && place == self.runner.place(place.cpus, place.memory);
        self.store.points.iter().filter(move |point| of_curve(point.place))
    }

    /// The curve as far as it is known.
    pub fn curve(&self) -> Option<Curve> {
        Curve::of(&self.curve_points().filter_map(Point::on_curve).collect::<Vec<_>>())
    }

    /// Runs the job until a run counts, was disturbed too often, or the time is up: one that was so before is run once more. None after
    /// Ctrl-C.
    ///
    /// # Errors
    /// See [`Campaign::search`].
    pub fn measure(
        &mut self,
        place: Place,
        goal: Goal,
        progress: &Progress,
        context: &Context,
    ) -> Result<Option<Point>> {
        let mut point = self.store.begun(place);
        for repeat in point.runs.len()..=REPEATS.max(point.runs.len()) {
            let again = if repeat == 0 { "" } else { ", again, for it was disturbed" };
            progress.doing(format!("{}{again}", place.words()));
            let time = self.left(context).map_or(goal.time, |left| goal.time.min(left.max(LEAST_RUN)));
            let Some(run) = self.runner.run(place, Goal { time, ..goal })? else { return Ok(None) };
            let disturbed = matches!(run.outcome, Outcome::Disturbed { .. });
            point.runs.push(run);
            if !disturbed || self.is_time_up(context) {
                break;
            }
            // What comes now may take long, and be interrupted.
            self.store.begin(&point)?;
        }
        Ok(Some(point))
    }

    pub fn keep(&mut self, point: Point, progress: &Progress) -> Result<()> {
        self.store.add(point)?;
        self.measured += 1;
        progress.advance(1);
        Ok(())
    }

    pub fn is_time_up(&self, context: &Context) -> bool {
        self.left(context).is_some_and(|left| left.is_zero())
    }

    /// Of so many points, as far as the budget reaches.
    pub fn progress(&self, points: u64, context: &Context) -> Progress {
        let progress = context.console.progress(points, "measuring");
        match self.left(context) {
            Some(left) => progress.within(left),
            None => progress,
        }
    }

    /// Time that is left of the budget.
    fn left(&self, context: &Context) -> Option<Duration> {
        let passed = context.now().duration_since(self.begun).unwrap_or_default();
        self.runner.asked.budget.map(|budget| budget.saturating_sub(passed))
    }
}

/// Of some places the one with the memory that is nearest to a place's, and less than so many bytes beside it; all else is the same.
fn nearest(wanted: Place, bytes: f64, places: impl Iterator<Item = Place>) -> Option<Place> {
    let beside = |place: &Place| place.memory.zip(wanted.memory).map(|(a, b)| a.0.abs_diff(b.0));
    let near = places.filter(|place| Place { memory: wanted.memory, ..*place } == wanted);
    near.filter(|place| beside(place).is_some_and(|off| (off as f64) < bytes)).min_by_key(beside)
}

/// A job that nothing comes of with the most CPUs will hardly do better with fewer.
fn refuse(point: &Point, asked: &Sensitivity) -> Result<()> {
    let Some(run) = point.runs.last().filter(|_| point.rate().is_none()) else { return Ok(()) };
    let with = point.place.words();
    let (how, last_lines) = match &run.outcome {
        Outcome::Sound | Outcome::Disturbed { .. } => return Ok(()),
        Outcome::OutOfMemory => {
            return Err(Error::device(format!("with {with} the job ran out of memory{}", tables::on(point)))
                .help("give it more (memory), or let it need less, as with a smaller batch; this point is kept, and is measured anew with --overwrite alone"));
        }
        Outcome::Crashed { how, last_lines } => (format!("with {with} the job failed: {how}"), last_lines),
        Outcome::NoRate { how, last_lines, .. } => (format!("with {with} no rate is known: {how}"), last_lines),
    };
    let error = Error::device(format!("{how}{}", tables::last_lines(last_lines)));
    Err(match run.outcome {
        Outcome::NoRate { told: 0, .. } if asked.step_pattern.is_some() => error.help(PATTERN),
        Outcome::NoRate { told: 0, .. } => error.help(WAYS),
        Outcome::NoRate { .. } if !run.doubts.is_empty() => error.help(LINES),
        Outcome::NoRate { .. } => error.help(LONGER),
        Outcome::Sound | Outcome::Disturbed { .. } | Outcome::OutOfMemory | Outcome::Crashed { .. } => error,
    })
}

/// What to do where it tells of too few.
const LONGER: &str = "a rate takes eight iterations behind the warm-up (--warm-up) and two seconds at the least, and twelve and three to be known well: give a \
run more time (--point-time, and --budget where less is left of it), or let the job go on for longer";
/// What to do where lines cannot be.
const LINES: &str = "each line is to be of the form {\"step\": 12, \"time\": 3.25, \"wait\": 0.01, \"rank\": 0}, wait and rank being optional: time in seconds, later than that of \
the line before of its rank, and wait no longer than the time between the two; processes that share the file take a rank each";
/// What to do where nothing that a job writes matches.
const PATTERN: &str = "a pattern is looked for in each line of output and of errors, and what is written over a carriage return is a line: compare it with what the job \
writes";
/// What to do where a job tells of no iteration.
const WAYS: &str = "PyTorch's optimizers and loaders tell by themselves; else have the job append {\"step\": 1, \"time\": 0.5} to the file that PERF4SIGHT_STEPS names, \
or say what its output matches (--step-pattern), or how many iterations the whole of it makes (--iterations)";

#[cfg(test)]
mod tests {
    use super::*;

    /// What a job holds itself differs by some pages from run to run: what was measured for 70 % of 600 MB is measured.
    #[test]
    fn an_epoch_that_was_measured_with_nearly_as_much_memory_is_the_one_that_tells() {
        let place = |cpus: f64, memory: u64| Place { cpus, memory: Some(Bytes(memory)), storage: None };
        let kept = [place(2.0, 432_004_096), place(2.0, 372_000_000), place(1.0, 432_000_000)];
        let found = |memory: u64| nearest(place(2.0, memory), 60e6, kept.into_iter());
        assert_eq!(found(432_000_000), Some(kept[0]));
        assert_eq!(found(380_000_000), Some(kept[1]));
        assert_eq!(found(500_000_000), None);
        assert_eq!(nearest(Place { memory: None, ..kept[0] }, 60e6, kept.into_iter()), None);
        let held = Place { storage: Some(Bytes(1)), ..kept[0] };
        assert_eq!(nearest(held, 60e6, kept.into_iter()), None);
    }
}
