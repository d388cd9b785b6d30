//! The tables of an analysis: ranks, who waits for whom, what the straggler does longer, communication by kind.

pub(in crate::verb) mod replayed;

use crate::Analysis;
use crate::waiting::ActivityExcess;
use perf4sight_base::summary::ValueSummary;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_traces::shortened::brief;

/// Ranks with a row, those that the others wait for longest first if there are more.
const RANKS: usize = 32;
/// Rows of what a straggler does longer.
const EXCESS: usize = 5;
/// Pairs of ranks with a row.
const PAIRS: usize = 20;

/// Milliseconds to which ends of exchanges show a clock at best: kernels of one exchange end within microseconds of each other.
const SUREST: f64 = 0.001;

/// All tables for the console.
pub(in crate::verb) fn console_tables(analysis: &Analysis) -> Vec<Table> {
    let tables = [ranks(analysis), pairs(analysis), excess(analysis), communication(analysis)];
    tables.into_iter().filter(|table| !table.is_empty()).collect()
}

/// A row for each rank.
pub(in crate::verb) fn ranks(analysis: &Analysis) -> Table {
    let clocks = &analysis.clocks.ranks;
    let drifts = clocks.iter().any(|clock| clock.drift.is_some());
    let drift = drifts.then(|| TableColumn::number("clock_drift_us_per_s", "drifts, µs/s"));
    let columns = [
        TableColumn::number("rank", "rank"),
        TableColumn::number("steps", "steps"),
        TableColumn::number("step_ms", "own step"),
        TableColumn::number("waits_ms", "waits"),
        TableColumn::number("waited_for_ms", "others wait"),
        TableColumn::number("exposed_ms", "exposed"),
        TableColumn::number("hidden_ms", "hidden"),
        TableColumn::number("clock_ms", "clock off"),
        TableColumn::number("clock_sure_ms", "± (95 %)"),
    ];
    let is_one = clocks.len() > 1 && clocks.iter().all(|clock| clock.is_first);
    let title = if is_one { "By rank, per step, on the one clock of their host" } else { "By rank, per step" };
    let mut table = Table::new(title, columns.into_iter().chain(drift));
    let mut shown: Vec<usize> = analysis.stragglers.iter().map(|straggler| straggler.rank).take(RANKS).collect();
    shown.sort_unstable();
    for rank in shown {
        let clock = &clocks[rank];
        let communication = analysis.exposed[rank].all;
        let half = clock
            .interval
            .filter(|_| !clock.is_first)
            .map(|[low, high]| Milliseconds(((high - low) / 2e6).max(SUREST)));
        let drift = || clock.drift.map_or(Cell::Missing, |drift| Cell::Float(1e6 * drift.rate));
        let known = |cell: Cell| if analysis.is_waiting_known() { cell } else { Cell::Missing };
        let row = [
            u64::from(analysis.job.ranks[rank].number).into(),
            (analysis.job.steps.len() as u64).into(),
            mean(ValueSummary::compute(&analysis.steps(rank))),
            known(mean(analysis.waiting_summary(rank))),
            known(mean(caused_waiting(analysis, rank))),
            Milliseconds(communication.exposed).into(),
            Milliseconds(communication.hidden).into(),
            Milliseconds(clock.offset / 1e6).into(),
            half.into(),
        ];
        table.row(row.into_iter().chain(drifts.then(drift)));
    }
    table
}

fn mean(summary: Option<ValueSummary>) -> Cell {
    summary.map(|summary| Milliseconds(summary.mean)).into()
}

fn caused_waiting(analysis: &Analysis, rank: usize) -> Option<ValueSummary> {
    Some(analysis.stragglers.iter().find(|straggler| straggler.rank == rank)?.caused)
}

