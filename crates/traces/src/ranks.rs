//! Traces of several ranks: one file each, in a folder or named one by one.

use crate::kineto;
use crate::trace::Trace;
use perf4sight_conventions::error::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A trace and whose it is.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// The rank: as the trace says, else as the file's name does, else its place among the files.
    pub rank: u32,
    /// What was recorded there.
    pub trace: Trace,
}

/// Reads files and folders of traces; by rank.
///
/// # Errors
/// A file that is no trace, a folder without traces, two traces of one rank.
pub fn read_ranks(paths: &[PathBuf]) -> Result<Vec<Ranked>> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(traces_in(path)?),
            false => files.push(path.clone()),
        }
    }
    let mut ranks: BTreeMap<u32, Trace> = BTreeMap::new();
    for (place, file) in files.iter().enumerate() {
        let trace = kineto::read(file)?;
        let rank = trace.header.rank.or_else(|| named(file)).unwrap_or(place as u32);
        if let Some(other) = ranks.get(&rank) {
            return Err(Error::input(format!("is of rank {rank}, as is {}", other.file.display()))
                .file(file)
                .help("name one trace of each rank; several of one rank are broken down one by one"));
        }
        ranks.insert(rank, trace);
    }
    Ok(ranks.into_iter().map(|(rank, trace)| Ranked { rank, trace }).collect())
}

fn traces_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|cause| Error::io(folder, "look for traces", &cause))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_named_as_trace(path)).collect();
    files.sort();
    match files.is_empty() {
        true => Err(Error::input("holds no trace").file(folder).expected("files that end in .json or .json.gz")),
        false => Ok(files),
    }
}

/// What `perf4sight breakdown` writes, perhaps beside the traces it read.
pub const BREAKDOWN: &str = "breakdown.json";
/// What `perf4sight record` tells of a recording lies beside its trace, under a name that ends in this.
pub const RECORDING: &str = ".recording.json";

fn is_named_as_trace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    (name.ends_with(".json") || name.ends_with(".json.gz")) && !name.ends_with(RECORDING) && name != BREAKDOWN
}

/// The number behind the last "rank" in a file's name: `trace_8_rank_1.json`, `rank12.json.gz`.
fn named(file: &Path) -> Option<u32> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let behind = &name[name.rfind("rank")? + 4..];
    let digits: String = behind.trim_start_matches(['_', '-']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
