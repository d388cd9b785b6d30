//! What a job left behind, in any of the formats that are read. All of them become the same: a trace of each rank, with
//! events, exchanges and steps, and which events wait for which. Dumps of the flight recorder are kept as well, for they
//! show what a rank waits for that never ended.

mod chakra;
mod chrome;
mod contents;
mod exchange;
mod execution_trace;
mod flight;
mod format;
mod horovod;
mod published;
mod steps;

pub use flight::{FlightDump, FlightEntry, PythonFrame};

use format::InputFormat;
use perf4sight_base::error::{Error, FailureKind, Result};
use perf4sight_base::units::list_text;
use perf4sight_traces::{RankTrace, is_own, read_ranks};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What files contain.
#[derive(Debug, Clone, Default)]
pub struct ReplayInputs {
    /// A trace of each rank, ordered by rank; none where nothing has a time.
    pub ranks: Vec<RankTrace>,
    /// Dumps of the flight recorder, ordered by rank.
    pub dumps: Vec<FlightDump>,
    /// What was passed over where there is no trace to say it of, in sentences.
    pub passed_over: Vec<String>,
}

/// Files by format, and folders of published layout.
#[derive(Default)]
struct InputFiles {
    profilers: Vec<PathBuf>,
    /// Files in folders that are of no known format.
    others: Vec<PathBuf>,
    of: BTreeMap<InputFormat, Vec<PathBuf>>,
}

/// Reads files and folders.
///
/// # Errors
/// A given file of no known format, a folder without any, two files of one rank, damage that leaves nothing of a file.
pub fn read(paths: &[PathBuf]) -> Result<ReplayInputs> {
    let files = InputFiles::find(paths);
    let own = |format: InputFormat| files.of.get(&format).map(Vec::as_slice).unwrap_or_default();
    let mut ranks = files.of_profilers()?;
    for folder in own(InputFormat::Published) {
        ranks = join_ranks(ranks, published::read(folder)?)?;
    }
    if !own(InputFormat::Chakra).is_empty() {
        ranks = join_ranks(ranks, chakra::read(own(InputFormat::Chakra))?)?;
    }
    execution_trace::add(own(InputFormat::ExecutionTrace), &mut ranks)?;
    ranks = with_timelines(own(InputFormat::Horovod), ranks)?;
    let (dumps, unreadable) = dumps(own(InputFormat::FlightRecorder))?;
    if ranks.is_empty() {
        ranks = flight::traces(&dumps);
    }
    let mut passed_over = [files.passed_over(), unreadable].concat();
    if let Some(first) = ranks.first_mut() {
        first.trace.damage.of_other_files.append(&mut passed_over);
    }
    match ranks.is_empty() && dumps.is_empty() {
        true => Err(Error::input("there is no trace").expected(FORMATS)),
        false => Ok(ReplayInputs { ranks, dumps, passed_over }),
    }
}

/// Refuses, by their beginnings, files and folders that [`read`] is certain to refuse.
///
/// # Errors
/// A given file of no known format, a folder without any.
pub fn check(paths: &[PathBuf]) -> Result<()> {
    let files = InputFiles::find(paths);
    match files.profilers.is_empty() {
        true => Ok(()),
        false => files.explain_failure(perf4sight_traces::check(&files.profilers)),
    }
}

/// Who recorded files, as far as their names and beginnings show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Recorders {
    /// PyTorch's profiler, execution traces or flight recorder.
    pub pytorch: bool,
    /// Horovod, or the NCCL that dPRO patched for it.
    pub horovod: bool,
    /// BytePS.
    pub byteps: bool,
}

/// Who recorded files and folders.
pub(crate) fn recorders(paths: &[PathBuf]) -> Recorders {
    let files = InputFiles::find(paths);
    let own = |format: InputFormat| files.of.get(&format).map(Vec::as_slice).unwrap_or_default();
    let of_pytorch =
        [InputFormat::FlightRecorder, InputFormat::ExecutionTrace].iter().any(|format| !own(*format).is_empty());
    let folders = own(InputFormat::Published);
    Recorders {
        pytorch: of_pytorch || files.profilers.iter().any(|path| format::is_of_pytorch(path)),
        horovod: !own(InputFormat::Horovod).is_empty() || folders.iter().any(|folder| published::is_of_horovod(folder)),
        byteps: folders.iter().any(|folder| published::is_of_byteps(folder)),
    }
}

