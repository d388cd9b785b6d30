//! `predictions.csv`: every tested row.

use super::{Assessment, ReportEvidence, unit};
use crate::evaluation::{MethodTests, PredictedRow, Trial};
use crate::records::Variant;
use perf4sight_base::units::Percent;
use perf4sight_report::{Table, TableBuilder};
use std::collections::{BTreeMap, VecDeque};

/// A tested row, and its cases in the trials of other fits.
struct TestedRow<'a> {
    part: &'a Assessment<'a>,
    case: &'a PredictedRow,
    left_out: Option<&'a PredictedRow>,
    published: [Option<&'a PredictedRow>; 2],
}

/// Every tested row; measured and predicted values are in the row's `unit`.
pub fn table(evidence: &ReportEvidence) -> Table {
    TableBuilder::new("Predictions", evidence.assessments.iter().flat_map(rows))
        .text("quantity", "quantity", |row| row.part.quantity().name())
        .text("variant", "variant", |row| row.case.variant.to_string())
        .text("network", "network", |row| row.case.variant.network.clone())
        .number("level", "level", |row| u64::from(row.case.variant.level))
        .number("bs", "batch size", |row| row.case.batch)
        .text("unit", "unit", |row| unit(row.part.quantity()))
        .number("measured", "measured", |row| row.case.measured)
        .number("predicted", "predicted", |row| row.case.predicted.value())
        .number("error_percent", "error", |row| Percent(row.case.error()))
        .text("fitted", "level fitted on", |row| row.case.fitted)
        .number("low_90", "interval from", |row| Some(row.case.interval?.low.value()))
        .number("high_90", "interval to", |row| Some(row.case.interval?.high.value()))
        .number("left_out", "predicted with the network left out", |row| value(row.left_out))
        .number("left_out_low_90", "interval from", |row| Some(row.left_out?.interval?.low.value()))
        .number("left_out_high_90", "interval to", |row| Some(row.left_out?.interval?.high.value()))
        .number("published", "predicted by the published method", |row| value(row.published[0]))
        .number("published_left_out", "by the published method with the network left out", |row| {
            value(row.published[1])
        })
        .table()
}

fn rows<'a>(part: &'a Assessment) -> Vec<TestedRow<'a>> {
    let published = part.study.published();
    let mut own = left_out(&part.study.own);
    let mut theirs = published.map(|published| CaseQueue::new(&published.whole)).unwrap_or_default();
    let mut theirs_left_out = published.map(left_out).unwrap_or_default();
    let row = |case: &'a PredictedRow| {
        let published = [theirs.next(case), theirs_left_out.next(case)];
        TestedRow { part, case, left_out: own.next(case), published }
    };
    part.evaluation().cases.iter().map(row).collect()
}

fn left_out(protocols: &MethodTests) -> CaseQueue<'_> {
    protocols.left_out.as_ref().map(CaseQueue::new).unwrap_or_default()
}

fn value(case: Option<&PredictedRow>) -> Option<f64> {
    Some(case?.predicted.value())
}

#[derive(Default)]
struct CaseQueue<'a>(BTreeMap<(Variant, u64), VecDeque<&'a PredictedRow>>);

impl<'a> CaseQueue<'a> {
    fn new(trial: &'a Trial) -> Self {
        let mut queue = CaseQueue::default();
        for case in &trial.evaluation.cases {
            queue.0.entry((case.variant.clone(), case.batch)).or_default().push_back(case);
        }
        queue
    }

    fn next(&mut self, case: &PredictedRow) -> Option<&'a PredictedRow> {
        self.0.get_mut(&(case.variant.clone(), case.batch))?.pop_front()
    }
}
