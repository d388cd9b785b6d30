//! What the console shows: an iteration by class, by rank, and what the accelerators do.

use super::Shown;
use super::run::Run;
use crate::breakdown::{Breakdown, Class, Iteration, RankBreakdown, Summary};
use crate::report::{Cell, Column, Table};
use crate::units::{Milliseconds, Percent};

/// All tables.
pub(super) fn of(shown: &Shown) -> Vec<Table> {
    vec![classes(&shown.run)]
}

/// Whose iterations a number is of.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    /// Of all ranks, the mean of them.
    All(&'a Breakdown),
    /// Of one.
    Rank(&'a RankBreakdown),
}

impl<'a> Whose<'a> {
    /// Of all ranks where they have iterations in common, else of the first.
    pub fn main(run: &'a Run) -> Option<Self> {
        match run.breakdown.ranks.as_slice() {
            [] => None,
            [rank] => Some(Whose::Rank(rank)),
            [first, ..] if run.breakdown.together().is_empty() => Some(Whose::Rank(first)),
            _ => Some(Whose::All(&run.breakdown)),
        }
    }

    /// What a number comes to.
    pub fn summary(self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<Summary> {
        match self {
            Whose::All(all) => all.summary(number),
            Whose::Rank(rank) => rank.summary(number),
        }
    }
}

/// The main table: {Python, C++, CUDA API, wait} x {GPU busy, idle}.
pub(super) fn classes(run: &Run) -> Table {
    let gpu = run.has_accelerators();
    let mut columns = vec![Column::text("class", "class")];
    columns.extend(gpu.then(|| Column::text("gpu", "GPU")));
    columns.extend(
        [
            ("mean_ms", "mean"),
            ("percent", "share"),
            ("median_ms", "median"),
            ("spread_ms", "spread"),
            ("interval_ms", "95 %"),
        ]
        .map(|(key, heading)| Column::number(key, heading)),
    );
    let Some(whose) = Whose::main(run) else { return Table::new("", columns) };
    let mut table = Table::new(title(run, whose), columns);
    let total = whose.summary(|iteration| Some(iteration.sets.total() as f64));
    for (class, busy) in Class::ALL.into_iter().flat_map(|class| [(class, true), (class, false)]) {
        if busy && !gpu {
            continue;
        }
        let summary = whose.summary(|iteration| Some(iteration.sets.get(class, busy)? as f64));
        let Some(summary) = summary else {
            continue;
        };
        let name = gpu.then(|| Cell::from(if busy { "busy" } else { "idle" }));
        table.row([class.label().into()].into_iter().chain(name).chain(numbers(&summary, total.as_ref())));
    }
    if let Some(total) = total {
        let name = gpu.then(|| Cell::from(""));
        table.row(["iteration".into()].into_iter().chain(name).chain(numbers(&total, Some(&total))));
    }
    table
}

/// Mean, share, median, spread and interval of nanoseconds.
fn numbers(summary: &Summary, total: Option<&Summary>) -> [Cell; 5] {
    let milliseconds = |nanoseconds: f64| Milliseconds(nanoseconds / 1e6);
    let share = total.filter(|total| total.mean > 0.0).map(|total| Percent(100.0 * summary.mean / total.mean));
    let interval = summary.interval.map(|[low, high]| format!("{} – {}", milliseconds(low), milliseconds(high)));
    [
        milliseconds(summary.mean).into(),
        share.into(),
        milliseconds(summary.median).into(),
        summary.spread.map(milliseconds).into(),
        interval.into(),
    ]
}

fn title(run: &Run, whose: Whose) -> String {
    let iterations = |count: usize| if count == 1 { "1 iteration".to_owned() } else { format!("{count} iterations") };
    match whose {
        Whose::All(all) => {
            let (ranks, count) = (all.ranks.len(), all.together().len());
            format!("Where an iteration's time goes: {} of {ranks} ranks", iterations(count))
        }
        Whose::Rank(rank) => {
            let of = if run.traces.len() > 1 { format!(" of rank {}", rank.rank) } else { String::new() };
            let warm_up = match rank.warm_up.iterations {
                0 => String::new(),
                left_out => format!(", {left_out} more left out as warm-up"),
            };
            format!("Where an iteration's time goes: {}{of}{warm_up}", iterations(rank.counted().count()))
        }
    }
}
