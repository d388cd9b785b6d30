//! `operations 'gelu*' x 0.5` and `remove operations 'gelu*'`: operations that are faster, slower or gone, with all that
//! runs inside them.

use super::clause::{WhatIfClause, pattern};
use super::{Scenario, StepChange};
use crate::graph::{EdgeKind, NodeId, ResourceKind, TaskGraph, WorkKind};
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_traces::names_exchange;
use perf4sight_traces::shortened::brief;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct ScaledOperations {
    pattern: String,
    factor: f64,
}

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let WhatIfClause::Scale(subject, _) = clause else { return None };
    let pattern = pattern(subject)?.to_owned();
    let factor = clause.factor_of(subject)?;
    Some(factor.map(|factor| Box::new(ScaledOperations { pattern, factor }) as Box<dyn StepChange>))
}

pub(super) fn parse_removal(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let pattern = pattern(clause.strip_word("remove")?)?.to_owned();
    Some(Ok(Box::new(RemovedOperations { pattern })))
}

impl StepChange for ScaledOperations {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        check_no_exchange(&self.pattern)?;
        let graph = &mut scenario.step.graph;
        for id in matching(graph, &self.pattern)? {
            graph.set_duration(id, (graph.node(id).duration as f64 * self.factor).round() as u64);
        }
        Ok(())
    }
}

/// Operations that are gone, and with them what threads waited for in them, such as the GPU in `aten::item`, and what passed until their kernels began.
#[derive(Debug)]
struct RemovedOperations {
    pattern: String,
}

impl StepChange for RemovedOperations {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        check_no_exchange(&self.pattern)?;
        let graph = &scenario.step.graph;
        let removed: BTreeSet<NodeId> = matching(graph, &self.pattern)?.into_iter().collect();
        let delays = graph.delays_before(&removed);
        let mut builder = graph.edit();
        let waits = |to| removed.contains(&to) && graph.resource_of(to).kind == ResourceKind::Thread;
        builder.remove_edges(|_, to, kind| match kind {
            EdgeKind::Synchronisation => waits(to),
            EdgeKind::Launch => delays.contains(&to),
            EdgeKind::Order
            | EdgeKind::AssumedWait
            | EdgeKind::ForwardBackward
            | EdgeKind::Data
            | EdgeKind::Rendezvous => false,
        });
        removed.iter().chain(&delays).for_each(|id| builder.node_mut(*id).duration = 0);
        scenario.step.graph = builder.finish()?;
        Ok(())
    }
}

/// Refuses exchanges: of these only the launch is work of a rank, and a step that is as long as before would be no answer.
fn check_no_exchange(pattern: &str) -> Result<()> {
    match names_exchange(pattern.trim_matches('*')) {
        false => Ok(()),
        true => Err(Error::usage(format!("'{pattern}' names exchanges, which links and other ranks make long"))
            .expected("operations of ranks")
            .help("links are changed by bandwidth and latency: 'bandwidth x 2'")),
    }
}

/// The nodes of all operations whose names match a pattern, and of what runs inside them.
///
/// # Errors
/// A pattern that matches no operation.
pub(super) fn matching(graph: &TaskGraph, pattern: &str) -> Result<Vec<NodeId>> {
    let calls = graph.calls();
    let by_call: Vec<bool> = calls.all().map(|call| calls.path(call).any(|name| matches(pattern, name))).collect();
    let found: Vec<NodeId> = operations(graph).filter(|id| by_call[graph.node(*id).call.index()]).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(no_operation(graph, pattern)),
    }
}

/// The nodes that are work of an operation: transfers are of links, and delays of no operation.
fn operations(graph: &TaskGraph) -> impl Iterator<Item = NodeId> + '_ {
    graph.ids().filter(|id| match graph.node(*id).kind {
        WorkKind::Operation | WorkKind::Kernel | WorkKind::Launch => true,
        WorkKind::Start | WorkKind::Backlog | WorkKind::Gap | WorkKind::Transfer | WorkKind::Wait => false,
    })
}

/// Names that an error gives at most.
const NAMED: usize = 3;

fn no_operation(graph: &TaskGraph, pattern: &str) -> Error {
    let near = near(graph, pattern).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    Error::usage(format!("no operation in the replayed step is named '{pattern}'"))
        .expected("names of operations in it; * stands for anything, and links are changed by bandwidth and latency")
        .help(format!("nearest names: {near}"))
}

/// The names that a pattern may mean: those that contain it, else the nearest one, else those that take most time.
fn near<'a>(graph: &'a TaskGraph, pattern: &str) -> impl Iterator<Item = &'a str> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for id in operations(graph) {
        let time = times.entry(graph.name(id)).or_default();
        *time = time.saturating_add(graph.node(id).duration);
    }
    let mut names: Vec<&str> = times.keys().copied().collect();
    names.sort_by_key(|name| std::cmp::Reverse(times[name]));
    let bare = pattern.trim_matches('*');
    let closest = nearest(bare, names.iter().copied());
    match names.iter().any(|name| !bare.is_empty() && name.contains(bare)) {
        true => names.retain(|name| name.contains(bare)),
        false => names = closest.map_or(names, |name| vec![name]),
    }
    names.into_iter().take(NAMED)
}

