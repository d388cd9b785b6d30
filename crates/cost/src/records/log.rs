//! Reads the rows of one variant, and finds a profile's files.

use super::contents::RowFileContents;
use super::record::{MeasurementIdentity, MeasurementOutcome, RowRecord};
use super::variant::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_step::workload::{Quantity, Stage, Step, Variable, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The end of the name of every file of rows, after its variant.
const ENDING: &str = "-gt.csv";

/// The rows of one file, with the problems found while reading it.
#[derive(Debug, Clone, PartialEq)]
pub struct RowLog {
    /// Where the rows are from.
    pub file: PathBuf,
    /// Every complete row, in the order of the file; [`RowLog::settled_rows`] leaves out rows that are superseded.
    pub records: Vec<RowRecord>,
    /// The line of a last row that a crash cut off; it is in no record.
    pub torn: Option<usize>,
    /// Rows that measured the same thing. All of them are in `records`: they are repeats, and fits may use them.
    pub duplicates: Vec<DuplicateRows>,
    /// Bytes up to the end of the last whole row.
    pub(super) whole: u64,
}

/// Lines that measure the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateRows {
    /// The measurement that they repeat.
    pub identity: MeasurementIdentity,
    /// The lines, from 1, ascending; at least two.
    pub lines: Vec<usize>,
}

impl RowLog {
    /// The rows that still count.
    ///
    /// A failure for a reason other than memory does not count once there is a later row of the same step. A skipped
    /// step counts as not fitting only if a smaller batch ran out of memory: profiles of earlier versions also skipped
    /// the configurations after a worker that had crashed.
    pub fn settled_rows(self) -> Vec<RowRecord> {
        let mut edges: BTreeMap<Step, u64> = BTreeMap::new();
        let mut last: BTreeMap<Workload, usize> = BTreeMap::new();
        for (at, record) in self.records.iter().enumerate() {
            let Workload { step, batch } = record.workload;
            last.insert(record.workload, at);
            if record.outcome == MeasurementOutcome::OutOfMemory {
                let edge = edges.entry(step).or_insert(batch);
                *edge = batch.min(*edge);
            }
        }
        let counts = |at: usize, record: &RowRecord| match record.outcome {
            MeasurementOutcome::Skipped => {
                edges.get(&record.workload.step).is_some_and(|edge| *edge < record.workload.batch)
            }
            MeasurementOutcome::Failed
            | MeasurementOutcome::Crashed
            | MeasurementOutcome::TimedOut
            | MeasurementOutcome::Garbled => last[&record.workload] == at,
            MeasurementOutcome::Measured | MeasurementOutcome::Disturbed | MeasurementOutcome::Throttled => true,
            MeasurementOutcome::Unexpected | MeasurementOutcome::OutOfMemory => true,
        };
        let rows = self.records.into_iter().enumerate();
        rows.filter(|(at, record)| counts(*at, record)).map(|(_, record)| record).collect()
    }

    /// Warnings for users of these rows, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let file = self.file.display();
        let torn = self.torn.map(|line| format!("{file}:{line}: the last row was cut off by a crash and is left out"));
        torn.into_iter().chain(self.duplicate_warning()).collect()
    }

    fn duplicate_warning(&self) -> Option<String> {
        let first = self.duplicates.first()?;
        let more: usize = self.duplicates.iter().map(|duplicate| duplicate.lines.len() - 1).sum();
        let lines: Vec<String> = first.lines.iter().map(usize::to_string).collect();
        Some(format!(
            "{}: {more} rows repeat an earlier one and are kept as repeats (first: {} on lines {})",
            self.file.display(),
            first.identity,
            lines.join(", ")
        ))
    }
}

/// The path of the rows of `variant`: `{log_dir}/{latency,memory}/{variant}-gt.csv`.
pub fn log_file(log_dir: &Path, quantity: Quantity, variant: &Variant) -> PathBuf {
    row_file(log_dir, quantity.into(), variant)
}

/// Where the rows of a variable are: `{log_dir}/{variable}/{variant}-gt.csv`.
pub fn row_file(log_dir: &Path, variable: Variable, variant: &Variant) -> PathBuf {
    log_dir.join(variable.name()).join(format!("{variant}{ENDING}"))
}

/// The files of rows in `folder` that belong to variants of the `known` networks, by network, level and repeat.
///
/// # Errors
/// A folder that cannot be read.
pub fn list<'a>(folder: &Path, known: impl IntoIterator<Item = &'a str> + Clone) -> Result<BTreeMap<Variant, PathBuf>> {
    let variant = |(stem, path): (String, PathBuf)| Some((Variant::parse(&stem, known.clone()).ok()?, path));
    Ok(row_files(folder)?.into_iter().filter_map(variant).collect())
}

/// The files of rows in a folder, with the names of their variants.
fn row_files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |cause: std::io::Error| Error::io(folder, "list the profile", &cause);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let stem = path.file_name().and_then(|name| name.to_str()?.strip_suffix(ENDING)).map(str::to_owned);
        files.extend(stem.map(|stem| (stem, path)));
    }
    Ok(files)
}

/// The variants and variables of all files of rows of a profile, whatever their networks are called.
///
/// # Errors
/// A folder that cannot be read.
pub fn files(log_dir: &Path) -> Result<BTreeSet<(Variant, Variable)>> {
    let mut files = BTreeSet::new();
    for variable in Variable::ALL {
        let folder = log_dir.join(variable.name());
        if folder.is_dir() {
            // The name of a network may end like a level and a repeat, which names the same file.
            let variant = |(stem, _): (String, PathBuf)| {
                let (longer, _) = stem.rsplit_once('_')?;
                let shorter = longer.rsplit_once('_').map(|(shorter, _)| shorter);
                Variant::parse(&stem, shorter.into_iter().chain([longer])).ok()
            };
            files.extend(row_files(&folder)?.into_iter().filter_map(variant).map(|variant| (variant, variable)));
        }
    }
    Ok(files)
}

/// Whether a profile has rows of any network.
pub fn any_rows(log_dir: &Path) -> bool {
    Quantity::ALL.iter().any(|quantity| row_files(&log_dir.join(quantity.name())).is_ok_and(|files| !files.is_empty()))
}

/// Reads a file of `quantity` rows; rows without a stage are of `stage`.
///
/// A last row that a crash cut off is left out and recorded in [`RowLog::torn`]; so is a file whose header was cut off.
///
/// # Errors
/// A file that cannot be read, a header without a required column, or a cell that does not fit its column: with file,
/// line, column, expectation and remedy.
pub fn read(file: &Path, quantity: Quantity, stage: Stage) -> Result<RowLog> {
    let rows = RowFileContents::read(file, quantity.into(), stage)?;
    let mut lines = BTreeMap::new();
    for (position, line) in rows.whole.iter().filter(|(_, line)| !line.record.outcome.broken()) {
        lines.entry(line.record.identity()).or_insert_with(Vec::new).push(position.line);
    }
    let repeated = lines.into_iter().filter(|(_, lines)| lines.len() > 1);
    let duplicates = repeated.map(|(identity, lines)| DuplicateRows { identity, lines }).collect();
    let (torn, whole) = (rows.torn, rows.bytes);
    let records = rows.whole.into_iter().map(|(_, line)| line.record).collect();
    Ok(RowLog { file: file.to_owned(), records, torn, duplicates, whole })
}
