//! Writes `replay.csv`: a row for each rank's part in each exchange.

use crate::Analysis;
use crate::waiting::TimedExchange;
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_report::{Table, TableColumn};

/// Rows at most; a longer table would be gigabytes.
const LISTED: usize = 200_000;

/// The whole table.
pub(super) fn to_table(analysis: &Analysis) -> Table {
    let columns = [
        TableColumn::text("step", "step"),
        TableColumn::number("exchange", "exchange"),
        TableColumn::text("operation", "operation"),
        TableColumn::text("group", "group"),
        TableColumn::number("bytes", "bytes"),
        TableColumn::number("rank", "rank"),
        TableColumn::number("start_ms", "start"),
        TableColumn::number("end_ms", "end"),
        TableColumn::number("waiting_ms", "waiting"),
        TableColumn::number("transfer_ms", "transfer"),
        TableColumn::number("last_rank", "last rank"),
    ];
    let mut table = Table::new("Exchanges", columns);
    for (timed, part) in analysis.waiting.exchanges.iter().flat_map(parts).take(LISTED) {
        let exchange = &analysis.exchanges.all[timed.exchange];
        let (rank, (start, end)) = part;
        let milliseconds = |time: i64| Milliseconds(time as f64 / 1e6);
        let number = |rank: usize| u64::from(analysis.job.ranks[rank].number);
        let (awaited, until) = timed.waits_until(rank).unwrap_or((timed.last, start));
        let step = exchange.step.map_or("", |step| &analysis.job.steps[step].name);
        table.row([
            step.into(),
            (timed.exchange as u64).into(),
            exchange.operation.label().into(),
            exchange.group.as_str().into(),
            exchange.bytes.map(Bytes).into(),
            number(rank).into(),
            milliseconds(start).into(),
            milliseconds(end).into(),
            milliseconds(until - start).into(),
            milliseconds(timed.transfer()).into(),
            number(awaited).into(),
        ]);
    }
    table
}

fn parts(
    timed: &TimedExchange,
) -> impl Iterator<Item = (&TimedExchange, (usize, perf4sight_traces::intervals::Interval))> {
    timed.parts.iter().map(move |part| (timed, *part))
}
