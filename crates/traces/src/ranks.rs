//! Traces of several ranks: one file each, in a folder or named one by one.

use crate::cycles::ProfilerCycles;
use crate::own::is_own;
use crate::trace::Trace;
use crate::{kineto, sqlite};
use perf4sight_base::error::{Error, FailureKind, Result};
use perf4sight_base::units::list_text;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct RankTrace {
    /// The rank: from the trace, else from the file's name, else the position among the files.
    pub rank: u32,
    pub trace: Trace,
}

/// Reads a trace: JSON, gzipped or not, or a SQLite file of one process. Damaged or missing parts are left out and
/// listed in [`Trace::damage`].
///
/// # Errors
/// A file that cannot be read, that is no trace, that [this program wrote](is_own), or that has traces of several processes.
pub fn read(file: &Path) -> Result<Trace> {
    let mut traces = read_all(file)?;
    match (traces.pop(), traces.len()) {
        (Some(trace), 0) => Ok(trace),
        (_, others) => {
            Err(Error::input(format!("holds traces of {} processes", others + 1)).file(file).expected("one"))
        }
    }
}

fn read_all(file: &Path) -> Result<Vec<Trace>> {
    check_is_input(file)?;
    match sqlite::is_sqlite(file) {
        true => sqlite::read(file),
        false => kineto::read(file).map(|trace| vec![trace]),
    }
}

/// Whether a file begins as a trace with events, of which the first one is read.
fn has_events(file: &Path) -> Result<bool> {
    check_is_input(file)?;
    match sqlite::is_sqlite(file) {
        true => Ok(true),
        false => kineto::read_beginning(file).map(|trace| !trace.events.is_empty()),
    }
}

fn check_is_input(file: &Path) -> Result<()> {
    if file.is_file() && is_own(file) {
        return Err(Error::input("is what perf4sight wrote about all ranks, not the trace of one")
            .file(file)
            .help("name the traces that it was made from"));
    }
    Ok(())
}

/// Refuses what [`read_ranks`] refuses, and files without any event, by the beginnings of the files, however long they are.
///
/// # Errors
/// A given file that is no trace or that this program wrote, a folder without traces.
pub fn check(paths: &[PathBuf]) -> Result<()> {
    let files = files(paths)?;
    let (mut found, mut passed_over) = (false, None);
    for (file, in_folder) in &files {
        match has_events(file) {
            Ok(has_events) => found |= has_events,
            Err(error) if *in_folder && matches!(error.kind(), FailureKind::Input | FailureKind::Io) => {
                passed_over.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match files.first().filter(|_| !found) {
        Some((file, _)) => Err(passed_over.unwrap_or_else(|| Error::input("is a trace without events").file(file))),
        None => Ok(()),
    }
}

/// Reads files and folders of traces, ordered by rank. Several processes in one file are ranks in the order of their
/// numbers. Further processes of a rank recorded by `perf4sight record` get numbers after the last rank. Several files
/// that one process wrote one after the other become one trace, whose [`Trace::damage`] lists them. Other files in a
/// folder are skipped; the first trace's damage lists them, but for those that [this program wrote](is_own).
///
/// # Errors
/// A given file that is no trace or that this program wrote, a folder without traces, two traces of one rank.
pub fn read_ranks(paths: &[PathBuf]) -> Result<Vec<RankTrace>> {
    let files = files(paths)?;
    let mut ranks = RankTraces::default();
    let mut passed_over: Vec<(&Path, Error)> = Vec::new();
    for (file, in_folder) in &files {
        match read_all(file) {
            Ok(traces) => ranks.add(file, traces)?,
            Err(error) if *in_folder && matches!(error.kind(), FailureKind::Input | FailureKind::Io) => {
                passed_over.push((file, error))
            }
            Err(error) => return Err(error),
        }
    }
    let mut ranks = ranks.finish();
    match ranks.first_mut() {
        Some(first) => first.trace.damage.of_other_files.extend(without(&passed_over)),
        None => {
            if let Some((_, error)) = passed_over.into_iter().next() {
                return Err(error);
            }
        }
    }
    Ok(ranks)
}

/// The files of paths, and whether they are in a folder that was named instead of them.
fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(traces_in(path)?.into_iter().map(|file| (file, true))),
            false => files.push((path.clone(), false)),
        }
    }
    match named_twice(&files) {
        Some(file) => Err(Error::usage("this trace is named twice").file(file).help("name each trace once")),
        None => Ok(files),
    }
}

