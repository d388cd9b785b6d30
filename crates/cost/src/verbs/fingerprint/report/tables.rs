//! The tables of a fingerprint's report.

use super::{Assessment, Evidence, unseen_column};
use crate::evaluation::Case;
use crate::records::Outcome;
use perf4sight_base::stats::Scores;
use perf4sight_base::units::{Bytes, Milliseconds, Percent};
use perf4sight_report::{Cell, Column, Table};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

/// One row per network: rows fitted on, tested on, out of memory, and the errors.
pub fn summary(evidence: &Evidence) -> Table {
    let errors = evidence.assessments.iter().map(|part| unseen_column(part.quantity()));
    let counts = [
        Column::number("fitted_rows", "fitted"),
        Column::number("tested_rows", "tested"),
        Column::number("out_of_memory", "out of memory"),
    ];
    let columns = [Column::text("network", "network")].into_iter().chain(counts).chain(errors);
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

fn counts_of(evidence: &Evidence, network: &str) -> [usize; 3] {
    let parts = &evidence.assessments;
    let fitted = |part: &Assessment| -> usize {
        let all = part.fingerprint.fitted_on().iter();
        all.filter(|fitted| fitted.variant.network == network).map(|fitted| fitted.rows).sum()
    };
    let tested =
        |part: &Assessment| part.evaluation().cases.iter().filter(|case| case.variant.network == network).count();
    let ran_out = evidence
        .records()
        .filter(|record| record.variant.network == network && record.outcome == Outcome::OutOfMemory)
        .count();
    [parts.iter().map(fitted).sum(), parts.iter().map(tested).sum(), ran_out]
}

fn error_on_unseen(part: &Assessment, network: &str) -> Cell {
    let scores = part.evaluation().unseen().by(|case| case.variant.network.clone());
    scores.get(network).map(|scores| Percent(scores.mape)).into()
}

/// All scores of one quantity, a row per network and one for all of them.
pub fn by_network(part: &Assessment) -> Table {
    let mut table =
        scores_table(format!("{} by network", title(part.quantity())), [Column::text("network", "network")]);
    for (network, scores) in part.evaluation().by(|case| case.variant.network.clone()) {
        table.row([network.into()].into_iter().chain(score_cells(&scores)));
    }
    if let Some(scores) = part.evaluation().scores() {
        table.row(["all".into()].into_iter().chain(score_cells(&scores)));
    }
    table
}

/// All scores of one quantity, a row per network and level.
pub fn by_level(part: &Assessment) -> Table {
    let keys =
        [Column::text("network", "network"), Column::number("level", "level"), Column::text("fitted", "fitted on")];
    let mut table = scores_table(format!("{} by network and level", title(part.quantity())), keys);
    let fitted: BTreeMap<_, _> =
        part.evaluation().cases.iter().map(|case| ((&case.variant.network, case.variant.level), case.fitted)).collect();
    for ((network, level), scores) in part.evaluation().by(|case| (case.variant.network.clone(), case.variant.level)) {
        let known = fitted.get(&(&network, level)).copied();
        let keys = [network.as_str().into(), u64::from(level).into(), known.into()];
        table.row(keys.into_iter().chain(score_cells(&scores)));
    }
    table
}

/// All scores of one quantity, a row per batch size.
pub fn by_batch(part: &Assessment) -> Table {
    let keys = [Column::number("bs", "batch size")];
    let mut table = scores_table(format!("{} by batch size", title(part.quantity())), keys);
    for (batch, scores) in part.evaluation().by(|case| case.batch) {
        table.row([batch.into()].into_iter().chain(score_cells(&scores)));
    }
    table
}

/// The rows with the worst predictions.
pub fn worst(part: &Assessment, count: usize) -> Table {
    let mut table = Table::new(
        format!("{}: the {count} rows predicted worst", title(part.quantity())),
        [
            Column::text("variant", "variant"),
            Column::number("bs", "batch size"),
            Column::number("measured", "measured"),
            Column::number("predicted", "predicted"),
            Column::number("error_percent", "error"),
        ],
    );
    for case in part.evaluation().worst(count) {
        table.row([
            case.variant.to_string().into(),
            case.batch.into(),
            value(part.quantity(), case.measured),
            value(part.quantity(), case.predicted.value()),
            signed(case).into(),
        ]);
    }
    table
}

/// The warnings about the files.
pub fn warnings(evidence: &Evidence) -> Table {
    let warnings = evidence.warnings();
    let mut table =
        Table::new(format!("Noticed in the files: {}", warnings.len()), [Column::text("warning", "warning")]);
    warnings.into_iter().for_each(|warning| table.row([warning.into()]));
    table
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

/// A value of the profile's column with its unit.
pub fn value(quantity: Quantity, value: f64) -> Cell {
    match quantity {
        Quantity::Latency => Milliseconds(value).into(),
        Quantity::Memory => Bytes::from_mib(value).into(),
    }
}

fn signed(case: &Case) -> String {
    format!("{:+.1} %", case.error())
}

fn scores_table(title: String, keys: impl IntoIterator<Item = Column>) -> Table {
    let scores = [
        Column::number("rows", "rows"),
        Column::number("mape", "mean error"),
        Column::number("median", "median"),
        Column::number("p90", "90th percentile"),
        Column::number("within_5", "within 5 %"),
        Column::number("within_10", "within 10 %"),
        Column::number("rmspe", "RMSPE"),
        Column::number("spearman", "Spearman"),
        Column::number("bias", "bias"),
    ];
    Table::new(title, keys.into_iter().chain(scores))
}

fn score_cells(scores: &Scores) -> [Cell; 9] {
    [
        scores.rows.into(),
        Percent(scores.mape).into(),
        Percent(scores.median).into(),
        Percent(scores.p90).into(),
        Percent(scores.within_5).into(),
        Percent(scores.within_10).into(),
        Percent(scores.rmspe).into(),
        scores.spearman.map(|correlation| format!("{correlation:.3}")).into(),
        format!("{:+.1} %", scores.bias).into(),
    ]
}
