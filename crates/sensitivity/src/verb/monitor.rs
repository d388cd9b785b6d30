//! Monitors the progress of a run, decides when it ends, and evaluates it.

use super::Sensitivity;
use super::points::{PointOutcome, PointRun};
use super::progress::{FORM, JobProgress, ProgressSource};
use super::runner::RunGoal;
use crate::{IterationRate, LEAST_REPORTS, LEAST_TIME, MeasuredRate};
use perf4sight_base::units::{Milliseconds, count_text};
use perf4sight_limit::{EndedJob, JobEnd, JobVerdict};
use std::time::Duration;

/// The rate is checked again when the run is longer by this share: frequent checks end runs too early.
const LONGER: f64 = 0.1;
/// The rate is checked after this time at the earliest.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The doubt about memory that processes share, where nobody may read how much that is, or only too slowly.
const SHARED: &str =
    "memory is that of all its processes added up, and counts pages that they share several times: it may be less";

/// A run that goes on.
pub(super) struct RunMonitor<'a> {
    asked: &'a Sensitivity,
    goal: RunGoal,
    pub progress: JobProgress<'a>,
    next_look: Duration,
    /// Whether the last check was satisfied.
    enough: bool,
}

impl<'a> RunMonitor<'a> {
    pub fn new(asked: &'a Sensitivity, goal: RunGoal, progress: JobProgress<'a>) -> Self {
        RunMonitor { asked, goal, progress, next_look: FIRST_LOOK, enough: false }
    }

    /// Whether the run has enough iterations after this time.
    pub fn is_enough(&mut self, after: Duration) -> bool {
        if after >= self.next_look {
            let iterations = self.progress.iterations(self.goal.span());
            self.next_look = self.look_after(after, iterations);
            self.enough = self.is_reached(iterations);
        }
        self.enough
    }

    /// When to check again: soon after the last iteration is expected.
    fn look_after(&self, after: Duration, iterations: u64) -> Duration {
        let left = self.goal.most.filter(|_| iterations > 0).map(|most| most.saturating_sub(iterations) as f64);
        let share = left.map_or(LONGER, |left| LONGER.min(left / (iterations + self.goal.warm_up) as f64));
        after.mul_f64(1.0 + share)
    }

    fn is_reached(&self, iterations: u64) -> bool {
        if self.goal.most.is_some_and(|most| iterations >= most) {
            return true;
        }
        let Some((_, measured)) = self.progress.measured(self.goal.span()) else { return false };
        let reached = |most: u64| iterations + self.goal.warm_up >= most;
        measured.is_known() && iterations >= self.goal.least || self.asked.max_iterations.is_some_and(reached)
    }

    pub fn outcome(&self, ended: &EndedJob) -> PointRun {
        let misfit = self.progress.misfit();
        let measured = self.progress.measured(self.goal.span()).or_else(|| self.divided(ended));
        let measured = measured.filter(|_| misfit.is_none());
        let last_lines = || ended.last_lines.clone();
        let outcome = match (ended.verdict(), measured) {
            (JobVerdict::OutOfMemory, _) => PointOutcome::OutOfMemory,
            (JobVerdict::Crashed(how), _) => PointOutcome::Crashed { how, last_lines: last_lines() },
            (JobVerdict::Disturbed(_) | JobVerdict::Sound, None) => {
                let reported = self.progress.fewest();
                PointOutcome::NoRate { how: self.without_rate(ended, reported), reported, last_lines: last_lines() }
            }
            (JobVerdict::Disturbed(how), Some(_)) => PointOutcome::Disturbed { how },
            (JobVerdict::Sound, Some(_)) => PointOutcome::Sound,
        };
        let (way, measured) = measured.unzip();
        PointRun {
            outcome,
            way,
            measured,
            seconds: ended.wall.as_secs_f64(),
            cpu_seconds: ended.cpu_seconds,
            throttled_seconds: ended.throttled_seconds,
            peak_memory: ended.peak_memory,
            own_memory: ended.own_memory,
            rise: ended.rise,
            doubts: self.doubts(ended, measured.is_some()),
            bytes_read: ended.bytes_read,
            pressure: ended.pressure.cpu,
            waited: ended.waited_share(),
            node: None,
            nodes: Vec::new(),
        }
    }

    /// "12 iterations were reported, 7 of them after the warm-up, in 1.20 s: a rate takes 9 or more in 2.00 s or more"
    fn too_few(&self, reported: usize) -> String {
        let (behind, seconds) = self.progress.reports(self.goal.span());
        let were = if reported == 1 { "iteration was" } else { "iterations were" };
        let [seconds, least] = [seconds, LEAST_TIME].map(|seconds| Milliseconds(1000.0 * seconds));
        let time = if behind > 1 { format!(", in {seconds}") } else { String::new() };
        let behind = if behind == 0 { "none".to_owned() } else { behind.to_string() };
        format!(
            "{reported} {were} reported, {behind} of them after the warm-up{time}: a rate takes {LEAST_REPORTS} or more in {least} or more"
        )
    }

    /// What is doubtful about the reports of the job, and about its memory where it has a rate.
    fn doubts(&self, ended: &EndedJob, has_rate: bool) -> Vec<String> {
        let shared = (has_rate && ended.counts_shared).then(|| SHARED.to_owned());
        self.progress.doubts().into_iter().chain(shared).collect()
    }

    /// The number of iterations divided by the time of the whole run; its error is unknown.
    fn divided(&self, ended: &EndedJob) -> Option<(ProgressSource, MeasuredRate)> {
        let iterations = self.asked.iterations.filter(|_| matches!(ended.end, JobEnd::Exited(_)))?;
        let seconds = ended.wall.as_secs_f64();
        let rate = IterationRate::exactly(iterations as f64 / seconds);
        Some((
            ProgressSource::Division,
            MeasuredRate { rate, iterations, seconds, blocks: 1, waiting: None, changed: None },
        ))
    }

    /// Why there is no rate.
    fn without_rate(&self, ended: &EndedJob, reported: usize) -> String {
        let end = match ended.end {
            JobEnd::Exited(_) => "it ended by itself",
            JobEnd::Enough if self.enough => "it had reported enough iterations",
            JobEnd::Enough | JobEnd::TimeUp => "its time was up",
            JobEnd::Stopped => "it was stopped",
        };
        let after = humantime::format_duration(Duration::from_millis(ended.wall.as_millis() as u64));
        if let Some(misfit) = self.progress.misfit() {
            return format!("{end} after {after}: {misfit}");
        }
        let why = match (reported, self.progress.rubbish()) {
            (0, 0) => self.progress.unmatched().unwrap_or_else(|| "no iteration was reported".to_owned()),
            (0, lines) => {
                format!("{} in the file of iterations, and none of the form {FORM}", count_text(lines as u64, "line"))
            }
            (count, _) => {
                [self.too_few(count)].into_iter().chain(self.progress.doubts()).collect::<Vec<_>>().join("; ")
            }
        };
        format!("{end} after {after}: {why}")
    }
}
