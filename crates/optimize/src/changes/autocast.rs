//! Products in half precision, with casts where others meet them: autocast.

use crate::search::{Class, operation};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_replay::graph::{CallId, Graph, Kind, NodeId, ResourceId};
use perf4sight_replay::what_if::{Change, Scenario};
use std::collections::BTreeMap;

/// How much of its time a product takes in half precision, where no model predicts it (as published).
const HALF: f64 = 0.5;
/// A cast reads four bytes and writes two, or the other way round; an operation of one input reads and writes eight.
const CAST: f64 = 6.0 / 8.0;

/// Which operations autocast runs in half precision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Autocast {
    /// Names of operations beyond those that PyTorch lists.
    pub also: Vec<String>,
    /// Only these, none of PyTorch's.
    pub only: bool,
}

impl Autocast {
    fn is_lower(&self, name: &str) -> bool {
        let named = self.also.iter().any(|known| name == known || name.strip_prefix("aten::") == Some(known));
        named || (!self.only && operation(name).is_some_and(|operation| operation.lower))
    }

    /// Whether a kernel belongs to an operation in half precision; none for what computes nothing known.
    fn of(&self, graph: &Graph, id: NodeId) -> Option<bool> {
        let calls = graph.calls();
        let known = |call: &CallId| {
            let name = calls.name(*call);
            self.is_lower(name) || operation(name).is_some_and(|operation| operation.class != Class::View)
        };
        let found = std::iter::successors(Some(graph.node(id).call), |call| calls.around(*call)).find(known)?;
        Some(self.is_lower(calls.name(found)))
    }
}

impl Change for Autocast {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let is_kernel = |id: &NodeId| graph.node(*id).kind == Kind::Kernel;
        let kernels: Vec<(NodeId, bool)> =
            graph.ids().filter(is_kernel).filter_map(|id| Some((id, self.of(graph, id)?))).collect();
        if !kernels.iter().any(|(_, lower)| *lower) {
            return Err(Error::input(
                "no kernel of the traces is of an operation that autocast runs in half precision",
            )
            .help("on processors half precision is faster only with AMX or AVX512_BF16, which traces do not show"));
        }
        let cast = cast(graph, &kernels);
        let mut before: BTreeMap<ResourceId, bool> = BTreeMap::new();
        for (id, lower) in kernels {
            let meets_other = before.insert(graph.node(id).resource, lower).unwrap_or(false) != lower;
            let own = graph.node(id).duration as f64 * if lower { HALF } else { 1.0 };
            graph.set_duration(id, (own + if meets_other { cast } else { 0.0 }).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("products take half of their time in half precision; a cast between them and others takes three quarters of the median element-wise kernel".to_owned())
    }
}

/// Nanoseconds of a cast, by the median kernel that is not in half precision.
fn cast(graph: &Graph, kernels: &[(NodeId, bool)]) -> f64 {
    let others = kernels.iter().filter(|(_, lower)| !lower);
    let times: Vec<f64> = others.map(|(id, _)| graph.node(*id).duration as f64).collect();
    if times.is_empty() { 0.0 } else { CAST * median(&times) }
}
