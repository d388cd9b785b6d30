//! Infers what threads and streams waited for, from several steps: what is true in all of them.

use super::assembly::{AlikeSteps, of_rank};
use super::joins::{self, ThreadJoin};
use super::rows::{RankStep, RowEdge};
use crate::graph::{CallTable, EdgeKind, WorkKind};
use perf4sight_base::stats::median;
use std::collections::{BTreeMap, HashMap};

/// Shorter gaps are no waiting, in nanoseconds: a context switch of Linux takes some microseconds.
pub(super) const SHORTEST: i64 = 10_000;
/// A thread that waits for an exchange goes on up to this many nanoseconds before the range of the library ends: the
/// library wakes it up and closes its range, for which it may have to wait for a processor. Up to 6 ms were seen where
/// ranks and other programs shared two processors.
const WAKE_UP: i64 = 10_000_000;
/// The share of the steps in which the same row of its thread has to be the longest before the end of an exchange, for the
/// row to be the wait for it. Which row is the longest differs from step to step unless the thread waits.
pub(super) const CONSISTENT: f64 = 0.8;

/// A row that ends when less than this share of an exchange has passed does not wait for it, however late the library closes its range.
const LEAST_PASSED: f64 = 0.25;

/// The operators of PyTorch that compute wait for no exchange: those of `c10d` do, and what is around both.
const COMPUTES: &str = "aten::";
/// Fewer steps in which a rank waits are chance.
const FEWEST: usize = 2;
/// The share of the steps in which a row has to go on at the end of an exchange, to be the wait for it where several
/// exchanges end within [`WAKE_UP`]. In 13 recordings of eight steps of gloo on two processors, one
/// row that was no wait went on at the end in three of eight steps; a later row is preferred.
const AT_END: f64 = 0.3;
/// A thread that waits and gets a processor at once goes on within so many nanoseconds of the end of an exchange: most took less than 100 us.
pub(super) const PROMPT: i64 = 200_000;
/// The part of a row that this may be, for it to show by itself that the row waits: short operations end as soon after an exchange by chance.
const PROMPT_SHARE: f64 = 0.1;

/// Whether a row ended before another in all steps, but for rounding.
pub(super) fn always_ends_before(steps: &[&RankStep], from: usize, to: usize) -> bool {
    steps.iter().all(|step| step.rows[from].end <= step.rows[to].end + step.rounding())
}

/// Gaps, which wait for the last row of another thread or stream that ended during them.
pub(super) fn between_tracks(reference: &RankStep, steps: &[&RankStep]) -> Vec<RowEdge> {
    let launches: HashMap<usize, usize> = reference.launches().map(|edge| (edge.waiting, edge.awaited)).collect();
    let streams: Vec<bool> = (0..reference.tracks.len()).map(|track| reference.is_stream(track)).collect();
    let ends = [false, true].map(|of_streams| ends_of_work(reference, |track| streams[track] == of_streams));
    let mut found = Vec::new();
    for (track, (_, range)) in reference.tracks.iter().enumerate() {
        for row in range.clone().filter(|row| reference.rows[*row].kind == WorkKind::Gap) {
            let known = reference.begin_of(track, row);
            let known = launches.get(&row).map_or(known, |launch| reference.rows[*launch].end.max(known));
            if reference.rows[row].end - known < SHORTEST {
                continue;
            }
            let ends = &ends[usize::from(streams[track])];
            let until = ends.partition_point(|(end, ..)| *end <= reference.rows[row].end + reference.rounding());
            let during = ends[..until].iter().rev().take_while(|(end, ..)| *end > known);
            let others: Vec<(i64, usize)> =
                during.filter(|(_, of, _)| *of != track).map(|(end, _, other)| (*end, *other)).collect();
            // Of works of streams that end nearly together in this step, one that is late in another is not waited for. Threads do so much in that time
            // that some of it holds by chance.
            let latest = others.first().map_or(0, |(end, _)| *end);
            let together = if streams[track] { SHORTEST } else { 1 };
            let mut close = others.into_iter().take_while(|(end, _)| latest - end < together);
            let awaited = close.find(|(_, other)| always_ends_before(steps, *other, row)).map(|(_, other)| other);
            found.extend(awaited.map(|awaited| RowEdge { awaited, waiting: row, kind: EdgeKind::Synchronisation }));
        }
    }
    found
}

