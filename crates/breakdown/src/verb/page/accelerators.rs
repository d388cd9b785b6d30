//! The work of the accelerators, which part of it is hidden, and why they are idle.

use super::colours::of_work;
use super::milliseconds;
use crate::verb::bars::RunBars;
use crate::verb::run::TracedRun;
use crate::verb::tables;
use crate::verb::tables::RankScope;
use crate::{GpuWork, IdleCause, RankBreakdown};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Block, Chart, Colour, Plot, Series, Table, TableBuilder, Texture};
use perf4sight_traces::{RankTrace, Trace};
use std::collections::BTreeMap;

const VALUE: &str = "time per iteration (ms)";
/// A longer table of streams is folded.
const FEW: usize = 8;
const STREAMS: usize = 40;

/// Charts of work and of idle time, and a table of streams.
pub(super) fn blocks(run: &TracedRun) -> Vec<Block> {
    let mut blocks = vec![Block::Chart(work(run)), Block::Chart(idle(run))];
    if let Some(whose) = RankScope::main(run) {
        blocks.extend([tables::work(whose), tables::idle(run, whose)].map(Block::Table));
    }
    let streams = streams(run);
    blocks.push(if streams.rows.len() > FEW { Block::Folded(streams) } else { Block::Table(streams) });
    blocks
}

fn work(run: &TracedRun) -> Chart {
    let bars = RunBars(vec![("", run)]);
    let exposed = GpuWork::ALL.map(|work| {
        let times = bars.milliseconds(|own| Some(own.device.exposed_time(work) as f64));
        Series::new(work.name(), times).coloured(of_work(work)).textured(Texture::Plain)
    });
    let idle = bars.milliseconds(|own| Some(own.device.idle as f64));
    let idle = Series::new("idle", idle).coloured(Colour::Rival).textured(Texture::Level);
    let plot = bars.plot(VALUE, exposed.into_iter().chain([idle]).collect(), Vec::new());
    let caption = "The work of streams; of concurrent work, only the kind that is drawn furthest left.";
    Chart::new("What accelerators work on", caption, Plot::StackedBars(plot))
}

fn idle(run: &TracedRun) -> Chart {
    let bars = RunBars(vec![("", run)]);
    let time = |(place, cause): (usize, IdleCause)| {
        let times = bars.milliseconds(|own| Some(own.idle?.get(cause)? as f64));
        let texture = [Texture::Plain, Texture::Rising, Texture::Falling, Texture::Crossed, Texture::Level][place];
        Series::new(cause.name(), times).coloured(of_cause(cause)).textured(texture)
    };
    let plot = bars.plot(VALUE, IdleCause::ALL.into_iter().enumerate().map(time).collect(), Vec::new());
    let caption = "Why no stream works: the host has launched nothing yet, a launched kernel has not begun, or the host waits for the accelerator or for another rank.";
    Chart::new("Why accelerators are idle", caption, Plot::StackedBars(plot))
}

fn of_cause(cause: IdleCause) -> Colour {
    match cause {
        IdleCause::Host => Colour::Nth(7),
        IdleCause::KernelLaunch => Colour::Nth(2),
        IdleCause::Synchronisation => Colour::Variation,
        IdleCause::AnotherRank => Colour::Nth(4),
        IdleCause::NoLaunch => Colour::Rival,
    }
}

struct StreamTime {
    rank: u32,
    name: String,
    /// Nanoseconds over all iterations.
    time: i64,
    /// Milliseconds of a mean iteration.
    each: f64,
    share: Option<Percent>,
}

fn streams_of((ranked, rank): (&RankTrace, &RankBreakdown)) -> Vec<StreamTime> {
    let mut works: BTreeMap<_, i64> = BTreeMap::new();
    for (track, time) in rank.counted_iterations().flat_map(|iteration| &iteration.device.streams) {
        *works.entry(*track).or_default() += time;
    }
    let all: i64 = rank.counted_iterations().map(|iteration| iteration.sets.total()).sum();
    let count = rank.counted_iterations().count().max(1) as f64;
    let stream = |(track, time)| StreamTime {
        rank: rank.rank,
        name: name_of_stream(&ranked.trace, track),
        time,
        each: milliseconds(time as f64 / count),
        share: (all > 0).then(|| Percent(100.0 * time as f64 / all as f64)),
    };
    works.into_iter().map(stream).collect()
}

fn streams(run: &TracedRun) -> Table {
    let mut rows: Vec<StreamTime> = run.ranks().flat_map(streams_of).collect();
    let title = match rows.len().saturating_sub(STREAMS) {
        0 => "Streams, per iteration".to_owned(),
        more => format!("Streams, per iteration; {more} more, which work less, are not listed"),
    };
    rows.sort_by_key(|row| std::cmp::Reverse(row.time));
    rows.truncate(STREAMS);
    TableBuilder::new(title, rows)
        .number("rank", "rank", |row| u64::from(row.rank))
        .text("stream", "stream", |row| row.name.clone())
        .number("busy_ms", "works", |row| Milliseconds(row.each))
        .number("percent", "share", |row| row.share)
        .table()
}

pub(super) fn name_of_stream(trace: &Trace, track: perf4sight_traces::TrackId) -> String {
    let track = &trace.tracks[track.index()];
    perf4sight_traces::shortened::cut(
        &format!("stream {} of GPU {}", track.thread.trim_start_matches("stream "), track.process),
        40,
    )
}
