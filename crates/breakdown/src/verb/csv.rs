//! Writes `breakdown.csv`: one row for each rank, iteration, category and GPU state.

use super::BreakdownResults;
use super::data_rows::{self, runs};
use super::run::TracedRun;
use crate::{Iteration, TimeCategory};
use perf4sight_report::Table;

const LISTED: usize = 50_000;

/// All rows; those of the compared run follow.
pub(super) fn to_table(shown: &BreakdownResults) -> Table {
    let rows = runs(shown).into_iter().flat_map(|(name, run)| rows(run).into_iter().map(move |row| (name, row)));
    // Never negative: a part of a window.
    let time = |row: &CsvRow| row.iteration.sets.get(row.category, row.gpu_busy).map(|time| time.unsigned_abs());
    data_rows::rows(shown, rows)
        .text("rank", "rank", |(_, row)| u64::from(row.rank))
        .text("iteration", "iteration", |(_, row)| row.iteration.name.clone())
        .text("warm_up", "warm_up", |(_, row)| row.iteration.warm_up)
        .text("class", "class", |(_, row)| row.category.name())
        .text("gpu", "gpu", |(_, row)| if row.gpu_busy { "busy" } else { "idle" })
        .text("nanoseconds", "nanoseconds", |(_, row)| time(row))
        .table()
}

struct CsvRow<'a> {
    rank: u32,
    iteration: &'a Iteration,
    category: TimeCategory,
    gpu_busy: bool,
}

fn rows(run: &TracedRun) -> Vec<CsvRow<'_>> {
    let mut rows = Vec::new();
    for rank in &run.breakdown.ranks {
        for iteration in rank.iterations.iter().take(run.iterations_to_list(LISTED)) {
            // Joint categories replace the categories that they join.
            let listed =
                |category: &TimeCategory| !category.is_joint() || iteration.sets.recorded.distinguishes(*category);
            for category in TimeCategory::ALL.into_iter().filter(listed) {
                let row = |gpu_busy| CsvRow { rank: rank.rank, iteration, category, gpu_busy };
                rows.extend([false, true].map(row));
            }
        }
    }
    rows
}
