//! The tables of a fingerprint's report.

use super::{Assessment, ReportEvidence, unseen_column};
use crate::fingerprint::PredictedValue;
use crate::records::MeasurementOutcome;
use perf4sight_base::stats::ErrorScores;
use perf4sight_base::units::Percent;
use perf4sight_report::{Cell, Table, TableBuilder, TableColumn};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

/// One row per network: rows fitted on, tested on, out of memory, and the errors.
pub fn summary(evidence: &ReportEvidence) -> Table {
    let errors = evidence.assessments.iter().map(|part| unseen_column(part.quantity()));
    let counts = [
        TableColumn::number("fitted_rows", "fitted"),
        TableColumn::number("tested_rows", "tested"),
        TableColumn::number("out_of_memory", "out of memory"),
    ];
    let columns = [TableColumn::text("network", "network")].into_iter().chain(counts).chain(errors);
    let mut table = Table::new(
        format!("Fingerprint of {}, {}: errors on levels not fitted on", evidence.device, evidence.step),
        columns,
    );
    for network in evidence.networks() {
        let errors = evidence.assessments.iter().map(|part| error_on_unseen(part, &network));
        let counts = counts_of(evidence, &network).map(Cell::from);
        table.row([network.as_str().into()].into_iter().chain(counts).chain(errors));
    }
    table
}

fn counts_of(evidence: &ReportEvidence, network: &str) -> [usize; 3] {
    let parts = &evidence.assessments;
    let fitted = |part: &Assessment| -> usize {
        let all = part.fingerprint.fitted_on().iter();
        all.filter(|fitted| fitted.variant.network == network).map(|fitted| fitted.rows).sum()
    };
    let tested =
        |part: &Assessment| part.evaluation().cases.iter().filter(|case| case.variant.network == network).count();
    let ran_out = evidence
        .records()
        .filter(|record| record.variant.network == network && record.outcome == MeasurementOutcome::OutOfMemory)
        .count();
    [parts.iter().map(fitted).sum(), parts.iter().map(tested).sum(), ran_out]
}

fn error_on_unseen(part: &Assessment, network: &str) -> Cell {
    let scores = part.evaluation().unseen_cases().by(|case| case.variant.network.clone());
    scores.get(network).map(|scores| Percent(scores.mape)).into()
}

/// All scores of one quantity, a row per network and one for all of them.
pub fn by_network(part: &Assessment) -> Table {
    let evaluation = part.evaluation();
    let networks = evaluation.by(|case| case.variant.network.clone());
    let all = evaluation.scores().map(|scores| ("all".to_owned(), scores));
    let rows = TableBuilder::new(format!("{} by network", title(part.quantity())), networks.into_iter().chain(all));
    with_scores(rows.text("network", "network", |(network, _)| network.clone()))
}

/// All scores of one quantity, a row per network and level.
pub fn by_level(part: &Assessment) -> Table {
    let fitted: BTreeMap<_, _> =
        part.evaluation().cases.iter().map(|case| ((&case.variant.network, case.variant.level), case.fitted)).collect();
    let levels = part.evaluation().by(|case| (case.variant.network.clone(), case.variant.level));
    let rows = TableBuilder::new(format!("{} by network and level", title(part.quantity())), levels)
        .text("network", "network", |((network, _), _)| network.clone())
        .number("level", "level", |((_, level), _)| u64::from(*level))
        .text("fitted", "fitted on", |((network, level), _)| fitted.get(&(network, *level)).copied());
    with_scores(rows)
}

/// All scores of one quantity, a row per batch size.
pub fn by_batch(part: &Assessment) -> Table {
    let rows =
        TableBuilder::new(format!("{} by batch size", title(part.quantity())), part.evaluation().by(|case| case.batch));
    with_scores(rows.number("bs", "batch size", |(batch, _)| *batch))
}

/// The rows with the worst predictions.
pub fn worst(part: &Assessment, count: usize) -> Table {
    let quantity = part.quantity();
    TableBuilder::new(format!("{}: the {count} rows predicted worst", title(quantity)), part.evaluation().worst(count))
        .text("variant", "variant", |case| case.variant.to_string())
        .number("bs", "batch size", |case| case.batch)
        .number("measured", "measured", |case| PredictedValue::new(quantity, case.measured))
        .number("predicted", "predicted", |case| case.predicted)
        .number("error_percent", "error", |case| format!("{:+.1} %", case.error()))
        .table()
}

/// The warnings about the files.
pub fn warnings(evidence: &ReportEvidence) -> Table {
    let warnings = evidence.warnings();
    TableBuilder::new(format!("Noticed in the files: {}", warnings.len()), warnings)
        .text("warning", "warning", |warning| *warning)
        .table()
}

/// The quantity at the beginning of a sentence.
pub fn title(quantity: Quantity) -> String {
    capital(quantity.name())
}

/// A word at the beginning of a sentence.
pub fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// Adds the scores of each row.
fn with_scores<K>(rows: TableBuilder<(K, ErrorScores)>) -> Table {
    rows.number("rows", "rows", |(_, scores)| scores.rows)
        .number("mape", "mean error", |(_, scores)| Percent(scores.mape))
        .number("median", "median", |(_, scores)| Percent(scores.median))
        .number("p90", "90th percentile", |(_, scores)| Percent(scores.p90))
        .number("within_5", "within 5 %", |(_, scores)| Percent(scores.within_5))
        .number("within_10", "within 10 %", |(_, scores)| Percent(scores.within_10))
        .number("rmspe", "RMSPE", |(_, scores)| Percent(scores.rmspe))
        .number("spearman", "Spearman", |(_, scores)| scores.spearman.map(|correlation| format!("{correlation:.3}")))
        .number("bias", "bias", |(_, scores)| format!("{:+.1} %", scores.bias))
        .table()
}
