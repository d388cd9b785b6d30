//! The estimated error of a profile as it grew, with the time it took; only for plans that make such estimates.

use super::ReportEvidence;
use crate::records::ErrorEstimate;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Axis, Block, Chart, Colour, Line, Plot, Series, Table, TableBuilder};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

/// The blocks; none if no plan made estimates.
pub fn blocks(evidence: &ReportEvidence) -> Vec<Block> {
    let learned = error_growth(evidence);
    if learned.is_empty() {
        return Vec::new();
    }
    let charts = Quantity::ALL.into_iter().filter_map(|quantity| chart(&learned, quantity));
    charts.map(Block::Chart).chain([Block::Folded(table(&learned))]).collect()
}

/// By quantity and the number of measurements; if several runs made the same estimate, the first is kept.
type ErrorGrowth = BTreeMap<(Quantity, usize), ErrorEstimate>;

fn error_growth(evidence: &ReportEvidence) -> ErrorGrowth {
    let runs = evidence.profiles.iter().flat_map(|profile| &profile.runs);
    let mut growth = ErrorGrowth::new();
    for learned in runs.flat_map(|run| &run.learned).filter(|learned| learned.stage == evidence.step.stage) {
        growth.entry((learned.quantity, learned.measured)).or_insert(*learned);
    }
    growth
}

fn chart(growth: &ErrorGrowth, quantity: Quantity) -> Option<Chart> {
    let own = growth.values().filter(|learned| learned.quantity == quantity);
    let points: Vec<(f64, f64)> = own.map(|learned| (learned.measured as f64, learned.error)).collect();
    let series = vec![Series::new("estimate", points).coloured(Colour::Subject)];
    let plot = Line::new(Axis::linear("configurations measured"), Axis::linear("estimated error (%)"), series);
    let caption = "What the plan estimated while it measured, from its own rows alone: the error for what was left out of the fit.";
    let title = format!("As the profile grew: {quantity}");
    (!plot.series[0].data.is_empty()).then(|| Chart::new(title, caption, Plot::Line(plot)))
}

fn table(growth: &ErrorGrowth) -> Table {
    let mut points: Vec<&ErrorEstimate> = growth.values().collect();
    points.sort_by_key(|learned| (learned.measured, learned.quantity));
    TableBuilder::new("As the profile grew", points)
        .number("measured", "configurations", |learned| learned.measured)
        .number("milliseconds", "took", |learned| Milliseconds(1000.0 * learned.seconds))
        .text("quantity", "quantity", |learned| learned.quantity.name())
        .number("error", "estimated error", |learned| Percent(learned.error))
        .table()
}