/// The ends of the work of some tracks in order, also of earlier steps, each with its track and row.
fn ends_of_work(step: &RankStep, is_wanted: impl Fn(usize) -> bool) -> Vec<(i64, usize, usize)> {
    let tracks = step.tracks.iter().enumerate().filter(|(track, _)| is_wanted(*track));
    let work = tracks.flat_map(|(track, (_, rows))| rows.clone().map(move |row| (step.rows[row].end, track, row)));
    let mut ends: Vec<(i64, usize, usize)> = work.filter(|(.., row)| step.rows[*row].kind != WorkKind::Gap).collect();
    ends.sort_unstable();
    ends
}

/// The rows of a rank's threads that wait for exchanges, by the number of the exchange in the step: those that are the
/// longest before its end in nearly all steps, or go on at its end in several; for others the row that waits for the next exchange that has one, since results
/// are waited for in order, or the row of another thread that waits until the launching one and its exchanges are done.
pub(super) fn for_exchanges(
    steps: &AlikeSteps<'_>,
    rank: usize,
    joins: &[ThreadJoin],
    calls: &CallTable,
) -> BTreeMap<usize, usize> {
    let Some((_, first)) = steps.first() else { return BTreeMap::new() };
    let first = &first[rank];
    let own_steps = of_rank(steps, rank);
    let mut numbers: Vec<usize> = first.parts.keys().copied().collect();
    numbers.sort_unstable();
    let mut waits = BTreeMap::new();
    let mut next = BTreeMap::new();
    for number in numbers.into_iter().rev() {
        // An exchange may have ended before the call that enqueued it returned: nothing waits for it.
        let launch = first.parts[&number].launch;
        let track = first.track_of(launch);
        let join = joins.iter().find(|join| Some(join.track) == track);
        let waits_for_it = |row: &usize| {
            !computes(first, *row, calls)
                && ends_with_exchange(steps, rank, number, *row)
                && !goes_on_elsewhere(steps, rank, number, *row, calls)
        };
        let waiting = rows_before_end(steps, rank, number).into_iter().find(waits_for_it);
        // What the launching thread did last before it was done is no wait for an exchange that goes on.
        let waiting = waiting.filter(|_| join.is_none_or(|join| !joins::outlasts(&own_steps, number, join.track)));
        let on_thread = waiting.or(next.get(&track).copied()).filter(|row| *row > launch);
        next.extend(on_thread.map(|row| (track, row)));
        waits.extend(on_thread.or(join.map(|join| join.row)).map(|row| (number, row)));
    }
    waits
}

/// Whether a row is of an operator that computes.
pub(super) fn computes(step: &RankStep, row: usize, calls: &CallTable) -> bool {
    calls.name(step.rows[row].call).starts_with(COMPUTES)
}

/// Rows of the launching thread that may wait for an exchange, the likeliest first: the one that is the longest before its end in nearly all steps, or in nearly
/// all of the time that the rank has to wait long, where another one is late now and then, which need not be in most steps; and the one that goes on at its end,
/// which is not the longest where work that takes longer than the wait is done less than [`WAKE_UP`] before.
fn rows_before_end(steps: &AlikeSteps<'_>, rank: usize, number: usize) -> Vec<usize> {
    let longest = |ranks: &[RankStep]| {
        let step = &ranks[rank];
        let part = step.parts.get(&number)?;
        let from = step.rows[part.launch].end.max(part.end - WAKE_UP);
        Some(step.track_of(part.launch).and_then(|track| longest_within(step, track, from, part.end)))
    };
    let rows: Option<Vec<Option<usize>>> = steps.iter().map(|(_, ranks)| longest(ranks)).collect();
    let Some(rows) = rows else { return Vec::new() };
    let of_late = || {
        let waits = steps.iter().map(|(_, ranks)| lateness_of_last_rank(ranks, rank, number));
        let late: Vec<(Option<usize>, i64)> =
            rows.iter().copied().zip(waits).filter(|(_, wait)| *wait > WAKE_UP).collect();
        (late.len() >= FEWEST).then(|| of_most_time(&late)).flatten()
    };
    [consistent(&rows), of_late(), at_its_end(steps, rank, number)].into_iter().flatten().collect()
}

