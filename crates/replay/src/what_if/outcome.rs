//! The time of a step with changes, compared with the step as it is.

use super::{Change, Scenario};
use crate::communication::{Communication, overlap};
use crate::graph::recorded::Recorded;
use crate::simulate::{Share, critical_path, shares, simulate};
use perf4sight_base::error::Result;
use perf4sight_base::stats::percentile;

/// A predicted time in nanoseconds, with the interval over the recorded steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Of the typical step.
    pub time: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// What changes bring.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The step as it is, in nanoseconds.
    pub before: u64,
    /// The step with the changes.
    pub after: Prediction,
    /// The time on the critical path after the changes, by rank and kind.
    pub critical: Vec<Share>,
    /// What is assumed beyond the traces.
    pub assumptions: Vec<String>,
}

/// The percentiles over the recorded steps that bound a prediction.
const BOUNDS: [f64; 2] = [5.0, 95.0];

/// Predicts the typical step with changes, made one after the other. The interval is that of the relative changes of the
/// recorded steps, each with its own durations.
///
/// # Errors
/// A change that cannot be made to the step.
pub fn predict(recorded: &Recorded, communication: &Communication, changes: &[Box<dyn Change>]) -> Result<Outcome> {
    let typical = Scenario { step: recorded.typical.clone(), communication: communication.clone() };
    let before = typical.step.time(&simulate(&typical.step.graph));
    let changed = with(typical, changes)?;
    let schedule = simulate(&changed.step.graph);
    let time = changed.step.time(&schedule) as f64;
    let critical = shares(&changed.step.graph, &critical_path(&changed.step.graph, &schedule));
    let mut ratios = Vec::new();
    for index in 0..recorded.steps.len() {
        let step = Scenario { step: recorded.step(index), communication: communication.clone() };
        let own = step.step.time(&simulate(&step.step.graph)) as f64;
        let changed = with(step, changes)?;
        ratios.push(changed.step.time(&simulate(&changed.step.graph)) as f64 / own);
    }
    let [low, high] = BOUNDS.map(|bound| percentile(&ratios, bound) * before as f64);
    let after = Prediction { time, low: low.min(time), high: high.max(time) };
    let assumptions = changes.iter().filter_map(|change| change.assumption()).collect();
    Ok(Outcome { before, after, critical, assumptions })
}

/// A scenario with changes, in which operations are as slow as the communication during them makes them then.
fn with(mut scenario: Scenario, changes: &[Box<dyn Change>]) -> Result<Scenario> {
    let before = overlap(&scenario.step, &simulate(&scenario.step.graph));
    changes.iter().try_for_each(|change| change.apply(&mut scenario))?;
    let Scenario { step, communication } = &mut scenario;
    communication.slow_down.adjust(step, &before);
    Ok(scenario)
}
