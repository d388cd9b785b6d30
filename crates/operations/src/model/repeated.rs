//! Operations that were measured several times, as in several runs of a network: a fit that sees one of them knows the others.

use crate::row::OperationRow;
use perf4sight_base::stats::median;
use std::collections::BTreeMap;

/// What rows of the same operation on the same elements have in common, on whatever GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RepeatedOperation<'r> {
    name: &'r str,
    shapes: &'r str,
    element: &'static str,
    flops: u64,
    bytes: u64,
}

impl<'r> RepeatedOperation<'r> {
    pub fn from_row(row: &'r OperationRow) -> Self {
        let [flops, bytes] = [row.work.flops, row.work.bytes].map(f64::to_bits);
        RepeatedOperation { name: &row.operation, shapes: &row.shapes, element: row.element.name(), flops, bytes }
    }
}

/// Each operation of a network on a GPU once, with the median of its times.
pub(super) fn merged(rows: &[OperationRow]) -> Vec<OperationRow> {
    let mut places: BTreeMap<(&str, &str, RepeatedOperation<'_>), usize> = BTreeMap::new();
    let mut alike: Vec<Vec<&OperationRow>> = Vec::new();
    for row in rows {
        let place = *places.entry((&row.gpu, &row.network, RepeatedOperation::from_row(row))).or_insert(alike.len());
        if place == alike.len() {
            alike.push(Vec::new());
        }
        alike[place].push(row);
    }
    let one = |alike: Vec<&OperationRow>| {
        let times: Vec<f64> = alike.iter().map(|row| row.time_us).collect();
        let count = alike.iter().fold(0_u32, |sum, row| sum.saturating_add(row.count));
        OperationRow { time_us: median(&times), count, ..alike[0].clone() }
    };
    alike.into_iter().map(one).collect()
}