/// Whether a row ends with an exchange that ends during it, or not long before it.
fn ends_with_exchange(steps: &AlikeSteps<'_>, rank: usize, number: usize, row: usize) -> bool {
    let times = |ranks: &[RankStep]| {
        let step = &ranks[rank];
        let end = step.parts.get(&number)?.end;
        let begin = step.begin_of(step.track_of(row)?, row);
        (begin < end).then(|| [step.rows[row].end - begin, step.rows[row].end - end])
    };
    ends_soon(&steps.iter().filter_map(|(_, ranks)| times(ranks)).collect::<Vec<_>>())
        && share_passed(steps, rank, number, row) >= LEAST_PASSED
}

/// How much of an exchange has usually passed on a rank when a row ends, as a share of the time that it takes there.
fn share_passed(steps: &AlikeSteps<'_>, rank: usize, number: usize, row: usize) -> f64 {
    let share = |ranks: &[RankStep]| {
        let step = &ranks[rank];
        let exchange = step.parts.get(&number)?;
        Some((step.rows[row].end - exchange.begin) as f64 / (exchange.end - exchange.begin).max(1) as f64)
    };
    median(&steps.iter().filter_map(|(_, ranks)| share(ranks)).collect::<Vec<_>>())
}

/// Whether the rank that is in an exchange for the longest time ends the same row when the exchange has hardly begun, so that no rank waits in it. The same row is as
/// many rows behind the launch, and of the same name.
fn goes_on_elsewhere(steps: &AlikeSteps<'_>, rank: usize, number: usize, row: usize, calls: &CallTable) -> bool {
    let Some((_, first)) = steps.first() else { return false };
    let time = |rank: &usize| first[*rank].parts.get(&number).map(|part| part.end - part.begin);
    let Some(other) = (0..first.len()).max_by_key(time).filter(|other| *other != rank) else { return false };
    let [own, there] = [rank, other].map(|rank| &first[rank]);
    let launches = [own, there].map(|step| step.parts.get(&number).map(|part| part.launch));
    let [Some(launch), Some(launch_there)] = launches else { return false };
    let Some(place) = (launch_there + row).checked_sub(launch) else { return false };
    let work = |step: &RankStep, row: usize| step.rows.get(row).map(|row| (row.kind, calls.name_id(row.call)));
    work(there, place) == work(own, row) && share_passed(steps, other, number, place) < LEAST_PASSED
}

/// Whether a row ends with something that ends during it, from how long it takes, and how much of that comes after the end: nearly nothing, or no more than
/// half, which differs less from step to step than the row does. What works takes equally long in each step, wherever in it the end is.
pub(super) fn ends_soon(times: &[[i64; 2]]) -> bool {
    let [whole, after] = [0, 1].map(|of| median(&times.iter().map(|times| times[of] as f64).collect::<Vec<_>>()));
    let [differ, differ_after] = [0, 1].map(|of| spread(times.iter().map(|times| times[of])));
    let is_prompt = after <= (PROMPT as f64).min(PROMPT_SHARE * whole);
    is_prompt || (after <= whole / 2.0 && differ >= differ_after)
}

/// The difference between the largest and the smallest.
fn spread(values: impl Iterator<Item = i64> + Clone) -> i64 {
    values.clone().max().unwrap_or(0) - values.min().unwrap_or(0)
}

/// The row of a thread at the end of an exchange.
struct RowAtEnd {
    /// A thread that is done is after all of its rows.
    row: usize,
    /// If it may wait: nanoseconds of the row, and after the end.
    waits: Option<[i64; 2]>,
}

impl RowAtEnd {
    fn find(step: &RankStep, number: usize) -> Option<Self> {
        let part = step.parts.get(&number)?;
        let track = step.track_of(part.launch)?;
        let Some(row) = step.row_during(track, part.end - 1) else {
            return Some(RowAtEnd { row: usize::MAX, waits: None });
        };
        let (begin, end) = (step.begin_of(track, row), step.rows[row].end);
        let waits = (part.end - begin >= SHORTEST && end - part.end <= PROMPT).then_some([end - begin, end - part.end]);
        Some(RowAtEnd { row, waits })
    }
}

