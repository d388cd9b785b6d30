//! The result of a section, as data: shown at its end, in the closing table of the run, and in its JSON.

use perf4sight_base::error::Error;
use perf4sight_report::{Cell, Table, TableColumn};
use std::path::PathBuf;

/// The result of a section.
#[derive(Debug, Default)]
pub struct Summary {
    /// The answer in a few sentences, before everything else; empty where there is no question.
    pub answer: String,
    /// The result in one line; empty where the tables are enough.
    pub headline: String,
    /// Shown when the section ends.
    pub tables: Vec<Table>,
    /// Entries of the section in the closing table of the run.
    pub findings: Vec<TableFinding>,
    /// Files worth opening, listed in the last lines of the run: description and path.
    pub files: Vec<(&'static str, PathBuf)>,
    /// The section's part of the run's JSON summary.
    pub json: serde_json::Value,
    /// The error of a part that failed while the rest succeeded; shown after all results, it decides the exit code.
    pub failure: Option<Error>,
}

impl Summary {
    /// The section's JSON, with its answer where it has one.
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = self.json.clone();
        if let Some(fields) = json.as_object_mut().filter(|_| !self.answer.is_empty()) {
            fields.entry("answer").or_insert_with(|| self.answer.as_str().into());
        }
        json
    }
}

/// The subject of findings: `network` and `networks`. Sections with the same noun share a closing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedNoun {
    /// The word for one, which heads the first column of the closing table.
    pub one: &'static str,
    /// The word for several, which is the key of the findings in the run's JSON summary.
    pub several: &'static str,
}

impl CountedNoun {
    /// "1 network", "3 networks".
    pub fn count_text(self, count: usize) -> String {
        format!("{count} {}", if count == 1 { self.one } else { self.several })
    }
}

/// One cell of the closing table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableFinding {
    /// The name of its subject, which is its row.
    pub about: String,
    /// Its column; sections that use the same key fill the same column.
    pub column: TableColumn,
    /// The value.
    pub cell: Cell,
}
