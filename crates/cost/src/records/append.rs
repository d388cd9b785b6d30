//! Appends rows one by one, so that no measurement is lost, and checks beforehand that the folder is writable.

use super::columns::{self, MissingColumn, RowColumn, RowLine};
use super::contents::{RowFileContents, malformed_error, reader};
use super::dialect::{NONE, SEPARATOR, check_cell};
use super::log::{RowLog, log_file, read};
use super::record::RowRecord;
use super::variant::Variant;
use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_step::workload::{Quantity, Stage, Variable};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file of rows that is open for appending.
#[derive(Debug)]
pub struct RowAppender {
    file: RowFile,
}

impl RowAppender {
    /// Opens the rows of `variant` under `log_dir` and reads the existing ones; a file that does not exist yet is
    /// empty.
    ///
    /// A last row that a crash cut off is removed, so that the next one does not continue it. A file of an earlier
    /// version gets the missing columns, with `None` in its rows.
    ///
    /// # Errors
    /// A file that is not such a profile, that has unknown columns, or whose rows lack stage and outcome.
    pub fn open(log_dir: &Path, variant: &Variant, quantity: Quantity, stage: Stage) -> Result<(Self, Option<RowLog>)> {
        let file = RowFile { path: log_file(log_dir, quantity, variant), variable: quantity.into() };
        if !file.path.exists() {
            return Ok((RowAppender { file }, None));
        }
        let log = read(&file.path, quantity, stage)?;
        file.truncate_to(log.whole)?;
        Ok((RowAppender { file }, Some(log)))
    }

    /// Where the rows are written.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Replaces the last row equal to `old`; after a crash the file holds either the old or the new row.
    ///
    /// # Errors
    /// When that row no longer exists, or the file cannot be written.
    pub fn replace(&self, old: &RowRecord, new: &RowRecord) -> Result<()> {
        let path = &self.file.path;
        let rows = RowFileContents::read(path, self.file.variable, old.workload.step.stage)?.whole;
        let line_of_old = rows.iter().rev().find(|(_, row)| row.record == *old).map(|(position, _)| position.line);
        let gone = || Error::input(format!("the row of {} has gone", old.identity())).file(path);
        let line_of_old =
            line_of_old.ok_or_else(|| gone().help("let nothing else change the profile while it is measured"))?;
        let text = input_file::text(path, "read the profile")?;
        let lines = (1..).zip(text.lines()).map(|(line, text)| match line == line_of_old {
            true => row(&RowLine::from(new).cells()),
            false => text.to_owned() + "\n",
        });
        atomic_write::save(path, lines.collect::<String>())
    }

    /// Appends one row and syncs it to disk; a new file gets its header with the first row.
    ///
    /// # Errors
    /// When the row cannot be written; then the file keeps no part of it.
    pub fn append(&self, record: &RowRecord) -> Result<()> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Appends all of these rows or none.
    ///
    /// # Errors
    /// See [`RowAppender::append`].
    pub fn append_all(&self, records: &[RowRecord]) -> Result<()> {
        if records.is_empty() {
            Ok(())
        } else {
            self.file.append(&records.iter().map(RowLine::from).collect::<Vec<_>>())
        }
    }
}

#[derive(Debug)]
pub(super) struct RowFile {
    pub path: PathBuf,
    pub variable: Variable,
}

impl RowFile {
    /// Appends all rows or none, and syncs them to disk.
    pub fn append(&self, lines: &[RowLine]) -> Result<()> {
        let rows: Vec<Vec<String>> = lines.iter().map(RowLine::cells).collect();
        rows.iter().flatten().try_for_each(|cell| check_cell(cell)).map_err(|error| error.file(&self.path))?;
        self.write(&rows).map_err(|cause| {
            Error::io(&self.path, "append a row", &cause).help("make room or permit writing, then run again")
        })
    }

    fn write(&self, rows: &[Vec<String>]) -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let before = file.metadata()?.len();
        let header = if before == 0 { columns::header(self.variable) + "\n" } else { String::new() };
        let rows: String = rows.iter().map(|cells| row(cells)).collect();
        // One write call: another process never sees half a row, and a failed write is undone completely.
        let written = file.write_all((header + &rows).as_bytes()).and_then(|()| file.sync_data());
        let written = match before {
            0 => written.and_then(|()| atomic_write::sync_folder(atomic_write::folder_of(&self.path))),
            _ => written,
        };
        written.inspect_err(|_| drop(file.set_len(before)))
    }

    /// Prepares an existing file for more rows: it ends after its first `whole` bytes, with a line break, and has all
    /// current columns.
    pub fn truncate_to(&self, whole: u64) -> Result<()> {
        let opened = OpenOptions::new().append(true).open(&self.path);
        opened.map_err(|cause| Error::io(&self.path, "mend the profile", &cause))?;
        let bytes = input_file::bytes(&self.path, "read the profile")?;
        let kept = &bytes[..bytes.len().min(whole as usize)];
        let modern = self.modern(&String::from_utf8_lossy(kept))?;
        if modern.as_bytes() == bytes { Ok(()) } else { atomic_write::save(&self.path, modern) }
    }

    /// The text with the current header; columns that the file lacks hold `None`.
    fn modern(&self, text: &str) -> Result<String> {
        if text.is_empty() {
            return Ok(String::new());
        }
        let mut reader = reader(text);
        let names = reader.headers().map_err(|cause| malformed_error(&self.path, &cause))?.clone();
        let place = |column: &RowColumn| names.iter().position(|name| name == column.name);
        let places: Vec<Option<usize>> = columns::columns_of(self.variable).map(place).collect();
        let unsaid = |column: &RowColumn| column.lacking != MissingColumn::Unknown && place(column).is_none();
        if places.iter().flatten().count() < names.len() || columns::columns_of(self.variable).any(unsaid) {
            return Err(self.other_columns());
        }
        let mut modern = columns::header(self.variable) + "\n";
        for cells in reader.records() {
            let cells = cells.map_err(|cause| malformed_error(&self.path, &cause))?;
            let cell = |place: &Option<usize>| place.and_then(|place| cells.get(place)).unwrap_or(NONE).to_owned();
            modern += &row(&places.iter().map(cell).collect::<Vec<_>>());
        }
        Ok(modern)
    }

    fn other_columns(&self) -> Error {
        Error::input("the file has other columns than the rows that would be appended")
            .file(&self.path)
            .line(1)
            .expected(columns::header(self.variable))
            .help("profile into another log_dir, or move this file away")
    }
}

fn row(cells: &[String]) -> String {
    cells.join(SEPARATOR) + "\n"
}

/// Checks that `folder` exists and is writable, before anything is measured for it.
///
/// # Errors
/// A folder that cannot be created or written, or a full disk.
pub fn ensure_writable(folder: &Path) -> Result<()> {
    // A full disk still accepts empty and sometimes short files, so the probe is several pages long.
    const PROBE_BYTES: usize = 16 * 1024;
    fs::create_dir_all(folder).map_err(|cause| {
        Error::io(folder, "create the folder", &cause).help("set log_dir to a folder you may write")
    })?;
    atomic_write::try_folder(folder, PROBE_BYTES).map_err(|cause| {
        Error::io(folder, "write here", &cause).help("make room or permit writing, or set log_dir to another folder")
    })
}
