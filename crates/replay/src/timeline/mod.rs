//! Writes events of all ranks on one clock, in Chrome's trace format, which Perfetto and Chrome's viewer open.

mod rows;

use crate::Analysis;
use crate::collectives::CollectiveOperation;
use crate::graph::{NodeId, WorkKind};
use crate::ranks::JobRank;
use crate::replayed_job::ReplayedJob;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, EventPhase, TIMELINE, TrackId};
use rows::{RowPlace, TimelineRows};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};

/// Writes the events of all ranks that begin in a window of the common timeline, in nanoseconds; of the whole traces
/// without a window. The window, or the first event, begins at 0: viewers leave out what is before. Each rank is a process.
/// The replayed typical step, if there is one, begins with the window; each rank's part of it is a process next to what was
/// recorded.
///
/// # Errors
/// A failure to write.
pub fn write(
    analysis: &Analysis,
    window: Option<Interval>,
    replayed: Option<&ReplayedJob>,
    target: impl Write,
) -> io::Result<()> {
    let mut list = JsonList::begin(target)?;
    let (begin, end) = window.unwrap_or_else(|| (first_event(analysis), i64::MAX));
    let exchanges = exchanges(analysis);
    for (index, rank) in analysis.job.ranks.iter().enumerate() {
        names(index, rank).iter().try_for_each(|name| list.add(name))?;
        let tracks = rank.trace.tracks.len();
        let mut drawn = RankDrawing { rank: index, zero: begin, rows: TimelineRows::new(tracks + 1), list: &mut list };
        let is_shown = |start: i64| start >= begin && start < end;
        for event in rank.trace.events.iter().filter(|event| event.phase == EventPhase::Complete) {
            let time = (analysis.clocks.common(index, event.start), analysis.clocks.common(index, event.end()));
            if is_shown(time.0) {
                let place = drawn.rows.nested_row(event.track.index(), time);
                drawn.new_row(place, || thread_name(rank, event.track))?;
                drawn.slice(place, rank.trace.name(event), category(event.category), time)?;
            }
        }
        exchanges[index].iter().filter(|own| is_shown(own.wait.0)).try_for_each(|own| drawn.exchange(tracks, own))?;
    }
    if let Some(replayed) = replayed {
        replay(replayed, analysis.job.ranks.len(), &mut list)?;
    }
    list.end_on_clock(analysis.clocks.in_first_trace(begin))
}

/// When the first event of any rank begins.
fn first_event(analysis: &Analysis) -> i64 {
    let ranks = analysis.job.ranks.iter().enumerate();
    let starts = ranks.flat_map(|(index, rank)| {
        let complete = rank.trace.events.iter().filter(|event| event.phase == EventPhase::Complete);
        complete.map(move |event| analysis.clocks.common(index, event.start))
    });
    let exchanges = analysis.waiting.exchanges.iter().flat_map(|timed| &timed.parts).map(|(_, (start, _))| *start);
    starts.chain(exchanges).min().unwrap_or_default()
}

/// Writes the replayed typical step alone.
///
/// # Errors
/// A failure to write.
pub fn write_replayed(replayed: &ReplayedJob, target: impl Write) -> io::Result<()> {
    let mut list = JsonList::begin(target)?;
    replay(replayed, 0, &mut list)?;
    list.end()
}

/// A list of JSON values that is being written, one a line.
pub(crate) struct JsonList<W: Write> {
    target: BufWriter<W>,
    is_empty: bool,
}

impl<W: Write> JsonList<W> {
    pub fn begin(target: W) -> io::Result<Self> {
        // A compressing target clears its buffer at each write, however short.
        let mut target = BufWriter::new(target);
        target.write_all(TIMELINE)?;
        Ok(JsonList { target, is_empty: true })
    }

    pub fn end(self) -> io::Result<()> {
        self.end_with("")
    }

