//! Predictions as tables for people: a page for one network, lines of all networks for many.

use super::answer::{Answer, Breakdown, Point};
use crate::fingerprint::{Interval, Prediction, Share};
use crate::verbs::verdict::called;
use perf4sight_base::units::{Bytes, Percent};
use perf4sight_memory::{Alive, Role};
use perf4sight_report::{Cell, Column, Table};

/// How many of the costliest layers are shown.
const LAYERS: usize = 5;

/// A table per quantity, memory and whether it fits first; a line per batch size, and of several networks per network and batch size.
pub(super) fn predictions(answers: &[Answer], what: &str) -> Vec<Table> {
    [memory(answers, what), latency(answers, what)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn memory(answers: &[Answer], what: &str) -> Table {
    // A number is never cut, and nothing of a verdict shall be.
    let verdict = Column::number("verdict", "verdict");
    let largest = (answers.len() > 1).then(|| Column::number("max_batch_safe", "max bs"));
    table(answers, ["memory", what], [verdict].into_iter().chain(largest), |answer, point| {
        let safe = Cell::from(answer.max_batch.map(|max_batch| max_batch.safe));
        Some((point.memory.as_ref()?, vec![point.verdict.map(called).into(), safe]))
    })
}

fn latency(answers: &[Answer], what: &str) -> Table {
    let throughput = Column::number("throughput", "samples/s");
    table(answers, ["latency", what], [throughput], |_, point| {
        Some((point.latency.as_ref()?, vec![point.throughput().into()]))
    })
}

/// Of a single network, which the title names, the ends of the interval; of several how far they lie from the value, so that a line is not
/// too long and networks compare.
fn table<'a>(
    answers: &'a [Answer],
    [quantity, what]: [&str; 2],
    own: impl IntoIterator<Item = Column>,
    of: impl Fn(&'a Answer, &'a Point) -> Option<(&'a Prediction, Vec<Cell>)>,
) -> Table {
    let several = answers.len() > 1;
    let batch = Column::number("bs", if several { "bs" } else { "batch size" });
    let heads = several.then(|| Column::text("network", "network")).into_iter().chain([batch]);
    let heads = heads.chain([Column::number(quantity, quantity), interval(quantity)]);
    let mut table = Table::new(format!("{what}: {quantity}"), heads.chain(own));
    for (answer, point) in answers.iter().flat_map(|answer| answer.points.iter().map(move |point| (answer, point))) {
        let Some((prediction, own)) = of(answer, point) else { continue };
        let network = several.then(|| Cell::from(answer.network.as_str()));
        let interval = if several { relative(prediction) } else { ends(prediction) };
        let cells = [point.batch.into(), Cell::from(prediction.value.to_string()), interval];
        let cells = network.into_iter().chain(cells).chain(own);
        table.row(cells.take(table.columns.len()).collect::<Vec<_>>());
    }
    table
}

fn interval(quantity: &str) -> Column {
    Column::number(format!("{quantity}_interval"), "90 %")
}

/// "31.0 ms – 39.2 ms".
pub(super) fn ends(prediction: &Prediction) -> Cell {
    prediction.interval.map(|Interval { low, high, .. }| format!("{low} – {high}")).into()
}

/// "-11/+13 %".
fn relative(prediction: &Prediction) -> Cell {
    let percent = |end: f64| {
        let percent = 100.0 * (end / prediction.value.value() - 1.0);
        if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
    };
    let written = |Interval { low, high, .. }| format!("{}/{} %", percent(low.value()), percent(high.value()));
    prediction.interval.map(written).into()
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
        (Role::Weights.name(), alive.weights),
        (Role::WeightGradients.name(), alive.gradients),
        (Role::OptimizerState.name(), alive.optimizer_state),
        (Role::Activations.name(), activations),
        (Role::ActivationGradients.name(), alive.activation_gradients),
        (Role::Workspace.name(), alive.workspace),
        ("fragmentation", alive.fragmentation),
    ];
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}
