//! The operations that one GPU ran, under their published names: `FW.`, `BW.` or `UPDATE_.` and the framework's name.

use crate::inputs::chrome::{ChromeSpan, ChromeTimeline};
use perf4sight_base::error::Result;
use perf4sight_traces::intervals::Interval;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

/// An operation that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TracedOperation {
    pub name: String,
    /// The thread or stream in the trace.
    pub thread: String,
    pub time: Interval,
    /// The number of its step.
    pub step: usize,
}

/// What a trace contains.
#[derive(Debug, Default)]
pub(super) struct TracedOperations {
    /// In the order of their beginnings.
    pub all: Vec<TracedOperation>,
    pub warnings: Vec<String>,
}

/// Names of the trace, the newest first.
pub(super) const FILES: [&str; 3] = ["trace.json.gz", "trace.json", "temp.json"];
/// Operations of a forward pass.
const FORWARD: &str = "FW.";
/// The prefixes of published names.
const PREFIXES: [&str; 7] = ["FW.", "BW.", "UPDATE_", "Comm.", "Comp.", "I/O", "OUTPUT"];
/// The function that TensorFlow 2 wraps operations in.
const CALL: &str = "StatefulPartitionedCall";

/// Reads the operations of a folder; `known` are the names in the graph of the model.
///
/// # Errors
/// A trace that cannot be read.
pub(super) fn read(folder: &Path, known: &HashSet<&str>) -> Result<TracedOperations> {
    let Some(file) = FILES.iter().map(|name| folder.join(name)).find(|file| file.exists()) else {
        return Ok(TracedOperations::default());
    };
    let timeline = ChromeTimeline::read(&file)?;
    let mut all: Vec<(TracedOperation, Option<u64>)> = ran(&timeline)
        .into_iter()
        .filter_map(|span| {
            let name = standard_name(raw_name(span), known);
            let operation = TracedOperation { name, thread: span.thread.clone(), time: span.time, step: 0 };
            (!operation.name.starts_with("Comm."))
                .then(|| (operation, span.args.get("group_id").and_then(Value::as_u64)))
        })
        .collect();
    all.sort_by_key(|(operation, _)| (operation.time.0, std::cmp::Reverse(operation.time.1)));
    number_steps(&mut all, known);
    let all = join_kernels(all.into_iter().map(|(operation, _)| operation));
    Ok(TracedOperations { all, warnings: timeline.warnings })
}

/// The spans that are operations on a GPU: TensorFlow's recorder marks them by the names of process and thread. Of other
/// recorders, those of the first process.
fn ran(timeline: &ChromeTimeline) -> Vec<&ChromeSpan> {
    let named = |span: &ChromeSpan| {
        let process = timeline.processes.get(&span.process).map_or("", String::as_str);
        let thread = timeline.threads.get(&(span.process.clone(), span.thread.clone())).map_or("", String::as_str);
        (process.contains("device:GPU"), thread.contains("TensorFlow Ops") || thread.contains("Compute"))
    };
    let on_gpu: Vec<&ChromeSpan> = timeline.spans.iter().filter(|span| named(span) == (true, true)).collect();
    if !on_gpu.is_empty() {
        return on_gpu;
    }
    let first = timeline.spans.iter().min_by_key(|span| span.time.0).map(|span| span.process.as_str());
    timeline.spans.iter().filter(|span| Some(span.process.as_str()) == first).collect()
}

/// The framework's name of an operation.
fn raw_name(span: &ChromeSpan) -> &str {
    let argument = |key| span.args.get(key).and_then(Value::as_str);
    let name = argument("long_name").map(|name| name.split(':').next().unwrap_or(name));
    let name = name.or_else(|| argument("name")).unwrap_or(&span.name);
    name.strip_prefix(CALL).and_then(|rest| rest.split_once('/')).map_or(name, |(_, rest)| rest)
}

/// The published name of a framework's: as the graph of the model has it, else by what TensorFlow and MXNet call their
/// operations.
pub(super) fn standard_name(raw: &str, known: &HashSet<&str>) -> String {
    let raw = raw.trim_start_matches('^');
    if PREFIXES.iter().any(|prefix| raw.starts_with(prefix)) {
        return raw.to_owned();
    }
    let clean = raw.replace('.', "_");
    let in_graph = ["FW.", "BW.", "UPDATE_."].map(|prefix| format!("{prefix}{clean}"));
    if let Some(name) = in_graph.iter().find(|name| known.contains(name.as_str())) {
        return name.clone();
    }
    let lower = raw.to_ascii_lowercase();
    match raw.rsplit_once('.') {
        Some((_, tensor)) if lower.contains("allreduce") || lower.contains("bytepspushpull") => {
            format!("Comm.{tensor}")
        }
        _ if raw.ends_with("_backward") => format!("BW.{}", clean.trim_end_matches("_backward")),
        _ if raw.ends_with("_fwd") => format!("FW.{}", clean.trim_end_matches("_fwd")),
        _ if raw.starts_with("gradient") => format!("BW.{clean}"),
        _ if ["update", "assign", "sgd", "gradientdescent"].iter().any(|word| lower.contains(word)) => {
            format!("UPDATE_.{clean}")
        }
        _ => format!("FW.{clean}"),
    }
}

