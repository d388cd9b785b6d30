//! Times of single operations, measured in place inside the step of their network: `{log_dir}/layers/{variant}-gt.csv`.
//!
//! In the dialect of the other rows. A configuration is a block of rows, one for every operation and pass that ran, closed by one with
//! pass `step`: the plain step, timed in turn with them, whose time the others add up to.

use super::append::RowFile;
use super::columns::Line;
use super::contents::Contents;
pub use super::layer::{LayerRecord, Operation, node_cell};
use super::log::row_file;
use super::variant::Variant;
use perf4sight_base::error::Result;
pub use perf4sight_step::workload::Pass;
use perf4sight_step::workload::{Stage, Variable};
use std::path::{Path, PathBuf};

/// The layer rows of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerLog {
    /// Those of whole configurations, in the order of the file.
    pub records: Vec<LayerRecord>,
    /// Line at which a configuration begins that a crash cut off; it is in no record.
    pub torn: Option<usize>,
    whole: u64,
}

impl LayerLog {
    /// What a reader of the rows should be told.
    pub fn warning(&self, file: &Path) -> Option<String> {
        let line = self.torn?;
        Some(format!("{}:{line}: a configuration's layers were cut off by a crash and are left out", file.display()))
    }
}

/// The file that holds the layer rows of `variant`.
pub fn file(log_dir: &Path, variant: &Variant) -> PathBuf {
    row_file(log_dir, Variable::Layers, variant)
}

/// Reads a file of layer rows.
///
/// # Errors
/// A file that cannot be read, a header without a required column, and any cell that is not what its column holds.
pub fn read(file: &Path) -> Result<LayerLog> {
    let mut rows = Contents::read(file, Variable::Layers, Stage::Training)?;
    let closed = rows.whole.iter().rposition(|(_, line)| line.pass == Pass::Step).map_or(0, |last| last + 1);
    let unclosed = rows.whole.get(closed).map(|(position, _)| *position);
    rows.whole.truncate(closed);
    let (torn, whole) = match unclosed {
        Some(position) => (Some(position.line), position.start),
        None => (rows.torn, rows.bytes),
    };
    Ok(LayerLog { records: rows.whole.into_iter().map(|(_, line)| line.into()).collect(), torn, whole })
}

/// One file of layer rows, open for more.
#[derive(Debug)]
pub struct LayerAppender {
    file: RowFile,
}

impl LayerAppender {
    /// Opens the layer rows of `variant` under `log_dir` and reads what is there; what a crash cut off is removed.
    ///
    /// # Errors
    /// A file that holds something else, or columns that are not ours.
    pub fn open(log_dir: &Path, variant: &Variant) -> Result<(Self, Option<LayerLog>)> {
        let file = RowFile { path: file(log_dir, variant), variable: Variable::Layers };
        if !file.path.exists() {
            return Ok((LayerAppender { file }, None));
        }
        let log = read(&file.path)?;
        file.mend(log.whole)?;
        Ok((LayerAppender { file }, Some(log)))
    }

    /// Writes the rows of one configuration, the plain step last, and waits until the disk has them.
    ///
    /// # Errors
    /// When they cannot be written; none of them stays then.
    pub fn append(&self, records: &[LayerRecord]) -> Result<()> {
        self.file.append(&records.iter().map(Line::from).collect::<Vec<_>>())
    }
}
