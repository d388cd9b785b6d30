//! The tables of the replay: steps, the critical path, what communication costs, what changes would bring.

use crate::Analysis;
use crate::graph::WorkKind;
use crate::replayed_job::ReplayedJob;
use crate::simulate::CriticalShare;
use crate::what_if::WhatIfOutcome;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_traces::shortened::brief;
use std::collections::BTreeSet;

/// Rows of the critical path.
const ROWS: usize = 8;

pub(in crate::verb) fn console_tables(replayed: &ReplayedJob) -> Vec<Table> {
    vec![critical(replayed), what_ifs(replayed)]
}

fn milliseconds(nanoseconds: f64) -> Milliseconds {
    Milliseconds(nanoseconds / 1e6)
}

/// Each step as recorded, as graphs predict it that were built without it, and replayed with its own durations.
pub(in crate::verb) fn steps(analysis: &Analysis, replayed: &ReplayedJob) -> Table {
    let columns = [
        TableColumn::text("step", "step"),
        TableColumn::number("recorded_ms", "recorded"),
        TableColumn::number("predicted_ms", "predicted without it"),
        TableColumn::number("error_percent", "difference"),
        TableColumn::number("under_load_error_percent", "with its load"),
        TableColumn::number("replayed_ms", "replayed with its own durations"),
        TableColumn::number("replayed_error_percent", "difference of that"),
    ];
    let mut table = Table::new("Each step, recorded, predicted and replayed", columns);
    for step in &replayed.steps {
        let left_out = replayed.left_out.iter().find(|one| one.step == step.step);
        table.row([
            analysis.job.steps[step.step].name.as_str().into(),
            milliseconds(step.recorded as f64).into(),
            left_out.map(|one| milliseconds(one.predicted as f64)).into(),
            left_out.map(|one| Percent(one.error())).into(),
            left_out.map(|one| Percent(one.error_under_load())).into(),
            milliseconds(step.replayed() as f64).into(),
            Percent(step.error()).into(),
        ]);
    }
    table
}

/// The time on the critical path by rank and kind.
pub(in crate::verb) fn critical(replayed: &ReplayedJob) -> Table {
    let columns = [
        TableColumn::text("what", "what"),
        TableColumn::number("rank", "rank"),
        TableColumn::number("time_ms", "takes"),
        TableColumn::number("percent", "share"),
    ];
    let mut table = Table::new("The critical path of the replayed step", columns);
    for share in replayed.critical.iter().take(ROWS) {
        table.row([
            kind(share.kind).into(),
            rank(share),
            milliseconds(share.time as f64).into(),
            Percent(100.0 * share.time as f64 / replayed.typical.max(1) as f64).into(),
        ]);
    }
    table
}

/// The operations on the critical path: how much shorter the step gets with each, as long as the path stays.
pub(in crate::verb) fn names(replayed: &ReplayedJob) -> Table {
    let columns = [TableColumn::text("name", "operation"), TableColumn::number("time_ms", "on the critical path")];
    let mut table = Table::new("Operations on the critical path", columns);
    for (name, time) in replayed.names.iter().take(2 * ROWS) {
        table.row([brief(name).into(), milliseconds(*time as f64).into()]);
    }
    table
}

fn rank(share: &CriticalShare) -> Cell {
    share.rank.map(u64::from).into()
}

pub(in crate::verb) fn kind(kind: WorkKind) -> &'static str {
    match kind {
        WorkKind::Start => "later start",
        WorkKind::Backlog => "kernels of earlier steps",
        WorkKind::Operation => "operations on the CPU",
        WorkKind::Gap => "nothing recorded: Python, delays",
        WorkKind::Kernel => "kernels and copies",
        WorkKind::Launch => "launch of exchanges",
        WorkKind::Transfer => "transfer",
        WorkKind::Wait => "end of exchanges",
    }
}

