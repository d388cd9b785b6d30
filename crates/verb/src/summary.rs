//! What a section found, as data: shown at its end, in the closing table of the run, and in its JSON.

use perf4sight_base::error::Error;
use perf4sight_report::{Cell, Column, Table};
use std::path::PathBuf;

/// What a section found.
#[derive(Debug, Default)]
pub struct Summary {
    /// The answer in a few sentences, before everything else; nothing where no question was asked.
    pub answer: String,
    /// What came of it, in one line; nothing where the tables say it all.
    pub headline: String,
    /// Shown when the section ends.
    pub tables: Vec<Table>,
    /// What the closing table of the run says about single subjects of the section.
    pub findings: Vec<Finding>,
    /// Files worth opening, named on the last lines of the run: what each is, and where.
    pub files: Vec<(&'static str, PathBuf)>,
    /// The section's part of the run's JSON summary.
    pub json: serde_json::Value,
    /// What could not be done although the rest was; told after all results, it decides the exit code.
    pub failure: Option<Error>,
}

/// What findings are about: `network` and `networks`. Sections with the same noun share a closing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noun {
    /// The word for one, which heads the first column of the closing table.
    pub one: &'static str,
    /// The word for several, which is the key of the findings in the run's JSON summary.
    pub several: &'static str,
}

/// One cell of the closing table.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The name of what it is about, whose row it stands in.
    pub about: String,
    /// Its column; sections that use the same key fill the same column.
    pub column: Column,
    /// What was found.
    pub cell: Cell,
}
