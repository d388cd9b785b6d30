//! The files of the published toolkit: each metric, and the time by operation, as plots and as data files.

use super::BreakdownResults;
use super::bars::RunBars;
use super::data_rows::{self, runs};
use super::time_breakdown;
use crate::{Metric, RankBreakdown};
use perf4sight_base::error::Result;
use perf4sight_base::summary::ValueSummary;
use perf4sight_report::{Chart, Plot, Series, Table, Theme};

/// A plot and its data, with the stem of their file names.
pub(super) struct PublishedPlot {
    pub name: String,
    pub chart: Chart,
    pub data: Table,
}

impl PublishedPlot {
    /// Its files: the plot in two formats, and its data.
    pub fn files(&self) -> Result<[(String, Vec<u8>); 3]> {
        Ok([
            (format!("{}.png", self.name), self.chart.to_png(Theme::Light)?),
            (format!("{}.svg", self.name), self.chart.to_svg(Theme::Light).into_bytes()),
            (format!("{}.plot_data.txt", self.name), self.data.to_csv().into_bytes()),
        ])
    }
}

pub(super) fn names() -> impl Iterator<Item = String> {
    let stems = Metric::ALL.map(|metric| format!("{}.summary", metric.name())).into_iter();
    let stems = stems.chain(["time_breakdown".to_owned()]);
    stems.flat_map(|stem| ["png", "svg", "plot_data.txt"].map(|ending| format!("{stem}.{ending}")))
}

/// All plots that the traces have data for.
pub(super) fn find_plots(shown: &BreakdownResults) -> Vec<PublishedPlot> {
    let metrics = Metric::ALL.into_iter().filter_map(|metric| of_metric(shown, metric));
    metrics.chain([time_breakdown::published_plot(shown)]).collect()
}

/// The plot of a metric for every rank; none if no trace has it.
fn of_metric(shown: &BreakdownResults, metric: Metric) -> Option<PublishedPlot> {
    let of_rank = |rank: &RankBreakdown| rank.summary(|iteration| metric.compute(&iteration.sets));
    let mut ranks: Vec<(&'static str, (&RankBreakdown, Option<ValueSummary>))> = Vec::new();
    for (name, run) in runs(shown) {
        ranks.extend(run.breakdown.ranks.iter().map(|rank| (name, (rank, of_rank(rank)))));
    }
    ranks.iter().any(|(_, (_, summary))| summary.is_some()).then_some(())?;
    let data = data_rows::rows(shown, ranks)
        .text("rank", "rank", |(_, (rank, _))| u64::from(rank.rank))
        .text("metric", "metric", |_| metric.name())
        .text("iterations", "iterations", |(_, (rank, _))| rank.counted_iterations().count())
        .text("mean", "mean", |(_, (_, summary))| summary.map(|summary| summary.mean))
        .text("std", "std", |(_, (_, summary))| summary.and_then(|summary| summary.spread))
        .table();
    let bars = RunBars(runs(shown));
    let lengths = bars.ranks().map(|(_, _, rank)| of_rank(rank).map_or(0.0, |summary| summary.mean));
    let series = vec![Series::new(metric.name(), lengths.collect::<Vec<f64>>())];
    let intervals = bars.ranks().map(|(_, _, rank)| of_rank(rank).as_ref().and_then(deviation)).collect();
    let plot = bars.plot(&format!("{} ({})", metric.name(), metric.unit().name()), series, intervals);
    let caption = "The mean iteration; the whisker is a standard deviation to either side.";
    let chart = Chart::new(format!("{}: {}", metric.name(), metric.about()), caption, Plot::StackedBars(plot));
    Some(PublishedPlot { name: format!("{}.summary", metric.name()), chart, data })
}

fn deviation(summary: &ValueSummary) -> Option<(f64, f64)> {
    summary.spread.map(|spread| ((summary.mean - spread).max(0.0), summary.mean + spread))
}
