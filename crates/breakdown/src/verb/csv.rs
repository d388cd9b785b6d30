//! Writes `breakdown.csv`: one row for each rank, iteration, category and GPU state.

use super::Shown;
use super::data_rows::{Data, runs};
use super::run::Run;
use crate::TimeCategory;

/// The number of iterations with rows, over all ranks.
const LISTED: usize = 50_000;

/// All rows; those of the compared run follow.
pub(super) fn of(shown: &Shown) -> Data {
    let mut data = Data::new(shown, &["rank", "iteration", "warm_up", "class", "gpu", "nanoseconds"]);
    runs(shown).into_iter().for_each(|(name, run)| add(run, name, &mut data));
    data
}

fn add(run: &Run, name: &str, data: &mut Data) {
    for rank in &run.breakdown.ranks {
        for iteration in rank.iterations.iter().take(run.listed(LISTED)) {
            // Joint categories replace the categories that they join.
            let listed =
                |category: &TimeCategory| !category.is_joint() || iteration.sets.recorded.distinguishes(*category);
            let categories = TimeCategory::ALL.into_iter().filter(listed);
            for (category, busy) in categories.flat_map(|category| [(category, false), (category, true)]) {
                let cells = [
                    u64::from(rank.rank).into(),
                    iteration.name.as_str().into(),
                    iteration.warm_up.into(),
                    category.name().into(),
                    if busy { "busy" } else { "idle" }.into(),
                    // Never negative: a part of a window.
                    iteration.sets.get(category, busy).map(|time| time.unsigned_abs()).into(),
                ];
                data.row(name, cells);
            }
        }
    }
}
