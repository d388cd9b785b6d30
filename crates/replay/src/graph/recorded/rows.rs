//! What one rank did in one step: rows with their end times, in the order of each thread and stream.

use super::{backward, dependencies, issuing, passes, streams, threads};
use crate::clocks::RankClocks;
use crate::collectives::RankExchanges;
use crate::graph::{CallId, CallTable, EdgeKind, WorkKind};
use crate::ranks::{JobRank, TrainingJob};
use perf4sight_traces::{TraceEvent, TrackId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// A piece of work of a thread or stream that ends at a time of the job's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkRow {
    pub call: CallId,
    pub kind: WorkKind,
    pub end: i64,
}

/// Nanoseconds that moments which are the same may be apart in any trace: begin and duration are rounded each on its own, and once more where the
/// profiler or the alignment of ranks converts a clock. In all steps nothing ends so close by chance.
const ROUNDED: i64 = 10;

/// A rank's rows of one step.
#[derive(Debug, Default)]
pub(super) struct RankStep {
    /// When the step begins, in nanoseconds of the job's clock.
    pub start: i64,
    /// Nanoseconds that times in its trace are multiples of.
    pub unit: i64,
    pub rows: Vec<WorkRow>,
    /// The rows of each thread and stream.
    pub tracks: Vec<(TrackId, Range<usize>)>,
    /// Gradients that are put into buckets.
    pub gradients: Vec<GradientRow>,
    /// Backward passes whose gradients are not reduced, beside those that are.
    pub silent_passes: usize,
    /// Rows before the copies out of buckets.
    pub copies: Vec<usize>,
    /// Which rows wait for others, as the trace and the code of PyTorch say: kernels for their launch, threads and streams for streams, backward
    /// operations for their forward operation on another thread, and what depends on something.
    pub edges: Vec<RowEdge>,
    /// Rows that end launches which waited for room in the queue of a GPU, and nanoseconds that they waited.
    pub held: Vec<(usize, i64)>,
    /// The rank's parts in exchanges, by the number of the exchange in the step.
    pub parts: HashMap<usize, PartRows>,
}

/// A row, by index, that waits for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowEdge {
    /// The row at whose end what is waited for is done.
    pub awaited: usize,
    /// The row that ends no earlier.
    pub waiting: usize,
    pub kind: EdgeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GradientRow {
    /// The row at whose end it is in its bucket.
    pub row: usize,
    pub bytes: u64,
    /// The number of its backward pass among those that reduce.
    pub pass: u32,
}

/// A rank's part in an exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRows {
    /// The row at whose end the rank takes part.
    pub launch: usize,
    /// The row that waits for the result; for CPUs it is found later.
    pub wait: Option<usize>,
    /// When the library begins it on the rank, in nanoseconds of the job's clock.
    pub begin: i64,
    /// When the rank has the result.
    pub end: i64,
    /// The rows of the call that enqueues it.
    pub issuing: (usize, usize),
}

impl RankStep {
    /// Nanoseconds that moments which are the same may be apart.
    pub fn rounding(&self) -> i64 {
        self.unit.max(ROUNDED)
    }

    /// The index of the last row of a track that ends no later than a moment.
    pub fn last_row_before(&self, track: TrackId, moment: i64) -> Option<usize> {
        let (_, rows) = self.tracks.iter().find(|(id, _)| *id == track)?;
        let within = self.rows[rows.clone()].partition_point(|row| row.end <= moment);
        within.checked_sub(1).map(|within| rows.start + within)
    }

    /// The last work of a stream that ended no later than a moment.
    pub fn done_by(&self, stream: TrackId, moment: i64) -> Option<usize> {
        let last = self.last_row_before(stream, moment)?;
        let is_work = |row: &usize| self.rows[*row].kind != WorkKind::Gap;
        Some(last).filter(is_work).or_else(|| last.checked_sub(1).filter(is_work))
    }

    /// The stream on which a thread launched last before one of its rows.
    pub fn launched_on(&self, row: usize) -> Option<TrackId> {
        let (_, thread) = &self.tracks[self.track_of(row)?];
        let before = self.launches().filter(|launch| (thread.start..row).contains(&launch.awaited));
        let last = before.max_by_key(|launch| launch.awaited)?;
        self.track_of(last.waiting).map(|track| self.tracks[track].0)
    }

    /// Kernels: the row before each waits for that of the thread which launched it.
    pub fn launches(&self) -> impl Iterator<Item = &RowEdge> {
        self.edges.iter().filter(|edge| edge.kind == EdgeKind::Launch)
    }

    /// Whether a track is a stream.
    pub fn is_stream(&self, track: usize) -> bool {
        let rows = &self.rows[self.tracks[track].1.clone()];
        rows.iter().any(|row| matches!(row.kind, WorkKind::Kernel | WorkKind::Wait | WorkKind::Backlog))
    }

