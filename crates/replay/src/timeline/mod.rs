//! Writes events of all ranks on one clock, in Chrome's trace format, which Perfetto and Chrome's viewer open.

use crate::Analysis;
use crate::graph::{Kind, NodeId};
use crate::ranks::Rank;
use crate::replayed::Replayed;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, Phase, TIMELINE};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};

/// Writes the events of all ranks that begin in a window of the common timeline, in nanoseconds; of the whole traces
/// without a window. Each rank is a process. The replayed typical step, if there is one, begins with the window; each
/// rank's part of it is a process next to what was recorded.
///
/// # Errors
/// A failure to write.
pub fn write(
    analysis: &Analysis,
    window: Option<Interval>,
    replayed: Option<&Replayed>,
    target: impl Write,
) -> io::Result<()> {
    let mut list = List::begin(target)?;
    for (index, rank) in analysis.job.ranks.iter().enumerate() {
        names(index, rank).iter().try_for_each(|name| list.add(name))?;
        for event in rank.trace.events.iter().filter(|event| event.phase == Phase::Complete) {
            let start = analysis.clocks.common(index, event.start);
            if window.is_none_or(|(begin, end)| start >= begin && start < end) {
                list.add(&of(analysis, index, event, start))?;
            }
        }
    }
    waits(analysis, window, &mut list)?;
    if let (Some((begin, _)), Some(replayed)) = (window, replayed) {
        replay(replayed, analysis.job.ranks.len(), begin, &mut list)?;
    }
    list.end()
}

/// Writes the replayed typical step alone.
///
/// # Errors
/// A failure to write.
pub fn write_replayed(replayed: &Replayed, target: impl Write) -> io::Result<()> {
    let mut list = List::begin(target)?;
    replay(replayed, 0, 0, &mut list)?;
    list.end()
}

/// A list of JSON values that is being written, one a line.
pub(crate) struct List<W: Write> {
    target: BufWriter<W>,
    is_empty: bool,
}

impl<W: Write> List<W> {
    pub fn begin(target: W) -> io::Result<Self> {
        // A compressing target clears its buffer at each write, however short.
        let mut target = BufWriter::new(target);
        target.write_all(TIMELINE)?;
        Ok(List { target, is_empty: true })
    }

    pub fn end(mut self) -> io::Result<()> {
        self.target.write_all(b"\n]}\n")?;
        self.target.flush()
    }

    pub fn add(&mut self, value: &Value) -> io::Result<()> {
        let separator = if self.is_empty { "" } else { "," };
        self.is_empty = false;
        write!(self.target, "{separator}\n{value}")
    }
}

/// The window of a step of all ranks, on the common timeline.
pub fn window(analysis: &Analysis, step: usize) -> Interval {
    let of = |(rank, own): (usize, &Rank)| {
        let (begin, end) = own.steps[analysis.job.steps[step].of[rank]].window;
        (analysis.clocks.common(rank, begin), analysis.clocks.common(rank, end))
    };
    let windows = analysis.job.ranks.iter().enumerate().map(of);
    windows.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or((0, 0))
}

/// The events that name a rank and its threads. Numbers of processes may be the same on several hosts, so that a rank is
/// its own number, and a thread its index.
fn names(index: usize, rank: &Rank) -> Vec<Value> {
    let process = json!({
        "ph": "M", "name": "process_name", "pid": index, "args": {"name": format!("rank {}", rank.number)}
    });
    let thread = |id: perf4sight_traces::TrackId| {
        let track = &rank.trace.tracks[id.index()];
        let name = match track.thread_name.as_deref() {
            Some(name) => name.to_owned(),
            None => format!("{} {}", track.process, track.thread),
        };
        json!({"ph": "M", "name": "thread_name", "pid": index, "tid": id.index(), "args": {"name": name}})
    };
    std::iter::once(process).chain(rank.trace.track_ids().map(thread)).collect()
}

