//! Whose time an iteration is, rank by rank, as recorded, without what recording takes, and before and after a change.

use super::colours::{of_class, of_gpu};
use super::milliseconds;
use crate::breakdown::{Class, Iteration, RankBreakdown, Sets};
use crate::report::{Axis, Block, Chart, Group, Plot, Series, StackedBars, Whole};
use crate::sections::breakdown::run::Run;
use crate::sections::breakdown::{Shown, differences, tables};

/// Ranks beyond these are left out of charts.
const RANKS: usize = 64;

/// Who has the word, and whether a GPU works meanwhile, of every rank; without what recording takes, too, where that is known.
pub(super) fn by_class(run: &Run) -> Vec<Block> {
    let corrected = run
        .breakdown
        .ranks
        .iter()
        .any(|rank| rank.summary(|one| Some(one.corrected.as_ref()?.sets()?.total() as f64)).is_some());
    let bars = match corrected {
        false => vec![Bars { name: "", run, sets: measured }],
        true => vec![
            Bars { name: "as recorded", run, sets: measured },
            Bars { name: "without recording", run, sets: |one| one.corrected.as_ref()?.sets() },
        ],
    };
    let mut blocks = vec![Block::Chart(chart("Time by class", &bars)), Block::Table(tables::classes(run))];
    blocks.extend((run.traces.len() > 1).then(|| Block::Table(tables::ranks(run))));
    blocks
}

/// What changed from one run to another.
pub(super) fn before_and_after(shown: &Shown) -> Vec<Block> {
    let Some((after, comparison)) = &shown.after else { return Vec::new() };
    let bars = [("before", &shown.run), ("after", after)].map(|(name, run)| Bars { name, run, sets: measured });
    vec![Block::Chart(chart("Time by class, before and after", &bars)), Block::Table(differences::table(comparison))]
}

/// A bar for each rank of a run.
struct Bars<'a> {
    /// What stands above them; may be empty.
    name: &'static str,
    run: &'a Run,
    sets: fn(&Iteration) -> Option<&Sets>,
}

fn measured(iteration: &Iteration) -> Option<&Sets> {
    Some(&iteration.sets)
}

fn chart(title: &str, groups: &[Bars]) -> Chart {
    let gpu = groups.iter().any(|bars| bars.run.has_accelerators());
    let bars: Vec<(&Bars, &RankBreakdown)> = groups
        .iter()
        .flat_map(|bars| bars.run.breakdown.ranks.iter().take(RANKS).map(move |rank| (bars, rank)))
        .collect();
    let time = |class, busy| {
        let times = bars.iter().map(|(bars, rank)| {
            mean(rank, |iteration| Some((bars.sets)(iteration)?.get(class, busy)? as f64)).unwrap_or(0.0)
        });
        Series::new(tables::class_name(class, busy, gpu), times).coloured(of_class(class)).textured(of_gpu(busy))
    };
    let series = Class::ALL.into_iter().flat_map(|class| [time(class, false), time(class, true)]);
    let interval = |(bars, rank): &(&Bars, &RankBreakdown)| {
        let [low, high] = rank.summary(|one| Some((bars.sets)(one)?.total() as f64))?.interval?;
        Some((milliseconds(low), milliseconds(high)))
    };
    let group = |bars: &Bars| Group {
        name: bars.name.to_owned(),
        bars: bars.run.breakdown.ranks.iter().take(RANKS).map(rank_name).collect(),
    };
    let plot = StackedBars {
        groups: groups.iter().map(group).collect(),
        value: Axis::linear("time per iteration (ms)"),
        series: series.filter(|series| series.data.iter().any(|time| *time > 0.0)).collect(),
        whole: Whole::Sum,
        keys: Vec::new(),
        intervals: bars.iter().map(interval).collect(),
    };
    let striped = if gpu { "; striped while a GPU works" } else { "" };
    let whisker = match plot.intervals.iter().any(Option::is_some) {
        true => " The whisker holds the mean with 95 %.",
        false => "",
    };
    let caption = format!("Who has the word, mean over the iterations that count{striped}.{whisker}");
    Chart::new(title, caption, Plot::StackedBars(plot))
}

pub(super) fn rank_name(rank: &RankBreakdown) -> String {
    format!("rank {}", rank.rank)
}

/// The mean of a rank's iterations that count, nanoseconds as milliseconds.
pub(super) fn mean(rank: &RankBreakdown, number: impl Fn(&Iteration) -> Option<f64>) -> Option<f64> {
    rank.summary(number).map(|summary| milliseconds(summary.mean))
}