    /// The first row of a track: of a stream, the work of earlier steps.
    pub fn first_of(&self, track: TrackId) -> Option<usize> {
        self.tracks.iter().find(|(id, _)| *id == track).map(|(_, rows)| rows.start)
    }

    /// The last row of a track that ends no later than a moment; the first one of several that end together, for that is of the innermost call.
    pub fn ending(&self, track: TrackId, moment: i64) -> Option<usize> {
        let last = self.last_row_before(track, moment)?;
        let (_, rows) = self.tracks.iter().find(|(id, _)| *id == track)?;
        let first = self.rows[rows.clone()].partition_point(|row| row.end < self.rows[last].end);
        Some(rows.start + first)
    }

    /// The rows of a call of a thread: the first, and the one after the last.
    pub fn of_call(&self, call: &TraceEvent) -> Option<(usize, usize)> {
        let after =
            |moment| self.last_row_before(call.track, moment).map(|row| row + 1).or_else(|| self.first_of(call.track));
        after(call.start).zip(after(call.end()))
    }

    /// The index of the row of a track during which a moment is, if one ends after it.
    pub fn row_during(&self, track: usize, moment: i64) -> Option<usize> {
        let (_, rows) = &self.tracks[track];
        let within = self.rows[rows.clone()].partition_point(|row| row.end <= moment);
        (within < rows.len()).then_some(rows.start + within)
    }

    /// When a row of a track begins: at the end of the one before it.
    pub fn begin_of(&self, track: usize, row: usize) -> i64 {
        let before = row.checked_sub(1).filter(|before| self.tracks[track].1.contains(before));
        before.map_or(self.start, |before| self.rows[before].end)
    }

    /// The index in `tracks` of the track that a row is on.
    pub fn track_of(&self, row: usize) -> Option<usize> {
        self.tracks.iter().position(|(_, rows)| rows.contains(&row))
    }

    /// A number that is equal for steps with the same operations in the same order.
    pub fn signature(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.tracks.iter().for_each(|(track, rows)| (track, rows.len()).hash(&mut hasher));
        self.rows.iter().for_each(|row| (row.call, row.kind).hash(&mut hasher));
        self.parts.len().hash(&mut hasher);
        hasher.finish()
    }

    /// Nanoseconds of the step on the thread or stream on which it takes longest: from its begin, or from the end of earlier work there.
    pub fn time(&self) -> u64 {
        let of_track = |(_, rows): &(TrackId, Range<usize>)| {
            let rows = &self.rows[rows.clone()];
            let backlog = rows.first().filter(|row| row.kind == WorkKind::Backlog);
            let end = rows.iter().map(|row| row.end).max().unwrap_or(self.start);
            end - backlog.map_or(self.start, |row| row.end)
        };
        self.tracks.iter().map(of_track).max().unwrap_or(0).max(0) as u64
    }
}

/// What all ranks did in a step of the job.
pub(super) fn read(
    job: &TrainingJob,
    exchanges: &RankExchanges,
    clocks: &RankClocks,
    step: usize,
    calls: &mut CallTable,
) -> Vec<RankStep> {
    let of_step = exchanges.all.iter().filter(|exchange| exchange.step == Some(step)).enumerate();
    let parts = of_step.flat_map(|(number, exchange)| exchange.parts.iter().map(move |part| (number, *part)));
    let parts: Vec<(usize, crate::collectives::ExchangePart)> = parts.collect();
    let rank = |(place, rank): (usize, &JobRank)| {
        let window = rank.steps[job.steps[step].of[place]].window;
        let mut rows = RankStep { start: window.0, unit: rank.trace.unit(), ..RankStep::default() };
        let own = parts.iter().filter(|(_, part)| part.rank == place);
        let own: Vec<(usize, &crate::collectives::CollectiveCall)> =
            own.map(|(number, part)| (*number, exchanges.call(*part))).collect();
        threads::read(rank, window, calls, &mut rows);
        streams::read(rank, window, &own, calls, &mut rows);
        issuing::read_parts(rank, &own, calls, &mut rows);
        passes::mark(&mut rows, rank.main, &own, calls);
        dependencies::read(rank, window, &own, &mut rows);
        rows.edges.extend(backward::edges(&rank.trace, window, &rows));
        to_common_clock(&mut rows, |moment| clocks.common(place, moment));
        rows
    };
    job.ranks.iter().enumerate().map(rank).collect()
}

/// Moves all times from the rank's clock to the job's.
fn to_common_clock(rows: &mut RankStep, common: impl Fn(i64) -> i64) {
    rows.start = common(rows.start);
    rows.rows.iter_mut().for_each(|row| row.end = common(row.end));
    for part in rows.parts.values_mut() {
        [part.begin, part.end] = [part.begin, part.end].map(&common);
    }
}
