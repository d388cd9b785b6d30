//! A record from and to the cells of its row.

use super::cells::{Format, Row, list, written};
use super::record::{MemoryColumns, Reading, Record};
use crate::error::Result;
use crate::units::{Bytes, Milliseconds};
use crate::workload::{Quantity, Stage};
use std::path::PathBuf;

/// The published columns, then ours; `free` is missing in the published 2080 Ti rows.
const OPTIONAL: &[&str] = &["free", "stage", "steps", "spread", "visits", "mem_heap", "outcome"];

/// The columns of a file of that quantity.
pub(super) fn format(quantity: Quantity) -> Format {
    let columns: &[&str] = match quantity {
        Quantity::Latency => &[
            "passed", "latency", "test_var", "bs", "dataset", "net_name", "model", "stage", "steps", "spread",
            "visits", "outcome",
        ],
        Quantity::Memory => &[
            "passed",
            "mem_alloc",
            "mem_reserved",
            "mem_used",
            "mem_avail",
            "free",
            "capacity",
            "test_var",
            "bs",
            "dataset",
            "net_name",
            "model",
            "stage",
            "steps",
            "spread",
            "mem_heap",
            "outcome",
        ],
    };
    Format { kind: quantity.name(), columns, optional: OPTIONAL }
}

/// The record of a row; rows of a file without a `stage` column are of `stage`.
pub(super) fn record(row: &Row<'_>, quantity: Quantity, stage: Stage) -> Result<Record> {
    let outcome = row.outcome()?;
    let file = PathBuf::from(row.cell("model"));
    Ok(Record {
        variant: row.variant(&file)?,
        workload: row.workload(stage)?,
        dataset: row.cell("dataset").to_owned(),
        file,
        outcome,
        reading: reading(row, quantity, outcome.passed())?,
        steps: row.optional("steps", str::parse)?,
        spread: row.spread()?,
        visits: row.numbers("visits")?,
    })
}

fn reading(row: &Row<'_>, quantity: Quantity, passed: bool) -> Result<Reading> {
    let mib = |column| -> Result<_> { Ok(row.value(column, passed)?.map(Bytes::from_mib)) };
    let may_lack = |column| -> Result<_> { Ok(row.optional(column, str::parse)?.map(Bytes::from_mib)) };
    Ok(match quantity {
        Quantity::Latency => Reading::Latency(row.value("latency", passed)?.map(Milliseconds)),
        Quantity::Memory => Reading::Memory(MemoryColumns {
            allocated: mib("mem_alloc")?,
            reserved: mib("mem_reserved")?,
            used: mib("mem_used")?,
            available: mib("mem_avail")?,
            free: may_lack("free")?,
            capacity: mib("capacity")?,
            heap: may_lack("mem_heap")?,
        }),
    })
}

/// The cells of a record, in the order of [`format`].
pub(super) fn cells(record: &Record) -> Vec<String> {
    let passed = if record.outcome.passed() { "True" } else { "False" };
    let mib = |bytes: Option<Bytes>| written(bytes.map(Bytes::mib));
    let (values, last) = match record.reading {
        Reading::Latency(latency) => (vec![written(latency.map(|latency| latency.0))], list(&record.visits)),
        Reading::Memory(memory) => {
            let MemoryColumns { allocated, reserved, used, available, free, capacity, heap } = memory;
            ([allocated, reserved, used, available, free, capacity].map(mib).to_vec(), mib(heap))
        }
    };
    let asked = [
        record.quantity().to_string(),
        record.workload.batch.to_string(),
        record.dataset.clone(),
        record.variant.network.clone(),
        record.file.display().to_string(),
        record.workload.step.stage.to_string(),
        written(record.steps),
        written(record.spread),
    ];
    let outcome = record.outcome.to_string();
    [vec![passed.to_owned()], values, asked.to_vec(), vec![last, outcome]].concat()
}
