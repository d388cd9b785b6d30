//! The time of an iteration by category and rank: recorded, without recording, and before and after a change.

use super::colours::{of_category, of_gpu};
use super::milliseconds;
use crate::verb::bars::RunBars;
use crate::verb::run::TracedRun;
use crate::verb::{BreakdownResults, differences, tables};
use crate::{Iteration, RankBreakdown, TimeCategory, TimeSets};
use perf4sight_report::{Block, Chart, Plot, Series};

/// The time by category and state of the GPU for every rank; also without the overhead of recording, if known.
pub(super) fn blocks(run: &TracedRun) -> Vec<Block> {
    let is_corrected =
        |rank: &RankBreakdown| rank.summary_of(|rank, one| Some(corrected(rank, one)?.total() as f64)).is_some();
    let bars: &[CategoryGroup] = match run.breakdown.ranks.iter().any(is_corrected) {
        false => &[CategoryGroup::measured("", run)],
        true => &[CategoryGroup::measured("as recorded", run), CategoryGroup::corrected(run)],
    };
    let mut blocks = vec![Block::Chart(chart("Time by category", bars)), Block::Table(tables::categories(run))];
    blocks.extend((run.traces.len() > 1).then(|| Block::Table(tables::ranks(run))));
    blocks
}

pub(super) fn before_and_after(shown: &BreakdownResults) -> Vec<Block> {
    let Some((after, comparison)) = &shown.after else { return Vec::new() };
    let of_first = if comparison.recordings == [1, 1] { "" } else { ", first recordings" };
    let title = format!("Time by category, before and after{of_first}");
    let bars = [CategoryGroup::measured("before", &shown.run), CategoryGroup::measured("after", after)];
    vec![Block::Chart(chart(&title, &bars)), Block::Table(differences::table(comparison))]
}

struct CategoryGroup<'a> {
    name: &'static str,
    run: &'a TracedRun,
    /// The times to draw for an iteration.
    sets: for<'i> fn(&'i RankBreakdown, &'i Iteration) -> Option<&'i TimeSets>,
    /// The 95 % confidence interval of the mean.
    interval: fn(&RankBreakdown) -> Option<[f64; 2]>,
}

impl<'a> CategoryGroup<'a> {
    fn measured(name: &'static str, run: &'a TracedRun) -> Self {
        let interval = |rank: &RankBreakdown| rank.summary(|one| Some(one.sets.total() as f64))?.interval;
        CategoryGroup { name, run, sets: |_, iteration| Some(&iteration.sets), interval }
    }

    /// The times without the overhead of recording; their interval includes the uncertainty of the overhead.
    fn corrected(run: &'a TracedRun) -> Self {
        let interval = |rank: &RankBreakdown| rank.without_recording()?.interval;
        CategoryGroup { name: "without recording", run, sets: corrected, interval }
    }
}

fn corrected<'i>(rank: &'i RankBreakdown, iteration: &'i Iteration) -> Option<&'i TimeSets> {
    rank.corrected(iteration)?.sets()
}

fn chart(title: &str, groups: &[CategoryGroup]) -> Chart {
    let gpu = groups.iter().any(|group| group.run.has_accelerators());
    let bars = RunBars(groups.iter().map(|group| (group.name, group.run)).collect());
    let summary = |(group, rank): (&CategoryGroup, &RankBreakdown), number: &dyn Fn(&TimeSets) -> Option<i64>| {
        rank.summary_of(|rank, iteration| Some(number((group.sets)(rank, iteration)?)? as f64))
    };
    let of = |name: &str| groups.iter().find(|group| group.name == name);
    let ranks = || bars.ranks().filter_map(|(name, _, rank)| Some((of(name)?, rank)));
    let time = |category, busy| {
        let times = ranks().map(|bar| summary(bar, &|sets| sets.get(category, busy)));
        let times = times.map(|time| time.map_or(0.0, |time| milliseconds(time.mean))).collect::<Vec<f64>>();
        Series::new(tables::category_name(category, busy, gpu), times)
            .coloured(of_category(category))
            .textured(of_gpu(busy))
    };
    let series =
        TimeCategory::ALL.into_iter().flat_map(|category| [time(category, false), time(category, true)]).collect();
    let interval = |(group, rank): (&CategoryGroup, &RankBreakdown)| {
        let [low, high] = (group.interval)(rank)?;
        Some((milliseconds(low), milliseconds(high)))
    };
    let plot = bars.plot("time per iteration (ms)", series, ranks().map(interval).collect());
    let striped = if gpu { "; striped while a GPU works" } else { "" };
    let whisker = match plot.intervals.iter().any(Option::is_some) {
        true => " The whisker holds the mean with 95 %.",
        false => "",
    };
    let caption = format!("Whose time it is, mean over the iterations that count{striped}.{whisker}");
    Chart::new(title, caption, Plot::StackedBars(plot))
}
