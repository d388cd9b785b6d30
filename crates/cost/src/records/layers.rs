//! Times of single operations, measured inside the step of their network: `{log_dir}/layers/{variant}-gt.csv`.
//!
//! The files use the same dialect as the other rows. Each configuration is a block of rows, one for every operation
//! and pass that ran. The last row of a block has pass `step`: it is the plain step, timed alternately with the
//! operations, whose times add up to it.

use super::append::RowFile;
use super::columns::RowLine;
use super::contents::RowFileContents;
pub use super::layer::{LayerOperation, LayerRecord, node_cell};
use super::log::row_file;
use super::variant::Variant;
use perf4sight_base::error::Result;
pub use perf4sight_step::workload::StepPart;
use perf4sight_step::workload::{Stage, Variable};
use std::path::{Path, PathBuf};

/// The layer rows of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerLog {
    /// The rows of complete configurations, in the order of the file.
    pub records: Vec<LayerRecord>,
    /// The line where a configuration begins that a crash cut off; its rows are in no record.
    pub torn: Option<usize>,
    whole: u64,
}

impl LayerLog {
    /// A warning for users of the rows, if there is one.
    pub fn warning(&self, file: &Path) -> Option<String> {
        let line = self.torn?;
        Some(format!("{}:{line}: a configuration's layers were cut off by a crash and are left out", file.display()))
    }
}

/// Where the times of a variant's operations are.
pub fn file(log_dir: &Path, variant: &Variant) -> PathBuf {
    row_file(log_dir, Variable::Layers, variant)
}

/// Reads a file of layer rows.
///
/// # Errors
/// A file that cannot be read, a header without a required column, or a cell that does not fit its column.
pub fn read(file: &Path) -> Result<LayerLog> {
    let mut rows = RowFileContents::read(file, Variable::Layers, Stage::Training)?;
    let closed = rows.whole.iter().rposition(|(_, line)| line.pass == StepPart::Step).map_or(0, |last| last + 1);
    let unclosed = rows.whole.get(closed).map(|(position, _)| *position);
    rows.whole.truncate(closed);
    let (torn, whole) = match unclosed {
        Some(position) => (Some(position.line), position.start),
        None => (rows.torn, rows.bytes),
    };
    Ok(LayerLog { records: rows.whole.into_iter().map(|(_, line)| line.into()).collect(), torn, whole })
}

/// A file of layer rows that is open for appending.
#[derive(Debug)]
pub struct LayerAppender {
    file: RowFile,
}

impl LayerAppender {
    /// Opens the layer rows of `variant` under `log_dir` and reads them; a configuration that a crash cut off is
    /// removed.
    ///
    /// # Errors
    /// A file with other content, or with unknown columns.
    pub fn open(log_dir: &Path, variant: &Variant) -> Result<(Self, Option<LayerLog>)> {
        let file = RowFile { path: file(log_dir, variant), variable: Variable::Layers };
        if !file.path.exists() {
            return Ok((LayerAppender { file }, None));
        }
        let log = read(&file.path)?;
        file.truncate_to(log.whole)?;
        Ok((LayerAppender { file }, Some(log)))
    }

    /// Appends the rows of one configuration, the plain step last, and syncs them to disk.
    ///
    /// # Errors
    /// When they cannot be written; then the file keeps none of them.
    pub fn append(&self, records: &[LayerRecord]) -> Result<()> {
        self.file.append(&records.iter().map(RowLine::from).collect::<Vec<_>>())
    }
}