/// The last row of the launching thread that goes on at the end of an exchange in several steps and ends right after it, if the row at the
/// end is an earlier one in most of the others. A thread that comes to the wait after the end is in an earlier row at the end, which differs from step to
/// step; in a later row it is only where the library closes its range late. A row that works is as long in each step, wherever in it an
/// exchange ends; one that waits ends with it.
fn at_its_end(steps: &AlikeSteps<'_>, rank: usize, number: usize) -> Option<usize> {
    // Only where, in most steps, another exchange ends within WAKE_UP.
    let crowded = steps.iter().filter(|(_, ranks)| is_crowded(&ranks[rank], number)).count();
    if 2 * crowded <= steps.len() {
        return None;
    }
    let all: Vec<RowAtEnd> =
        steps.iter().map(|(_, ranks)| RowAtEnd::find(&ranks[rank], number)).collect::<Option<_>>()?;
    let mut waits: BTreeMap<usize, Vec<[i64; 2]>> = BTreeMap::new();
    all.iter().for_each(|one| waits.entry(one.row).or_default().extend(one.waits));
    let enough = FEWEST.max((AT_END * all.len() as f64).ceil() as usize);
    let (wait, own) = waits.into_iter().rfind(|(_, own)| own.len() >= enough)?;
    let [differ, differ_after] = [0, 1].map(|of| spread(own.iter().map(|times| times[of])));
    let later = all.iter().filter(|one| one.row > wait).count();
    (later < own.len() && differ >= differ_after).then_some(wait)
}

/// Whether another exchange of the rank ends within [`WAKE_UP`]: the longest row before the end may be the wait for that one.
fn is_crowded(step: &RankStep, number: usize) -> bool {
    let Some(own) = step.parts.get(&number) else { return false };
    step.parts.iter().any(|(other, part)| *other != number && (part.end - own.end).abs() <= WAKE_UP)
}

/// Nanoseconds by which the last rank takes part in an exchange later than this one.
fn lateness_of_last_rank(ranks: &[RankStep], rank: usize, number: usize) -> i64 {
    let launched = |own: &RankStep| own.parts.get(&number).map(|part| own.rows[part.launch].end);
    let last = ranks.iter().filter_map(launched).max();
    last.zip(launched(&ranks[rank])).map_or(0, |(last, own)| last - own)
}

/// The row that is the longest in nearly all of some steps.
pub(super) fn consistent(rows: &[Option<usize>]) -> Option<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    rows.iter().flatten().for_each(|row| *counts.entry(*row).or_insert(0) += 1);
    let (row, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (count as f64 >= CONSISTENT * rows.len() as f64).then_some(row)
}

/// The row that is the longest in steps with nearly all of the waiting time. Where one step has to wait far longer than others, it shows the row best.
fn of_most_time(rows: &[(Option<usize>, i64)]) -> Option<usize> {
    let mut times: BTreeMap<usize, i64> = BTreeMap::new();
    rows.iter()
        .filter_map(|(row, time)| Some((row.as_ref()?, time)))
        .for_each(|(row, time)| *times.entry(*row).or_default() += time);
    let (row, time) = times.into_iter().max_by_key(|(_, time)| *time)?;
    let all: i64 = rows.iter().map(|(_, time)| time).sum();
    (time as f64 >= CONSISTENT * all as f64).then_some(row)
}

/// The longest row of a track that ends in a period or goes on at its end.
fn longest_within(step: &RankStep, track: usize, from: i64, until: i64) -> Option<usize> {
    let first = step.row_during(track, from)?;
    let rows = (first..step.tracks[track].1.end).take_while(|row| step.begin_of(track, *row) < until);
    rows.max_by_key(|row| step.rows[*row].end - step.begin_of(track, *row))
}

#[cfg(test)]
mod tests {
    use super::super::rows::{PartRows, WorkRow};
    use super::*;
    use crate::graph::CallTable;
    use perf4sight_traces::{Trace, Track};

