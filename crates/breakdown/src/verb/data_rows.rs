//! Rows of data files: of one run, or of two compared runs, whose name is then the first column.

use super::BreakdownResults;
use super::run::TracedRun;
use perf4sight_report::TableBuilder;

/// A table of items, each with the name of its run.
pub(super) fn rows<T>(
    shown: &BreakdownResults,
    items: impl IntoIterator<Item = (&'static str, T)>,
) -> TableBuilder<(&'static str, T)> {
    let rows = TableBuilder::new("", items);
    if shown.after.is_some() { rows.text("run", "run", |(run, _)| *run) } else { rows }
}

/// The runs with their names; the name is empty if there is only one.
pub(super) fn runs(shown: &BreakdownResults) -> Vec<(&'static str, &TracedRun)> {
    match &shown.after {
        None => vec![("", &shown.run)],
        Some((after, _)) => vec![("before", &shown.run), ("after", after)],
    }
}
