//! Whose time an iteration is, rank by rank.

use super::colours::{of_class, of_gpu};
use super::{length, milliseconds};
use crate::breakdown::{Class, Iteration, RankBreakdown};
use crate::report::{Axis, Block, Chart, Group, Plot, Series, StackedBars, Whole};
use crate::sections::breakdown::run::Run;
use crate::sections::breakdown::tables;

/// Ranks beyond these are left out of charts.
const RANKS: usize = 64;
/// Who has the word, and whether a GPU works meanwhile, of every rank.
pub(super) fn by_class(run: &Run) -> Vec<Block> {
    let ranks: Vec<&RankBreakdown> = run.breakdown.ranks.iter().take(RANKS).collect();
    let time = |class, busy: bool| {
        let of_rank = move |rank: &&RankBreakdown| {
            mean(rank, |iteration| iteration.sets.get(class, busy).map(|time| time as f64)).unwrap_or(0.0)
        };
        Series::new(class_name(class, busy, run.has_accelerators()), ranks.iter().map(of_rank))
            .coloured(of_class(class))
            .textured(of_gpu(busy))
    };
    let interval = |rank: &&RankBreakdown| {
        let [low, high] = rank.summary(length)?.interval?;
        Some((milliseconds(low), milliseconds(high)))
    };
    let plot = StackedBars {
        groups: vec![Group { name: String::new(), bars: ranks.iter().map(|rank| rank_name(rank)).collect() }],
        value: Axis::linear("time per iteration (ms)"),
        series: used(Class::ALL.into_iter().flat_map(|class| [time(class, false), time(class, true)])),
        whole: Whole::Sum,
        keys: Vec::new(),
        intervals: ranks.iter().map(interval).collect(),
    };
    let caption = match run.has_accelerators() {
        true => {
            "Who has the word, mean over the iterations that count; striped while a GPU works. The whisker holds the mean with 95 %."
        }
        false => "Who has the word, mean over the iterations that count. The whisker holds the mean with 95 %.",
    };
    let chart = Chart::new("Time by class", caption, Plot::StackedBars(plot));
    vec![Block::Chart(chart), Block::Table(tables::classes(run))]
}

/// The series that have anything.
fn used(series: impl Iterator<Item = Series<f64>>) -> Vec<Series<f64>> {
    series.filter(|series| series.data.iter().any(|time| *time > 0.0)).collect()
}

pub(super) fn class_name(class: Class, busy: bool, gpu: bool) -> String {
    match (gpu, busy) {
        (true, true) => format!("{}, GPU busy", class.label()),
        (true, false) => format!("{}, GPU idle", class.label()),
        (false, _) => class.label().to_owned(),
    }
}

pub(super) fn rank_name(rank: &RankBreakdown) -> String {
    format!("rank {}", rank.rank)
}

/// The mean of a rank's iterations that count, nanoseconds as milliseconds.
pub(super) fn mean(rank: &RankBreakdown, number: impl Fn(&Iteration) -> Option<f64>) -> Option<f64> {
    rank.summary(number).map(|summary| milliseconds(summary.mean))
}