    /// When exchanges that are all launched in the first millisecond end in each step, in microseconds.
    const ENDS: [[i64; 3]; 4] =
        [[3_000, 3_300, 9_000], [3_000, 8_700, 9_000], [8_400, 8_700, 9_000], [800, 8_700, 9_000]];

    /// A thread that launches three exchanges, works until 1 ms, and then waits for each; between the waits it works 10 us.
    fn step(ends: [i64; 3]) -> RankStep {
        let call = CallTable::default().intern("", None);
        let mut trace = Trace::default();
        let thread = || "1".to_owned();
        trace.tracks = vec![Track { process: thread(), thread: thread(), thread_name: None, process_name: None }];
        let mut now = 1_000;
        let mut times = vec![100, now];
        for end in ends {
            now = end.max(now);
            times.push(now);
            now += 10;
            times.push(now);
        }
        let kinds = [WorkKind::Gap, WorkKind::Operation].into_iter().cycle();
        let rows = times.into_iter().zip(kinds).map(|(end, kind)| WorkRow { call, kind, end: 1_000 * end });
        let mut step = RankStep { rows: rows.collect(), ..RankStep::default() };
        step.tracks = trace.track_ids().map(|track| (track, 0..step.rows.len())).collect();
        let part = |end: i64| PartRows { launch: 0, wait: None, begin: 0, end: 1_000 * end, issuing: (0, 0) };
        step.parts = ends.map(part).into_iter().enumerate().collect();
        step
    }

    /// Rows 2, 4 and 6 wait. Which is the longest of the last 10 ms differs: 6, 4, 2 and 4 before the end of the last exchange. It
    /// goes on at that end, where row 2 is done, in all steps; the first exchange ends during row 2 in three, and before the waits in one.
    #[test]
    fn exchanges_that_follow_each_other_fast_are_waited_for_one_by_one() {
        let steps = ENDS.map(|ends| [step(ends)]);
        let steps: Vec<(usize, &[RankStep])> = steps.iter().enumerate().map(|(nth, ranks)| (nth, &ranks[..])).collect();
        let mut calls = CallTable::default();
        calls.intern("", None);
        assert_eq!(for_exchanges(&steps, 0, &[], &calls), BTreeMap::from([(0, 2), (1, 4), (2, 6)]));
    }

    /// An exchange ends 3 ms, and a little more or less, before the end of an operation of 12 ms that begins when it is launched. What took 12 ms but ends with it
    /// waits, unless it computes.
    #[test]
    fn what_goes_on_after_the_end_of_an_exchange_works() {
        let wait = |name: &str, ends: [i64; 3]| {
            let mut calls = CallTable::default();
            let call = calls.intern(name, None);
            let steps = ends.map(|end| {
                let mut step = step([12_000; 3]);
                step.rows.truncate(3);
                step.tracks[0].1 = 0..3;
                step.rows.iter_mut().for_each(|row| row.call = call);
                step.parts =
                    [(0, PartRows { launch: 1, wait: None, begin: 0, end: 1_000 * end, issuing: (0, 0) })].into();
                [step]
            });
            let steps: Vec<(usize, &[RankStep])> =
                steps.iter().enumerate().map(|(nth, ranks)| (nth, &ranks[..])).collect();
            for_exchanges(&steps, 0, &[], &calls).remove(&0)
        };
        let [working, waiting] = [[9_000, 9_020, 8_990], [11_990, 11_950, 11_980]];
        assert_eq!(wait("c10d::wait", waiting), Some(2));
        assert_eq!([wait("mine::product", working), wait("aten::mm", waiting)], [None, None]);
    }

    /// A thread is done 15 us after an exchange of 135 us, or of 20 us, begins.
    #[test]
    fn what_ends_when_an_exchange_has_just_begun_does_not_wait_for_it() {
        let wait = |microseconds: i64| {
            let mut calls = CallTable::default();
            calls.intern("", None);
            let mut step = step([0; 3]);
            step.rows.truncate(2);
            step.tracks[0].1 = 0..2;
            let begin = step.rows[1].end - 15_000;
            let part = PartRows { launch: 0, wait: None, begin, end: begin + 1_000 * microseconds, issuing: (0, 0) };
            step.parts = [(0, part)].into();
            for_exchanges(&[(0, &[step][..])], 0, &[], &calls).remove(&0)
        };
        assert_eq!([135, 20].map(wait), [None, Some(1)]);
    }

