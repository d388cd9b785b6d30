//! Rows under a header: cells found by column name, and what every kind of row says.

use super::record::Outcome;
use super::variant::Variant;
use crate::error::{Error, Result, suggestion};
use crate::workload::{Stage, Workload};
use csv::StringRecord;
use std::path::Path;

/// No step takes as many milliseconds (31 years) or MiB.
const MOST: f64 = 1e12;
/// No step has more samples.
const LARGEST_BATCH: u64 = 1 << 32;

/// The columns of one kind of file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    /// The word under `test_var`.
    pub kind: &'static str,
    /// In the order they are written.
    pub columns: &'static [&'static str],
    /// The columns that a file may lack.
    pub optional: &'static [&'static str],
}

/// The header of a file, checked for the columns its format needs.
pub(super) struct Header<'a> {
    file: &'a Path,
    names: StringRecord,
    format: Format,
}

/// One row under its header.
pub(super) struct Row<'a> {
    header: &'a Header<'a>,
    cells: &'a StringRecord,
}

impl Format {
    /// The header line.
    pub fn header(&self) -> String {
        self.columns.join("|")
    }

    fn required(&self) -> impl Iterator<Item = &'static str> {
        let optional = self.optional;
        self.columns.iter().copied().filter(move |column| !optional.contains(column))
    }
}

impl<'a> Header<'a> {
    pub fn check(file: &'a Path, names: StringRecord, format: Format) -> Result<Self> {
        let has = |column: &str| names.iter().any(|name| name == column);
        let missing: Vec<&str> = format.required().filter(|column| !has(column)).collect();
        if missing.is_empty() {
            return Ok(Header { file, names, format });
        }
        let found = names.iter().collect::<Vec<_>>().join("|");
        Err(Error::input(format!("the header lacks {}: \"{found}\"", missing.join(", ")))
            .file(file)
            .line(1)
            .expected(format.required().collect::<Vec<_>>().join("|"))
            .help(format!("check that this is a {} profile, with '|' between its columns", format.kind)))
    }

    /// How many cells a whole row has.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// The row of these cells, which must be of this header's kind and as many as it has.
    ///
    /// A row cut off inside its last cell has them all; but there lies an outcome or a file ending, and neither reads as
    /// another one when cut.
    pub fn row(&'a self, cells: &'a StringRecord) -> Result<Row<'a>> {
        let row = Row { header: self, cells };
        let (kind, expected) = (row.cell("test_var"), self.format.kind);
        if cells.len() != self.width() {
            let found = format!("the row has {} cells, the header {}", cells.len(), self.width());
            return Err(row.place(Error::input(found)).help("correct the row or remove it"));
        }
        if kind != expected {
            let found = Error::input(format!("a {kind} row among {expected} rows"));
            return Err(row.place(found).help("move it to the folder of its kind"));
        }
        Ok(row)
    }
}

