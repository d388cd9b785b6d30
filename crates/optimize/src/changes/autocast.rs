//! Products in half precision, with casts where others meet them: autocast.

use crate::search::{FusionClass, operation};
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::stats::median;
use perf4sight_replay::graph::{CallId, NodeId, ResourceId, TaskGraph, WorkKind};
use perf4sight_replay::what_if::{ALL_IN_HALF, HalfPrecisionShares, HalfRates, Scenario, StepChange};
use std::collections::BTreeMap;

/// A cast reads four bytes and writes two, or the other way round; an operation of one input reads and writes eight.
const CAST: f64 = 6.0 / 8.0;

/// Which operations autocast runs in half precision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AutocastLists {
    /// Names of operations beyond those that PyTorch lists.
    pub also: Vec<String>,
    /// Only these, none of PyTorch's.
    pub only: bool,
    /// Operations that PyTorch keeps in single precision follow those before them.
    pub force: bool,
}

/// A step under autocast.
#[derive(Debug, Clone)]
pub struct HalfPrecision {
    /// Which operations it runs in half precision.
    pub lists: AutocastLists,
    /// How much of their time they take then.
    pub rates: HalfRates,
    /// What computes in half precision already, and stays as it is.
    pub in_half: HalfPrecisionShares,
}

/// A kernel, as autocast sees it.
#[derive(Clone, Copy)]
struct CastKernel {
    id: NodeId,
    /// Whether it runs in half precision.
    lower: bool,
    /// The share of it that ran in single precision and gets faster.
    changes: f64,
}

/// Whether a listed name is that of an operation: in full, without its namespace, or the last part of TensorFlow's `FW.net/conv/Conv2D`.
fn is_named(known: &str, name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    name == known || name.strip_prefix("aten::") == Some(known) || (name.contains('/') && last == known)
}

impl AutocastLists {
    /// Refuses listed names that none of the recorded ones is.
    ///
    /// # Errors
    /// The first of them.
    pub fn check<'a>(&self, recorded: impl Iterator<Item = &'a str>) -> Result<()> {
        let recorded: Vec<&str> = recorded.collect();
        let is_unknown = |known: &&String| !recorded.iter().any(|name| is_named(known, name));
        let Some(unknown) = self.also.iter().find(is_unknown) else { return Ok(()) };
        let error = Error::input(format!("no operation \"{unknown}\" was recorded, to run in half precision"));
        let error = error.expected("names of operations as in the traces (amp_operations, amp_operations_file)");
        Err(match nearest(unknown, recorded.iter().copied()) {
            Some(near) => error.help(format!("did you mean {near}?")),
            None => error,
        })
    }

    fn is_lower(&self, name: &str) -> bool {
        let named = self.also.iter().any(|known| is_named(known, name));
        named || (!self.only && operation(name).is_some_and(|operation| operation.lower))
    }

    /// Whether a kernel belongs to an operation in half precision; none for what computes nothing known, or follows others.
    fn runs_lowered(&self, graph: &TaskGraph, id: NodeId) -> Option<bool> {
        let calls = graph.calls();
        let known = |call: &CallId| {
            let name = calls.name(*call);
            self.is_lower(name) || operation(name).is_some_and(|operation| operation.class != FusionClass::View)
        };
        let found = std::iter::successors(Some(graph.node(id).call), |call| calls.caller(*call)).find(known)?;
        let name = calls.name(found);
        let follows = self.force && operation(name).is_some_and(|operation| operation.single);
        (self.is_lower(name) || !follows).then(|| self.is_lower(name))
    }
}

impl HalfPrecision {
    fn kernels(&self, graph: &TaskGraph) -> Vec<CastKernel> {
        let kernels = graph.ids().filter(|id| graph.node(*id).kind == WorkKind::Kernel);
        let cast = |id| {
            let lower = self.lists.runs_lowered(graph, id)?;
            Some(CastKernel { id, lower, changes: if lower { 1.0 - self.in_half.share(graph, id) } else { 0.0 } })
        };
        kernels.filter_map(cast).collect()
    }

