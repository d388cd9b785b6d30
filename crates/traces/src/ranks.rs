//! Traces of several ranks: one file each, in a folder or named one by one.

use crate::trace::Trace;
use crate::{kineto, sqlite};
use perf4sight_conventions::error::{Error, Kind, Result};
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

/// Reads a trace: JSON, gzipped or not, or a SQLite file of one process. What is damaged or cut off is left out and told in
/// [`Trace::damage`].
///
/// # Errors
/// A file that cannot be read, or that is no trace, or traces of several processes.
pub fn read(file: &Path) -> Result<Trace> {
    let mut traces = read_all(file)?;
    match (traces.pop(), traces.len()) {
        (Some(trace), 0) => Ok(trace),
        (_, others) => {
            Err(Error::input(format!("holds traces of {} processes", others + 1)).file(file).expected("one"))
        }
    }
}

/// The traces of a file; one at least.
fn read_all(file: &Path) -> Result<Vec<Trace>> {
    match sqlite::is_sqlite(file) {
        true => sqlite::read(file),
        false => kineto::read(file).map(|trace| vec![trace]),
    }
}

/// Reads files and folders of traces; by rank. Several processes of one file are ranks in the order of their numbers. What lies in a folder
/// beside traces and is none is passed over, which the first trace's [`Trace::damage`] tells.
///
/// # Errors
/// A named file that is no trace, a folder without traces, two traces of one rank.
pub fn read_ranks(paths: &[PathBuf]) -> Result<Vec<Ranked>> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(traces_in(path)?.into_iter().map(|file| (file, true))),
            false => files.push((path.clone(), false)),
        }
    }
    let mut ranks: BTreeMap<u32, Trace> = BTreeMap::new();
    let mut place = 0;
    let mut passed_over: Vec<(&Path, Error)> = Vec::new();
    for (file, in_folder) in &files {
        let traces = match read_all(file) {
            Ok(traces) => traces,
            Err(error) if *in_folder && error.kind() == Kind::Input => {
                passed_over.push((file, error));
                continue;
            }
            Err(error) => return Err(error),
        };
        // Of several in a file, its name cannot tell.
        let by_name = named(file).filter(|_| traces.len() == 1);
        for trace in traces {
            let rank = trace.header.rank.or(by_name).unwrap_or(place);
            place += 1;
            if let Some(other) = ranks.get(&rank) {
                return Err(Error::input(format!("is of rank {rank}, as is {}", other.file.display()))
                    .file(file)
                    .help("name one trace of each rank; several of one rank are broken down one by one"));
            }
            ranks.insert(rank, trace);
        }
    }
    match ranks.values_mut().next() {
        Some(first) => first.damage.others.extend(passed_over.iter().map(|(file, _)| without(file))),
        None => {
            if let Some((_, error)) = passed_over.into_iter().next() {
                return Err(error);
            }
        }
    }
    Ok(ranks.into_iter().map(|(rank, trace)| Ranked { rank, trace }).collect())
}

fn without(file: &Path) -> String {
    format!("{} lies in the folder and could not be read as a trace; it was passed over", file.display())
}

fn traces_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|cause| Error::io(folder, "look for traces", &cause))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_named_as_trace(path)).collect();
    files.sort();
    match files.is_empty() {
        true => Err(Error::input("holds no trace")
            .file(folder)
            .expected("files that end in .json, .json.gz, .sqlite, .nvprof or .nvvp")),
        false => Ok(files),
    }
}

/// What `perf4sight breakdown` writes, perhaps beside the traces it read.
pub const BREAKDOWN: &str = "breakdown.json";
/// What `perf4sight record` tells of a recording lies beside its trace, under a name that ends in this.
pub const RECORDING: &str = ".recording.json";

/// What the names of traces end in: PyTorch's, those that nsys exports, and nvprof's.
const ENDINGS: [&str; 5] = [".json", ".json.gz", ".sqlite", ".nvprof", ".nvvp"];

fn is_named_as_trace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && !name.ends_with(RECORDING) && name != BREAKDOWN
}

/// The number behind the last "rank" in a file's name: `trace_8_rank_1.json`, `rank12.json.gz`.
fn named(file: &Path) -> Option<u32> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let behind = &name[name.rfind("rank")? + 4..];
    let digits: String = behind.trim_start_matches(['_', '-']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
