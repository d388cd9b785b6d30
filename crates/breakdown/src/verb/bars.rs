//! Bars of a plot: one for each rank of each run.

use super::run::TracedRun;
use crate::{Iteration, RankBreakdown};
use perf4sight_report::{Axis, BarGroup, BarLength, Series, StackedBars};
use perf4sight_traces::RankTrace;

/// Plots show at most this many ranks; the data files next to them have all.
const RANKS: usize = 64;

/// Runs next to each other, each with the heading of its bars, which may be empty.
pub(super) struct RunBars<'a>(pub Vec<(&'static str, &'a TracedRun)>);

impl<'a> RunBars<'a> {
    pub fn ranks(&self) -> impl Iterator<Item = (&'static str, &'a RankTrace, &'a RankBreakdown)> + use<'a, '_> {
        let of_run = |(name, run): &(&'static str, &'a TracedRun)| {
            let name = *name;
            run.ranks().take(RANKS).map(move |(ranked, rank)| (name, ranked, rank))
        };
        self.0.iter().flat_map(of_run)
    }

    /// The length of each bar: milliseconds of a mean iteration, 0 if the trace lacks the number.
    pub fn milliseconds(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Vec<f64> {
        self.ranks().map(|(_, _, rank)| rank.summary(&number).map_or(0.0, |summary| summary.mean / 1e6)).collect()
    }

    /// The plot of a value: the series that are not zero everywhere, and the interval of each bar's sum.
    pub fn plot(&self, value: &str, series: Vec<Series<f64>>, intervals: Vec<Option<(f64, f64)>>) -> StackedBars {
        let names = |run: &TracedRun| run.ranks().take(RANKS).map(|(_, rank)| rank_name(rank)).collect();
        StackedBars {
            groups: self.0.iter().map(|(name, run)| BarGroup { name: (*name).to_owned(), bars: names(run) }).collect(),
            value: Axis::linear(value),
            series: series.into_iter().filter(|series| series.data.iter().any(|length| *length > 0.0)).collect(),
            whole: BarLength::Sum,
            keys: Vec::new(),
            intervals,
        }
    }
}

pub(super) fn rank_name(rank: &RankBreakdown) -> String {
    format!("rank {}", rank.rank)
}
