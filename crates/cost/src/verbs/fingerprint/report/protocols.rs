//! The test protocols of a fingerprint, side by side: table and charts.

use super::{Assessment, ReportEvidence, tables};
use crate::evaluation::{Evaluation, LearningPoint, MethodTests, PredictedRow};
use crate::fingerprint::FitMethod;
use perf4sight_base::stats::ErrorScores;
use perf4sight_base::units::Percent;
use perf4sight_report::{Axis, Bars, Chart, Colour, Line, Plot, Series, Table, TableBuilder, Value};
use std::collections::BTreeSet;

/// The nominal coverage of intervals, in percent.
const PROMISED: f64 = 90.0;
/// Bars longer than this multiple of the fingerprint's longest bar would flatten the others.
const FLATTENING: f64 = 2.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportProtocol {
    /// Levels that were not fitted on, of networks that were; if no such level was tested, those that were fitted on.
    Unseen,
    /// The same rows, predicted by fits without their network.
    SameRowsLeftOut,
    /// Unpruned networks, predicted by fits without them.
    UnprunedLeftOut,
    /// Pruned networks, predicted by fits without any level of them.
    PrunedLeftOut,
}

impl ReportProtocol {
    /// From the easiest to the hardest.
    pub const ALL: [ReportProtocol; 4] = [
        ReportProtocol::Unseen,
        ReportProtocol::SameRowsLeftOut,
        ReportProtocol::UnprunedLeftOut,
        ReportProtocol::PrunedLeftOut,
    ];

    fn name(self, part: &Assessment) -> &'static str {
        match self {
            ReportProtocol::Unseen if part.tests_unseen() => "profiled networks, new levels",
            ReportProtocol::Unseen => "profiled networks, levels fitted on",
            ReportProtocol::SameRowsLeftOut => "same rows, network left out",
            ReportProtocol::UnprunedLeftOut => "left out, unpruned",
            ReportProtocol::PrunedLeftOut => "left out, pruned",
        }
    }

    /// The cases of a method's trial; none if there was no such trial.
    pub fn cases(self, part: &Assessment, protocols: &MethodTests) -> Option<Evaluation> {
        let telling = part.known_network_cases();
        let levels: BTreeSet<(&str, u8)> = telling.cases.iter().map(level).collect();
        let left_out = || Some(&protocols.left_out.as_ref()?.evaluation);
        match self {
            ReportProtocol::Unseen => Some(protocols.whole.evaluation.filter(|case| levels.contains(&level(case)))),
            ReportProtocol::SameRowsLeftOut => Some(left_out()?.filter(|case| levels.contains(&level(case)))),
            ReportProtocol::UnprunedLeftOut => Some(left_out()?.filter(|case| case.variant.level == 0)),
            ReportProtocol::PrunedLeftOut => Some(left_out()?.filter(|case| case.variant.level != 0)),
        }
    }

    /// With equal weight for every network.
    fn scores(self, part: &Assessment, protocols: &MethodTests) -> Option<ErrorScores> {
        self.cases(part, protocols)?.scores_over_networks()
    }
}

fn level(case: &PredictedRow) -> (&str, u8) {
    (&case.variant.network, case.variant.level)
}

/// One row per protocol and quantity: the error, the published method's error, and the coverage of the intervals.
pub fn table(evidence: &ReportEvidence) -> Table {
    let rows = evidence.assessments.iter().flat_map(|part| {
        let protocols = ReportProtocol::ALL.into_iter().map(move |protocol| {
            let cases = protocol.cases(part, &part.study.own).unwrap_or_default();
            let published = part.study.published().and_then(|published| protocol.scores(part, published));
            let mape = |scores: ErrorScores| scores.mape;
            let errors = [cases.scores_over_networks().map(mape), published.map(mape), cases.coverage_90()];
            (part, protocol.name(part), Some(cases.cases.len()), errors)
        });
        let noise = part.study.noise;
        let (repeated, errors) = (noise.map(|noise| noise.repeated), [noise.map(|noise| noise.mape), None, None]);
        protocols.chain([(part, "the device against itself", repeated, errors)])
    });
    TableBuilder::new("How far off predictions are, mean over networks, the same rows for every method", rows)
        .text("quantity", "quantity", |row| row.0.quantity().name())
        .text("protocol", "tested on", |row| row.1)
        .number("rows", "rows", |row| row.2)
        .number("mape", "mean error", |row| row.3[0].map(Percent))
        .number("published_mape", "published method", |row| row.3[1].map(Percent))
        .number("coverage_90", "inside 90 % interval", |row| row.3[2].map(Percent))
        .table()
}

/// Mean error by protocol, a bar per method.
pub fn side_by_side(part: &Assessment) -> Chart {
    let series = methods(part).map(|protocols| {
        let errors = ReportProtocol::ALL.map(|protocol| Some(protocol.scores(part, protocols)?.mape));
        of_method(part, protocols, errors)
    });
    let plot =
        errors(part, ReportProtocol::ALL.map(|protocol| protocol.name(part).to_owned()).into(), series.collect());
    Chart::new(tables::title(part.quantity()), format!("Shorter is better. {}", noise_remark(part)), Plot::Bars(plot))
}