    /// Ends the list; `zero` is the time in the trace of the first rank at 0, in nanoseconds.
    fn end_on_clock(self, zero: i64) -> io::Result<()> {
        self.end_with(&format!(r#", "otherData": {}"#, json!({"first_rank_at_zero_us": microseconds(zero)})))
    }

    fn end_with(mut self, more: &str) -> io::Result<()> {
        writeln!(self.target, "\n]{more}}}")?;
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
    let of = |(rank, own): (usize, &JobRank)| {
        let (begin, end) = own.steps[analysis.job.steps[step].of[rank]].window;
        (analysis.clocks.common(rank, begin), analysis.clocks.common(rank, end))
    };
    let windows = analysis.job.ranks.iter().enumerate().map(of);
    windows.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or((0, 0))
}

/// The events that name a rank and its threads. Numbers of processes may be the same on several hosts, so that a rank is
/// its own number, and a thread its index.
fn names(index: usize, rank: &JobRank) -> Vec<Value> {
    let process = json!({
        "ph": "M", "name": "process_name", "pid": index, "args": {"name": format!("rank {}", rank.number)}
    });
    let thread = |id: TrackId| named_row(index, id.index(), &thread_name(rank, id));
    std::iter::once(process).chain(rank.trace.track_ids().map(thread)).collect()
}

fn thread_name(rank: &JobRank, id: TrackId) -> String {
    let track = &rank.trace.tracks[id.index()];
    track.thread_name.clone().unwrap_or_else(|| format!("{} {}", track.process, track.thread))
}

fn named_row(process: usize, row: usize, name: &str) -> Value {
    json!({"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": name}})
}

/// Nanoseconds as a decimal number of microseconds.
pub(crate) fn microseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// A rank's part in an exchange.
struct DrawnExchange {
    wait: Interval,
    transfer: Interval,
    operation: CollectiveOperation,
    /// The number of the rank that it waits for.
    awaited: u32,
}

/// The parts of each rank in exchanges, in the order in which they begin.
fn exchanges(analysis: &Analysis) -> Vec<Vec<DrawnExchange>> {
    let mut exchanges: Vec<Vec<DrawnExchange>> = analysis.job.ranks.iter().map(|_| Vec::new()).collect();
    for timed in &analysis.waiting.exchanges {
        for (rank, (start, _)) in &timed.parts {
            let (awaited, until) = timed.waits_until(*rank).unwrap_or((timed.last, timed.begun));
            exchanges[*rank].push(DrawnExchange {
                wait: (*start, until),
                transfer: (timed.begun, timed.begun + timed.transfer()),
                operation: timed.operation,
                awaited: analysis.job.ranks[awaited].number,
            });
        }
    }
    exchanges.iter_mut().for_each(|own| own.sort_by_key(|own| own.wait.0));
    exchanges
}

/// What is being drawn of a rank.
struct RankDrawing<'a, W: Write> {
    rank: usize,
    /// What is at 0 on the common timeline.
    zero: i64,
    rows: TimelineRows,
    list: &'a mut JsonList<W>,
}

impl<W: Write> RankDrawing<'_, W> {
    /// Names a row beside that of a track.
    fn new_row(&mut self, place: RowPlace, track: impl FnOnce() -> String) -> io::Result<()> {
        let Some(count) = place.new else { return Ok(()) };
        self.list.add(&named_row(self.rank, place.row, &format!("{} ({count})", track())))
    }

    fn slice(&mut self, place: RowPlace, name: &str, category: &str, (begin, end): Interval) -> io::Result<()> {
        self.list.add(&json!({
            "ph": "X", "pid": self.rank, "tid": place.row, "name": name, "cat": category,
            "ts": microseconds(begin - self.zero), "dur": microseconds((end - begin).max(0)),
        }))
    }

    /// Waiting and transfer, in a row of exchanges that do not overlap.
    fn exchange(&mut self, track: usize, own: &DrawnExchange) -> io::Result<()> {
        const NAME: &str = "waiting and transfer";
        if !self.rows.has(track) {
            self.list.add(&named_row(self.rank, track, NAME))?;
        }
        let place = self.rows.free_row(track, (own.wait.0, own.wait.1.max(own.transfer.1)));
        self.new_row(place, || NAME.to_owned())?;
        self.slice(place, &format!("waits for rank {}", own.awaited), "exchange", own.wait)?;
        self.slice(place, &own.operation.to_string(), "exchange", own.transfer)
    }
}

/// The operations of a replayed step that begins at 0; what belongs to no rank is on the links between them.
fn replay<W: Write>(replayed: &ReplayedJob, processes: usize, list: &mut JsonList<W>) -> io::Result<()> {
    let (graph, ranks) = (&replayed.step.graph, &replayed.step.ranks);
    let place = |rank: Option<u32>| ranks.iter().position(|own| Some(own.number) == rank).unwrap_or(ranks.len());
    let names =
        ranks.iter().map(|rank| format!("rank {}, replayed", rank.number)).chain(["links, replayed".to_owned()]);
    for (place, name) in names.enumerate() {
        list.add(&json!({"ph": "M", "name": "process_name", "pid": processes + place, "args": {"name": name}}))?;
    }
    for (index, resource) in graph.resources().iter().enumerate() {
        let (process, name) = (processes + place(resource.rank), &resource.name);
        list.add(&named_row(process, index, name))?;
    }
    let works = |id: &NodeId| {
        graph.node(*id).duration > 0
            && !matches!(graph.node(*id).kind, WorkKind::Gap | WorkKind::Start | WorkKind::Backlog)
    };
    for id in replayed.schedule.order().filter(works) {
        let node = graph.node(id);
        list.add(&json!({
            "ph": "X", "pid": processes + place(graph.resource_of(id).rank), "tid": node.resource.index(),
            "name": graph.name(id), "cat": "replayed", "dur": microseconds(node.duration.cast_signed()),
            "ts": microseconds(replayed.schedule.start(id).cast_signed()),
        }))?;
    }
    Ok(())
}

/// The spelling of PyTorch's profiler.
fn category(category: EventCategory) -> &'static str {
    match category {
        EventCategory::Annotation => "user_annotation",
        EventCategory::Operator => "cpu_op",
        EventCategory::Python => "python_function",
        EventCategory::Runtime => "cuda_runtime",
        EventCategory::Kernel => "kernel",
        EventCategory::Copy => "gpu_memcpy",
        EventCategory::Set => "gpu_memset",
        EventCategory::DeviceAnnotation => "gpu_user_annotation",
        EventCategory::Synchronisation => "cuda_sync",
        EventCategory::Overhead => "overhead",
        EventCategory::ForwardBackward => "fwdbwd",
        EventCategory::Launch => "ac2g",
        EventCategory::Other => "other",
    }
}
