//! What dumps of the flight recorder show: the operations that ranks wait in.

use crate::hang::{Blocked, Hang};
use crate::inputs::Dump;
use perf4sight_base::error::{Error, Result};
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
///
/// # Errors
/// Dumps without any operation, from which nothing follows.
pub(super) fn summary(hang: &Hang, dumps: &[Dump]) -> Result<Summary> {
    let operations: usize = dumps.iter().map(|dump| dump.entries.len()).sum();
    if operations == 0 && hang.headline().is_none() {
        return Err(Error::input(format!("the dumps of {} ranks contain no operation", dumps.len())).help(
            "set TORCH_FR_BUFFER_SIZE=2000 before the job starts, and dump before its process groups are destroyed",
        ));
    }
    let ended = || {
        format!(
            "all {operations} operations in the dumps of {} ranks ended; without times there is nothing to replay",
            dumps.len()
        )
    };
    Ok(Summary {
        headline: hang.headline().unwrap_or_else(ended),
        tables: Some(table(hang)).filter(|table| !table.is_empty()).into_iter().collect(),
        json: json!({"hang": json(hang)}),
        ..Summary::default()
    })
}
