//! `breakdown.csv`: one row for each rank, iteration and set.

use super::Shown;
use super::run::Run;
use crate::breakdown::Class;
use crate::report::{Column, Table};

/// Iterations that have rows, of all ranks together.
const LISTED: usize = 50_000;

/// All rows, with those of the run that it is compared with behind them.
pub(super) fn of(shown: &Shown) -> Table {
    let words = ["run", "rank", "iteration", "warm_up", "class", "gpu", "nanoseconds"];
    let mut table = Table::new("", words.map(|word| Column::text(word, word)));
    add(&shown.run, "before", &mut table);
    if let Some((after, _)) = &shown.after {
        add(after, "after", &mut table);
    }
    if shown.after.is_none() {
        table.columns.remove(0);
        table.rows.iter_mut().for_each(|row| drop(row.remove(0)));
    }
    table
}

fn add(run: &Run, name: &str, table: &mut Table) {
    for rank in &run.breakdown.ranks {
        for iteration in rank.iterations.iter().take(run.listed(LISTED)) {
            let told = |class| class != Class::PythonOrWait || !iteration.sets.python_recorded;
            let classes = Class::ALL.into_iter().filter(|class| told(*class));
            for (class, busy) in classes.flat_map(|class| [(class, false), (class, true)]) {
                table.row([
                    name.into(),
                    u64::from(rank.rank).into(),
                    iteration.name.as_str().into(),
                    iteration.warm_up.into(),
                    class.label().into(),
                    if busy { "busy" } else { "idle" }.into(),
                    // Never negative: a part of a window.
                    iteration.sets.get(class, busy).map(|time| time.unsigned_abs()).into(),
                ]);
            }
        }
    }
}
