//! What recording a profile and other programs made of the step, and the step without it.

use super::Recorded;
use crate::graph::{Graph, Kind, NodeId, ResourceKind};
use crate::simulate::simulate;
use perf4sight_base::stats::median;

/// The difference between a recorded step and one without recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distortion {
    /// The median recorded step, in nanoseconds.
    pub recorded: u64,
    /// The replayed typical step, which nothing disturbs, in nanoseconds.
    pub replayed: u64,
    /// The step without recording, in nanoseconds.
    pub plain: u64,
    /// How the replayed step became the plain one.
    pub correction: Correction,
}

/// How a replayed step was made as long as the plain one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Correction {
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
/// Halvings of the range of factors, after which it is a millionth wide.
const HALVINGS: usize = 20;

impl Distortion {
    /// By how much the recorded step is longer, in percent of the plain step.
    pub fn percent(&self) -> f64 {
        100.0 * (self.recorded as f64 / self.plain.max(1) as f64 - 1.0)
    }

    /// By how much shorter and longer than `after`, predicted for a step with changes, that step may be: what made plain steps
    /// longer than recorded ones is not known, so that the changes may take away all of it, or nothing.
    pub fn unexplained(&self, after: f64) -> [f64; 2] {
        let Correction::All(factor) = self.correction else { return [1.0, 1.0] };
        let (excess, plain) = (self.plain as f64 * (1.0 - 1.0 / factor), self.plain as f64);
        [1.0 / factor, 1.0 + (excess / after.max(1.0)) * (1.0 - after / plain).max(0.0)]
    }
}

impl Recorded {
    /// Makes the typical step as long as steps without recording, which take `plain` nanoseconds. What makes these far longer than a step that nothing
    /// disturbs is in the recorded ones, too: none is typical then, and the mean of all is made as long.
    pub fn take_out_distortion(&mut self, plain: u64) -> Distortion {
        let threads = thread_nodes(&self.typical.graph);
        let [_, most] = FACTORS;
        if !self.varies && plain as f64 > most * self.time_with(&threads, 1.0) as f64 {
            self.take_mean_of_all();
        }
        let replayed = self.time_with(&threads, 1.0);
        let correction = self.correction(&threads, replayed, plain);
        match correction {
            Correction::Threads(factor) => {
                self.scale(&threads, factor);
                self.is_slowed = false;
            }
            Correction::All(factor) => self.scale(&self.typical.graph.ids().collect::<Vec<_>>(), factor),
            Correction::None => {}
        }
        let recorded = median(&self.recorded.iter().map(|time| *time as f64).collect::<Vec<_>>()) as u64;
        Distortion { recorded, replayed, plain, correction }
    }

    fn correction(&self, threads: &[NodeId], replayed: u64, plain: u64) -> Correction {
        let [least, most] = FACTORS;
        if plain >= replayed {
            let factor = plain as f64 / replayed as f64;
            return if factor <= most { Correction::All(factor) } else { Correction::None };
        }
        if self.time_with(threads, least) > plain {
            return Correction::None;
        }
        let [mut low, mut high] = [least, 1.0];
        for _ in 0..HALVINGS {
            let middle = low.midpoint(high);
            match self.time_with(threads, middle) < plain {
                true => low = middle,
                false => high = middle,
            }
        }
        Correction::Threads(low.midpoint(high))
    }

    fn time_with(&self, nodes: &[NodeId], factor: f64) -> u64 {
        let mut step = self.typical.clone();
        scale(&mut step.graph, nodes, factor);
        step.time(&simulate(&step.graph))
    }

    /// Multiplies the times of nodes, in the typical step and in each recorded one.
    fn scale(&mut self, nodes: &[NodeId], factor: f64) {
        scale(&mut self.typical.graph, nodes, factor);
        for step in &mut self.durations {
            nodes.iter().for_each(|id| step[id.index()] = times(step[id.index()], factor));
        }
    }
}

/// What threads do and what is not recorded between it.
pub(crate) fn thread_nodes(graph: &Graph) -> Vec<NodeId> {
    let on_thread = |id: &NodeId| {
        graph.resource_of(*id).kind == ResourceKind::Thread
            && matches!(graph.node(*id).kind, Kind::Operation | Kind::Gap)
    };
    graph.ids().filter(on_thread).collect()
}

/// Multiplies the times of nodes.
pub(crate) fn scale(graph: &mut Graph, nodes: &[NodeId], factor: f64) {
    nodes.iter().for_each(|id| graph.set_duration(*id, times(graph.node(*id).duration, factor)));
}

fn times(duration: u64, factor: f64) -> u64 {
    (duration as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain steps of 100 and recorded ones of 80: a change that halves either halves what both have in common, to 40, with nothing to
    /// all of the 20 on top of it; 50 is predicted.
    #[test]
    fn what_makes_plain_steps_longer_may_go_or_stay_whole() {
        let of = |replayed, correction| Distortion { recorded: 120, replayed, plain: 100, correction };
        let distortion = of(80, Correction::All(1.25));
        assert_eq!(distortion.unexplained(50.0).map(|bound| (50.0 * bound).round()), [40.0, 60.0]);
        assert_eq!(of(110, Correction::Threads(0.9)).unexplained(50.0), [1.0, 1.0]);
        // What recording costs is the difference of recorded steps, whatever the replayed one takes.
        assert!((distortion.percent() - 20.0).abs() < 1e-9);
    }
}
