//! A recorded job and what its communication costs: what every proposal is compared with.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_replay::Analysis;
use perf4sight_replay::communication::Communication;
use perf4sight_replay::graph::StepGraph;
use perf4sight_replay::graph::recorded::{Correction, Recorded};
use perf4sight_replay::replayed::Request;
use perf4sight_replay::simulate::{Schedule, simulate};
use perf4sight_replay::what_if::{Change, Known, Outcome, Scenario, changed_step, predict};
use std::path::PathBuf;
use std::rc::Rc;

/// From this median difference between records and replays on, in percent, it is warned about.
const FAR: f64 = 2.0;
/// Recorded steps are at most this many times as long as plain ones, or as short.
const MOST_TIMES: f64 = 10.0;

/// The recorded job.
#[derive(Debug, Clone)]
pub struct Start {
    /// The graph of its steps.
    pub recorded: Recorded,
    /// What its communication costs.
    pub communication: Communication,
    /// The replay of the typical step.
    pub schedule: Schedule,
    /// What changes may rest on beyond the traces.
    pub known: Known,
    /// The files of the traces.
    pub files: Vec<PathBuf>,
    /// What to know about all predictions, in sentences.
    pub warnings: Vec<String>,
}

/// Changes that are made one after the other, as one.
#[derive(Debug, Clone)]
pub struct Together(pub Vec<Rc<dyn Change>>);

impl Change for Together {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        self.0.iter().try_for_each(|change| change.apply(scenario))
    }

    fn assumption(&self) -> Option<String> {
        let all: Vec<String> = self.0.iter().filter_map(|change| change.assumption()).collect();
        Some(all.join("; ")).filter(|all| !all.is_empty())
    }
}

impl Start {
    /// Builds the graph of a job's steps, without what recording added where the length of a plain step is known.
    ///
    /// # Errors
    /// Traces that cannot be replayed.
    pub fn of(analysis: &Analysis, request: &Request) -> Result<Self> {
        let mut recorded = Recorded::of(&analysis.job, &analysis.exchanges, &analysis.clocks)?;
        let mut warnings = analysis.warnings();
        warnings.extend(far(&recorded));
        if let Some(plain) = request.plain {
            check_plain(plain, recorded.typical.time(&simulate(&recorded.typical.graph)))?;
            let distortion = recorded.take_out_distortion(plain);
            let unexplained = distortion.correction == Correction::None;
            warnings.extend(unexplained.then(|| {
                format!(
                    "recorded steps differ by {} from plain ones, which recording does not explain",
                    Percent(distortion.percent())
                )
            }));
        }
        let communication = request.communication(&recorded)?;
        let schedule = simulate(&recorded.typical.graph);
        let files = analysis.job.ranks.iter().map(|rank| rank.trace.file.clone()).collect();
        let known = request.known(analysis.job.gpu())?;
        let start = Start { recorded, communication, schedule, known, files, warnings };
        match start.before() {
            0 => Err(Error::input("no step of these traces takes any time").expected("traces of training steps")),
            _ => Ok(start),
        }
    }

    /// Nanoseconds of the typical step as it is.
    pub fn before(&self) -> u64 {
        self.recorded.typical.time(&self.schedule)
    }

    /// The number of the rank whose work ends last.
    pub fn slowest(&self) -> u32 {
        let ends = self.schedule.ends_of_ranks(&self.recorded.typical.graph);
        ends.into_iter().max_by_key(|(_, end)| *end).map_or(0, |(number, _)| number)
    }

    /// The step with a change, with its interval.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn predict(&self, change: &Rc<dyn Change>) -> Result<Outcome> {
        predict(&self.recorded, &self.communication, &boxed(change))
    }

    /// The typical step with a change.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn changed(&self, change: &Rc<dyn Change>) -> Result<StepGraph> {
        changed_step(&self.recorded, &self.communication, &boxed(change))
    }

    /// Nanoseconds of the typical step with a change.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn time(&self, change: &Rc<dyn Change>) -> Result<u64> {
        let step = self.changed(change)?;
        Ok(step.time(&simulate(&step.graph)))
    }
}

/// Refuses a plain step that recording does not explain, as of another unit.
fn check_plain(plain: u64, recorded: u64) -> Result<()> {
    let times = plain as f64 / recorded.max(1) as f64;
    if (1.0 / MOST_TIMES..=MOST_TIMES).contains(&times) {
        return Ok(());
    }
    let [plain, recorded] = [plain, recorded].map(|time| Milliseconds(time as f64 / 1e6));
    Err(Error::usage(format!("plain_step_ms is {plain}, and the recorded step takes {recorded}"))
        .expected("milliseconds of a step of the same job without the profiler"))
}

fn boxed(change: &Rc<dyn Change>) -> [Box<dyn Change>; 1] {
    [Box::new(Together(vec![change.clone()]))]
}

/// A warning where replays are far from the recorded steps.
fn far(recorded: &Recorded) -> Option<String> {
    let off = |(index, time): (usize, &u64)| {
        let step = recorded.step(index);
        100.0 * (step.time(&simulate(&step.graph)) as f64 / (*time).max(1) as f64 - 1.0).abs()
    };
    let off: Vec<f64> = recorded.recorded.iter().enumerate().map(off).collect();
    let off = if off.is_empty() { 0.0 } else { median(&off) };
    (off > FAR)
        .then(|| format!("replays of recorded steps are {} off in the median, and predictions more", Percent(off)))
}
