//! What recording a profile and other programs made of the step, and the step without it.

use super::RecordedSteps;
use crate::graph::{NodeId, ResourceKind, StepGraph, TaskGraph, WorkKind, queues};
use crate::plain_step::PlainStep;
use crate::simulate::simulate;
use perf4sight_base::stats::{mean, median};

/// The difference between a recorded step and one without recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordingDistortion {
    /// The recorded step, in nanoseconds: the median; where none is typical, this and the others are means.
    pub recorded: u64,
    /// The replayed typical step, which nothing disturbs, in nanoseconds.
    pub replayed: u64,
    /// The step without recording, in nanoseconds.
    pub plain: u64,
    /// How the replayed step became the plain one.
    pub correction: StepCorrection,
}

/// How a replayed step was made as long as the plain one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepCorrection {
    /// Recording makes the work of threads longer: their times were multiplied by this factor below 1.
    Threads(f64),
    /// The plain steps were longer than the replayed one. Recording makes nothing shorter, so that they were disturbed as a whole:
    /// all times were multiplied by this factor from 1 on.
    All(f64),
    /// No sensible factor does it; nothing was changed.
    None,
}

/// Below this factor of the time of threads, and above that of all times, recording and noise are no explanation.
const FACTORS: [f64; 2] = [0.2, 1.5];
/// Halvings of the range of factors, after which it is a ten-thousandth wide.
const HALVINGS: usize = 13;
/// A step hardly waits for its threads if it takes more than the second share of its time with threads that take the first share of theirs.
const SHORTER_THREADS: f64 = 0.9;
const SAME_STEP: f64 = 0.98;

impl RecordingDistortion {
    /// By how much the recorded step is longer, in percent of the plain step.
    pub fn percent(&self) -> f64 {
        100.0 * (self.recorded as f64 / self.plain.max(1) as f64 - 1.0)
    }

    /// By how much shorter and longer than `after`, predicted for a step with changes, that step may be: what made plain steps
    /// longer than recorded ones is not known, so that the changes may take away all of it, or nothing.
    pub fn unexplained_range(&self, after: f64) -> [f64; 2] {
        let StepCorrection::All(factor) = self.correction else { return [1.0, 1.0] };
        let (excess, plain) = (self.plain as f64 * (1.0 - 1.0 / factor), self.plain as f64);
        [1.0 / factor, 1.0 + (excess / after.max(1.0)) * (1.0 - after / plain).max(0.0)]
    }
}

impl RecordedSteps {
    /// Makes the typical step as long as steps without recording. What makes these far longer than a step that nothing
    /// disturbs is in the recorded ones, too: none is typical then, and the mean of all is made as long.
    pub fn take_out_distortion(&mut self, plain: PlainStep) -> RecordingDistortion {
        let [_, most] = FACTORS;
        if !self.varies && plain.time as f64 > most * time_of(&self.typical) as f64 {
            self.take_mean_of_all();
        }
        let shown = time_of(&self.typical);
        let (replayed, plain) = if self.varies { (self.mean(), plain.mean) } else { (shown, plain.time) };
        let own = plain as f64 * shown as f64 / replayed.max(1) as f64;
        let correction = self.correction(shown, own as u64);
        match correction {
            StepCorrection::Threads(factor) => {
                self.change(|step| with_threads(step, factor));
                // A step that does not wait for its threads tells nothing of them.
                self.is_slowed &= time_of(&with_threads(&self.typical, SHORTER_THREADS)) as f64 > SAME_STEP * own;
            }
            StepCorrection::All(factor) => self.change(|step| {
                let mut step = step.clone();
                let ids: Vec<NodeId> = step.graph.ids().collect();
                scale(&mut step.graph, &ids, factor);
                step
            }),
            StepCorrection::None => {}
        }
        let middle = if self.varies { mean } else { median };
        let recorded = middle(&self.recorded.iter().map(|time| *time as f64).collect::<Vec<_>>()) as u64;
        if correction != StepCorrection::None {
            self.unlike.iter_mut().for_each(|unlike| unlike.scale(plain as f64 / recorded.max(1) as f64));
        }
        RecordingDistortion { recorded, replayed, plain, correction }
    }

    fn correction(&self, replayed: u64, plain: u64) -> StepCorrection {
        let [least, most] = FACTORS;
        if plain >= replayed {
            let factor = plain as f64 / replayed as f64;
            return if factor <= most { StepCorrection::All(factor) } else { StepCorrection::None };
        }
        let time_with = |factor| time_of(&with_threads(&self.typical, factor));
        if time_with(least) > plain {
            return StepCorrection::None;
        }
        let [mut low, mut high] = [least, 1.0];
        for _ in 0..HALVINGS {
            let middle = low.midpoint(high);
            match time_with(middle) < plain {
                true => low = middle,
                false => high = middle,
            }
        }
        StepCorrection::Threads(low.midpoint(high))
    }

    /// Changes the typical step and each recorded one.
    fn change(&mut self, changed: impl Fn(&StepGraph) -> StepGraph) {
        for index in 0..self.steps.len() {
            let step = changed(&self.step(index));
            self.durations[index] = step.graph.nodes().iter().map(|node| node.duration).collect();
        }
        self.typical = changed(&self.typical);
    }
}

fn time_of(step: &StepGraph) -> u64 {
    step.time(&simulate(&step.graph))
}

/// A step whose threads take another share of their time, as it follows others like it.
pub(crate) fn with_threads(step: &StepGraph, factor: f64) -> StepGraph {
    let (mut step, threads) = (step.clone(), thread_nodes(&step.graph));
    let queues = queues::edit(&mut step, |step| scale(&mut step.graph, &threads, factor));
    step.settled_with(&queues)
}

/// What threads do and what is not recorded between it.
pub(crate) fn thread_nodes(graph: &TaskGraph) -> Vec<NodeId> {
    let on_thread = |id: &NodeId| {
        graph.resource_of(*id).kind == ResourceKind::Thread
            && matches!(graph.node(*id).kind, WorkKind::Operation | WorkKind::Gap)
            && !graph.waits_for_batch(*id)
    };
    graph.ids().filter(on_thread).collect()
}

/// Multiplies the times of nodes.
fn scale(graph: &mut TaskGraph, nodes: &[NodeId], factor: f64) {
    nodes.iter().for_each(|id| graph.set_duration(*id, (graph.node(*id).duration as f64 * factor).round() as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain steps of 100 and recorded ones of 80: a change that halves either halves what both have in common, to 40, with nothing to
    /// all of the 20 on top of it; 50 is predicted.
    #[test]
    fn what_makes_plain_steps_longer_may_go_or_stay_whole() {
        let of = |replayed, correction| RecordingDistortion { recorded: 120, replayed, plain: 100, correction };
        let distortion = of(80, StepCorrection::All(1.25));
        assert_eq!(distortion.unexplained_range(50.0).map(|bound| (50.0 * bound).round()), [40.0, 60.0]);
        assert_eq!(of(110, StepCorrection::Threads(0.9)).unexplained_range(50.0), [1.0, 1.0]);
        // What recording costs is the difference of recorded steps, whatever the replayed one takes.
        assert!((distortion.percent() - 20.0).abs() < 1e-9);
    }
}
