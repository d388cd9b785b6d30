//! The files of the published toolkit: each metric, and the time by operation, as plots and as the data in them.

use super::Shown;
use super::run::Run;
use super::time_breakdown;
use crate::breakdown::{Metric, Summary};
use crate::error::Result;
use crate::report::{Axis, Cell, Chart, Column, Group, Plot, Series, StackedBars, Table, Theme, Whole};

/// Ranks beyond these are left out of plots; the data beside them has all.
pub(super) const RANKS: usize = 64;

/// A plot and its data, by the name that files of both begin with.
pub(super) struct Published {
    pub name: String,
    pub chart: Chart,
    pub data: Table,
}

impl Published {
    /// Its files: two pictures, and what they show.
    ///
    /// # Errors
    /// A picture that cannot be drawn.
    pub fn files(&self) -> Result<[(String, Vec<u8>); 3]> {
        Ok([
            (format!("{}.png", self.name), self.chart.to_png(Theme::Light)?),
            (format!("{}.svg", self.name), self.chart.to_svg(Theme::Light).into_bytes()),
            (format!("{}.plot_data.txt", self.name), self.data.to_csv().into_bytes()),
        ])
    }
}

/// The names of all files that may be written.
pub(super) fn names() -> impl Iterator<Item = String> {
    let stems = Metric::ALL.map(|metric| format!("{}.summary", metric.name())).into_iter();
    let stems = stems.chain(["time_breakdown".to_owned()]);
    stems.flat_map(|stem| ["png", "svg", "plot_data.txt"].map(|ending| format!("{stem}.{ending}")))
}

/// All that the traces tell.
pub(super) fn of(shown: &Shown) -> Vec<Published> {
    let metrics = Metric::ALL.into_iter().filter_map(|metric| of_metric(shown, metric));
    metrics.chain([time_breakdown::of(shown)]).collect()
}

/// The runs that are shown, and what each is called; nothing where there is one.
pub(super) fn runs(shown: &Shown) -> Vec<(&'static str, &Run)> {
    match &shown.after {
        None => vec![("", &shown.run)],
        Some((after, _)) => vec![("before", &shown.run), ("after", after)],
    }
}

pub(super) fn groups(shown: &Shown) -> Vec<Group> {
    let bars = |run: &Run| run.breakdown.ranks.iter().take(RANKS).map(|rank| format!("rank {}", rank.rank)).collect();
    runs(shown).into_iter().map(|(name, run)| Group { name: name.to_owned(), bars: bars(run) }).collect()
}

/// A metric of every rank; none where no trace tells it.
fn of_metric(shown: &Shown, metric: Metric) -> Option<Published> {
    let columns = ["run", "rank", "metric", "iterations", "mean", "std"].map(|word| Column::text(word, word));
    let mut data = Table::new("", columns);
    let (mut lengths, mut intervals) = (Vec::new(), Vec::new());
    for (name, run) in runs(shown) {
        for (place, rank) in run.breakdown.ranks.iter().enumerate() {
            let summary = rank.summary(|iteration| metric.of(&iteration.sets));
            if place < RANKS {
                lengths.push(summary.map_or(0.0, |summary| summary.mean));
                intervals.push(summary.and_then(|summary| deviation(&summary)));
            }
            data.row([
                name.into(),
                u64::from(rank.rank).into(),
                metric.name().into(),
                rank.counted().count().into(),
                summary.map(|summary| summary.mean).into(),
                summary.and_then(|summary| summary.spread).into(),
            ]);
        }
    }
    data.rows.iter().any(|row| row[4] != Cell::Missing).then_some(())?;
    let plot = StackedBars {
        groups: groups(shown),
        value: Axis::linear(format!("{} ({})", metric.name(), metric.unit().label())),
        series: vec![Series::new(metric.name(), lengths)],
        whole: Whole::Sum,
        keys: Vec::new(),
        intervals,
    };
    let caption = "The mean iteration; the whisker is a standard deviation to either side.";
    let chart = Chart::new(format!("{}: {}", metric.name(), metric.about()), caption, Plot::StackedBars(plot));
    Some(Published { name: format!("{}.summary", metric.name()), chart, data })
}

fn deviation(summary: &Summary) -> Option<(f64, f64)> {
    summary.spread.map(|spread| ((summary.mean - spread).max(0.0), summary.mean + spread))
}
