//! Tables of the longest calls, by name.

use super::{TypicalIteration, milliseconds};
use crate::verb::run::TracedRun;
use crate::{CallCost, CallStacks, RankBreakdown, WorkCost, work_costs};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Block, Cell, Table, TableBuilder};
use perf4sight_traces::shortened::brief;
use perf4sight_traces::{EventCategory, RankTrace};

/// The number of lines of each table, and of each kind of call in the table of another rank.
const LINES: usize = 15;
const FEWER: usize = 6;
/// Lines with a smaller share of an iteration are left out.
const LEAST: f64 = 0.0005;
/// The largest number of ranks with a table, including the one shown in full.
const RANKS: usize = 8;

/// The kinds of calls, with the heading and title of their tables.
const KINDS: [(EventCategory, &str, &str); 3] = [
    (EventCategory::Python, "function", "The longest functions"),
    (EventCategory::Operator, "operator", "The longest operators"),
    (EventCategory::Runtime, "CUDA call", "The longest calls of the accelerator's runtime"),
];

/// The tables of the rank shown in full, and folded ones of the others.
pub(super) fn blocks(run: &TracedRun, typical: &TypicalIteration) -> Vec<Block> {
    let scale = CallScale::from_stacks(typical.stacks);
    let costs =
        KINDS.map(|(kind, one, title)| (typical.stacks.costs(kind), one, format!("{title}{}", typical.rank_suffix())));
    let some = costs.into_iter().filter(|(costs, ..)| !costs.is_empty());
    let mut blocks = vec![Block::Text(
        "Own time is the time in a call itself, as in the categories above; total time includes the calls that it makes. Both are per iteration. While the main thread waits for other threads, their calls count instead.".to_owned(),
    )];
    if !typical.ranked.trace.events.iter().any(|event| event.category == EventCategory::Python) {
        blocks.push(Block::Text("Calls of Python are not in the trace, so that its functions are unknown.".to_owned()));
    }
    blocks.extend(some.map(|(costs, one, title)| Block::Table(calls(&costs, one, title, scale))));
    let work = work_costs(&typical.ranked.trace, typical.rank);
    if !work.is_empty() {
        let title = format!("What accelerators work on longest{}", typical.rank_suffix());
        blocks.push(Block::Table(work_table(&work, title, scale)));
    }
    let others = run.ranks().filter(|(_, rank)| rank.rank != typical.rank.rank).take(RANKS - 1);
    blocks.extend(others.filter_map(|(ranked, rank)| other_calls_table(run, ranked, rank)).map(Block::Folded));
    blocks
}

#[derive(Clone, Copy)]
struct CallScale {
    window: f64,
    iterations: f64,
}

impl CallScale {
    fn from_stacks(stacks: &CallStacks) -> Self {
        CallScale { window: stacks.window as f64, iterations: stacks.iterations.max(1) as f64 }
    }

    fn time(self, nanoseconds: i64) -> Cell {
        Milliseconds(milliseconds(nanoseconds as f64 / self.iterations)).into()
    }

    fn share(self, nanoseconds: i64) -> Cell {
        (self.window > 0.0).then(|| Percent(100.0 * nanoseconds as f64 / self.window)).into()
    }

    fn calls(self, calls: u64) -> Cell {
        let calls = calls as f64 / self.iterations;
        if calls.fract() == 0.0 { Cell::Count(calls as u64) } else { calls.into() }
    }

    fn lines<T>(self, costs: &[T], time: fn(&T) -> i64) -> impl Iterator<Item = &T> {
        let some = move |cost: &&T| time(cost) as f64 >= LEAST * self.window;
        costs.iter().take(LINES).filter(some)
    }
}

fn calls(costs: &[CallCost], one: &str, title: String, scale: CallScale) -> Table {
    TableBuilder::new(title, scale.lines(costs, |cost| cost.total))
        .text("name", one, |cost| brief(&cost.name))
        .number("own_ms", "own time", |cost| scale.time(cost.own))
        .number("own_percent", "share", |cost| scale.share(cost.own))
        .number("total_ms", "total time", |cost| scale.time(cost.total))
        .number("total_percent", "share", |cost| scale.share(cost.total))
        .number("calls", "calls", |cost| scale.calls(cost.calls))
        .table()
}

fn work_table(costs: &[WorkCost], title: String, scale: CallScale) -> Table {
    let each = |cost: &WorkCost| Milliseconds(milliseconds(cost.total as f64 / cost.calls.max(1) as f64));
    TableBuilder::new(title, scale.lines(costs, |cost| cost.total))
        .text("name", "kernel", |cost| brief(&cost.name))
        .text("work", "of", |cost| cost.work.name())
        .number("total_ms", "time", |cost| scale.time(cost.total))
        .number("total_percent", "share", |cost| scale.share(cost.total))
        .number("calls", "times", |cost| scale.calls(cost.calls))
        .number("each_ms", "each", |cost| each(cost))
        .table()
}

fn other_calls_table(run: &TracedRun, ranked: &RankTrace, rank: &RankBreakdown) -> Option<Table> {
    let stacks = run.stacks_of(rank)?;
    let scale = CallScale::from_stacks(stacks);
    let calls = KINDS.into_iter().flat_map(|(kind, one, _)| {
        stacks.costs(kind).into_iter().take(FEWER).map(move |cost| (one, cost.name, cost.own, cost.calls))
    });
    let work = work_costs(&ranked.trace, rank).into_iter().take(FEWER);
    let work = work.map(|cost| (cost.work.name(), cost.name, cost.total, cost.calls));
    Some(
        TableBuilder::new(format!("Rank {}: what takes longest", rank.rank), calls.chain(work))
            .text("kind", "kind", |row| row.0)
            .text("name", "name", |row| brief(&row.1))
            .number("own_ms", "own time", |row| scale.time(row.2))
            .number("own_percent", "share", |row| scale.share(row.2))
            .number("calls", "calls", |row| scale.calls(row.3))
            .table(),
    )
}
