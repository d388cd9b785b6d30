//! What dumps of the flight recorder show: the operations that ranks wait in.

use crate::hang::{Blocked, Hang};
use perf4sight_report::{Column, Table};
use perf4sight_traces::rank_list;
use perf4sight_verb::Summary;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The table of all operations that do not end.
pub(super) fn table(hang: &Hang) -> Table {
    let columns = [
        Column::text("operation", "operation"),
        Column::text("group", "group"),
        Column::number("sequence", "number"),
        Column::text("sizes", "sizes"),
        Column::text("waiting", "wait in it"),
        Column::text("missing", "not there"),
        Column::text("different", "came with something else"),
        Column::text("place", "enqueued at"),
    ];
    let mut table = Table::new("Operations that do not end", columns);
    for blocked in &hang.blocked {
        table.row([
            blocked.operation.as_str().into(),
            blocked.group.as_str().into(),
            blocked.sequence.into(),
            format!("{:?}", blocked.sizes).into(),
            ranks(&blocked.waiting).into(),
            ranks(&blocked.missing.keys().copied().collect()).into(),
            different(blocked).into(),
            blocked.place.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

fn ranks(ranks: &BTreeSet<u32>) -> String {
    if ranks.is_empty() { String::new() } else { rank_list(ranks) }
}

fn different(blocked: &Blocked) -> String {
    let sentences = blocked.different.iter().map(|(rank, what)| format!("rank {rank} {what}"));
    sentences.collect::<Vec<_>>().join("; ")
}

/// The same as data.
pub(super) fn json(hang: &Hang) -> Value {
    json!({
        "answer": hang.headline(),
        "operations": table(hang).to_json(),
        "ranks_without_dump": hang.silent,
        "ranks_that_wait_in_nothing": hang.culprits,
    })
}

/// The result of dumps without times, of which nothing else can be shown.
pub(super) fn summary(hang: &Hang, dumps: usize) -> Summary {
    let nothing =
        || format!("every operation in the dumps of {dumps} ranks ended; without times there is nothing to replay");
    Summary {
        headline: hang.headline().unwrap_or_else(nothing),
        tables: Some(table(hang)).filter(|table| !table.is_empty()).into_iter().collect(),
        json: json!({"hang": json(hang)}),
        ..Summary::default()
    }
}