/// Whether a name matches a pattern, in which `*` stands for any letters. A pattern without a namespace matches names in
/// any: `gelu*` matches `aten::gelu_backward`. A long name is matched by its short form, too.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let own = name.rsplit("::").next().unwrap_or(name);
    // Answers and tables name it so.
    let shown = brief(name);
    glob(pattern, name) || (!pattern.contains("::") && glob(pattern, own)) || pattern == shown
}

fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::CommunicationCosts;
    use crate::graph::queues::LaunchQueues;
    use crate::graph::{GraphBuilder, Resource, ResourceKind, StepGraph, TaskNode};
    use crate::simulate::simulate;

    /// A step of 100 ns of an operation, 10 of a delay and 1000 on the link.
    #[test]
    fn all_operations_are_neither_links_nor_delays() {
        let mut builder = GraphBuilder::default();
        let resource = |rank, kind| Resource { rank, kind, name: String::new() };
        let thread = builder.resource(resource(Some(0), ResourceKind::Thread));
        let link = builder.resource(resource(None, ResourceKind::Link));
        for (name, kind, resource, duration) in [
            ("aten::mm", WorkKind::Operation, thread, 100),
            ("(no event)", WorkKind::Gap, thread, 10),
            ("all-reduce", WorkKind::Transfer, link, 1000),
        ] {
            let call = builder.call(name, None);
            builder.node(TaskNode { duration, call, resource, kind, priority: 0 });
        }
        let graph = builder.finish().unwrap();
        let names = |pattern: &str| -> Result<Vec<&str>> {
            Ok(matching(&graph, pattern)?.into_iter().map(|id| graph.name(id)).collect())
        };
        assert_eq!(names("*"), Ok(vec!["aten::mm"]));
        let error = names("all-reduce").unwrap_err().to_string();
        assert!(error.contains("'aten::mm'") && error.contains("bandwidth"), "{error}");
    }

    #[test]
    fn exchanges_are_no_work_of_a_rank() {
        for pattern in ["nccl*", "ncclDevKernel_AllReduce*", "nccl:all_reduce", "gloo:*"] {
            let refused = check_no_exchange(pattern).unwrap_err().to_string();
            assert!(refused.contains("'bandwidth x 2'"), "{refused}");
        }
        for pattern in ["*", "aten::*", "c10d::allreduce_", "run_nccl_step"] {
            assert_eq!(check_no_exchange(pattern), Ok(()));
        }
    }

    /// Operations of 10 us launch kernels of 100, 30 and 50 us. The first begins 6 us behind its launch, the others 1 us behind the one before: the last ends at
    /// 16 + 100 + 1 + 30 + 1 + 50 us, and without the second at 16 + 100 + 1 + 50.
    #[test]
    fn nothing_waits_for_the_launch_of_a_kernel_that_is_gone() {
        let mut builder = GraphBuilder::default();
        let mut resource = |kind| builder.resource(Resource { rank: Some(0), kind, name: format!("{kind:?}") });
        let [thread, stream] = [ResourceKind::Thread, ResourceKind::Stream].map(&mut resource);
        let mut last: [Option<NodeId>; 2] = [None; 2];
        for (name, delay, kernel) in [("a", 6_000, 100_000), ("b", 1_000, 30_000), ("c", 1_000, 50_000)] {
            let call = builder.call(name, None);
            let mut add = |place: usize, resource, kind, duration| {
                let id = builder.node(TaskNode { duration, call, resource, kind, priority: 0 });
                last[place].replace(id).into_iter().for_each(|before| builder.edge(before, id, EdgeKind::Order));
                id
            };
            let launch = add(0, thread, WorkKind::Operation, 10_000);
            let delay = add(1, stream, WorkKind::Gap, delay);
            add(1, stream, WorkKind::Kernel, kernel);
            builder.edge(launch, delay, EdgeKind::Launch);
        }
        let step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        let mut scenario = Scenario { step, communication: CommunicationCosts::default() };
        let makespan = |step: &StepGraph| simulate(&step.graph).makespan(&step.graph);
        assert_eq!(makespan(&scenario.step), 198_000);
        let queues = LaunchQueues::from_step(&scenario.step);
        RemovedOperations { pattern: "b".to_owned() }.apply(&mut scenario).unwrap();
        queues.in_changed_step(&scenario.step).fit(&mut scenario.step);
        assert_eq!(makespan(&scenario.step), 167_000);
    }

    #[test]
    fn patterns_match_names_in_any_namespace() {
        let cases = [
            ("gelu*", "aten::gelu_backward", true),
            ("gelu", "aten::gelu_backward", false),
            ("aten::*mm", "aten::addmm", true),
            ("*", "anything", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("aten::gelu*", "gelu", false),
        ];
        let long = format!("void at::native::vectorized_elementwise_kernel<{}>(int)", "4, ".repeat(40));
        assert!(matches(&brief(&long), &long) && brief(&long).len() < long.len());
        cases
            .into_iter()
            .for_each(|(pattern, name, expected)| assert_eq!(matches(pattern, name), expected, "{pattern} {name}"));
    }
}
