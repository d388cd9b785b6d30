//! The work of the accelerators, which part of it is hidden, and why they are idle.

use super::colours::of_work;
use super::milliseconds;
use crate::verb::bars::Bars;
use crate::verb::run::Run;
use crate::verb::tables;
use crate::verb::tables::Whose;
use crate::{Idle, Work};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Block, Chart, Colour, Column, Plot, Series, Table, Texture};
use perf4sight_traces::Trace;
use std::collections::BTreeMap;

/// The value that bars show.
const VALUE: &str = "time per iteration (ms)";
/// A longer table of streams is folded.
const FEW: usize = 8;
/// The largest number of streams in the table.
const STREAMS: usize = 40;

/// Charts of work and of idle time, and a table of streams.
pub(super) fn blocks(run: &Run) -> Vec<Block> {
    let mut blocks = vec![Block::Chart(work(run)), Block::Chart(idle(run))];
    if let Some(whose) = Whose::main(run) {
        blocks.extend([tables::work(whose), tables::idle(run, whose)].map(Block::Table));
    }
    let streams = streams(run);
    blocks.push(if streams.rows.len() > FEW { Block::Folded(streams) } else { Block::Table(streams) });
    blocks
}

fn work(run: &Run) -> Chart {
    let bars = Bars(vec![("", run)]);
    let exposed = Work::ALL.map(|work| {
        let times = bars.milliseconds(|own| Some(own.device.exposed(work) as f64));
        Series::new(work.label(), times).coloured(of_work(work)).textured(Texture::Plain)
    });
    let idle = bars.milliseconds(|own| Some(own.device.idle as f64));
    let idle = Series::new("idle", idle).coloured(Colour::Rival).textured(Texture::Level);
    let plot = bars.plot(VALUE, exposed.into_iter().chain([idle]).collect(), Vec::new());
    let caption = "What streams work on; of what goes on at once, only what stands furthest left.";
    Chart::new("What accelerators work on", caption, Plot::StackedBars(plot))
}

fn idle(run: &Run) -> Chart {
    let bars = Bars(vec![("", run)]);
    let time = |(place, cause): (usize, Idle)| {
        let times = bars.milliseconds(|own| Some(own.idle?.get(cause)? as f64));
        let texture = [Texture::Plain, Texture::Rising, Texture::Falling, Texture::Crossed, Texture::Level][place];
        Series::new(cause.label(), times).coloured(of_cause(cause)).textured(texture)
    };
    let plot = bars.plot(VALUE, Idle::ALL.into_iter().enumerate().map(time).collect(), Vec::new());
    let caption = "Why no stream works: the host has asked for nothing yet, what it asked for has not begun, it waits for the accelerator or for another rank.";
    Chart::new("Why accelerators are idle", caption, Plot::StackedBars(plot))
}

fn of_cause(cause: Idle) -> Colour {
    match cause {
        Idle::Host => Colour::Nth(7),
        Idle::KernelLaunch => Colour::Nth(2),
        Idle::Synchronisation => Colour::Variation,
        Idle::AnotherRank => Colour::Nth(4),
        Idle::Untold => Colour::Rival,
    }
}

/// The busy time of each stream.
fn streams(run: &Run) -> Table {
    let columns = [
        Column::number("rank", "rank"),
        Column::text("stream", "stream"),
        Column::number("busy_ms", "works"),
        Column::number("percent", "share"),
    ];
    let mut rows = Vec::new();
    for (ranked, rank) in run.ranks() {
        let mut works: BTreeMap<_, i64> = BTreeMap::new();
        let mut all = 0;
        for iteration in rank.counted() {
            all += iteration.sets.total();
            iteration.device.streams.iter().for_each(|(track, time)| *works.entry(*track).or_default() += time);
        }
        let count = rank.counted().count().max(1) as f64;
        rows.extend(works.into_iter().map(|(track, time)| {
            let share = (all > 0).then(|| Percent(100.0 * time as f64 / all as f64));
            let name = name_of_stream(&ranked.trace, track);
            (
                time,
                [
                    u64::from(rank.rank).into(),
                    name.into(),
                    Milliseconds(milliseconds(time as f64 / count)).into(),
                    share.into(),
                ],
            )
        }));
    }
    let title = match rows.len().saturating_sub(STREAMS) {
        0 => "Streams, per iteration".to_owned(),
        more => format!("Streams, per iteration; {more} more, which work less, are not listed"),
    };
    rows.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    rows.truncate(STREAMS);
    let mut table = Table::new(title, columns);
    rows.into_iter().for_each(|(_, row)| table.row(row));
    table
}

/// `stream 7 of GPU 0`.
pub(super) fn name_of_stream(trace: &Trace, track: perf4sight_traces::TrackId) -> String {
    let track = &trace.tracks[track.index()];
    perf4sight_traces::shortened::cut(
        &format!("stream {} of GPU {}", track.thread.trim_start_matches("stream "), track.process),
        40,
    )
}