/// A file that is there twice, however its paths are spelled.
fn named_twice(files: &[(PathBuf, bool)]) -> Option<&Path> {
    let mut known = BTreeSet::new();
    let mut files = files.iter().map(|(file, _)| file.as_path());
    files.find(|file| !known.insert(file.canonicalize().unwrap_or_else(|_| file.to_path_buf())))
}

/// The traces read so far, by rank.
#[derive(Default)]
struct RankTraces {
    known: BTreeMap<u32, ProfilerCycles>,
    /// Traces of further processes of a rank; they get numbers once all ranks are known.
    further: Vec<(u32, Trace)>,
    /// The number of traces so far that did not continue another one.
    place: u32,
    /// The ranks of files that do not say which they are of.
    by_place: Vec<u32>,
}

impl RankTraces {
    fn add(&mut self, file: &Path, traces: Vec<Trace>) -> Result<()> {
        // The name of a file with several traces does not identify a rank.
        let alone = traces.len() == 1;
        for trace in traces {
            let known = if alone { trace.rank() } else { trace.header.rank };
            let part = ProfilerCycles::new(trace, known);
            if let Some(earlier) = self.known.values_mut().find(|earlier| earlier.go_on_with(&part)) {
                earlier.add(part);
                continue;
            }
            let rank = known.unwrap_or(self.place);
            self.by_place.extend((alone && known.is_none()).then_some(rank));
            self.place += 1;
            match self.known.get(&rank) {
                _ if is_further_process(file) => self.further.push((rank, part.finish())),
                Some(other) => return Err(duplicate_rank(rank, file, other.file())),
                None => _ = self.known.insert(rank, part),
            }
        }
        Ok(())
    }

    fn finish(self) -> Vec<RankTrace> {
        let mut ranks: BTreeMap<u32, Trace> =
            self.known.into_iter().map(|(rank, cycles)| (rank, cycles.finish())).collect();
        let assumed = assumed_ranks(&self.by_place, &ranks);
        if let Some((_, first)) = ranks.iter_mut().next() {
            first.damage.of_other_files.extend(assumed);
        }
        self.further.into_iter().for_each(|(rank, trace)| add_further(rank, trace, &mut ranks));
        ranks.into_iter().map(|(rank, trace)| RankTrace { rank, trace }).collect()
    }
}

/// Reads files and folders of traces from one or several recordings of a run; returns the ranks of each. Files form one
/// recording. A folder begins a new recording if the previous one already has one of its ranks.
///
/// # Errors
/// As for [`read_ranks`].
pub fn read_recordings(paths: &[PathBuf]) -> Result<Vec<Vec<RankTrace>>> {
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| path.is_dir());
    let mut recordings: Vec<Vec<RankTrace>> = Vec::new();
    if !files.is_empty() {
        recordings.push(read_ranks(&files)?);
    }
    for folder in folders {
        let ranks = read_ranks(&[folder])?;
        let has = |known: &RankTrace| ranks.iter().any(|own| own.rank == known.rank);
        match recordings.last_mut().filter(|last| !last.iter().any(has)) {
            Some(last) => {
                last.extend(ranks);
                last.sort_by_key(|ranked| ranked.rank);
            }
            None => recordings.push(ranks),
        }
    }
    Ok(recordings)
}

impl Trace {
    /// The rank from the trace's metadata, or else from the name of its file.
    pub fn rank(&self) -> Option<u32> {
        self.header.rank.or_else(|| rank_in_name(&self.file))
    }
}

/// That files of several ranks are numbered in the order of their names.
fn assumed_ranks(by_place: &[u32], ranks: &BTreeMap<u32, Trace>) -> Option<String> {
    let name = |rank: &u32| {
        let file = ranks.get(rank)?.file.file_name()?.to_string_lossy().into_owned();
        Some(format!("rank {rank} is {file}"))
    };
    let named = list_text(by_place.iter().filter_map(name), NAMED);
    let is_one = ranks.len() < 2 || named.is_empty();
    (!is_one).then(|| format!("neither the traces nor the names of their files say which ranks these are of; they are numbered in that order: {named}"))
}

fn duplicate_rank(rank: u32, file: &Path, other: &Path) -> Error {
    Error::usage(format!("is of rank {rank}, as is {}", other.display()))
        .file(file)
        .help("name one trace of each rank; look at several traces of one rank one at a time")
}

