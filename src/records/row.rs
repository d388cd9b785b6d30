//! A record from and to the cells of its row.

use super::record::{MemoryColumns, Outcome, Reading, Record, columns};
use super::variant::Variant;
use crate::error::{Error, Result, suggestion};
use crate::units::{Bytes, Milliseconds};
use crate::workload::{Quantity, Stage, Workload};
use csv::StringRecord;
use std::path::{Path, PathBuf};

/// The header of a file, checked for the columns its quantity needs.
pub(super) struct Header<'a> {
    file: &'a Path,
    names: StringRecord,
    quantity: Quantity,
}

/// One row under its header.
struct Row<'a> {
    header: &'a Header<'a>,
    cells: &'a StringRecord,
}

impl<'a> Header<'a> {
    pub(super) fn check(file: &'a Path, names: StringRecord, quantity: Quantity) -> Result<Self> {
        let has = |column: &str| names.iter().any(|name| name == column);
        let missing: Vec<&str> = required(quantity).filter(|column| !has(column)).collect();
        if missing.is_empty() {
            return Ok(Header { file, names, quantity });
        }
        let found = names.iter().collect::<Vec<_>>().join("|");
        Err(Error::input(format!("the header lacks {}: \"{found}\"", missing.join(", ")))
            .file(file)
            .line(1)
            .expected(required(quantity).collect::<Vec<_>>().join("|"))
            .help(format!("check that this is a {quantity} profile, with '|' between its columns")))
    }

    /// How many cells a whole row has.
    pub(super) fn width(&self) -> usize {
        self.names.len()
    }

    /// What is wrong with a row of another width.
    pub(super) fn misshapen(&self, cells: &StringRecord) -> Error {
        let found = format!("the row has {} cells, the header {}", cells.len(), self.width());
        Row { header: self, cells }.place(Error::input(found)).help("correct the row or remove it")
    }

    /// The record in `cells`; rows of a file without a `stage` column are of `stage`.
    pub(super) fn record(&self, cells: &StringRecord, stage: Stage) -> Result<Record> {
        Row { header: self, cells }.record(stage)
    }
}

/// The published columns except `free`, which the published 2080 Ti rows lack too.
fn required(quantity: Quantity) -> impl Iterator<Item = &'static str> {
    let ours = ["free", "stage", "steps", "spread", "outcome"];
    columns(quantity).into_iter().filter(move |column| !ours.contains(column))
}

impl Row<'_> {
    fn record(&self, stage: Stage) -> Result<Record> {
        let quantity = Quantity::parse(self.cell("test_var")).map_err(|error| self.place(error))?;
        if quantity != self.header.quantity {
            let found = format!("a {quantity} row among {} rows", self.header.quantity);
            return Err(self.place(Error::input(found)).help("move it to the other folder"));
        }
        let outcome = self.outcome()?;
        let file = PathBuf::from(self.cell("model"));
        Ok(Record {
            variant: self.variant(&file)?,
            workload: Workload { stage: self.stage(stage)?, batch: self.batch()? },
            dataset: self.cell("dataset").to_owned(),
            file,
            outcome,
            reading: self.reading(outcome.passed())?,
            steps: self.optional("steps", str::parse)?,
            spread: self.optional("spread", str::parse)?,
        })
    }

    /// The cell under `column`, if the file has such a column; empty where the row is too short.
    fn present(&self, column: &str) -> Option<&str> {
        let index = self.header.names.iter().position(|name| name == column)?;
        Some(self.cells.get(index).unwrap_or(""))
    }

    /// The cell under a column that every file has.
    fn cell(&self, column: &str) -> &str {
        self.present(column).unwrap_or("")
    }

    fn place(&self, error: Error) -> Error {
        let line = self.cells.position().map_or(1, csv::Position::line);
        error.file(self.header.file).line(line as usize)
    }

    fn wrong(&self, column: &str, expected: &str) -> Error {
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
    fn outcome(&self) -> Result<Outcome> {
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
    fn variant(&self, file: &Path) -> Result<Variant> {
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
        let batch = self.cell("bs").parse().ok().filter(|&batch| batch > 0);
        batch.ok_or_else(|| self.wrong("bs", "a batch size of 1 or more"))
    }

    fn reading(&self, passed: bool) -> Result<Reading> {
        let mib = |column| -> Result<_> { Ok(self.value(column, passed)?.map(Bytes::from_mib)) };
        Ok(match self.header.quantity {
            Quantity::Latency => Reading::Latency(self.value("latency", passed)?.map(Milliseconds)),
            Quantity::Memory => Reading::Memory(MemoryColumns {
                allocated: mib("mem_alloc")?,
                reserved: mib("mem_reserved")?,
                used: mib("mem_used")?,
                available: mib("mem_avail")?,
                free: self.optional("free", str::parse)?.map(Bytes::from_mib),
                capacity: mib("capacity")?,
            }),
        })
    }

    /// A measured number. Where the measurement failed it may be missing, or below zero: `mem_used` is a difference,
    /// and a process that was killed leaves it anywhere.
    fn value(&self, column: &str, passed: bool) -> Result<Option<f64>> {
        match self.optional(column, str::parse)? {
            Some(value) if value > 0.0 && f64::is_finite(value) => Ok(Some(value)),
            Some(value) if passed || value.is_nan() => Err(self.wrong(column, "a number above 0")),
            None if passed => Err(self.wrong(column, "a number, because the row says passed = True")),
            _ => Ok(None),
        }
    }

    /// What `parse` makes of a cell; `None` and `-1` stand for a value that is missing.
    fn optional<T, E>(&self, column: &str, parse: fn(&str) -> std::result::Result<T, E>) -> Result<Option<T>> {
        match self.present(column) {
            None | Some("None" | "-1" | "-1.0") => Ok(None),
            Some(cell) => parse(cell).map(Some).map_err(|_| self.wrong(column, "a number, None or -1")),
        }
    }
}

/// The cells of a record, in the order of [`columns`].
pub(super) fn cells(record: &Record) -> Vec<String> {
    let passed = if record.outcome.passed() { "True" } else { "False" };
    let values = match record.reading {
        Reading::Latency(latency) => vec![written(latency.map(|latency| latency.0))],
        Reading::Memory(memory) => {
            [memory.allocated, memory.reserved, memory.used, memory.available, memory.free, memory.capacity]
                .map(|bytes| written(bytes.map(Bytes::mib)))
                .to_vec()
        }
    };
    let asked = [
        record.quantity().to_string(),
        record.workload.batch.to_string(),
        record.dataset.clone(),
        record.variant.network.clone(),
        record.file.display().to_string(),
        record.workload.stage.to_string(),
    ];
    let ours = [written(record.steps), written(record.spread), record.outcome.to_string()];
    [vec![passed.to_owned()], values, asked.to_vec(), ours.to_vec()].concat()
}

fn written<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "None".to_owned(), |value| value.to_string())
}
