//! `breakdown.csv`: one row for each rank, iteration and set.

use super::Shown;
use super::data::{Data, runs};
use super::run::Run;
use crate::Class;

/// Iterations that have rows, of all ranks together.
const LISTED: usize = 50_000;

/// All rows, with those of the run that it is compared with behind them.
pub(super) fn of(shown: &Shown) -> Data {
    let mut data = Data::new(shown, &["rank", "iteration", "warm_up", "class", "gpu", "nanoseconds"]);
    runs(shown).into_iter().for_each(|(name, run)| add(run, name, &mut data));
    data
}

fn add(run: &Run, name: &str, data: &mut Data) {
    for rank in &run.breakdown.ranks {
        for iteration in rank.iterations.iter().take(run.listed(LISTED)) {
            // Those that stand for several take the place of those.
            let listed = |class: &Class| !class.is_joint() || iteration.sets.recorded.tells(*class);
            let classes = Class::ALL.into_iter().filter(listed);
            for (class, busy) in classes.flat_map(|class| [(class, false), (class, true)]) {
                let cells = [
                    u64::from(rank.rank).into(),
                    iteration.name.as_str().into(),
                    iteration.warm_up.into(),
                    class.label().into(),
                    if busy { "busy" } else { "idle" }.into(),
                    // Never negative: a part of a window.
                    iteration.sets.get(class, busy).map(|time| time.unsigned_abs()).into(),
                ];
                data.row(name, cells);
            }
        }
    }
}