    /// Rank 1 launches 8 ms after rank 0; both run for 0.3 ms, and the exchange ends then on rank 1. Rank 0 did not wait for it in that row, unless its row ends with the exchange, too.
    #[test]
    fn what_another_rank_does_not_wait_in_is_no_wait() {
        let wait = |end_on_first: i64| {
            let mut calls = CallTable::default();
            calls.intern("work", None);
            let rank = |launch: i64, end: i64| {
                let mut step = step([0; 3]);
                step.rows.truncate(3);
                step.tracks[0].1 = 0..3;
                step.rows.iter_mut().zip([launch - 50, launch, end]).for_each(|(row, end)| row.end = 1_000 * end);
                step.parts =
                    [(0, PartRows { launch: 1, wait: None, begin: 1_000 * launch, end: 9_300_000, issuing: (1, 1) })]
                        .into();
                step
            };
            let ranks = [rank(1_000, end_on_first), rank(9_000, 9_300)];
            for_exchanges(&[(0, &ranks[..])], 1, &[], &calls).remove(&0)
        };
        assert_eq!([1_300, 9_300].map(wait), [None, Some(2)]);
    }

    /// Rank 1 comes 600 ms late to an exchange in three steps of nine, and 15 ms in the others, in which the range of the library ends 8 ms after the thread that waited
    /// went on to work for as long: before its end the work is the longest row. Of the 1890 ms that the rank has to wait, the wait is the longest row in 1800.
    #[test]
    fn a_rank_that_is_late_now_and_then_shows_which_row_waits() {
        let steps: Vec<[RankStep; 2]> = (0..9)
            .map(|number| {
                let (late, wake_up) = if number % 3 == 2 { (600_000, 100) } else { (15_000, 8_000) };
                let [mut own, mut other] = [step([late; 3]), step([late; 3])];
                for (one, kept) in [(&mut own, 4), (&mut other, 2)] {
                    one.rows.truncate(kept);
                    one.tracks[0].1 = 0..kept;
                }
                own.rows[2].end = 1_000 * (late - wake_up);
                own.rows[3].end = 1_000 * (late + 20_000);
                other.rows[0].end = 1_000 * (late - 100);
                let part =
                    |end: i64, launch: usize| [(0, PartRows { launch, wait: None, begin: 0, end, issuing: (0, 0) })];
                own.parts = part(1_000 * late, 1).into();
                other.parts = part(1_000 * late, 0).into();
                [own, other]
            })
            .collect();
        let steps: Vec<(usize, &[RankStep])> = steps.iter().enumerate().map(|(nth, ranks)| (nth, &ranks[..])).collect();
        let mut calls = CallTable::default();
        calls.intern("", None);
        assert_eq!(for_exchanges(&steps, 0, &[], &calls), BTreeMap::from([(0, 2)]));
    }

    /// From 100.6 on for 50.6: rounded each, 101 and 51, which end at 152, 1 ns after what begins at 151.2, which is 151; and so on where a clock is converted.
    /// Eleven apart are not the same moment, unless the trace was rounded to more.
    #[test]
    fn what_ends_with_another_but_for_rounding_is_waited_for() {
        let call = CallTable::default().intern("gemm", None);
        let holds = |unit: i64, ends: [i64; 2]| {
            let rows = ends.map(|end| WorkRow { call, kind: WorkKind::Kernel, end }).to_vec();
            always_ends_before(&[&RankStep { unit, rows, ..RankStep::default() }], 0, 1)
        };
        for unit in [0, 1] {
            assert_eq!([[150, 151], [160, 150], [161, 150]].map(|ends| holds(unit, ends)), [true, true, false]);
        }
        assert_eq!([[1_150, 150], [1_151, 150]].map(|ends| holds(1_000, ends)), [true, false]);
    }
}
