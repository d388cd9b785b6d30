//! The charts of a fingerprint's report.

use super::tables::title;
use super::{Assessment, ReportEvidence, protocols::label, unit};
use crate::evaluation::PredictedRow;
use crate::fingerprint::PredictedValue;
use crate::records::{MeasurementOutcome, RowReading, RowRecord};
use perf4sight_base::stats::ErrorScores;
use perf4sight_report::{
    Axis, Bars, CellContent, CellSign, Chart, Colour, HeatCell, Heatmap, Histogram, Line, Plot, Scatter, ScatterPoint,
    Series,
};
use perf4sight_step::workload::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// The half-width of the band of good predictions.
const BAND: f64 = 0.1;
/// The bin widths of errors to choose from, in percent, and the number of bins on either side of zero.
const BINS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
const SIDE: f64 = 15.0;

/// Predicted against measured, a colour per network.
pub fn predicted_against_measured(evidence: &ReportEvidence, part: &Assessment) -> Chart {
    let point = |case: &PredictedRow| ScatterPoint {
        x: case.measured,
        y: case.predicted.value(),
        label: describe(part.quantity(), case),
    };
    let unit = unit(part.quantity());
    let plot = Scatter {
        x: Axis::log(format!("measured ({unit})")),
        y: Axis::log(format!("predicted ({unit})")),
        band: BAND,
        series: per_network(evidence, part, |cases| cases.iter().map(|case| point(case)).collect()),
    };
    let caption = "On the line, prediction and measurement are equal; in the band they differ by at most 10 %.";
    Chart::new(title(part.quantity()), caption, Plot::Scatter(plot))
}

/// The distribution of signed errors.
pub fn errors(evidence: &ReportEvidence, part: &Assessment) -> Chart {
    let typical = part.evaluation().scores().map_or(0.0, |scores| scores.p90);
    // About nine in ten rows are then in the inner half, and the shape of their distribution is visible.
    let bin = BINS.into_iter().find(|bin| bin * SIDE / 2.0 >= typical).unwrap_or(BINS[BINS.len() - 1]);
    let limit = bin * SIDE;
    let plot = Histogram {
        x: Axis::linear("error (%)"),
        counted: "rows".into(),
        bin,
        limit,
        series: per_network(evidence, part, |cases| cases.iter().map(|case| case.error()).collect()),
    };
    let caption = format!(
        "Right of zero the prediction is too high, left of it too low; errors above {limit} % count in the outermost bars."
    );
    Chart::new(format!("{}: errors", title(part.quantity())), caption, Plot::Histogram(plot))
}

/// Mean error and share of good predictions per network.
pub fn by_network(evidence: &ReportEvidence, part: &Assessment) -> [Chart; 2] {
    let scores = part.evaluation().by(|case| case.variant.network.clone());
    let chart = |what: &str, axis: &str, caption: &str, most: Option<f64>, of: fn(&ErrorScores) -> f64| {
        let categories = evidence.networks();
        let lengths = categories.iter().map(|name| scores.get(name).map(of));
        let series = vec![Series::new(label(part.fingerprint.recipe().method), lengths).coloured(Colour::Subject)];
        let plot = Bars { series, value: Axis::linear(axis), categories: categories.clone(), reference: None, most };
        Chart::new(format!("{}: {what}", title(part.quantity())), caption, Plot::Bars(plot))
    };
    [
        chart("mean error", "mean error (%)", "Shorter is better.", None, |scores| scores.mape),
        chart("good predictions", "rows at most 10 % off (%)", "Longer is better.", Some(100.0), |scores| {
            scores.within_10
        }),
    ]
}

/// Mean error per level, a line per network.
pub fn by_level(evidence: &ReportEvidence, part: &Assessment) -> Chart {
    let x = Axis::linear("level (% of the parameters pruned)");
    let plot = lines(evidence, part, x, |case| u64::from(case.variant.level));
    let name = format!("{} by level", title(part.quantity()));
    Chart::new(name, format!("Lower is better. {}", fitted_levels(part)), Plot::Line(plot))
}

/// Mean error per batch size, a line per network.
pub fn by_batch(evidence: &ReportEvidence, part: &Assessment) -> Chart {
    let plot = lines(evidence, part, Axis::log("batch size"), |case| case.batch);
    Chart::new(format!("{} by batch size", title(part.quantity())), "Lower is better.", Plot::Line(plot))
}

/// Which batch sizes fit at which level, one map per network.
pub fn memory_maps(evidence: &ReportEvidence) -> Vec<Chart> {
    // Both quantities have the same outcomes; memory rows also have the memory used.
    let Some(part) = evidence.assessments.iter().max_by_key(|part| part.quantity()) else { return Vec::new() };
    evidence.networks().into_iter().map(|network| memory_map(part, network)).collect()
}

