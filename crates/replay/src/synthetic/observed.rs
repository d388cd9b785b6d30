//! Traces of a made-up cluster, as PyTorch's profiler would write them, each by the clock of its rank.

use super::SyntheticStep;
use crate::graph::{NodeId, TaskGraph, WorkKind};
use crate::simulate::{NodeSchedule, simulate};
use perf4sight_base::error::{Error, Result};
use std::fmt::Write;
use std::path::Path;

/// A recorded event of a made-up rank: times in nanoseconds.
struct RecordedEvent<'a> {
    category: &'a str,
    name: String,
    thread: u32,
    start: i64,
    duration: u64,
    arguments: String,
}

/// Nanoseconds between steps.
const PAUSE: u64 = 100_000;
/// When recording begins, in nanoseconds.
const BEGIN: i64 = 1_000_000_000_000;

/// Writes the trace of each rank over several steps into a folder, `rank0.json` and so on; `skew` are the nanoseconds by
/// which the clock of each rank is ahead.
///
/// # Errors
/// A folder that cannot be written to.
pub fn write_traces(steps: &[SyntheticStep], skew: &[i64], folder: &Path) -> Result<()> {
    let schedules: Vec<NodeSchedule> = steps.iter().map(|step| simulate(&step.job.graph)).collect();
    let ranks = steps.first().map_or(0, |step| step.job.ranks.len());
    for rank in 0..ranks {
        let mut begin = BEGIN + skew.get(rank).copied().unwrap_or(0);
        let mut text = format!(
            "{{\"distributedInfo\": {{\"backend\": \"gloo\", \"rank\": {rank}, \"world_size\": {ranks}}}, \"traceEvents\": [\n"
        );
        for (number, (step, schedule)) in steps.iter().zip(&schedules).enumerate() {
            events(step, schedule, rank, begin, number).iter().for_each(|event| event.write(&mut text));
            begin += (schedule.makespan(&step.job.graph) + PAUSE) as i64;
        }
        text.truncate(text.trim_end_matches(",\n").len());
        text.push_str("\n]}\n");
        let file = folder.join(format!("rank{rank}.json"));
        std::fs::write(&file, text).map_err(|cause| Error::io(&file, "write a made-up trace", &cause))?;
    }
    Ok(())
}

fn events<'a>(
    step: &'a SyntheticStep,
    schedule: &NodeSchedule,
    rank: usize,
    begin: i64,
    number: usize,
) -> Vec<RecordedEvent<'a>> {
    let graph = &step.job.graph;
    let is_own = |id: &NodeId| graph.resource_of(*id).rank == Some(step.job.ranks[rank].number);
    let operation = |id: NodeId| RecordedEvent {
        category: "cpu_op",
        name: full_name(graph, id),
        thread: 1,
        start: begin + schedule.start(id) as i64,
        duration: graph.node(id).duration,
        arguments: String::new(),
    };
    let own: Vec<NodeId> = graph.ids().filter(is_own).collect();
    let end = own.iter().map(|id| schedule.end(graph, *id)).max().unwrap_or(0);
    let mark = RecordedEvent {
        category: "user_annotation",
        name: "ProfilerStep#".to_owned(),
        thread: 1,
        start: begin,
        duration: end,
        arguments: number.to_string(),
    };
    let operations = own.into_iter().filter(|id| graph.node(*id).kind == WorkKind::Operation).map(operation);
    let exchanges = step.job.transfers.iter().flat_map(|transfer| {
        let own = transfer.parts.iter().filter(move |part| part.rank == rank);
        own.map(move |part| {
            let ready = schedule.end(graph, part.launch);
            RecordedEvent {
                category: "user_annotation",
                name: "gloo:all_reduce".to_owned(),
                thread: 2,
                start: begin + ready as i64,
                duration: schedule.end(graph, transfer.node) - ready,
                arguments: format!(
                    "\"Input Dims\": [[{}]], \"Input type\": [\"float\"]",
                    transfer.bytes.unwrap_or(0) / 4
                ),
            }
        })
    });
    std::iter::once(mark).chain(operations).chain(exchanges).collect()
}

/// The name of a node behind that of its pass: `forward::norm`.
fn full_name(graph: &TaskGraph, id: NodeId) -> String {
    let mut names: Vec<&str> = graph.calls().path(graph.node(id).call).collect();
    names.reverse();
    names.join("::")
}

impl RecordedEvent<'_> {
    fn write(&self, text: &mut String) {
        let (start, duration) = (microseconds(self.start), microseconds(self.duration as i64));
        let RecordedEvent { category, name, thread, arguments, .. } = self;
        // The number of a step belongs to its name.
        let (number, arguments) = if name.ends_with('#') { (arguments.as_str(), "") } else { ("", arguments.as_str()) };
        let written = writeln!(
            text,
            "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}{number}\", \"pid\": 1, \"tid\": {thread}, \"ts\": {start}, \"dur\": {duration}, \"args\": {{{arguments}}}}},"
        );
        debug_assert!(written.is_ok(), "a string takes any text");
    }
}

/// Nanoseconds as decimal microseconds.
fn microseconds(nanoseconds: i64) -> String {
    format!("{}.{:03}", nanoseconds.div_euclid(1000), nanoseconds.rem_euclid(1000))
}
