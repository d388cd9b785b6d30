//! How much memory what is kept of a file may take. A file can be made so dense that a hundred megabytes of it fill any machine: gzipped
//! events without names, or names that all differ.

use crate::trace::{Collective, Event, Trace};
use std::path::Path;

/// Bytes that are kept of any file.
const LEAST: u64 = 350_000_000;
/// Of a larger file, so many times its size: what PyTorch writes and gzips takes 3.2 times that at most, 12.7 bytes an event (of the traces
/// that were tried, those of Linear layers alone).
const TIMES: f64 = 3.5;
/// Bytes that a name takes beside its letters, about, with what is asked of each when a trace is broken down.
const NAME: usize = 100;
/// Bytes that the texts of a collective take beside their letters, about.
const TEXTS: usize = 100;

/// Bytes that may be kept of a file.
pub(crate) fn of(file: &Path) -> u64 {
    let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    LEAST.max((size as f64 * TIMES) as u64)
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
        "what lies before it fills {} MB of memory, which is more than any trace of this size does",
        room / 1_000_000
    )
}