impl Row<'_> {
    /// The cell under `column`, if the file has such a column; empty where the row is too short.
    pub fn present(&self, column: &str) -> Option<&str> {
        let index = self.header.names.iter().position(|name| name == column)?;
        Some(self.cells.get(index).unwrap_or(""))
    }

    /// The cell under a column that every file has.
    pub fn cell(&self, column: &str) -> &str {
        self.present(column).unwrap_or("")
    }

    fn place(&self, error: Error) -> Error {
        let line = self.cells.position().map_or(1, csv::Position::line);
        error.file(self.header.file).line(line as usize)
    }

    pub fn wrong(&self, column: &str, expected: &str) -> Error {
        let found = format!("{column} holds \"{}\"", self.cell(column));
        self.place(Error::input(found)).expected(expected).help("correct the cell or remove the row")
    }

    fn passed(&self) -> Result<bool> {
        match self.cell("passed") {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.wrong("passed", "True or False")),
        }
    }

    /// A published row has no `outcome`: there, not passed means that the step did not fit.
    pub fn outcome(&self) -> Result<Outcome> {
        let passed = self.passed()?;
        let outcome = match self.present("outcome") {
            None if passed => Outcome::Measured,
            None => Outcome::OutOfMemory,
            Some(word) => *Outcome::ALL.iter().find(|known| known.name() == word).ok_or_else(|| {
                let names = Outcome::ALL.map(Outcome::name);
                self.wrong("outcome", &names.join(", ")).help(suggestion(word, names))
            })?,
        };
        if outcome.passed() != passed {
            return Err(self.wrong("outcome", &format!("a word that goes with passed = {}", self.cell("passed"))));
        }
        Ok(outcome)
    }

    /// `net_name` is the known name that the file's stem begins with.
    pub fn variant(&self, file: &Path) -> Result<Variant> {
        let known_ending = file.extension().is_some_and(|ending| ending == "py" || ending == "onnx");
        let stem = file.file_stem().and_then(|stem| stem.to_str()).filter(|_| known_ending);
        let stem = stem.ok_or_else(|| self.wrong("model", "the path of a .onnx or .py file"))?;
        Variant::parse(stem, [self.cell("net_name")]).map_err(|error| self.place(error))
    }

    fn stage(&self, stage: Stage) -> Result<Stage> {
        match self.present("stage") {
            None => Ok(stage),
            Some(word) => Stage::parse(word).map_err(|error| self.place(error)),
        }
    }

    fn batch(&self) -> Result<u64> {
        let batch = self.cell("bs").parse().ok().filter(|batch| (1..=LARGEST_BATCH).contains(batch));
        batch.ok_or_else(|| self.wrong("bs", "a batch size of 1 or more"))
    }

    /// Stage and batch size; rows of a file without a `stage` column are of `stage`.
    pub fn workload(&self, stage: Stage) -> Result<Workload> {
        Ok(Workload::published(self.stage(stage)?, self.batch()?))
    }

    /// A measured number. Where the measurement failed it may be missing, or below zero: `mem_used` is a difference,
    /// and a process that was killed leaves it anywhere.
    pub fn value(&self, column: &str, passed: bool) -> Result<Option<f64>> {
        match self.optional(column, str::parse)? {
            Some(value) if value > 0.0 && value <= MOST => Ok(Some(value)),
            Some(value) if passed || value.is_nan() => Err(self.wrong(column, "a number above 0")),
            None if passed => Err(self.wrong(column, "a number, because the row says passed = True")),
            _ => Ok(None),
        }
    }

    /// The half-width of an interval relative to its middle, where the row has one.
    pub fn spread(&self) -> Result<Option<f64>> {
        match self.optional("spread", str::parse)? {
            Some(spread) if !(0.0..=MOST).contains(&spread) => Err(self.wrong("spread", "a number from 0 on")),
            spread => Ok(spread),
        }
    }

    /// The numbers above zero in a cell; none of a file without the column.
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>> {
        let cell = self.present(column).filter(|cell| *cell != "None").unwrap_or_default();
        let number =
            |word: &str| word.parse().ok().filter(|number: &f64| (0.0..=MOST).contains(number) && *number > 0.0);
        let numbers: Option<Vec<f64>> = cell.split_whitespace().map(number).collect();
        numbers.ok_or_else(|| self.wrong(column, "numbers above 0 between blanks, or None"))
    }

    /// What `parse` makes of a cell; `None` and `-1` stand for a value that is missing.
    pub fn optional<T, E>(&self, column: &str, parse: fn(&str) -> std::result::Result<T, E>) -> Result<Option<T>> {
        match self.present(column) {
            None | Some("None" | "-1" | "-1.0") => Ok(None),
            Some(cell) => parse(cell).map(Some).map_err(|_| self.wrong(column, "a number, None or -1")),
        }
    }
}

/// Whether a row could not be read again with this inside a cell.
pub(super) fn ends_cell(c: char) -> bool {
    c == '|' || c.is_control()
}

/// Whether a spreadsheet would run it instead of showing it.
pub(super) fn begins_formula(word: &str) -> bool {
    word.starts_with(['=', '+', '-', '@'])
}

/// Refuses words from a configuration that rows would hold and could not be read again with.
///
/// # Errors
/// The word, and what is wrong with it.
pub fn check_cell(word: &str) -> Result<()> {
    match word.chars().find(|c| ends_cell(*c)) {
        None => Ok(()),
        Some(c) => {
            Err(Error::config(format!("\"{}\" holds {c:?}, which ends a cell of a profile", word.escape_debug()))
                .expected("words without | and without control characters")
                .help("rename it"))
        }
    }
}

/// Numbers in one cell, or the word for none.
pub(super) fn list(numbers: &[f64]) -> String {
    let words: Vec<String> = numbers.iter().map(f64::to_string).collect();
    written(Some(words.join(" ")).filter(|words| !words.is_empty()))
}

/// A value, or the word for none.
pub(super) fn written<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "None".to_owned(), |value| value.to_string())
}
