//! Reads rows from folders `GPU/NETWORK/`: tables, traces of PyTorch's profiler, and what dPRO's scripts write. A new form is a
//! file here and its line in [`network`].

mod between_gpus;
mod convolved;
mod execution_trace;
mod kineto;
mod published;
mod repeats;
mod table;
mod units;

pub use table::read as read_table;

use crate::gpus::sheet;
use crate::row::OperationRow;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a folder contains.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct MeasuredOperations {
    /// Its rows, by GPU and network.
    pub rows: Vec<OperationRow>,
    /// Why operations gave no row, and how many.
    pub left_out: BTreeMap<String, usize>,
    /// Folders of networks that gave no row.
    pub without_rows: Vec<PathBuf>,
    /// What is doubtful of the rows, in sentences.
    doubts: Vec<String>,
}

impl MeasuredOperations {
    /// Counts an operation without a row.
    fn leave_out(&mut self, why: impl Into<String>) {
        *self.left_out.entry(why.into()).or_default() += 1;
    }

    /// Leaves out what computes with a type whose rate is on no data sheet here.
    fn leave_out_unknown_rates(&mut self) {
        let (kept, others): (Vec<OperationRow>, Vec<OperationRow>) =
            std::mem::take(&mut self.rows).into_iter().partition(OperationRow::has_rate);
        self.rows = kept;
        others
            .iter()
            .for_each(|row| self.leave_out(format!("the rate of {} in {} is not known", row.class, row.element)));
    }

    /// What is doubtful of the rows, in sentences.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// What was left out, and what is doubtful, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let sentence =
            |(why, count): (&String, &usize)| format!("{} not used: {why}", count_text(*count as u64, "operation"));
        let empty = self.without_rows.iter().map(|folder| format!("nothing of {} is used", folder.display()));
        self.left_out.iter().map(sentence).chain(empty).chain(self.doubts.iter().cloned()).collect()
    }
}

/// Where rows come from.
#[derive(Debug, Clone)]
struct RowOrigin {
    gpu: String,
    network: String,
}

const EXPECTED: &str = "folders GPU/NETWORK/, each with traces of PyTorch's profiler (.json, .json.gz), tables of operations (.csv), or avg.txt, name.txt and metadata.json";

/// Reads all networks of all GPUs below a folder. A folder that holds the files itself counts as well, and one level of
/// folders whose names contain a GPU.
///
/// # Errors
/// A folder that cannot be read, or without rows; files that contradict themselves.
pub fn read_folder(path: &Path) -> Result<MeasuredOperations> {
    let mut found = MeasuredOperations::default();
    for (folder, origin) in networks(path)? {
        let before = found.rows.len();
        network(&folder, &origin, &mut found)?;
        if found.rows.len() == before {
            found.without_rows.push(folder);
        }
    }
    found.leave_out_unknown_rates();
    found.doubts = [units::check, between_gpus::check]
        .map(|check| check(&found.rows).map_err(|error| error.file(path)))
        .into_iter()
        .collect::<Result<Vec<_>>>()?
        .concat();
    found.doubts.extend(repeats::check(&found.rows));
    found.doubts.extend(without_sheet(&found.rows));
    match found.rows.is_empty() {
        false => Ok(found),
        true => {
            let why = found.warnings();
            let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
            Err(Error::input(format!("no operation was measured here{why}")).file(path).expected(EXPECTED))
        }
    }
}

/// Names what its folder calls a GPU and no data sheet is known of.
fn without_sheet(rows: &[OperationRow]) -> Option<String> {
    let gpus: BTreeSet<&str> = rows.iter().map(|row| row.gpu.as_str()).filter(|gpu| sheet(gpu).is_none()).collect();
    let gpus: Vec<String> = gpus.into_iter().map(|gpu| format!("\"{gpu}\"")).collect();
    (!gpus.is_empty()).then(|| {
        format!(
            "no data sheet is known of the GPU {}, as folders GPU/NETWORK/ or the column gpu name it: its operations say nothing of other GPUs",
            gpus.join(", ")
        )
    })
}

/// The files that [`read_folder`] reads rows from.
///
/// # Errors
/// A folder that cannot be listed.
pub fn files_read(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(networks(path)?.iter().map(|(folder, _)| files(folder)).collect::<Result<Vec<_>>>()?.concat())
}

/// The folders of networks.
fn networks(path: &Path) -> Result<Vec<(PathBuf, RowOrigin)>> {
    let mut found = Vec::new();
    if !files(path)?.is_empty() {
        let name = name(path);
        found.push((path.to_owned(), RowOrigin { gpu: gpu_in(&name), network: name }));
    }
    for folder in folders(path)? {
        if !files(&folder)?.is_empty() {
            let name = name(&folder);
            found.push((folder.clone(), RowOrigin { gpu: gpu_in(&name), network: name.clone() }));
        }
        let inner = folders(&folder)?;
        found.extend(inner.into_iter().map(|inner| {
            let origin = RowOrigin { gpu: name(&folder), network: name(&inner) };
            (inner, origin)
        }));
    }
    Ok(found)
}

/// The GPU in the name of a folder, or the name.
fn gpu_in(name: &str) -> String {
    sheet(name).map_or_else(|| name.to_owned(), |sheet| sheet.name.clone())
}

fn name(path: &Path) -> String {
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The entries of a folder in the order of their names, hidden ones left out.
fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause: std::io::Error| Error::io(path, "look for operations here", &cause);
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.retain(|path| !name_is_hidden(path));
    paths.sort();
    Ok(paths)
}

fn name_is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(path)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// The files that rows are read from.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let is_read = |file: &PathBuf| published::is_times(file) || table::is_table(file) || kineto::is_json(file);
    Ok(entries(path)?.into_iter().filter(|path| path.is_file()).filter(is_read).collect())
}

/// Reads a network of a GPU.
fn network(folder: &Path, origin: &RowOrigin, found: &mut MeasuredOperations) -> Result<()> {
    let files = files(folder)?;
    for file in files.iter().filter(|file| published::is_times(file)) {
        published::read(file, origin, found)?;
    }
    for file in files.iter().filter(|file| table::is_table(file)) {
        found.rows.extend(table::read_of(file, origin)?);
    }
    let traces: Vec<PathBuf> = files.into_iter().filter(|file| kineto::is_json(file)).collect();
    kineto::read(&traces, origin, found)
}
