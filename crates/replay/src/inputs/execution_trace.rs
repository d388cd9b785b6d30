//! Execution traces (`torch.profiler.ExecutionTraceObserver`) beside profilers' traces: which operator reads on one thread
//! what another thread wrote. The two have the same operators in the same order, perhaps from different ones on.

use super::{contents, last_number};
use perf4sight_base::error::{Error, Result};
use perf4sight_traces::{EventCategory, RankTrace, Trace, TrackId};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A file: of version 1.0 (PyTorch 1.13), and of 1.1 (2.4 and later).
#[derive(Deserialize)]
struct RawExecutionTrace {
    #[serde(default)]
    pid: u64,
    nodes: Vec<RawNode>,
}

#[derive(Deserialize)]
struct RawNode {
    name: String,
    #[serde(default)]
    rf_id: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    inputs: Value,
    #[serde(default)]
    outputs: Value,
    #[serde(default)]
    attrs: Vec<RawAttribute>,
}

#[derive(Deserialize)]
struct RawAttribute {
    name: String,
    #[serde(default)]
    value: Value,
}

/// From this share of operators on whose names agree, the numbers are those of the trace.
const ALIKE: f64 = 0.5;

/// Adds what execution traces know to the traces of their ranks.
///
/// # Errors
/// A file that is no execution trace, or one without a trace that it belongs to.
pub(super) fn add(files: &[PathBuf], ranks: &mut [RankTrace]) -> Result<()> {
    for file in files {
        let raw: RawExecutionTrace = serde_json::from_slice(&contents::read(file)?.bytes)
            .map_err(|cause| Error::input(format!("is not a complete execution trace: {cause}")).file(file))?;
        let process = raw.pid.to_string();
        let number = last_number(file);
        let by_process =
            ranks.iter().position(|ranked| ranked.trace.tracks.iter().any(|track| track.process == process));
        let by_number = ranks.iter().position(|ranked| Some(ranked.rank) == number);
        let place = by_number.or(by_process).or((ranks.len() == 1).then_some(0));
        let Some(ranked) = place.map(|place| &mut ranks[place]) else {
            return Err(Error::input(
                "is an execution trace, which has no times, of a rank without a trace of the profiler",
            )
            .file(file)
            .expected("both of each rank, with its number in their names"));
        };
        add_to(&mut ranked.trace, &raw.nodes, file);
    }
    Ok(())
}

fn add_to(trace: &mut Trace, nodes: &[RawNode], file: &Path) {
    let found = match_operators(trace, nodes);
    if (found.len() as f64) < ALIKE * threads_of(nodes).values().map(Vec::len).sum::<usize>() as f64 {
        let sentence = format!("{} was not used: its operators are not those of the trace", file.display());
        return trace.damage.others.push(sentence);
    }
    let mut writers: HashMap<u64, usize> = HashMap::new();
    let mut dependencies = Vec::new();
    for (event, node) in found {
        let own = &trace.events[event];
        for storage in storages(&node.inputs) {
            let writer = writers.get(&storage).map(|writer| (*writer, &trace.events[*writer]));
            // On one thread the order says as much.
            let other = writer.filter(|(_, writer)| writer.track != own.track && writer.end() <= own.start);
            dependencies.extend(other.map(|(writer, _)| [writer as u32, event as u32]));
        }
        storages(&node.outputs).for_each(|storage| _ = writers.insert(storage, event));
    }
    dependencies.sort_unstable();
    dependencies.dedup();
    trace.dependencies.extend(dependencies);
}

/// The operators of each thread of an execution trace, in their order. Those without a number are none.
fn threads_of(nodes: &[RawNode]) -> BTreeMap<u64, Vec<&RawNode>> {
    let mut threads: BTreeMap<u64, Vec<&RawNode>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.number() > 0) {
        threads.entry(node.attribute("tid").unwrap_or(node.tid)).or_default().push(node);
    }
    threads.values_mut().for_each(|nodes| nodes.sort_by_key(|node| node.number()));
    threads
}

/// The operators of a trace with their nodes, in the order of time: on each thread, those of the thread of the execution
/// trace that has most of the same names in the same order.
fn match_operators<'n>(trace: &Trace, nodes: &'n [RawNode]) -> Vec<(usize, &'n RawNode)> {
    let mut tracks: BTreeMap<TrackId, Vec<usize>> = BTreeMap::new();
    for (index, event) in trace.events.iter().enumerate().filter(|(_, event)| event.external > 0) {
        if matches!(event.category, EventCategory::Operator | EventCategory::Annotation) {
            tracks.entry(event.track).or_default().push(index);
        }
    }
    let threads = threads_of(nodes);
    let best =
        |events: &Vec<usize>| threads.values().map(|nodes| align_operators(trace, events, nodes)).max_by_key(Vec::len);
    let mut found: Vec<(usize, &RawNode)> = tracks.values().filter_map(best).flatten().collect();
    found.sort_unstable_by_key(|(event, _)| *event);
    found
}

/// The operators of a thread with nodes of the same names. The two lists are shifted against each other as they are for most
/// operators that have a name equally often before them.
fn align_operators<'n>(trace: &Trace, events: &[usize], nodes: &[&'n RawNode]) -> Vec<(usize, &'n RawNode)> {
    let name = |event: &usize| trace.name(&trace.events[*event]);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut places: HashMap<(&str, usize), i64> = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        let nth = seen.entry(name(event)).or_default();
        places.insert((name(event), *nth), place as i64);
        *nth += 1;
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut shifts: BTreeMap<i64, usize> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        let nth = seen.entry(&node.name).or_default();
        let other = places.get(&(node.name.as_str(), *nth));
        other.into_iter().for_each(|other| *shifts.entry(other - place as i64).or_default() += 1);
        *nth += 1;
    }
    let shift = shifts.into_iter().max_by_key(|(_, count)| *count).map_or(0, |(shift, _)| shift);
    let found = nodes.iter().enumerate().filter_map(|(place, node)| {
        let event = usize::try_from(place as i64 + shift).ok().and_then(|place| events.get(place))?;
        (node.name == name(event)).then_some((*event, *node))
    });
    found.collect()
}

impl RawNode {
    /// The number that the profiler gives it, too; 0 if it is no operator.
    fn number(&self) -> u64 {
        self.attribute("rf_id").unwrap_or(self.rf_id)
    }

    fn attribute(&self, name: &str) -> Option<u64> {
        self.attrs.iter().find(|attribute| attribute.name == name)?.value.as_u64()
    }
}

/// The numbers of the storages of all tensors in a list: a tensor is `[id, storage, offset, elements, bytes, device]`.
fn storages(list: &Value) -> impl Iterator<Item = u64> {
    let values = list.get("values").unwrap_or(list).as_array().map(Vec::as_slice).unwrap_or_default();
    let tensors = values.iter().flat_map(|value| match value.as_array() {
        Some(items) if items.iter().any(Value::is_array) => items.as_slice(),
        _ => std::slice::from_ref(value),
    });
    tensors.filter_map(|tensor| match tensor.as_array()?.as_slice() {
        [id, storage, _, _, _, device] if id.is_u64() && device.is_string() => {
            storage.as_u64().filter(|storage| *storage > 0)
        }
        _ => None,
    })
}
