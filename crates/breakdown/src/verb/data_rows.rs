//! Rows of data files: of one run, or of two compared runs, whose name is then the first column.

use super::Shown;
use super::run::Run;
use perf4sight_report::{Cell, Column, Table};

/// A table under construction.
pub(super) struct Data {
    compared: bool,
    table: Table,
}

impl Data {
    /// An empty table with these columns.
    pub fn new(shown: &Shown, columns: &[&str]) -> Self {
        let compared = shown.after.is_some();
        let run = compared.then_some(&"run");
        let columns = run.into_iter().chain(columns).map(|word| Column::text(*word, *word));
        Data { compared, table: Table::new("", columns.collect::<Vec<_>>()) }
    }

    pub fn row(&mut self, run: &str, cells: impl IntoIterator<Item = Cell>) {
        let run = self.compared.then(|| run.into());
        self.table.row(run.into_iter().chain(cells));
    }

    pub fn to_csv(&self) -> String {
        self.table.to_csv()
    }

    /// Whether any row has a value in a column, counted without the name of the run.
    pub fn has(&self, place: usize) -> bool {
        let place = place + usize::from(self.compared);
        self.table.rows.iter().any(|row| row[place] != Cell::Missing)
    }
}

/// The runs with their names; the name is empty if there is only one.
pub(super) fn runs(shown: &Shown) -> Vec<(&'static str, &Run)> {
    match &shown.after {
        None => vec![("", &shown.run)],
        Some((after, _)) => vec![("before", &shown.run), ("after", after)],
    }
}