/// Numbers the steps: by the group that TensorFlow's recorder writes, else a step begins when a forward operation that was
/// there before follows one of another pass.
fn number_steps(all: &mut [(TracedOperation, Option<u64>)], known: &HashSet<&str>) {
    let groups: BTreeSet<u64> = all.iter().filter_map(|(_, group)| *group).collect();
    if groups.len() > 1 {
        let place = |group: &Option<u64>| groups.range(..group.unwrap_or(0)).count();
        let mut latest = 0;
        for (operation, group) in all {
            latest = if group.is_some() { place(group) } else { latest };
            operation.step = latest;
        }
        return;
    }
    let (mut step, mut forward) = (0, true);
    let mut seen: HashSet<String> = HashSet::new();
    for (operation, _) in all {
        let is_known = known.is_empty() || known.contains(operation.name.as_str());
        let is_forward = operation.name.starts_with(FORWARD) || operation.name.starts_with("I/O");
        if is_known && is_forward && !forward && seen.contains(&operation.name) {
            step += 1;
            seen.clear();
        }
        forward = if is_known { is_forward } else { forward };
        seen.insert(operation.name.clone());
        operation.step = step;
    }
}

/// TensorFlow writes each kernel of an operation under its name: those that follow one another are one operation.
fn join_kernels(all: impl Iterator<Item = TracedOperation>) -> Vec<TracedOperation> {
    let mut joined: Vec<TracedOperation> = Vec::new();
    for operation in all {
        match joined.last_mut() {
            Some(last)
                if (&last.name, &last.thread, last.step) == (&operation.name, &operation.thread, operation.step) =>
            {
                last.time.1 = last.time.1.max(operation.time.1);
            }
            _ => joined.push(operation),
        }
    }
    separate_overlaps(&mut joined);
    joined
}

/// An operation that ends less than this many nanoseconds after the next one begins ends as that begins: times in microseconds
/// were rounded.
const ROUNDED: i64 = 1_000;

fn separate_overlaps(all: &mut [TracedOperation]) {
    let mut last: HashMap<String, usize> = HashMap::new();
    for place in 0..all.len() {
        let (begin, thread) = (all[place].time.0, all[place].thread.clone());
        if let Some(before) = last.insert(thread, place) {
            let end = &mut all[before].time.1;
            *end = if (begin..begin + ROUNDED).contains(end) { begin } else { *end };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are those of the published program's own examples and rules (`standard_name` of its platforms).
    #[test]
    fn names_are_the_published_ones() {
        let known = HashSet::from(["UPDATE_.resnet/conv1/apply"]);
        for (raw, name) in [
            ("FW.resnet/conv1", "FW.resnet/conv1"),
            ("resnet/conv1/Conv2D", "FW.resnet/conv1/Conv2D"),
            ("gradient_tape/resnet/conv1/Conv2DBackpropFilter", "BW.gradient_tape/resnet/conv1/Conv2DBackpropFilter"),
            ("gradients/mul", "BW.gradients/mul"),
            ("resnet/conv1/apply", "UPDATE_.resnet/conv1/apply"),
            ("SGD/SGD/update_3", "UPDATE_.SGD/SGD/update_3"),
            ("bertencoder0_slice0_fwd", "FW.bertencoder0_slice0"),
            ("bertencoder0_slice0_backward", "BW.bertencoder0_slice0"),
            ("DistributedOptimizer_Allreduce/HorovodAllreduce.12", "Comm.12"),
        ] {
            assert_eq!(standard_name(raw, &known), name);
        }
    }

    fn steps(names: &[&str]) -> Vec<usize> {
        let operation = |(index, name): (usize, &&str)| {
            let time = (index as i64, index as i64 + 1);
            (TracedOperation { name: (*name).to_owned(), thread: String::new(), time, step: 0 }, None)
        };
        let mut all: Vec<(TracedOperation, Option<u64>)> = names.iter().enumerate().map(operation).collect();
        number_steps(&mut all, &HashSet::new());
        all.into_iter().map(|(operation, _)| operation.step).collect()
    }

    #[test]
    fn a_step_begins_with_a_forward_pass() {
        assert_eq!(
            steps(&["FW.a", "FW.b", "BW.b", "FW.late", "BW.a", "UPDATE_.a", "FW.a", "FW.b", "BW.b"]),
            [0, 0, 0, 0, 0, 0, 1, 1, 1]
        );
    }
}
