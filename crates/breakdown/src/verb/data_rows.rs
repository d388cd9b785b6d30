//! Rows for programs: of one run, or of two that are compared, whose names then stand in front.

use super::Shown;
use super::run::Run;
use perf4sight_report::{Cell, Column, Table};

/// Rows in the making.
pub(super) struct Data {
    compared: bool,
    table: Table,
}

impl Data {
    /// None yet, with columns of these names.
    pub fn new(shown: &Shown, columns: &[&str]) -> Self {
        let compared = shown.after.is_some();
        let run = compared.then_some(&"run");
        let columns = run.into_iter().chain(columns).map(|word| Column::text(*word, *word));
        Data { compared, table: Table::new("", columns.collect::<Vec<_>>()) }
    }

    /// One more, of a run by its name.
    pub fn row(&mut self, run: &str, cells: impl IntoIterator<Item = Cell>) {
        let run = self.compared.then(|| run.into());
        self.table.row(run.into_iter().chain(cells));
    }

    /// All of them.
    pub fn to_csv(&self) -> String {
        self.table.to_csv()
    }

    /// Whether any row has a value at a place behind the name of its run.
    pub fn has(&self, place: usize) -> bool {
        let place = place + usize::from(self.compared);
        self.table.rows.iter().any(|row| row[place] != Cell::Missing)
    }
}

/// The runs that are shown, and what each is called; nothing where there is one.
pub(super) fn runs(shown: &Shown) -> Vec<(&'static str, &Run)> {
    match &shown.after {
        None => vec![("", &shown.run)],
        Some((after, _)) => vec![("before", &shown.run), ("after", after)],
    }
}
