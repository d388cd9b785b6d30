//! Forward once more in backward, instead of keeping what it made: activation checkpointing.

use perf4sight_base::error::{Error, Result};
use perf4sight_replay::graph::{Graph, Kind, NodeId};
use perf4sight_replay::what_if::{Change, Scenario};
use std::collections::BTreeMap;

/// Part of the names of what backward and the update run inside.
const BACKWARD: &str = "autograd::engine";
const UPDATE: &str = "Optimizer.";

/// Every block of the model runs forward again in backward.
#[derive(Debug, Clone, Copy)]
pub struct Recompute;

/// What a node is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Forward,
    Backward,
    Neither,
}

impl Change for Recompute {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let mut times: BTreeMap<Option<u32>, [f64; 2]> = BTreeMap::new();
        for id in graph.ids() {
            let [forward, backward] = times.entry(graph.resource_of(id).rank).or_default();
            match phase(graph, id) {
                Phase::Forward => *forward += graph.node(id).duration as f64,
                Phase::Backward => *backward += graph.node(id).duration as f64,
                Phase::Neither => {}
            }
        }
        if times.values().all(|[forward, backward]| *forward == 0.0 || *backward == 0.0) {
            return Err(Error::input(
                "the traces do not tell forward from backward: no call of autograd::engine was recorded",
            ));
        }
        let backward: Vec<NodeId> = graph.ids().filter(|id| phase(graph, *id) == Phase::Backward).collect();
        for id in backward {
            let [forward, all] = times[&graph.resource_of(id).rank];
            let longer = graph.node(id).duration as f64 * (1.0 + forward / all.max(1.0));
            graph.set_duration(id, longer.round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("all of forward runs again, spread evenly over backward".to_owned())
    }
}

fn phase(graph: &Graph, id: NodeId) -> Phase {
    let node = graph.node(id);
    if !matches!(node.kind, Kind::Operation | Kind::Kernel) {
        return Phase::Neither;
    }
    let names = || graph.calls().path(node.call);
    match names().any(|name| name.contains(BACKWARD)) {
        true => Phase::Backward,
        false if names().any(|name| name.contains(UPDATE)) => Phase::Neither,
        false => Phase::Forward,
    }
}