    /// Refuses a step of which nothing gets faster.
    fn check(&self, graph: &TaskGraph, kernels: &[CastKernel]) -> Result<()> {
        let lower = || kernels.iter().filter(|kernel| kernel.lower).map(|kernel| kernel.id);
        if lower().next().is_none() {
            return Err(Error::input(
                "no kernel of the traces is of an operation that autocast runs in half precision",
            )
            .help("on processors half precision is faster only with AMX or AVX512_BF16, which traces do not show"));
        }
        match self.in_half.share_of(graph, lower()) > ALL_IN_HALF {
            true => Err(Error::input(
                "the operations that autocast runs in half precision are recorded in it already, or in double precision, which autocast leaves",
            )),
            false => Ok(()),
        }
    }
}

impl StepChange for HalfPrecision {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let kernels = self.kernels(graph);
        self.check(graph, &kernels)?;
        let cast = cast(graph, &kernels);
        let mut before: BTreeMap<ResourceId, CastKernel> = BTreeMap::new();
        for own in kernels {
            let (id, time) = (own.id, graph.node(own.id).duration as f64);
            let last =
                before.insert(graph.node(id).resource, own).map_or((false, 0.0), |last| (last.lower, last.changes));
            // Casts between what is in half precision already and others were recorded.
            let casts = if last.0 == own.lower { 0.0 } else { cast * last.1.max(own.changes) };
            let faster = time * (1.0 - own.changes * (1.0 - self.rates.ratio(graph, id)));
            graph.set_duration(id, (faster + casts).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let types = match self.in_half.is_recorded() {
            true => "",
            false => {
                ", and are taken to be in single precision, as the traces do not say their types (record_shapes=True)"
            }
        };
        Some(format!(
            "{}{types}; a cast between them and others takes three quarters of the median element-wise kernel",
            self.rates.assumption()
        ))
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let bound = |rates| Box::new(HalfPrecision { rates, ..self.clone() }) as Box<dyn StepChange>;
        self.rates.at_bounds().into_iter().map(bound).collect()
    }
}

/// Nanoseconds of a cast, by the median kernel that is not in half precision.
fn cast(graph: &TaskGraph, kernels: &[CastKernel]) -> f64 {
    let others = kernels.iter().filter(|kernel| !kernel.lower);
    let times: Vec<f64> = others.map(|kernel| graph.node(kernel.id).duration as f64).collect();
    if times.is_empty() { 0.0 } else { CAST * median(&times) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::communication::CommunicationCosts;
    use perf4sight_replay::graph::{GraphBuilder, Resource, ResourceKind, StepGraph, TaskNode};
    use perf4sight_replay::what_if::WhatIfFacts;

    /// A stream with two kernels of products; the first operator was called in half precision.
    fn scenario() -> Scenario {
        let mut builder = GraphBuilder::default();
        let stream = Resource { rank: Some(0), kind: ResourceKind::Stream, name: "7".to_owned() };
        let resource = builder.resource(stream);
        for name in ["aten::mm", "aten::bmm"] {
            let operator = builder.call(name, None);
            let call = builder.call("gemm", Some(operator));
            builder.node(TaskNode { duration: 1000, call, resource, kind: WorkKind::Kernel, priority: 0 });
        }
        let step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        Scenario { step, communication: CommunicationCosts::default() }
    }

    #[test]
    fn products_that_are_in_half_precision_already_stay() {
        let times = |shares: &[(&str, f64)]| {
            let in_half =
                HalfPrecisionShares::new(shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect());
            let rates = HalfRates::from_known(&WhatIfFacts::default());
            let change = HalfPrecision { lists: AutocastLists::default(), rates, in_half };
            let mut scenario = scenario();
            change.apply(&mut scenario)?;
            Ok(scenario.step.graph.nodes().iter().map(|node| node.duration).collect::<Vec<u64>>())
        };
        assert_eq!(times(&[("aten::mm", 1.0), ("aten::bmm", 0.0)]), Ok(vec![1000, 500]));
        assert_eq!(times(&[("aten::mm", 0.0), ("aten::bmm", 0.5)]), Ok(vec![500, 750]));
        let refused: Result<Vec<u64>> = times(&[("aten::mm", 1.0), ("aten::bmm", 1.0)]);
        assert!(refused.unwrap_err().to_string().contains("recorded in it already"));
    }
}
