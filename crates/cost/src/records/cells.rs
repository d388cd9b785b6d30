//! Parses one cell of a row, or reports an error with its file and line.

use super::dialect::NONE;
use perf4sight_base::error::{Error, Result, suggestion};
use std::path::Path;
use std::str::FromStr;

/// An upper bound: no step takes this many milliseconds (31 years) or MiB.
const MOST: f64 = 1e12;

pub(super) struct RowCell<'a> {
    pub file: &'a Path,
    /// From 1.
    pub line: usize,
    pub column: &'static str,
    pub text: &'a str,
}

impl RowCell<'_> {
    /// Adds the cell's position to an error.
    pub fn with_place(&self, error: Error) -> Error {
        error.file(self.file).line(self.line)
    }

    /// The error for a cell with unexpected content.
    pub fn wrong(&self, expected: &str) -> Error {
        let found = format!("{} holds \"{}\"", self.column, self.text);
        self.with_place(Error::input(found)).expected(expected).help("correct the cell or remove the row")
    }

    pub fn one_of<T: Copy, const N: usize>(&self, all: [T; N], name: fn(T) -> &'static str) -> Result<T> {
        let names = all.map(name);
        let found = all.into_iter().find(|value| name(*value) == self.text);
        found.ok_or_else(|| self.wrong(&names.join(", ")).help(suggestion(self.text, names)))
    }

    pub fn optional<T: FromStr>(&self) -> Result<Option<T>> {
        match self.text {
            NONE | "-1" | "-1.0" => Ok(None),
            text => text.parse().map(Some).map_err(|_| self.wrong("a number, None or -1")),
        }
    }

    /// A measured number. After a failed measurement it may be missing or negative: `mem_used` is a difference, and a
    /// killed process leaves it at any value.
    pub fn measured_number(&self, passed: bool) -> Result<Option<f64>> {
        match self.optional()? {
            Some(value) if value > 0.0 && value <= MOST => Ok(Some(value)),
            Some(value) if passed || f64::is_nan(value) => Err(self.wrong("a number above 0")),
            None if passed => Err(self.wrong("a number, because the row has passed = True")),
            Some(_) | None => Ok(None),
        }
    }

    /// A share of a measured number, if the cell holds one.
    pub fn share(&self) -> Result<Option<f64>> {
        match self.optional()? {
            Some(share) if !(0.0..=MOST).contains(&share) => Err(self.wrong("a number from 0 on")),
            share => Ok(share),
        }
    }

    pub fn numbers(&self) -> Result<Vec<f64>> {
        let number = |word: &str| word.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= MOST);
        let words = self.text.split_whitespace().filter(|word| *word != NONE);
        let numbers: Option<Vec<f64>> = words.map(number).collect();
        numbers.ok_or_else(|| self.wrong("numbers above 0 between blanks, or None"))
    }
}
