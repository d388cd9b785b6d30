//! Reads the data of a job into memory.

use perf4sight_base::units::grouped_digits;
use perf4sight_machine::RunWatch;
use perf4sight_machine::data::files;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of one read.
const PIECE: usize = 1 << 20;

/// The warning about entries of the data that cannot be read.
pub(super) fn unreadable(entries: u64) -> String {
    let (entries, are) = match entries {
        1 => ("1 entry".to_owned(), "is"),
        several => (format!("{} entries", grouped_digits(several)), "are"),
    };
    format!("{entries} of the data could not be looked at, such as links that lead nowhere, and {are} left out")
}

/// Reads all data once, so that the part that fits is in memory; stops after Ctrl-C. Unreadable files are ignored here.
pub(super) fn warm(data: &Path, watch: &RunWatch<'_>) {
    let mut piece = vec![0; PIECE];
    for (file, _) in files(data).into_iter().flatten() {
        let Ok(mut file) = File::open(file) else { continue };
        while !watch.cancelled() && file.read(&mut piece).is_ok_and(|count| count > 0) {}
    }
}
