//! Predictions as tables for people: a page for one network, a line per network and batch size for many.

use super::answer::{Answer, Breakdown, Point};
use crate::fingerprint::{Interval, Prediction, Share, Verdict};
use crate::memory::Alive;
use crate::report::{Cell, Column, Table};
use crate::units::{Bytes, Percent};

/// How many of the costliest layers are shown.
const LAYERS: usize = 5;

/// One line per batch size.
pub(super) fn page(answer: &Answer, title: String) -> Table {
    let mut table = Table::new(title, [vec![Column::number("bs", "batch size")], columns()].concat());
    for point in &answer.points {
        table.row([vec![point.batch.into()], cells(point)].concat());
    }
    table
}

/// One line per network and batch size.
pub(super) fn lines(answers: &[Answer], title: String) -> Table {
    let heads = vec![Column::text("network", "network"), Column::number("bs", "batch size")];
    let tail = vec![Column::number("max_batch_safe", "max batch"), Column::text("unlike", "unlike what was profiled")];
    let mut table = Table::new(title, [heads, columns(), tail].concat());
    for answer in answers {
        let max_batch = Cell::from(answer.max_batch.map(|max_batch| max_batch.safe));
        for point in &answer.points {
            let heads = vec![answer.network.as_str().into(), point.batch.into()];
            table.row([heads, cells(point), vec![max_batch.clone(), point.unlike().join("; ").into()]].concat());
        }
    }
    table
}

fn columns() -> Vec<Column> {
    vec![
        Column::number("latency", "latency"),
        Column::number("latency_interval", "90 %"),
        Column::number("memory", "memory"),
        Column::number("memory_interval", "90 %"),
        Column::text("verdict", "verdict"),
        Column::number("throughput", "samples/s"),
    ]
}

fn cells(point: &Point) -> Vec<Cell> {
    let value = |prediction: &Prediction| Cell::from(prediction.value.to_string());
    let interval = |prediction: &Prediction| Cell::from(prediction.interval.map(written));
    vec![
        point.latency.as_ref().map_or(Cell::Missing, value),
        point.latency.as_ref().map_or(Cell::Missing, interval),
        point.memory.as_ref().map_or(Cell::Missing, value),
        point.memory.as_ref().map_or(Cell::Missing, interval),
        point.verdict.map(called).into(),
        point.throughput().into(),
    ]
}

/// "31.0 ms – 39.2 ms".
fn written(interval: Interval) -> String {
    format!("{} – {}", interval.low, interval.high)
}

/// "fits (97.0 %)": how likely it is to fit.
fn called(verdict: Verdict) -> String {
    format!("{} ({})", verdict.call, Percent(100.0 * verdict.fits))
}

impl Breakdown {
    /// What latency and memory are made of, as far as the fingerprints know.
    pub(super) fn tables(&self) -> Vec<Table> {
        let shares = self.shares.as_ref().map(|shares| {
            let of = |share: &Share| (share.name.clone(), share.latency.into(), share.latency.0);
            let classes = shares.classes.iter().map(of).collect();
            let whole = shares.classes.iter().map(|share| share.latency.0).sum();
            let costliest = shares.layers.iter().take(LAYERS).map(of).collect();
            [
                self.table(["Latency by class of operation", "class", "latency_ms"], classes, whole),
                self.table(["The costliest layers", "layer", "latency_ms"], costliest, whole),
            ]
        });
        let memory = self.alive.as_ref().map(|alive| {
            let parts = components(alive).map(|(name, bytes)| (name.to_owned(), bytes.into(), bytes.0 as f64));
            let whole = alive.total().0 as f64;
            self.table(["Simulated memory at its peak", "component", "memory_bytes"], parts.into(), whole)
        });
        shares.into_iter().flatten().chain(memory).collect()
    }

    fn table(&self, [title, what, unit]: [&str; 3], parts: Vec<(String, Cell, f64)>, whole: f64) -> Table {
        let amount = unit.split('_').next().unwrap_or(unit);
        let heads = [Column::text(what, what), Column::number(unit, amount), Column::number("share_percent", "share")];
        let mut table = Table::new(format!("{title}, batch size {}", self.batch), heads);
        for (name, cell, value) in parts {
            table.row([name.into(), cell, Percent(100.0 * value / whole).into()]);
        }
        table
    }
}

/// The parts of the peak, largest first.
fn components(alive: &Alive) -> [(&'static str, Bytes); 7] {
    let activations = Bytes(alive.activations.iter().map(|layer| layer.bytes.0).fold(0, u64::saturating_add));
    let mut parts = [
        ("weights", alive.weights),
        ("gradients", alive.gradients),
        ("optimizer state", alive.optimizer_state),
        ("activations", activations),
        ("gradients of activations", alive.activation_gradients),
        ("workspace", alive.workspace),
        ("fragmentation", alive.fragmentation),
    ];
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}
