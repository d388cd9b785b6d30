//! Whose time an iteration is, rank by rank, as recorded, without what recording takes, and before and after a change.

use super::colours::{of_class, of_gpu};
use super::milliseconds;
use crate::breakdown::{Class, Iteration, RankBreakdown, Sets};
use crate::report::{Block, Chart, Plot, Series};
use crate::sections::breakdown::bars::Bars;
use crate::sections::breakdown::run::Run;
use crate::sections::breakdown::{Shown, differences, tables};
use crate::traces::Ranked;

/// Whose time it is, and whether a GPU works meanwhile, of every rank; without what recording takes, too, where that is known.
pub(super) fn by_class(run: &Run) -> Vec<Block> {
    let is_corrected = |rank: &RankBreakdown| rank.summary(|one| Some(corrected(one)?.total() as f64)).is_some();
    let bars: &[(&str, &Run, SetsOf)] = match run.breakdown.ranks.iter().any(is_corrected) {
        false => &[("", run, measured)],
        true => &[("as recorded", run, measured), ("without recording", run, corrected)],
    };
    let mut blocks = vec![Block::Chart(chart("Time by class", bars)), Block::Table(tables::classes(run))];
    blocks.extend((run.traces.len() > 1).then(|| Block::Table(tables::ranks(run))));
    blocks
}

/// What changed from one run to another.
pub(super) fn before_and_after(shown: &Shown) -> Vec<Block> {
    let Some((after, comparison)) = &shown.after else { return Vec::new() };
    let of_first = if comparison.recordings == [1, 1] { "" } else { ", first recordings" };
    let title = format!("Time by class, before and after{of_first}");
    let bars: [(_, _, SetsOf); 2] = [("before", &shown.run, measured), ("after", after, measured)];
    vec![Block::Chart(chart(&title, &bars)), Block::Table(differences::table(comparison))]
}

/// What is drawn of an iteration in a bar.
type SetsOf = fn(&Iteration) -> Option<&Sets>;

fn measured(iteration: &Iteration) -> Option<&Sets> {
    Some(&iteration.sets)
}

fn corrected(iteration: &Iteration) -> Option<&Sets> {
    iteration.corrected.as_ref()?.sets()
}

/// Runs side by side, each with what is drawn of its iterations.
fn chart(title: &str, groups: &[(&'static str, &Run, SetsOf)]) -> Chart {
    let gpu = groups.iter().any(|(_, run, _)| run.has_accelerators());
    let bars = Bars(groups.iter().map(|(name, run, _)| (*name, *run)).collect());
    let of = |name: &str| groups.iter().find(|group| group.0 == name).map_or(measured as SetsOf, |group| group.2);
    let summary = |(name, _, rank): (&str, &Ranked, &RankBreakdown), number: &dyn Fn(&Sets) -> Option<i64>| {
        rank.summary(|iteration| Some(number(of(name)(iteration)?)? as f64))
    };
    let time = |class, busy| {
        let times = bars.ranks().map(|bar| summary(bar, &|sets| sets.get(class, busy)));
        let times = times.map(|time| time.map_or(0.0, |time| milliseconds(time.mean))).collect::<Vec<f64>>();
        Series::new(tables::class_name(class, busy, gpu), times).coloured(of_class(class)).textured(of_gpu(busy))
    };
    let series = Class::ALL.into_iter().flat_map(|class| [time(class, false), time(class, true)]).collect();
    let interval = |bar| {
        let [low, high] = summary(bar, &|sets| Some(sets.total()))?.interval?;
        Some((milliseconds(low), milliseconds(high)))
    };
    let plot = bars.plot("time per iteration (ms)", series, bars.ranks().map(interval).collect());
    let striped = if gpu { "; striped while a GPU works" } else { "" };
    let whisker = match plot.intervals.iter().any(Option::is_some) {
        true => " The whisker holds the mean with 95 %.",
        false => "",
    };
    let caption = format!("Whose time it is, mean over the iterations that count{striped}.{whisker}");
    Chart::new(title, caption, Plot::StackedBars(plot))
}