/// All that is read, for who gave something else.
const FORMATS: &str = "traces of PyTorch's profiler (.json, .json.gz), Nsight Systems (.sqlite) or nvprof, dumps of the flight recorder (pickles or JSON), Chakra traces (.et), timelines of Horovod or folders of dPRO";

impl InputFiles {
    /// The ranks in traces of profilers.
    fn of_profilers(&self) -> Result<Vec<RankTrace>> {
        if self.profilers.is_empty() {
            return Ok(Vec::new());
        }
        self.explain_failure(read_ranks(&self.profilers))
    }

    /// What came of reading the traces of profilers: what does not even look like one may have been meant as anything else.
    fn explain_failure<T>(&self, read: Result<T>) -> Result<T> {
        let looks_like_one = |path: &PathBuf| match path.is_dir() {
            true => files_in(path).iter().any(|file| format::is_profiler(file)),
            false => format::is_profiler(path),
        };
        read.map_err(|error| {
            let is_input = error.kind() == FailureKind::Input;
            if is_input && !self.profilers.iter().any(looks_like_one) { error.expected(FORMATS) } else { error }
        })
    }

    /// Sorts files, and those in folders, by format. What no format fits, the reader of profilers' traces refuses or
    /// passes over.
    fn find(paths: &[PathBuf]) -> Self {
        let mut files = InputFiles::default();
        for path in distinct(paths) {
            match path.is_dir() {
                true if published::is_published(path) => files.add(InputFormat::Published, path.clone()),
                true => files.find_in(path),
                false => match format::recognise(path) {
                    Some(format) => files.add(format, path.clone()),
                    None => files.profilers.push(path.clone()),
                },
            }
        }
        files
    }

    /// The files that are not used, in sentences.
    fn passed_over(&self) -> Vec<String> {
        let failure = |path: &PathBuf| contents::beginning(path, 1).err();
        let (unreadable, unknown): (Vec<&PathBuf>, _) = self.others.iter().partition(|path| failure(path).is_some());
        let unreadable = unreadable.into_iter().filter_map(failure).map(|error| format!("skipped: {error}"));
        let unknown = list_text(unknown.into_iter().map(|path| path.display()), NAMED);
        let unknown = (!unknown.is_empty()).then(|| format!("skipped, since they are of no known format: {unknown}"));
        unreadable.chain(unknown).collect()
    }

    /// Finds the files of a folder. Traces of profilers it finds by itself, unless the folder has others only.
    fn find_in(&mut self, folder: &Path) {
        let mut entries: Vec<PathBuf> = files_in(folder).into_iter().filter(|path| !is_own(path)).collect();
        entries.sort_by_key(|path| (last_number(path), path.clone()));
        let formats: Vec<Option<InputFormat>> = entries.iter().map(|path| format::recognise(path)).collect();
        if formats.iter().all(Option::is_none) {
            return self.profilers.push(folder.to_owned());
        }
        for (path, format) in entries.into_iter().zip(formats) {
            match format {
                Some(format) => self.add(format, path),
                None if format::is_profiler(&path) => self.profilers.push(path),
                None => self.others.push(path),
            }
        }
    }

    fn add(&mut self, format: InputFormat, path: PathBuf) {
        self.of.entry(format).or_default().push(path);
    }
}

/// Files and folders without those that were named before, or whose folder is named.
fn distinct(paths: &[PathBuf]) -> Vec<&PathBuf> {
    let place = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let all: Vec<PathBuf> = paths.iter().map(place).collect();
    let is_new = |(number, path): &(usize, &PathBuf)| {
        let folder = path.parent().filter(|_| path.is_file());
        !all[..*number].contains(path) && !folder.is_some_and(|folder| all.iter().any(|other| other == folder))
    };
    all.iter().enumerate().filter(is_new).map(|(number, _)| &paths[number]).collect()
}

/// So many files are named in a sentence.
const NAMED: usize = 3;

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file()).collect()
}

