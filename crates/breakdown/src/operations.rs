//! The operations of a training step, the second axis of a breakdown: forward, backward, optimizer, data loading,
//! `zero_grad`, and the ranges of the script.

use crate::categories::sets::Sets;
use crate::categories::thread_state::is_function;
use crate::iterations::marks::Found;
use crate::threads::gradient_exchange::NODE;
use perf4sight_traces::intervals::{Interval, pieces};
use perf4sight_traces::{EventCategory, EventPhase, Innermost, NameId, NameTable, Trace, TraceEvent, TrackId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Modules of the network, and operators that have a backward operator.
    Forward,
    Backward,
    Optimizer,
    DataLoading,
    ZeroGrad,
    Named(NameId),
    Other,
}

impl Operation {
    /// Its name in output; `names` are the trace's.
    pub fn label(self, names: &NameTable) -> &str {
        match self {
            Operation::Forward => "forward",
            Operation::Backward => "backward",
            Operation::Optimizer => "optimizer",
            Operation::DataLoading => "data loading",
            Operation::ZeroGrad => "zero_grad",
            Operation::Named(name) => beginning(names.get(name)),
            Operation::Other => "other",
        }
    }

    /// The operation of a range, from the name that PyTorch or the script gave it.
    fn of_range(name: NameId, names: &NameTable) -> Self {
        let text = names.get(name);
        match text.trim_matches(['#', ' ']) {
            "forward" | "DistributedDataParallel.forward" => Operation::Forward,
            "backward" => Operation::Backward,
            "optimizer" => Operation::Optimizer,
            "zero_grad" => Operation::ZeroGrad,
            "data_load" => Operation::DataLoading,
            _ if text.starts_with("Optimizer.step#") => Operation::Optimizer,
            _ if text.starts_with("Optimizer.zero_grad#") => Operation::ZeroGrad,
            _ if text.starts_with("enumerate(DataLoader)#") => Operation::DataLoading,
            _ => Operation::Named(name),
        }
    }
}

/// The first 200 bytes of a name, or a few less if a character has several bytes.
fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(200)]
}

/// The number of different range names; the time of further names, those with the least time, belongs to no operation.
const NAMES: usize = 100;
/// The limit for the number of names times iterations: each pair takes kilobytes in the output.
const CELLS: usize = 50_000;

/// Python functions that run a backward pass.
const BACKWARD: &[(&str, &str)] = &[("torch/_tensor.py", "backward"), ("torch/autograd/__init__.py", "backward")];

/// Prefixes of operators of a backward pass: the nodes that PyTorch's engine runs, and the reducer's copies into and
/// out of gradient buckets, by either of their names. The pass may wait for other ranks between them.
const NODES: &[&str] = &[NODE, "torch::distributed::reducer::", "torch.distributed.ddp.reducer::"];

/// The operations of the script over time; of nested operations, the innermost counts. A module that runs within a
/// backward pass, as with activation checkpointing, belongs to the backward pass.
///
/// Also returns the number of range names that were merged because there are too many.
pub(crate) fn find(trace: &Trace, main: TrackId, found: &Found, python: bool) -> (Vec<(Interval, Operation)>, usize) {
    let mut spans = ranges(trace, main, found);
    spans.extend(if python { calls(trace, main) } else { passes(trace, main, &spans) });
    spans.sort_by_key(|((start, end), _)| (*start, Reverse(*end)));
    let mut nest = Innermost::default();
    let mut backward = i64::MIN;
    for (window, operation) in spans {
        if operation == Operation::Forward && window.0 < backward {
            continue;
        }
        if operation == Operation::Backward {
            backward = backward.max(window.1);
        }
        nest.begin(window, operation);
    }
    let mut parts = nest.finish().0;
    let merged = merge(&mut parts, found.marks.len());
    (parts, merged)
}

pub(crate) fn split(
    window: Interval,
    operations: &[(Interval, Operation)],
    sets: impl Fn(Interval) -> Sets,
) -> BTreeMap<Operation, Sets> {
    let mut found: BTreeMap<Operation, Sets> = BTreeMap::new();
    for (part, operation) in pieces(operations, window) {
        let operation = operation.map_or(Operation::Other, |(_, operation)| *operation);
        let part = sets(part);
        found.entry(operation).and_modify(|sum| *sum += part).or_insert(part);
    }
    found
}

fn on(trace: &Trace, track: TrackId, category: EventCategory) -> impl Iterator<Item = &TraceEvent> {
    let complete = move |event: &&TraceEvent| {
        event.track == track && event.category == category && event.phase == EventPhase::Complete && event.duration > 0
    };
    trace.events.iter().filter(complete)
}