/// The meaning of the line in the charts.
fn noise_remark(part: &Assessment) -> String {
    match part.study.noise {
        Some(noise) => format!(
            "The line is the device against itself, {}: {} configurations were measured more than once.",
            Percent(noise.mape),
            noise.repeated
        ),
        None => "No two rows are of the same step, so how much the device differs from itself is not known.".to_owned(),
    }
}

/// Mean error of every network that was left out, a bar per method.
pub fn networks_left_out(evidence: &ReportEvidence, part: &Assessment) -> Option<Chart> {
    let categories = evidence.networks();
    let series: Vec<Series<Option<f64>>> = methods(part)
        .filter_map(|protocols| {
            let scores = protocols.left_out.as_ref()?.evaluation.by(|case| case.variant.network.clone());
            let errors = categories.iter().map(|name| scores.get(name).map(|scores| scores.mape));
            Some(of_method(part, protocols, errors))
        })
        .collect();
    let plot = errors(part, categories, series);
    let caption =
        format!("Every network answered by a fit that never saw it, at all its levels. {}", noise_remark(part));
    let title = format!("{}: networks left out", tables::title(part.quantity()));
    (!plot.series.is_empty()).then(|| Chart::new(title, caption, Plot::Bars(plot)))
}

/// The coverage of intervals, by network.
pub fn coverage(evidence: &ReportEvidence, part: &Assessment) -> Option<Chart> {
    let basis = part.basis()?;
    let own = &part.study.own;
    let left_out = own.left_out.as_ref().map(|trial| trial.evaluation.clone());
    let trials =
        [("profiled", Some(part.known_network_cases()), Colour::Variation), ("left out", left_out, Colour::Subject)];
    let categories = evidence.networks();
    let series = trials.into_iter().filter_map(|(name, evaluation, colour)| {
        let evaluation = evaluation?;
        let covered = |network: &String| evaluation.filter(|case| case.variant.network == *network).coverage_90();
        Some(Series::new(format!("{}, {name}", label(own.method)), categories.iter().map(covered)).coloured(colour))
    });
    let series: Vec<_> = series.collect();
    let plot = Bars {
        series,
        categories: categories.clone(),
        value: Axis::linear("rows inside their interval (%)"),
        reference: Some(PROMISED),
        most: Some(100.0),
    };
    let title = format!("{}: 90 % intervals", tables::title(part.quantity()));
    Some(Chart::new(title, format!("The line is what they promise; {basis}."), Plot::Bars(plot)))
}

/// Error by the number of rows fitted on, a line per method.
pub fn learning(part: &Assessment) -> Option<Chart> {
    let points = |point: &LearningPoint| Value::from((point.rows as f64, point.mape));
    let line = |protocols: &MethodTests| of_method(part, protocols, protocols.learning.iter().map(points));
    let series: Vec<_> = methods(part).filter(|protocols| protocols.learning.len() > 1).map(line).collect();
    let plot = Line::new(Axis::log("rows fitted on"), Axis::linear("mean error (%)"), series);
    let caption = "Error at levels not fitted on. Where a line is still falling, profiling more helps; where it is flat, it does not.";
    (!plot.series.is_empty()).then(|| Chart::new(tables::title(part.quantity()), caption, Plot::Line(plot)))
}

fn methods<'a>(part: &Assessment<'a>) -> impl Iterator<Item = &'a MethodTests> {
    [&part.study.own].into_iter().chain(&part.study.published)
}

/// Bars of errors. Very long bars are cut off at the edge: in full length they would make the others invisible.
fn errors(part: &Assessment, categories: Vec<String>, series: Vec<Series<Option<f64>>>) -> Bars {
    let own = series.iter().filter(|series| series.colour == Colour::Subject).flat_map(|series| &series.data);
    let longest = own.flatten().copied().fold(0.0, f64::max);
    let all = series.iter().flat_map(|series| &series.data).flatten();
    let flattened = longest > 0.0 && all.copied().fold(0.0, f64::max) > FLATTENING * longest;
    Bars {
        categories,
        value: Axis::linear("mean error (%)"),
        series,
        reference: part.study.noise.map(|noise| noise.mape),
        most: flattened.then_some(FLATTENING * longest),
    }
}

/// Data of a method in its colour: the fingerprint's own method, or the one it is compared with.
fn of_method<T>(part: &Assessment, protocols: &MethodTests, data: impl IntoIterator<Item = T>) -> Series<T> {
    let colour = if protocols.method == part.study.own.method { Colour::Subject } else { Colour::Rival };
    Series::new(label(protocols.method), data).coloured(colour)
}

/// A method's name in legends.
pub fn label(method: FitMethod) -> &'static str {
    match method {
        FitMethod::Hybrid => "hybrid",
        FitMethod::Perf4sight => "published method",
    }
}
