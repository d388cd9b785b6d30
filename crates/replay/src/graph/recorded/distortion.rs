//! What recording a profile made of the step, and the step without it.

use super::Recorded;
use crate::graph::{Graph, Kind, NodeId, ResourceKind};
use crate::simulate::simulate;

/// How much longer a step takes while a profile is recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distortion {
    /// The replayed typical step, in nanoseconds.
    pub recorded: u64,
    /// The step without recording, in nanoseconds.
    pub plain: u64,
    /// The factor of the time of threads by which the replayed step became the plain one; none if no factor does.
    pub factor: Option<f64>,
}

/// Beyond these factors recording is no explanation.
const FACTORS: [f64; 2] = [0.2, 2.0];
/// Halvings of the range of factors, after which it is a millionth wide.
const HALVINGS: usize = 21;

impl Distortion {
    /// The difference in percent of the plain step.
    pub fn percent(&self) -> f64 {
        100.0 * (self.recorded as f64 / self.plain as f64 - 1.0)
    }
}

impl Recorded {
    /// Takes out what recording added: a profiler makes the work of threads longer, so that all of it is scaled by one
    /// factor until the typical step takes `plain` nanoseconds. Nothing is changed if no sensible factor does that.
    pub fn take_out_distortion(&mut self, plain: u64) -> Distortion {
        let threads = thread_nodes(&self.typical.graph);
        let recorded = self.time_with(&threads, 1.0);
        let factor = self.factor_for(&threads, plain);
        for factor in factor {
            scale(&mut self.typical.graph, &threads, factor);
            for step in &mut self.durations {
                threads.iter().for_each(|id| step[id.index()] = times(step[id.index()], factor));
            }
        }
        Distortion { recorded, plain, factor }
    }

    fn time_with(&self, threads: &[NodeId], factor: f64) -> u64 {
        let mut step = self.typical.clone();
        scale(&mut step.graph, threads, factor);
        step.time(&simulate(&step.graph))
    }

    /// The factor by bisection: the step gets no shorter with it.
    fn factor_for(&self, threads: &[NodeId], plain: u64) -> Option<f64> {
        let [mut low, mut high] = FACTORS;
        if self.time_with(threads, low) > plain || self.time_with(threads, high) < plain {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = low.midpoint(high);
            match self.time_with(threads, middle) < plain {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(low.midpoint(high))
    }
}

fn thread_nodes(graph: &Graph) -> Vec<NodeId> {
    let on_thread = |id: &NodeId| {
        graph.resource_of(*id).kind == ResourceKind::Thread
            && matches!(graph.node(*id).kind, Kind::Operation | Kind::Gap)
    };
    graph.ids().filter(on_thread).collect()
}

fn scale(graph: &mut Graph, nodes: &[NodeId], factor: f64) {
    nodes.iter().for_each(|id| graph.set_duration(*id, times(graph.node(*id).duration, factor)));
}

fn times(duration: u64, factor: f64) -> u64 {
    (duration as f64 * factor).round() as u64
}
