//! How much memory what is kept of a file may take. A file can be made so dense that a hundred megabytes of it fill any machine: gzipped
//! events without names, or names that all differ.

use crate::trace::{Collective, Event, Trace};
use std::path::Path;

/// Bytes that may be kept of a file of [`SMALL`] bytes or fewer.
const LEAST: u64 = 350_000_000;
const SMALL: u64 = 100_000_000;
/// Of each byte of a larger file, so many: an event takes 40, and 8 bytes of the gzipped file or more in most traces. One of a loop of built-in
/// functions may be denser.
const TIMES: u64 = 5;
/// Bytes that a name takes beside its letters, about, with what is asked of each when a trace is broken down.
const NAME: usize = 100;
/// Bytes that the texts of a collective take beside their letters, about.
const TEXTS: usize = 100;

/// Bytes that may be kept of a file.
pub(crate) fn of(file: &Path) -> u64 {
    let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    LEAST + TIMES * size.saturating_sub(SMALL)
}

/// Bytes that are kept of a trace, about.
pub(crate) fn taken(trace: &Trace) -> u64 {
    let collectives = trace.collectives.len() * (size_of::<Collective>() + TEXTS);
    let [names, letters] = trace.names.size();
    (trace.events.len() * size_of::<Event>() + names * NAME + letters + collectives) as u64
}

/// Why no more of a file is kept.
pub(crate) fn full(room: u64) -> String {
    format!(
        "what lies before it fills {} MB of memory, which is as much as is kept of a file of this size; traces of many short calls may have more",
        room / 1_000_000
    )
}