/// Joins ranks from several sources.
fn join_ranks(mut ranks: Vec<RankTrace>, more: Vec<RankTrace>) -> Result<Vec<RankTrace>> {
    for ranked in more {
        if let Some(other) = ranks.iter().find(|other| other.rank == ranked.rank) {
            let (rank, other) = (ranked.rank, other.trace.file.display());
            return Err(Error::input(format!("is of rank {rank}, as {other} is")).file(&ranked.trace.file));
        }
        ranks.push(ranked);
    }
    ranks.sort_by_key(|ranked| ranked.rank);
    Ok(ranks)
}

/// Adds the ranks of Horovod's timelines. Beside traces of the same ranks they add nothing, for their clock begins with
/// Horovod.
fn with_timelines(files: &[PathBuf], mut ranks: Vec<RankTrace>) -> Result<Vec<RankTrace>> {
    let mut is_used = false;
    for (place, file) in files.iter().enumerate() {
        let number = if files.len() > 1 { last_number(file).or(Some(place as u32)) } else { last_number(file) };
        let mut own = horovod::read(file, number)?;
        if files.len() > 1 {
            own.retain(|ranked| number.is_none_or(|number| ranked.rank == number));
        }
        match ranks.iter_mut().find(|ranked| own.iter().any(|own| own.rank == ranked.rank)) {
            Some(known) => known.trace.damage.others.push(format!(
                "{} was not used: its clock is Horovod's own, and there are traces of its ranks",
                file.display()
            )),
            None => {
                is_used = true;
                ranks.append(&mut own);
            }
        }
    }
    ranks.sort_by_key(|ranked| ranked.rank);
    let first = ranks.first_mut().filter(|_| is_used);
    first.into_iter().for_each(|first| first.trace.damage.of_other_files.push(horovod::ASSUMED.to_owned()));
    Ok(ranks)
}

/// Dumps by rank, and which could not be read.
fn dumps(files: &[PathBuf]) -> Result<(Vec<FlightDump>, Vec<String>)> {
    let mut dumps: BTreeMap<u32, FlightDump> = BTreeMap::new();
    let (read, unreadable) = read_each(files, flight::read)?;
    for dump in read {
        if let Some(other) = dumps.get(&dump.rank) {
            let (rank, other) = (dump.rank, other.file.display());
            return Err(Error::input(format!("is a dump of rank {rank}, as {other} is")).file(&dump.file));
        }
        dumps.insert(dump.rank, dump);
    }
    Ok((dumps.into_values().collect(), unreadable))
}

/// Reads files by their places, each of a rank. One that cannot be read is passed over where others can, which a sentence says.
fn read_each<T>(files: &[PathBuf], read: impl Fn(&Path, u32) -> Result<T>) -> Result<(Vec<T>, Vec<String>)> {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for (place, file) in files.iter().enumerate() {
        match read(file, place as u32) {
            Ok(one) => found.push(one),
            Err(error) if matches!(error.kind(), FailureKind::Input | FailureKind::Io) => failed.push(error),
            Err(error) => return Err(error),
        }
    }
    match failed.first() {
        Some(first) if found.is_empty() => Err(first.clone()),
        _ => Ok((found, failed.iter().map(|error| format!("skipped: {}", error.in_one_line())).collect())),
    }
}

/// The number after "rank" in a file's name, else the last one before its extension.
fn last_number(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let after = name.rfind("rank").map(|at| name[at + 4..].trim_start_matches(['_', '-', '.']));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    if let Some(rank) = after.and_then(|text| digits(text).parse().ok()) {
        return Some(rank);
    }
    let stem = ENDINGS.iter().fold(name.as_str(), |name, ending| name.strip_suffix(ending).unwrap_or(name));
    let begin = stem.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    stem.get(begin..).or(Some(stem))?.parse().ok()
}

/// Ends of the names of files that are no part of them.
const ENDINGS: [&str; 6] = [".gz", ".json", ".et", ".pickle", ".pkl", ".trace"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_known_by_the_names_of_their_files() {
        let names = [
            ("nccl_trace_rank_3", Some(3)),
            ("comm_lib_trace_rank_12.json", Some(12)),
            ("dump7.pkl", Some(7)),
            ("resnet.4.et", Some(4)),
            ("trace_8_rank_1.json.gz", Some(1)),
            ("host2", Some(2)),
            ("0", Some(0)),
            ("timeline.json", None),
        ];
        names.into_iter().for_each(|(name, rank)| assert_eq!(last_number(name.as_ref()), rank, "{name}"));
    }
}