/// Who waits for whom, the longest waiting first.
pub(in crate::verb) fn pairs(analysis: &Analysis) -> Table {
    let columns = [
        TableColumn::number("rank", "rank"),
        TableColumn::number("for_rank", "waits for rank"),
        TableColumn::number("mean_ms", "mean"),
        TableColumn::number("low_ms", "95 % from"),
        TableColumn::number("high_ms", "to"),
        TableColumn::number("percent", "of the mean step"),
    ];
    let mut table = Table::new("Who waits for whom, per step", columns);
    let length = analysis.step().map_or(0.0, |step| step.mean);
    let ranks = 0..analysis.job.ranks.len();
    let pairs = ranks.clone().flat_map(|rank| ranks.clone().map(move |other| (rank, other)));
    let waits = pairs.filter(|(rank, other)| rank != other);
    let mut waits: Vec<(usize, usize, ValueSummary)> =
        waits.filter_map(|(rank, other)| Some((rank, other, analysis.waiting.summary(rank, other)?))).collect();
    waits.retain(|(_, _, wait)| wait.mean > 0.0);
    waits.sort_by(|one, other| other.2.mean.total_cmp(&one.2.mean));
    for (rank, other, wait) in waits.into_iter().take(PAIRS) {
        let (low, high) = wait.interval.map(|[low, high]| (Milliseconds(low), Milliseconds(high))).unzip();
        let number = |rank: usize| u64::from(analysis.job.ranks[rank].number);
        let share = (length > 0.0).then(|| Percent(100.0 * wait.mean / length));
        table.row([
            number(rank).into(),
            number(other).into(),
            Milliseconds(wait.mean).into(),
            low.into(),
            high.into(),
            share.into(),
        ]);
    }
    table
}

/// What the first straggler does longer than the other ranks.
pub(in crate::verb) fn excess(analysis: &Analysis) -> Table {
    let columns = [
        TableColumn::text("activity", "what"),
        TableColumn::text("kind", "which is"),
        TableColumn::number("own_ms", "takes"),
        TableColumn::number("others_ms", "on others"),
        TableColumn::number("longer_ms", "longer"),
    ];
    let first = analysis.first_straggler();
    let number = first.map_or(0, |straggler| analysis.job.ranks[straggler.rank].number);
    let steps = match first.filter(|straggler| straggler.on_occasions) {
        Some(straggler) if straggler.occasions.len() == 1 => "in the step in which they wait for it".to_owned(),
        Some(straggler) => format!("in each of the {} steps in which they wait for it", straggler.occasions.len()),
        None => "per step".to_owned(),
    };
    let mut table = Table::new(format!("What rank {number} does longer than the others, {steps}"), columns);
    for one in first.into_iter().flat_map(|straggler| &straggler.excess).take(EXCESS) {
        table.row([
            brief(&one.activity.name()).into(),
            one.activity.kind().into(),
            Milliseconds(one.own).into(),
            on_others(one),
            Milliseconds(one.longer()).into(),
        ]);
    }
    table
}

/// How long others take for what a rank takes longer: where they differ, from which one to which.
fn on_others(one: &ActivityExcess) -> Cell {
    let [low, high] = one.others_between.map(Milliseconds);
    match one.do_others_differ() {
        true => format!("{low} – {high}").into(),
        false => Milliseconds(one.others).into(),
    }
}

/// Communication of each rank by group and kind.
pub(in crate::verb) fn communication(analysis: &Analysis) -> Table {
    let columns = [
        TableColumn::number("rank", "rank"),
        TableColumn::text("group", "group"),
        TableColumn::text("operation", "exchange"),
        TableColumn::number("count", "per step"),
        TableColumn::number("exposed_ms", "exposed"),
        TableColumn::number("waiting_ms", "of which waiting"),
        TableColumn::number("hidden_ms", "hidden"),
    ];
    let mut table = Table::new("Communication per step: exposed, and hidden behind computation", columns);
    let ranks = analysis.job.ranks.iter().zip(&analysis.exposed);
    for (rank, one) in ranks.flat_map(|(rank, own)| own.kinds.iter().map(move |one| (rank, one))).take(RANKS) {
        table.row([
            u64::from(rank.number).into(),
            one.group.as_str().into(),
            one.operation.label().into(),
            one.count.into(),
            Milliseconds(one.times.exposed).into(),
            one.known.then_some(Milliseconds(one.times.waiting)).into(),
            Milliseconds(one.times.hidden).into(),
        ]);
    }
    table
}
