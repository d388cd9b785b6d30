//! What dumps of the flight recorder show: the operations that ranks wait in.

use super::files::{JSON, REPORT};
use super::page::warning_list;
use crate::hang::{BlockedOperation, HangReport};
use crate::inputs::FlightDump;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::result_files::ResultFiles;
use perf4sight_report::{Block, Page, Table, TableColumn, sentence};
use perf4sight_traces::rank_list;
use perf4sight_verb::Summary;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The table of all operations that do not end.
pub(super) fn table(hang: &HangReport) -> Table {
    let columns = [
        TableColumn::text("operation", "operation"),
        TableColumn::text("group", "group"),
        TableColumn::number("sequence", "number"),
        TableColumn::text("sizes", "sizes"),
        TableColumn::text("waiting", "wait in it"),
        TableColumn::text("missing", "not there"),
        TableColumn::text("different", "came with something else"),
        TableColumn::text("place", "enqueued at"),
    ];
    let mut table = Table::new("Operations that do not end", columns);
    for blocked in &hang.blocked {
        table.row([
            blocked.operation.as_str().into(),
            blocked.group.as_str().into(),
            blocked.sequence.into(),
            format!("{:?}", blocked.sizes).into(),
            ranks(&blocked.waiting).into(),
            not_there(blocked).into(),
            different(blocked).into(),
            blocked.place.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

fn ranks(ranks: &BTreeSet<u32>) -> String {
    if ranks.is_empty() { String::new() } else { rank_list(ranks) }
}

/// The ranks that have not come, or of which that is not known.
fn not_there(blocked: &BlockedOperation) -> String {
    let missing = ranks(&blocked.missing.keys().copied().collect());
    let silent = Some(ranks(&blocked.silent)).filter(|silent| !silent.is_empty());
    let silent = silent.map(|silent| format!("{silent} (no dump)"));
    [missing].into_iter().filter(|missing| !missing.is_empty()).chain(silent).collect::<Vec<_>>().join("; ")
}

fn different(blocked: &BlockedOperation) -> String {
    let sentences = blocked.different.iter().map(|(rank, what)| format!("rank {rank} {what}"));
    sentences.collect::<Vec<_>>().join("; ")
}

/// The same as data.
pub(super) fn json(hang: &HangReport) -> Value {
    json!({
        "answer": hang.headline(),
        "operations": table(hang).to_json(),
        "ranks_without_dump": hang.silent,
        "ranks_that_wait_in_nothing": hang.culprits,
    })
}

/// Writes what dumps without times show, and nothing else: nothing can be replayed.
///
/// # Errors
/// Dumps without any operation, from which nothing follows; a folder that cannot be written to.
pub(super) fn without_times(
    mut files: ResultFiles,
    hang: &HangReport,
    dumps: &[FlightDump],
    warnings: &[String],
) -> Result<Summary> {
    let headline = headline(hang, dumps)?;
    let tables: Vec<Table> = Some(table(hang)).filter(|table| !table.is_empty()).into_iter().collect();
    let mut page = Page::new("Operations that do not end", format!("From {} dumps of flight recorders.", dumps.len()));
    let answer = [Block::Text(sentence(&headline))].into_iter().chain(tables.iter().cloned().map(Block::Table));
    page.chapter("Which rank the others wait for", answer.chain(warning_list(warnings)));
    let json = super::json::of_hang(hang, &headline, warnings);
    let written = [("report", REPORT), ("data", JSON)].map(|(what, name)| (what, files.path(name))).to_vec();
    files.add(REPORT, page.to_html());
    files.write_all(json.clone())?;
    Ok(Summary { headline, tables, json, files: written, ..Summary::default() })
}

fn headline(hang: &HangReport, dumps: &[FlightDump]) -> Result<String> {
    let operations: usize = dumps.iter().map(|dump| dump.entries.len()).sum();
    let count = dumps.len();
    match hang.headline() {
        Some(headline) => Ok(headline),
        None if operations == 0 => Err(Error::input(format!("the dumps of {count} ranks contain no operation")).help(
            "set TORCH_FR_BUFFER_SIZE=2000 before the job starts, and dump before its process groups are destroyed",
        )),
        None => Ok(format!(
            "all {operations} operations in the dumps of {count} ranks ended; without times of the same operations on all ranks there is nothing to replay"
        )),
    }
}