/// What each scenario brings, to one step or each to its own.
pub(in crate::verb) fn what_ifs(replayed: &ReplayedJob) -> Table {
    let befores: BTreeSet<u64> = replayed.answered_scenarios().map(|(_, outcome)| outcome.before).collect();
    let is_one = befores.len() < 2;
    let title = match befores.first().filter(|_| is_one) {
        Some(step) => format!("What changes would bring to a step of {}", milliseconds(*step as f64)),
        None => "What changes would bring".to_owned(),
    };
    let columns = [
        Some(TableColumn::text("what_if", "what if")),
        Some(TableColumn::number("step_ms", "replayed step")),
        Some(TableColumn::number("low_ms", "95 % from")),
        Some(TableColumn::number("high_ms", "to")),
        (!is_one).then(|| TableColumn::number("before_ms", "instead of")),
        Some(TableColumn::number("change_percent", "change")),
        Some(TableColumn::text("critical", "then most on the critical path")),
    ];
    let mut table = Table::new(title, columns.into_iter().flatten());
    for (text, outcome) in &replayed.what_ifs {
        let before = |cell: Cell| (!is_one).then_some(cell);
        let cells: [Option<Cell>; 6] = match outcome {
            Ok(outcome) => {
                let [time, low, high] =
                    [outcome.after.time, outcome.after.low, outcome.after.high].map(|time| milliseconds(time).into());
                let change = Percent(100.0 * (outcome.after.time / outcome.before.max(1) as f64 - 1.0));
                let before = before(milliseconds(outcome.before as f64).into());
                [Some(time), Some(low), Some(high), before, Some(change.into()), Some(most_critical(outcome))]
            }
            Err(why) => {
                let why = why.to_string().lines().next().map(|line| format!("cannot be asked: {line}"));
                let missing = || Some(Cell::Missing);
                [
                    missing(),
                    missing(),
                    missing(),
                    before(Cell::Missing),
                    missing(),
                    Some(why.unwrap_or_default().into()),
                ]
            }
        };
        table.row([Cell::from(text.as_str())].into_iter().chain(cells.into_iter().flatten()));
    }
    table
}

/// What is then most on the critical path.
fn most_critical(outcome: &WhatIfOutcome) -> Cell {
    let most = outcome.critical.first().map_or(String::new(), |share| match share.rank {
        Some(rank) => format!("{} of rank {rank}", kind(share.kind)),
        None => kind(share.kind).to_owned(),
    });
    most.into()
}

/// What communication costs, by group.
pub(in crate::verb) fn communication(replayed: &ReplayedJob) -> Table {
    let columns = [
        TableColumn::text("group", "group"),
        TableColumn::number("gigabits", "Gb/s"),
        TableColumn::number("gigabits_low", "95 % from"),
        TableColumn::number("gigabits_high", "to"),
        TableColumn::number("latency_ms", "a message"),
        TableColumn::text("latency_is", "which is"),
    ];
    let mut table = Table::new("What communication costs", columns);
    for (name, cost) in replayed.groups.iter().zip(&replayed.communication.groups) {
        let Some(cost) = cost else { continue };
        // Nanoseconds per byte to gigabits a second.
        let rate = |per_byte: f64| if per_byte > 0.0 { Cell::from(8.0 / per_byte) } else { Cell::Missing };
        table.row([
            name.as_str().into(),
            rate(cost.per_byte.value),
            rate(cost.per_byte.high),
            rate(cost.per_byte.low),
            milliseconds(cost.latency.value).into(),
            if cost.unknown_latency.is_none() { "fitted" } else { "assumed" }.into(),
        ]);
    }
    table
}

/// Each rank's part of the typical step.
pub(in crate::verb) fn ranks(replayed: &ReplayedJob) -> Table {
    let columns = [
        TableColumn::number("rank", "rank"),
        TableColumn::number("step_ms", "own step"),
        TableColumn::number("low_ms", "9 in 10 from"),
        TableColumn::number("high_ms", "to"),
    ];
    let mut table = Table::new("The replayed step by rank", columns);
    for one in &replayed.ranks {
        let [low, high] = one.interval.map(milliseconds);
        table.row([u64::from(one.rank).into(), milliseconds(one.time).into(), low.into(), high.into()]);
    }
    table
}

/// What changes would bring by a replay of one rank by itself, which takes waiting for communication.
pub(in crate::verb) fn single_rank_table(replayed: &ReplayedJob) -> Table {
    let columns = [
        TableColumn::text("what_if", "what if"),
        TableColumn::number("step_ms", "replayed step"),
        TableColumn::number("alone_ms", "by one rank alone"),
        TableColumn::number("difference_percent", "difference"),
    ];
    let mut table = Table::new("The same by a replay of one rank, as Daydream's", columns);
    for (text, outcome) in replayed.answered_scenarios() {
        let Some(alone) = outcome.alone else { continue };
        let difference = Percent(100.0 * (alone / outcome.after.time.max(1.0) - 1.0));
        table.row([
            text.into(),
            milliseconds(outcome.after.time).into(),
            milliseconds(alone).into(),
            difference.into(),
        ]);
    }
    table
}