fn memory_map(part: &Assessment, network: String) -> Chart {
    let records: Vec<&RowRecord> = part.records().filter(|record| record.variant.network == network).collect();
    let levels: BTreeSet<u8> = records.iter().map(|record| record.variant.level).collect();
    let batches: BTreeSet<u64> = records.iter().map(|record| record.workload.batch).collect();
    let mut found: BTreeMap<(u8, u64), Vec<&RowRecord>> = BTreeMap::new();
    for record in records {
        found.entry((record.variant.level, record.workload.batch)).or_default().push(record);
    }
    let pairs = levels.iter().flat_map(|level| batches.iter().map(|batch| (*level, *batch)));
    let plot = Heatmap {
        row_label: "level".into(),
        column_label: "batch size".into(),
        rows: levels.iter().map(u8::to_string).collect(),
        columns: batches.iter().map(u64::to_string).collect(),
        cells: pairs.map(|(level, batch)| cell(level, batch, found.get(&(level, batch)))).collect(),
        value: Axis::linear("fits, memory used (%)"),
        range: Some((0.0, 100.0)),
        printed: false,
        signs: signs(),
    };
    let caption = "The stronger the colour, the larger the share of the memory that was used.";
    Chart::new(network, caption, Plot::Heatmap(plot))
}

fn signs() -> Vec<(CellSign, String)> {
    vec![
        (CellSign::Hole, "fits".into()),
        (CellSign::Cross, "out of memory".into()),
        (CellSign::Dot, "not tried, a smaller one ran out of memory".into()),
        (CellSign::Blank, "no row".into()),
    ]
}

/// Repeats of one configuration may have different outcomes; the one that fits worst is shown.
fn cell(level: u8, batch: u64, records: Option<&Vec<&RowRecord>>) -> HeatCell {
    let of = |outcome: MeasurementOutcome| records.and_then(|all| all.iter().find(|record| record.outcome == outcome));
    let passed = records.and_then(|all| all.iter().find(|record| record.outcome.passed()));
    let (content, what) = match (of(MeasurementOutcome::OutOfMemory), passed, of(MeasurementOutcome::Skipped)) {
        (Some(_), _, _) => (CellContent::Sign(CellSign::Cross), "out of memory".to_string()),
        (_, Some(record), _) => {
            (percent(record).map_or(CellContent::Sign(CellSign::Hole), CellContent::Number), used_memory(record))
        }
        (_, _, Some(_)) => (CellContent::Sign(CellSign::Dot), "not tried".to_string()),
        _ => {
            let what = records.map_or("no row".to_string(), |all| all[0].outcome.to_string());
            (CellContent::Sign(CellSign::Blank), what)
        }
    };
    HeatCell { content, label: format!("level {level}, batch {batch}: {what}") }
}

/// The share of the memory that was used; `None` if the row does not give the total memory.
fn percent(record: &RowRecord) -> Option<f64> {
    let RowReading::Memory(memory) = record.reading else { return None };
    let (used, capacity) = memory.used.zip(memory.capacity)?;
    (capacity.0 > 0).then(|| 100.0 * used.0 as f64 / capacity.0 as f64)
}

fn used_memory(record: &RowRecord) -> String {
    match record.reading {
        RowReading::Memory(memory) => memory.used.map_or("fits".to_string(), |used| match memory.capacity {
            Some(capacity) => format!("{used} of {capacity}"),
            None => used.to_string(),
        }),
        RowReading::Latency(_) => "fits".to_string(),
    }
}

fn lines(evidence: &ReportEvidence, part: &Assessment, x: Axis, key: impl Fn(&PredictedRow) -> u64) -> Line {
    let mut means: BTreeMap<(String, u64), f64> = BTreeMap::new();
    for (key, scores) in part.evaluation().by(|case| (case.variant.network.clone(), key(case))) {
        means.insert(key, scores.mape);
    }
    let of_network = |name: &String| {
        let own = means.iter().filter(|((network, _), _)| network == name);
        Series::new(name, own.map(|((_, at), mean)| (*at as f64, *mean)))
    };
    Line::new(x, Axis::linear("mean error (%)"), evidence.networks().iter().map(of_network).collect())
}

fn fitted_levels(part: &Assessment) -> String {
    let known = part.evaluation().cases.iter().filter(|case| case.fitted).map(|case| case.variant.level);
    let levels: BTreeSet<u8> = known.collect();
    let levels: Vec<String> = levels.iter().map(u8::to_string).collect();
    match levels.is_empty() {
        true => "None of these levels was fitted on.".to_string(),
        false => format!("Levels that were also fitted on: {}.", levels.join(", ")),
    }
}

/// A series for every network of the report, so that colours agree between charts; empty for networks without cases.
fn per_network<T>(
    evidence: &ReportEvidence,
    part: &Assessment,
    data: impl Fn(&[&PredictedRow]) -> Vec<T>,
) -> Vec<Series<T>> {
    let of_network = |name: &String| {
        let cases: Vec<&PredictedRow> =
            part.evaluation().cases.iter().filter(|case| case.variant.network == *name).collect();
        Series::new(name, data(&cases))
    };
    evidence.networks().iter().map(of_network).collect()
}

fn describe(quantity: Quantity, case: &PredictedRow) -> String {
    let PredictedRow { variant, batch, predicted, .. } = case;
    let measured = PredictedValue::new(quantity, case.measured);
    format!("{variant}, batch {batch}: measured {measured}, predicted {predicted} ({:+.1} %)", case.error())
}
