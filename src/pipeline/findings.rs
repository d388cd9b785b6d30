//! The findings of several sections about the same subjects, side by side.

use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_verb::{CountedNoun, TableFinding};
use serde_json::{Value, json};

/// All findings about subjects of one kind.
pub(super) struct Findings {
    pub subject: CountedNoun,
    /// In the order in which they were reported.
    pub all: Vec<TableFinding>,
}

impl Findings {
    /// One row per subject, one column per kind of finding, both in the order of their first finding; none without
    /// findings.
    pub fn table(&self) -> Option<Table> {
        let columns = distinct(self.all.iter().map(|finding| &finding.column));
        let first = TableColumn::text(self.subject.one, self.subject.one);
        let mut table = Table::new("Result", std::iter::once(first).chain(columns.iter().copied().cloned()));
        for about in distinct(self.all.iter().map(|finding| finding.about.as_str())) {
            let cells = columns.iter().map(|column| self.cell(about, &column.key));
            table.row(std::iter::once(about.into()).chain(cells));
        }
        (!self.all.is_empty()).then_some(table)
    }

    fn cell(&self, about: &str, key: &str) -> Cell {
        let found = self.all.iter().rfind(|finding| finding.about == about && finding.column.key == key);
        found.map_or(Cell::Missing, |finding| finding.cell.clone())
    }

    /// For each subject the values by the keys of their columns.
    pub fn json(&self) -> Value {
        let mut subjects = json!({});
        for finding in &self.all {
            subjects[&finding.about][&finding.column.key] = finding.cell.to_json();
        }
        subjects
    }
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}