/// The ranges on the main thread, without those that mark iterations.
fn ranges(trace: &Trace, main: TrackId, found: &Found) -> Vec<(Interval, Operation)> {
    let marks =
        |name: &str| name.starts_with("ProfilerStep") || found.marks.first().is_some_and(|mark| mark.name == name);
    let ranges = on(trace, main, EventCategory::Annotation).filter(|event| !marks(trace.name(event)));
    ranges.map(|event| ((event.start, event.end()), Operation::of_range(event.name, &trace.names))).collect()
}

/// Merges the range names with the least time into the time outside operations; returns their number.
fn merge(parts: &mut [(Interval, Operation)], iterations: usize) -> usize {
    let mut times: HashMap<Operation, i64> = HashMap::new();
    for ((start, end), operation) in parts.iter().filter(|(_, operation)| matches!(operation, Operation::Named(_))) {
        let time = times.entry(*operation).or_default();
        *time = time.saturating_add(end.saturating_sub(*start));
    }
    let most = NAMES.min(CELLS / iterations.max(1));
    let mut names: Vec<(Operation, i64)> = times.into_iter().collect();
    names.sort_by_key(|(operation, time)| (Reverse(*time), *operation));
    let merged: HashSet<Operation> = names.iter().skip(most).map(|(operation, _)| *operation).collect();
    for (_, operation) in parts.iter_mut().filter(|(_, operation)| merged.contains(operation)) {
        *operation = Operation::Other;
    }
    merged.len()
}

/// Python calls of forward and backward passes; of nested modules only the outermost.
fn calls(trace: &Trace, main: TrackId) -> Vec<(Interval, Operation)> {
    let mut forward = i64::MIN;
    let call = |event: &TraceEvent| {
        let name = trace.name(event);
        if name.starts_with("nn.Module: ") && event.start >= forward {
            forward = event.end();
            return Some(((event.start, event.end()), Operation::Forward));
        }
        let backward = name.starts_with("<built-in method run_backward ") || is_function(name, BACKWARD);
        backward.then_some(((event.start, event.end()), Operation::Backward))
    };
    on(trace, main, EventCategory::Python).filter_map(call).collect()
}

/// Forward and backward passes in a trace without Python calls: each goes from its first to its last operator.
/// Operators of no pass in between belong to it; another pass or operation ends it.
fn passes(trace: &Trace, main: TrackId, ranges: &[(Interval, Operation)]) -> Vec<(Interval, Operation)> {
    let mut parts: Vec<(Interval, Operation)> = backward_nodes(trace).chain(forward_operators(trace, main)).collect();
    let other = [Operation::Optimizer, Operation::DataLoading, Operation::ZeroGrad];
    parts.extend(ranges.iter().filter(|(_, operation)| other.contains(operation)));
    let steps =
        on(trace, main, EventCategory::Annotation).filter(|event| trace.name(event).starts_with("ProfilerStep"));
    parts.extend(steps.map(|step| ((step.start, step.start), Operation::Other)));
    parts.sort_by_key(|((start, end), _)| (*start, Reverse(*end)));
    let mut passes: Vec<(Interval, Operation)> = Vec::new();
    for ((start, end), operation) in parts {
        match passes.last_mut() {
            Some((last, before)) if *before == operation => last.1 = last.1.max(end),
            _ => passes.push(((start, end), operation)),
        }
    }
    passes.retain(|(_, operation)| matches!(operation, Operation::Forward | Operation::Backward));
    passes
}

fn is_node(trace: &Trace, event: &TraceEvent) -> bool {
    NODES.iter().any(|known| trace.name(event).starts_with(known))
}

fn backward_nodes(trace: &Trace) -> impl Iterator<Item = (Interval, Operation)> {
    let operators = trace
        .events
        .iter()
        .filter(|event| event.category == EventCategory::Operator && event.phase == EventPhase::Complete);
    operators.filter(|event| is_node(trace, event)).map(|event| ((event.start, event.end()), Operation::Backward))
}

/// The outermost operators that contain the beginning of a flow to their backward operator.
fn forward_operators(trace: &Trace, main: TrackId) -> impl Iterator<Item = (Interval, Operation)> {
    let arrows = move |event: &&TraceEvent| {
        event.track == main && event.category == EventCategory::ForwardBackward && event.phase == EventPhase::FlowStart
    };
    let mut arrows = trace.events.iter().filter(arrows).map(|event| event.start).peekable();
    let mut outermost = i64::MIN;
    on(trace, main, EventCategory::Operator).filter_map(move |event| {
        if event.start < outermost {
            return None;
        }
        outermost = event.end();
        // Forward operators that a backward node runs again, as with activation checkpointing, belong to the backward
        // pass.
        if is_node(trace, event) {
            return None;
        }
        while arrows.next_if(|arrow| *arrow < event.start).is_some() {}
        arrows.next_if(|arrow| *arrow < event.end()).map(|_| ((event.start, event.end()), Operation::Forward))
    })
}
