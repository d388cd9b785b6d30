//! The operations of a training step, the second axis of a breakdown: forward, backward, optimizer, data loading,
//! `zero_grad`, and the ranges of the script.

use crate::categories::sets::TimeSets;
use crate::categories::thread_state::is_function;
use crate::iterations::marks::FoundIterations;
use crate::threads::gradient_exchange::NODE;
use perf4sight_traces::intervals::{Interval, pieces};
use perf4sight_traces::{EventCategory, EventPhase, Innermost, NameId, NameTable, Trace, TraceEvent, TrackId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrainingOperation {
    /// Modules of the network, and operators that have a backward operator.
    Forward,
    Backward,
    Optimizer,
    DataLoading,
    ZeroGrad,
    Named(NameId),
    Other,
}

impl TrainingOperation {
    /// Its name in output; `names` are the trace's.
    pub fn label(self, names: &NameTable) -> &str {
        match self {
            TrainingOperation::Forward => "forward",
            TrainingOperation::Backward => "backward",
            TrainingOperation::Optimizer => "optimizer",
            TrainingOperation::DataLoading => "data loading",
            TrainingOperation::ZeroGrad => "zero_grad",
            TrainingOperation::Named(name) => beginning(names.get(name)),
            TrainingOperation::Other => "other",
        }
    }

    /// The operation of a range, from the name that PyTorch or the script gave it.
    fn of_range(name: NameId, names: &NameTable) -> Self {
        let text = names.get(name);
        match text.trim_matches(['#', ' ']) {
            "forward" | "DistributedDataParallel.forward" => TrainingOperation::Forward,
            "backward" => TrainingOperation::Backward,
            "optimizer" => TrainingOperation::Optimizer,
            "zero_grad" => TrainingOperation::ZeroGrad,
            "data_load" => TrainingOperation::DataLoading,
            _ if text.starts_with("Optimizer.step#") => TrainingOperation::Optimizer,
            _ if text.starts_with("Optimizer.zero_grad#") => TrainingOperation::ZeroGrad,
            _ if text.starts_with("enumerate(DataLoader)#") => TrainingOperation::DataLoading,
            _ => TrainingOperation::Named(name),
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
pub(crate) fn find(
    trace: &Trace,
    main: TrackId,
    found: &FoundIterations,
    python: bool,
) -> (Vec<(Interval, TrainingOperation)>, usize) {
    let mut spans = ranges(trace, main, found);
    spans.extend(if python { calls(trace, main) } else { passes(trace, main, &spans) });
    spans.extend(closures(&spans));
    spans.sort_by_key(|((start, end), _)| (*start, Reverse(*end)));
    let mut nest = Innermost::default();
    let mut backward = i64::MIN;
    for (window, operation) in spans {
        if operation == TrainingOperation::Forward && window.0 < backward {
            continue;
        }
        if operation == TrainingOperation::Backward {
            backward = backward.max(window.1);
        }
        nest.begin(window, operation);
    }
    let mut parts = nest.finish().0;
    let merged = merge(&mut parts, found.marks.len());
    (parts, merged)
}

/// What optimizers call before they work: a closure that computes the gradients (`step(closure)`, as PyTorch Lightning and L-BFGS have it), by the backward
/// passes within their steps. Of several such calls what is between them counts as well.
fn closures(spans: &[(Interval, TrainingOperation)]) -> Vec<(Interval, TrainingOperation)> {
    let of = |wanted| spans.iter().filter(move |(_, operation)| *operation == wanted).map(|(span, _)| *span);
    let mut passes: Vec<Interval> = of(TrainingOperation::Backward).collect();
    passes.sort_unstable();
    let closure = |(start, end): Interval| {
        let first = passes.partition_point(|pass| pass.0 < start);
        let within = passes[first..].iter().take_while(|pass| pass.0 < end).filter(|pass| pass.1 <= end);
        within.map(|pass| pass.1).max().map(|last| ((start, last), TrainingOperation::Other))
    };
    of(TrainingOperation::Optimizer).filter_map(closure).collect()
}

pub(crate) fn divide_operations(
    window: Interval,
    operations: &[(Interval, TrainingOperation)],
    sets: impl Fn(Interval) -> TimeSets,
) -> BTreeMap<TrainingOperation, TimeSets> {
    let mut found: BTreeMap<TrainingOperation, TimeSets> = BTreeMap::new();
    for (part, operation) in pieces(operations, window) {
        let operation = operation.map_or(TrainingOperation::Other, |(_, operation)| *operation);
        let part = sets(part);
        found.entry(operation).and_modify(|sum| *sum += part).or_insert(part);
    }
    found
}

fn events_on(trace: &Trace, track: TrackId, category: EventCategory) -> impl Iterator<Item = &TraceEvent> {
    let complete = move |event: &&TraceEvent| {
        event.track == track && event.category == category && event.phase == EventPhase::Complete && event.duration > 0
    };
    trace.events.iter().filter(complete)
}

/// The ranges on the main thread, without those that mark iterations.
fn ranges(trace: &Trace, main: TrackId, found: &FoundIterations) -> Vec<(Interval, TrainingOperation)> {
    let marks =
        |name: &str| name.starts_with("ProfilerStep") || found.marks.first().is_some_and(|mark| mark.name == name);
    let ranges = events_on(trace, main, EventCategory::Annotation).filter(|event| !marks(trace.name(event)));
    ranges.map(|event| ((event.start, event.end()), TrainingOperation::of_range(event.name, &trace.names))).collect()
}

/// Merges the range names with the least time into the time outside operations; returns their number.
fn merge(parts: &mut [(Interval, TrainingOperation)], iterations: usize) -> usize {
    let mut times: HashMap<TrainingOperation, i64> = HashMap::new();
    for ((start, end), operation) in
        parts.iter().filter(|(_, operation)| matches!(operation, TrainingOperation::Named(_)))
    {
        let time = times.entry(*operation).or_default();
        *time = time.saturating_add(end.saturating_sub(*start));
    }
    let most = NAMES.min(CELLS / iterations.max(1));
    let mut names: Vec<(TrainingOperation, i64)> = times.into_iter().collect();
    names.sort_by_key(|(operation, time)| (Reverse(*time), *operation));
    let merged: HashSet<TrainingOperation> = names.iter().skip(most).map(|(operation, _)| *operation).collect();
    for (_, operation) in parts.iter_mut().filter(|(_, operation)| merged.contains(operation)) {
        *operation = TrainingOperation::Other;
    }
    merged.len()
}

/// Python calls of forward and backward passes; of nested modules only the outermost.
fn calls(trace: &Trace, main: TrackId) -> Vec<(Interval, TrainingOperation)> {
    let mut forward = i64::MIN;
    let call = |event: &TraceEvent| {
        let name = trace.name(event);
        if name.starts_with("nn.Module: ") && event.start >= forward {
            forward = event.end();
            return Some(((event.start, event.end()), TrainingOperation::Forward));
        }
        let backward = name.starts_with("<built-in method run_backward ") || is_function(name, BACKWARD);
        backward.then_some(((event.start, event.end()), TrainingOperation::Backward))
    };
    events_on(trace, main, EventCategory::Python).filter_map(call).collect()
}

/// Forward and backward passes in a trace without Python calls: each goes from its first to its last operator.
/// Operators of no pass in between belong to it; another pass or operation ends it.
fn passes(
    trace: &Trace,
    main: TrackId,
    ranges: &[(Interval, TrainingOperation)],
) -> Vec<(Interval, TrainingOperation)> {
    let mut parts: Vec<(Interval, TrainingOperation)> =
        backward_nodes(trace).chain(forward_operators(trace, main)).collect();
    let other = [TrainingOperation::Optimizer, TrainingOperation::DataLoading, TrainingOperation::ZeroGrad];
    parts.extend(ranges.iter().filter(|(_, operation)| other.contains(operation)));
    let steps =
        events_on(trace, main, EventCategory::Annotation).filter(|event| trace.name(event).starts_with("ProfilerStep"));
    parts.extend(steps.map(|step| ((step.start, step.start), TrainingOperation::Other)));
    parts.sort_by_key(|((start, end), _)| (*start, Reverse(*end)));
    let mut passes: Vec<(Interval, TrainingOperation)> = Vec::new();
    for ((start, end), operation) in parts {
        match passes.last_mut() {
            Some((last, before)) if *before == operation => last.1 = last.1.max(end),
            _ => passes.push(((start, end), operation)),
        }
    }
    passes.retain(|(_, operation)| matches!(operation, TrainingOperation::Forward | TrainingOperation::Backward));
    passes
}

fn is_node(trace: &Trace, event: &TraceEvent) -> bool {
    NODES.iter().any(|known| trace.name(event).starts_with(known))
}

fn backward_nodes(trace: &Trace) -> impl Iterator<Item = (Interval, TrainingOperation)> {
    let operators = trace
        .events
        .iter()
        .filter(|event| event.category == EventCategory::Operator && event.phase == EventPhase::Complete);
    operators
        .filter(|event| is_node(trace, event))
        .map(|event| ((event.start, event.end()), TrainingOperation::Backward))
}

/// The outermost operators that contain the beginning of a flow to their backward operator.
fn forward_operators(trace: &Trace, main: TrackId) -> impl Iterator<Item = (Interval, TrainingOperation)> {
    let arrows = move |event: &&TraceEvent| {
        event.track == main && event.category == EventCategory::ForwardBackward && event.phase == EventPhase::FlowStart
    };
    let mut arrows = trace.events.iter().filter(arrows).map(|event| event.start).peekable();
    let mut outermost = i64::MIN;
    events_on(trace, main, EventCategory::Operator).filter_map(move |event| {
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
        arrows.next_if(|arrow| *arrow < event.end()).map(|_| ((event.start, event.end()), TrainingOperation::Forward))
    })
}
