//! Operations that were measured several times, as in several runs of a network: a fit that sees one of them knows the others.

use crate::row::Row;
use perf4sight_base::stats::median;
use std::collections::BTreeMap;

/// What rows of the same operation on the same elements have in common, on whatever GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Operation<'r> {
    name: &'r str,
    shapes: &'r str,
    element: &'static str,
    flops: u64,
    bytes: u64,
}

impl<'r> Operation<'r> {
    pub fn of_row(row: &'r Row) -> Self {
        let [flops, bytes] = [row.work.flops, row.work.bytes].map(f64::to_bits);
        Operation { name: &row.operation, shapes: &row.shapes, element: row.element.name(), flops, bytes }
    }
}

/// Each operation of a network on a GPU once, with the median of its times.
pub(super) fn merged(rows: &[Row]) -> Vec<Row> {
    let mut places: BTreeMap<(&str, &str, Operation<'_>), usize> = BTreeMap::new();
    let mut alike: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let place = *places.entry((&row.gpu, &row.network, Operation::of_row(row))).or_insert(alike.len());
        if place == alike.len() {
            alike.push(Vec::new());
        }
        alike[place].push(row);
    }
    let one = |alike: Vec<&Row>| {
        let times: Vec<f64> = alike.iter().map(|row| row.time_us).collect();
        let count = alike.iter().fold(0_u32, |sum, row| sum.saturating_add(row.count));
        Row { time_us: median(&times), count, ..alike[0].clone() }
    };
    alike.into_iter().map(one).collect()
}