/// Whether a file name of `perf4sight record` is that of a further process of a rank, for example after a fork:
/// `rank0-1234.json.gz`.
fn is_further_process(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(".json.gz").or_else(|| name.strip_suffix(".json")).unwrap_or_default();
    let parts = stem.strip_prefix("rank").and_then(|parts| parts.split_once('-'));
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    parts.is_some_and(|(rank, process)| is_number(rank) && is_number(process))
}

/// Adds the trace of a further process of a rank under the next free number.
fn add_further(rank: u32, mut trace: Trace, ranks: &mut BTreeMap<u32, Trace>) {
    let next = ranks.last_key_value().map_or(rank, |(last, _)| last.saturating_add(1));
    let number = if ranks.contains_key(&rank) { next } else { rank };
    if number != rank {
        let file = trace.file.display();
        trace.damage.others.push(format!("{file} is of another process of rank {rank}; it is shown as rank {number}"));
    }
    ranks.insert(number, trace);
}

const NAMED: usize = 3;

/// The warning that some files of a folder could not be read, each with the reason.
fn without(passed_over: &[(&Path, Error)]) -> Option<String> {
    let reason = |error: &Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let reasons = list_text(passed_over.iter().map(|(_, error)| reason(error)), NAMED);
    (!reasons.is_empty()).then(|| format!("passed over, since they could not be read as traces: {reasons}"))
}

fn traces_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|cause| Error::io(folder, "look for traces", &cause))?;
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let named: Vec<PathBuf> = entries.iter().filter(|path| is_named_as_trace(path)).cloned().collect();
    let (own, files): (Vec<PathBuf>, Vec<PathBuf>) = named.into_iter().partition(|path| is_own(path));
    if !files.is_empty() {
        return Ok(files);
    }
    let error = Error::input("holds no trace").file(folder);
    let error = error.expected("files that end in .json, .json.gz, .sqlite, .nvprof or .nvvp");
    if let Some(own) = own.first() {
        let own = own.display();
        return Err(error.help(format!("perf4sight wrote {own}: name the traces that it was made from")));
    }
    Err(match hint_for_folder(&entries) {
        Some(advice) => error.help(advice),
        None => error,
    })
}

/// The file name extensions of archives.
const ARCHIVES: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".zip"];

/// What to do with a folder of traces that are in folders or archives.
fn hint_for_folder(entries: &[PathBuf]) -> Option<String> {
    let holds_traces =
        |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().any(|entry| is_named_as_trace(&entry.path()));
    if let Some(below) = entries.iter().find(|path| path.is_dir() && holds_traces(path)) {
        return Some(format!("traces are in the folders in it: name one job's, such as {}", below.display()));
    }
    let archive = entries.iter().find(|path| ARCHIVES.iter().any(|ending| path.to_string_lossy().ends_with(ending)))?;
    Some(format!("unpack {} first", archive.display()))
}

/// The file that `perf4sight breakdown` writes, perhaps next to the traces it read.
pub const BREAKDOWN: &str = "breakdown.json";
/// The files that `perf4sight analyze` writes next to the traces it read, as dPRO does.
const PUBLISHED: [&str; 3] = ["synthetic.json", "critical_path.json", "bps_trace_final.json"];
/// The suffix of the file that `perf4sight record` writes next to a trace.
pub const RECORDING: &str = ".recording.json";

/// The recording that belongs to a trace: `rank0.recording.json` next to `rank0.json.gz`; none for a file name that
/// `perf4sight record` does not write.
pub fn recording_of(trace: &Path) -> Option<PathBuf> {
    let name = trace.file_name()?.to_str()?;
    let stem = name.strip_suffix(".json.gz").or_else(|| name.strip_suffix(".json"))?;
    Some(trace.with_file_name(format!("{stem}{RECORDING}")))
}

/// The file name extensions of traces: those of PyTorch, of exports by nsys, and of nvprof.
const ENDINGS: [&str; 5] = [".json", ".json.gz", ".sqlite", ".nvprof", ".nvvp"];

fn is_named_as_trace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ends = ENDINGS.iter().any(|ending| name.ends_with(ending));
    ends && !name.ends_with(RECORDING) && name != BREAKDOWN && !PUBLISHED.contains(&name) && !path.is_dir()
}

/// The number after the last "rank" in a file's name: `trace_8_rank_1.json`, `rank12.json.gz`.
fn rank_in_name(file: &Path) -> Option<u32> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let behind = &name[name.rfind("rank")? + 4..];
    let digits: String = behind.trim_start_matches(['_', '-']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
