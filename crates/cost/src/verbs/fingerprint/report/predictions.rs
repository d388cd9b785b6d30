//! `predictions.csv`: every tested row.

use super::{Assessment, Evidence, unit};
use crate::evaluation::{Case, Protocols, Trial};
use crate::fingerprint::Interval;
use crate::records::Variant;
use perf4sight_base::units::Percent;
use perf4sight_report::{Cell, Column, Table};
use std::collections::{BTreeMap, VecDeque};

/// Every tested row; measured and predicted values are in the row's `unit`.
pub fn table(evidence: &Evidence) -> Table {
    let mut table = Table::new(
        "Predictions",
        [
            Column::text("quantity", "quantity"),
            Column::text("variant", "variant"),
            Column::text("network", "network"),
            Column::number("level", "level"),
            Column::number("bs", "batch size"),
            Column::text("unit", "unit"),
            Column::number("measured", "measured"),
            Column::number("predicted", "predicted"),
            Column::number("error_percent", "error"),
            Column::text("fitted", "level fitted on"),
            Column::number("low_90", "interval from"),
            Column::number("high_90", "interval to"),
            Column::number("left_out", "predicted with the network left out"),
            Column::number("left_out_low_90", "interval from"),
            Column::number("left_out_high_90", "interval to"),
            Column::number("published", "predicted by the published method"),
            Column::number("published_left_out", "by the published method with the network left out"),
        ],
    );
    evidence.assessments.iter().flat_map(rows).for_each(|row| table.row(row));
    table
}

fn rows(part: &Assessment) -> Vec<Vec<Cell>> {
    let published = part.study.published();
    let mut without = left_out(&part.study.own);
    let mut theirs = published.map(|published| Queue::new(&published.whole)).unwrap_or_default();
    let mut theirs_without = published.map(left_out).unwrap_or_default();
    let row = |case: &Case| {
        let own = interval(case.interval);
        let without = without.next(case);
        let others = [theirs.next(case), theirs_without.next(case)].map(value);
        let cells = identity(part, case).into_iter().chain(own).chain([value(without)]);
        cells.chain(interval(without.and_then(|case| case.interval))).chain(others).collect()
    };
    part.evaluation().cases.iter().map(row).collect()
}

fn left_out(protocols: &Protocols) -> Queue<'_> {
    protocols.left_out.as_ref().map(Queue::new).unwrap_or_default()
}

fn identity(part: &Assessment, case: &Case) -> [Cell; 10] {
    [
        part.quantity().name().into(),
        case.variant.to_string().into(),
        case.variant.network.as_str().into(),
        u64::from(case.variant.level).into(),
        case.batch.into(),
        unit(part.quantity()).into(),
        case.measured.into(),
        case.predicted.value().into(),
        Percent(case.error()).into(),
        case.fitted.into(),
    ]
}

fn value(case: Option<&Case>) -> Cell {
    case.map(|case| case.predicted.value()).into()
}

fn interval(interval: Option<Interval>) -> [Cell; 2] {
    let end = |end: fn(&Interval) -> f64| interval.as_ref().map(end).into();
    [end(|interval| interval.low.value()), end(|interval| interval.high.value())]
}

/// Cases of another trial of the same rows; repeated measurements have the same order in both.
#[derive(Default)]
struct Queue<'a>(BTreeMap<(Variant, u64), VecDeque<&'a Case>>);

impl<'a> Queue<'a> {
    fn new(trial: &'a Trial) -> Self {
        let mut queue = Queue::default();
        for case in &trial.evaluation.cases {
            queue.0.entry((case.variant.clone(), case.batch)).or_default().push_back(case);
        }
        queue
    }

    fn next(&mut self, case: &Case) -> Option<&'a Case> {
        self.0.get_mut(&(case.variant.clone(), case.batch))?.pop_front()
    }
}
