//! The memory limit for the data of a trace. A file can be made so dense that a hundred megabytes of it fill the memory
//! of any machine: gzipped events without names, or with names that all differ.

use crate::collective::CollectiveArguments;
use crate::trace::{Trace, TraceEvent};
use std::path::Path;

/// The memory limit in bytes for a file of at most [`SMALL`] bytes.
const LEAST: u64 = 350_000_000;
const SMALL: u64 = 100_000_000;
/// The additional limit for each further byte of the file. An event takes 40 bytes, and in most traces at least 8 bytes
/// of the gzipped file. A trace of a loop of built-in functions may be denser.
const TIMES: u64 = 5;
/// The approximate memory of a name in addition to its text, in bytes, including the tables of the breakdown.
const NAME: usize = 100;
/// The approximate memory of a collective's strings in addition to their text, in bytes.
const TEXTS: usize = 100;

/// The memory limit for a file, in bytes.
pub(crate) fn memory_limit(file: &Path) -> u64 {
    let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    LEAST + TIMES * size.saturating_sub(SMALL)
}

/// The approximate memory used by a trace, in bytes.
pub(crate) fn memory_used(trace: &Trace) -> u64 {
    let collectives = trace.collectives.len() * (size_of::<CollectiveArguments>() + TEXTS);
    let [names, letters] = trace.names.size();
    (trace.events.len() * size_of::<TraceEvent>() + names * NAME + letters + collectives) as u64
}

/// The reason why the rest of a file is not read.
pub(crate) fn full_reason(room: u64) -> String {
    format!(
        "what was read before it fills {} MB of memory, which is as much as is kept of a file of this size; traces of many short calls may have more",
        room / 1_000_000
    )
}
