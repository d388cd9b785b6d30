//! A timeline of one iteration: categories, operations, threads and streams below each other.

use super::accelerators::name_of_stream;
use super::colours::{GPU, of_category, of_work};
use super::{TypicalIteration, milliseconds};
use crate::{GpuWork, Lane, LaneContent, LaneKind, LaneSpan, TimeCategory, TrainingOperation, lanes};
use perf4sight_report::{Axis, Block, Chart, Colour, Plot, Series, Texture, Timeline, TimelineSpan};
use perf4sight_traces::TrackId;
use perf4sight_traces::shortened::{briefest, cut};

/// The number of threads and streams that are drawn, the busiest first.
const THREADS: usize = 6;
const STREAMS: usize = 8;

pub(super) fn blocks(typical: &TypicalIteration) -> [Block; 2] {
    let file = typical.ranked.trace.file.display();
    let all = format!("All single events: open {file} in Perfetto (ui.perfetto.dev, Open trace file).");
    [Block::Chart(chart(typical)), Block::Text(all)]
}

fn chart(typical: &TypicalIteration) -> Chart {
    let (trace, iteration) = (&typical.ranked.trace, typical.iteration);
    let mut all = lanes(trace, typical.rank, iteration);
    leave_copies(typical, &mut all);
    let threads = keep_first(&mut all, THREADS, |of| matches!(of, LaneKind::Thread(_)));
    let streams = keep_first(&mut all, STREAMS, |of| matches!(of, LaneKind::Stream(_)));
    let contents = TimeCategory::ALL.map(LaneContent::TimeCategory).into_iter();
    let contents = contents.chain([LaneContent::Operation(TrainingOperation::Other), LaneContent::Busy]);
    let series = contents.chain(GpuWork::ALL.map(LaneContent::Work)).map(|content| {
        let (name, colour) = series_look(content);
        let spans = all.iter().enumerate().flat_map(|(track, row)| {
            let own = row.spans.iter().filter(move |span| series_look(span.what).0 == name);
            own.map(move |span| placed_span(typical, track, span))
        });
        Series::new(name, spans).coloured(colour).textured(Texture::Plain)
    });
    let plot = Timeline {
        time: Axis::linear("time (ms)"),
        tracks: all.iter().map(|row| name(typical, row)).collect(),
        series: series.filter(|series: &Series<TimelineSpan>| !series.data.is_empty()).collect(),
    };
    let left_out: Vec<String> = [(threads, "threads"), (streams, "streams")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what} that do less are not drawn."))
        .collect();
    let caption = format!(
        "{}{}{}. What follows without a gap and is of one category is one span. {}",
        cut(&iteration.name, 60),
        typical.rank_suffix(),
        if typical.stacks.iterations > 1 { ", which is of median length" } else { "" },
        left_out.join(" ")
    );
    Chart::new("One iteration", caption.trim_end(), Plot::Timeline(plot))
}

/// Removes the main thread's row if no other thread ever counts instead of it, and the row of all streams if there is
/// only one.
fn leave_copies(typical: &TypicalIteration, rows: &mut Vec<Lane>) {
    let (events, main) = (&typical.ranked.trace.events, typical.rank.main);
    let own = |event: u32| Some(events[event as usize].track) == main;
    let alone = typical.rank.timeline.iter().map(|span| span.event).all(own);
    let streams = rows.iter().filter(|row| matches!(row.of, LaneKind::Stream(_))).count();
    rows.retain(|row| match row.of {
        LaneKind::Gpu => streams > 1,
        LaneKind::Thread(track) => !alone || Some(track) != main,
        LaneKind::Process | LaneKind::Operations | LaneKind::Stream(_) => true,
    });
}

/// Keeps only the first `most` rows of a kind; returns the number of removed rows.
fn keep_first(rows: &mut Vec<Lane>, most: usize, kind: fn(&LaneKind) -> bool) -> usize {
    let (before, mut seen) = (rows.len(), 0);
    rows.retain(|row| {
        seen += usize::from(kind(&row.of));
        !kind(&row.of) || seen <= most
    });
    before - rows.len()
}

/// The name and colour of the series that shows a content.
fn series_look(content: LaneContent) -> (&'static str, Colour) {
    match content {
        LaneContent::TimeCategory(category) => (category.name(), of_category(category)),
        LaneContent::Busy => ("GPU busy", GPU),
        LaneContent::Operation(_) => ("operation", Colour::Subject),
        LaneContent::Work(work) => (work.name(), of_work(work)),
    }
}

fn placed_span(typical: &TypicalIteration, track: usize, span: &LaneSpan) -> TimelineSpan {
    let window = typical.iteration.window;
    let at = |moment: i64| milliseconds((moment - window.0) as f64);
    let names = &typical.ranked.trace.names;
    let name = match span.what {
        LaneContent::Operation(operation) => cut(operation.label(names), 60),
        LaneContent::TimeCategory(_) | LaneContent::Work(_) => {
            span.name.map_or_else(String::new, |name| cut(&briefest(names.get(name)), 60))
        }
        LaneContent::Busy => String::new(),
    };
    TimelineSpan { track, start: at(span.time.0), end: at(span.time.1), name }
}

fn name(typical: &TypicalIteration, row: &Lane) -> String {
    match row.of {
        LaneKind::Process => "whose time".to_owned(),
        LaneKind::Gpu => "any GPU stream".to_owned(),
        LaneKind::Operations => "operation".to_owned(),
        LaneKind::Thread(track) => name_of_thread(typical, track),
        LaneKind::Stream(track) => name_of_stream(&typical.ranked.trace, track),
    }
}

fn name_of_thread(typical: &TypicalIteration, track: TrackId) -> String {
    let own = &typical.ranked.trace.tracks[track.index()];
    match Some(track) == typical.rank.main {
        true => "main thread".to_owned(),
        false => cut(&format!("thread {}", own.thread), 24),
    }
}
