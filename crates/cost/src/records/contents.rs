//! Reads the rows of any file by column name; rows that a crash cut off are left out.

use super::cells::RowCell;
use super::columns::{self, MissingColumn, RowColumn, RowLine};
use super::dialect::SEPARATOR;
use csv::StringRecord;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_step::workload::{Stage, Variable};
use std::path::Path;

/// The columns whose truncated cells are never valid values.
const CLOSING: [&str; 2] = ["model", "outcome"];

pub(super) struct RowFileContents {
    pub whole: Vec<(LinePosition, RowLine)>,
    /// Line of a last row that a crash cut off.
    pub torn: Option<usize>,
    /// Bytes up to the end of the last whole row.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinePosition {
    /// From 1.
    pub line: usize,
    /// Bytes before it.
    pub start: u64,
}

impl LinePosition {
    /// The reader counts the second character of a Windows line end to the next record.
    fn from_csv(text: &str, at: &csv::Position) -> Self {
        let late = u64::from(text.as_bytes().get(at.byte() as usize) == Some(&b'\n'));
        LinePosition { line: (at.line() + late) as usize, start: at.byte() + late }
    }
}

struct RowHeader<'a> {
    file: &'a Path,
    variable: Variable,
    names: StringRecord,
    /// The known columns that the file has, with their indices.
    found: Vec<(&'static RowColumn, usize)>,
}

impl RowFileContents {
    /// Reads a file of that variable; rows of a file without a `stage` column are of `stage`.
    pub fn read(file: &Path, variable: Variable, stage: Stage) -> Result<Self> {
        let bytes = input_file::bytes(file, "read the profile")?;
        let text = String::from_utf8_lossy(&bytes);
        let cut_character = |error: std::str::Utf8Error| !bytes[error.valid_up_to()..].contains(&b'\n');
        match std::str::from_utf8(&bytes) {
            Err(error) if !cut_character(error) => Err(not_text(file, &bytes[..error.valid_up_to()])),
            Ok(_) | Err(_) => Self::parse(file, &text, variable, stage),
        }
    }

    fn parse(file: &Path, text: &str, variable: Variable, stage: Stage) -> Result<Self> {
        let mut contents = RowFileContents { whole: Vec::new(), torn: None, bytes: text.len() as u64 };
        // A crash while the file was created leaves only the beginning of a header.
        if !text.contains('\n') && columns::header(variable).starts_with(text) {
            return Ok(RowFileContents { torn: (!text.is_empty()).then_some(1), bytes: 0, ..contents });
        }
        let mut reader = reader(text);
        let names = reader.headers().map_err(|cause| malformed_error(file, &cause))?.clone();
        let header = RowHeader::check(file, names, variable)?;
        let mut rows = reader.records().peekable();
        while let Some(cells) = rows.next() {
            let cells = cells.map_err(|cause| malformed_error(file, &cause))?;
            let position = cells.position().map(|at| LinePosition::from_csv(text, at));
            let position = position.unwrap_or(LinePosition { line: 1, start: 0 });
            let unended = rows.peek().is_none() && !text.ends_with('\n');
            let cut_off = unended || rows.peek().is_none() && cells.len() < header.names.len();
            match header.line(&cells, position.line, stage) {
                Ok(line) if !unended || header.closes() => contents.whole.push((position, line)),
                Err(error) if !cut_off => return Err(error),
                Ok(_) | Err(_) => (contents.torn, contents.bytes) = (Some(position.line), position.start),
            }
        }
        Ok(contents)
    }
}

impl<'a> RowHeader<'a> {
    /// Refuses a file that lacks a required column.
    fn check(file: &'a Path, names: StringRecord, variable: Variable) -> Result<Self> {
        let place = |column: &RowColumn| names.iter().position(|name| name == column.name);
        let found = columns::columns_of(variable).filter_map(|column| Some((column, place(column)?))).collect();
        let needed = || columns::columns_of(variable).filter(|column| column.lacking == MissingColumn::Refused);
        let missing: Vec<&str> = needed().filter(|column| place(column).is_none()).map(|column| column.name).collect();
        if missing.is_empty() {
            return Ok(RowHeader { file, variable, names, found });
        }
        let found = names.iter().collect::<Vec<_>>().join(SEPARATOR);
        Err(Error::input(format!("the header lacks {}: \"{found}\"", missing.join(", ")))
            .file(file)
            .line(1)
            .expected(needed().map(|column| column.name).collect::<Vec<_>>().join(SEPARATOR))
            .help(format!("check that this is a {variable} profile, with '|' between its columns")))
    }

    /// Whether a row with all its cells is complete even without a line break at its end.
    fn closes(&self) -> bool {
        self.names.iter().next_back().is_some_and(|name| CLOSING.contains(&name))
    }

    /// Parses the cells of a row; their number must be that of the header.
    fn line(&self, cells: &StringRecord, line: usize, stage: Stage) -> Result<RowLine> {
        if cells.len() != self.names.len() {
            let found = format!("the row has {} cells, the header {}", cells.len(), self.names.len());
            return Err(Error::input(found).file(self.file).line(line).help("correct the row or remove it"));
        }
        let mut read = RowLine::unread(self.variable, stage);
        for (column, place) in &self.found {
            let text = cells.get(*place).unwrap_or_default();
            column.read(&RowCell { file: self.file, line, column: column.name, text }, &mut read)?;
        }
        read.check_memory().map_err(|error| error.file(self.file).line(line))?;
        Ok(read)
    }
}

/// Splits a text into a header and rows, each into cells.
pub(super) fn reader(text: &str) -> csv::Reader<&[u8]> {
    let mut builder = csv::ReaderBuilder::new();
    builder.delimiter(SEPARATOR.as_bytes()[0]).flexible(true).quoting(false).from_reader(text.as_bytes())
}

/// The error of a text that [`reader`] cannot split.
pub(super) fn malformed_error(file: &Path, cause: &csv::Error) -> Error {
    Error::input(format!("the rows cannot be separated: {cause}")).file(file)
}

fn not_text(file: &Path, before: &[u8]) -> Error {
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    Error::input("the profile holds bytes that are no text").file(file).line(line).expected("rows of UTF-8 text")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "passed|mem_alloc|mem_reserved|mem_used|mem_avail|free|capacity|test_var|bs|dataset|net_name|model";
    const ROW: &str = "True|66.5|66.5|100.1|23272.8|9838.7|4000|memory|32|cifar10|mnasnet|mnasnet_0.onnx";

    #[test]
    fn rows_of_files_of_windows_begin_behind_the_end_of_the_line_before() {
        let text = [HEADER, ROW, "True|44"].join("\r\n");
        let read = RowFileContents::parse(Path::new("m.csv"), &text, Variable::Memory, Stage::Training).unwrap();
        let second = (HEADER.len() + 2) as u64;
        assert_eq!(read.whole[0].0, LinePosition { line: 2, start: second });
        assert_eq!((read.torn, read.bytes), (Some(3), second + (ROW.len() + 2) as u64));
    }
}