fn of(analysis: &Analysis, index: usize, event: &Event, start: i64) -> Value {
    let trace = &analysis.job.ranks[index].trace;
    let end = analysis.clocks.common(index, event.end());
    json!({
        "ph": "X", "pid": index, "tid": event.track.index(), "name": trace.name(event), "cat": category(event.category),
        "ts": microseconds(start), "dur": microseconds(end - start),
    })
}

/// Nanoseconds as a decimal number of microseconds.
pub(crate) fn microseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// A row of each rank with its waiting and its transfers.
fn waits<W: Write>(analysis: &Analysis, window: Option<Interval>, list: &mut List<W>) -> io::Result<()> {
    let lane = |rank: usize| analysis.job.ranks[rank].trace.tracks.len();
    for rank in 0..analysis.job.ranks.len() {
        let name = json!({
            "ph": "M", "name": "thread_name", "pid": rank, "tid": lane(rank), "args": {"name": "waiting and transfer"}
        });
        list.add(&name)?;
    }
    for timed in &analysis.waiting.exchanges {
        let operation = analysis.exchanges.all[timed.exchange].operation;
        for (rank, (start, _)) in &timed.parts {
            if window.is_some_and(|(begin, end)| *start < begin || *start >= end) {
                continue;
            }
            let last = analysis.job.ranks[timed.last].number;
            let span = |name: String, from: i64, to: i64| {
                json!({
                    "ph": "X", "pid": rank, "tid": lane(*rank), "name": name, "cat": "exchange",
                    "ts": microseconds(from), "dur": microseconds((to - from).max(0)),
                })
            };
            let until = timed.waits_until(*rank).unwrap_or(timed.begun);
            list.add(&span(format!("waits for rank {last}"), *start, until))?;
            list.add(&span(operation.to_string(), timed.begun, timed.begun + timed.transfer()))?;
        }
    }
    Ok(())
}

/// The operations of a replayed step that begins at a moment; what belongs to no rank is on the links between them.
fn replay<W: Write>(replayed: &Replayed, processes: usize, begin: i64, list: &mut List<W>) -> io::Result<()> {
    let (graph, ranks) = (&replayed.step.graph, &replayed.step.ranks);
    let place = |rank: Option<u32>| ranks.iter().position(|own| Some(own.number) == rank).unwrap_or(ranks.len());
    let names =
        ranks.iter().map(|rank| format!("rank {}, replayed", rank.number)).chain(["links, replayed".to_owned()]);
    for (place, name) in names.enumerate() {
        list.add(&json!({"ph": "M", "name": "process_name", "pid": processes + place, "args": {"name": name}}))?;
    }
    for (index, resource) in graph.resources().iter().enumerate() {
        let (process, name) = (processes + place(resource.rank), &resource.name);
        list.add(&json!({"ph": "M", "name": "thread_name", "pid": process, "tid": index, "args": {"name": name}}))?;
    }
    let works = |id: &NodeId| graph.node(*id).duration > 0 && !matches!(graph.node(*id).kind, Kind::Gap | Kind::Start);
    for id in replayed.schedule.order().filter(works) {
        let node = graph.node(id);
        list.add(&json!({
            "ph": "X", "pid": processes + place(graph.resource_of(id).rank), "tid": node.resource.index(),
            "name": graph.name(id), "cat": "replayed", "dur": microseconds(node.duration.cast_signed()),
            "ts": microseconds(begin.saturating_add_unsigned(replayed.schedule.start(id))),
        }))?;
    }
    Ok(())
}

/// The spelling of PyTorch's profiler.
fn category(category: Category) -> &'static str {
    match category {
        Category::Annotation => "user_annotation",
        Category::Operator => "cpu_op",
        Category::Python => "python_function",
        Category::Runtime => "cuda_runtime",
        Category::Kernel => "kernel",
        Category::Copy => "gpu_memcpy",
        Category::Set => "gpu_memset",
        Category::DeviceAnnotation => "gpu_user_annotation",
        Category::Synchronisation => "cuda_sync",
        Category::Overhead => "overhead",
        Category::ForwardBackward => "fwdbwd",
        Category::Launch => "ac2g",
        Category::Other => "other",
    }
}
