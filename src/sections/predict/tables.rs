//! Predictions as tables for people: a page for one network, a line per network and batch size for many.

use super::answer::{Answer, Breakdown, Point};
use super::sentence::called;
use crate::fingerprint::{Interval, Prediction, Share};
use crate::memory::Alive;
use crate::report::{Cell, Column, Table};
use crate::units::{Bytes, Percent};

/// How many of the costliest layers are shown.
const LAYERS: usize = 5;

/// A table per quantity, memory and whether it fits first; a line per batch size.
pub(super) fn page(answer: &Answer, what: &str) -> Vec<Table> {
    let heads = |quantity: &str| {
        vec![Column::number("bs", "batch size"), Column::number(quantity, quantity), interval(quantity)]
    };
    let table = |quantity: &str, own: Column, cells: &dyn Fn(&Point) -> Option<[Cell; 3]>| {
        let rows: Vec<Vec<Cell>> = answer
            .points
            .iter()
            .filter_map(|point| Some([vec![Cell::from(point.batch)], cells(point)?.to_vec()].concat()))
            .collect();
        let mut table = Table::new(format!("{what}: {quantity}"), [heads(quantity), vec![own]].concat());
        table.rows = rows;
        (!table.rows.is_empty()).then_some(table)
    };
    let memory = |point: &Point| {
        let memory = point.memory.as_ref()?;
        Some([value(memory), written(memory), point.verdict.map(called).into()])
    };
    let latency = |point: &Point| {
        let latency = point.latency.as_ref()?;
        Some([value(latency), written(latency), point.throughput().into()])
    };
    let memory = table("memory", Column::text("verdict", "verdict"), &memory);
    let latency = table("latency", Column::number("throughput", "samples/s"), &latency);
    memory.into_iter().chain(latency).collect()
}

/// One line per network and batch size; intervals are in the other forms.
pub(super) fn lines(answers: &[Answer], title: String) -> Table {
    let heads = [Column::text("network", "network"), Column::number("bs", "bs")];
    // A number is never cut, and nothing of a verdict shall be.
    let columns = ["verdict", "memory", "latency"].map(|key| Column::number(key, key));
    let tail = [Column::number("max_batch_safe", "max bs"), Column::text("unlike", "unlike what was profiled")];
    let mut table = Table::new(title, heads.into_iter().chain(columns).chain(tail));
    for answer in answers {
        let max_batch = Cell::from(answer.max_batch.map(|max_batch| max_batch.safe));
        for point in &answer.points {
            table.row([
                answer.network.as_str().into(),
                point.batch.into(),
                point.verdict.map(called).into(),
                point.memory.as_ref().map_or(Cell::Missing, value),
                point.latency.as_ref().map_or(Cell::Missing, value),
                max_batch.clone(),
                point.unlike().join("; ").into(),
            ]);
        }
    }
    table
}

fn interval(quantity: &str) -> Column {
    Column::number(format!("{quantity}_interval"), "90 %")
}

fn value(prediction: &Prediction) -> Cell {
    Cell::from(prediction.value.to_string())
}

/// "31.0 ms – 39.2 ms".
fn written(prediction: &Prediction) -> Cell {
    prediction.interval.map(|Interval { low, high, .. }| format!("{low} – {high}")).into()
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
