//! Predictions as tables for people: a page for one network, one line per network for many.

use super::answer::{BatchPrediction, NetworkAnswer, PredictionBreakdown};
use super::answers::{DeviceAnswers, DevicePredictions};
use crate::fingerprint::{LatencyShare, Prediction, PredictionInterval};
use crate::verbs::verdict::{decision_text, interval_cell};
use perf4sight_base::units::{Bytes, Percent};
use perf4sight_memory::{TensorRole, TensorsAtPeak};
use perf4sight_report::{Cell, Table, TableBuilder};

const LAYERS: usize = 5;

impl DevicePredictions {
    /// The predictions of one device, or one line per device.
    pub fn tables(&self) -> Vec<Table> {
        match self.devices.as_slice() {
            [device] => device.tables(),
            [DeviceAnswers { answers, step, .. }, ..] => {
                let of =
                    if let [answer] = answers.as_slice() { format!(" of {}", answer.network) } else { String::new() };
                vec![prior_table(&self.devices, format!("{step}{of}: a prior of every device"))]
            }
            [] => Vec::new(),
        }
    }
}

impl DeviceAnswers {
    fn tables(&self) -> Vec<Table> {
        let (step, device) = (self.step, self.name());
        match self.answers.as_slice() {
            [answer] => {
                let what = format!("{step} of {} on {device}", answer.network);
                let parts = answer.breakdown.iter().flat_map(|breakdown| breakdown.tables());
                self.predictions(&what).into_iter().chain(parts).collect()
            }
            _ => self.predictions(&format!("{step} on {device}")),
        }
    }

    fn predictions(&self, what: &str) -> Vec<Table> {
        match self.fingerprints.are_priors() {
            true => vec![prior_table(std::slice::from_ref(self), format!("{what}: a prior"))],
            false => predictions(&self.answers, what),
        }
    }
}

/// A table per quantity, memory with its verdict first; a line per batch size, or per network and batch size if there
/// are several networks.
fn predictions(answers: &[NetworkAnswer], what: &str) -> Vec<Table> {
    // Numbers are never truncated, and verdicts must not be either.
    let mut memory = lines(answers, ["memory", what], |point| point.memory.as_ref()).number(
        "verdict",
        "verdict",
        |(_, point, _)| point.verdict.map(decision_text),
    );
    if answers.len() > 1 {
        memory = memory.number("max_batch_safe", "max bs", |(answer, ..)| answer.max_batch.map(|max| max.safe));
    }
    let latency = lines(answers, ["latency", what], |point| point.latency.as_ref()).number(
        "throughput",
        "samples/s",
        |(_, point, _)| point.throughput(),
    );
    [memory, latency].map(TableBuilder::table).into_iter().filter(|table| !table.is_empty()).collect()
}

/// For a single network, which the title names, the interval's ends are shown. For several networks the interval is
/// shown relative to the value, which keeps lines short and networks comparable.
fn lines<'a>(
    answers: &'a [NetworkAnswer],
    [quantity, what]: [&str; 2],
    of: fn(&BatchPrediction) -> Option<&Prediction>,
) -> TableBuilder<(&'a NetworkAnswer, &'a BatchPrediction, &'a Prediction)> {
    let several = answers.len() > 1;
    let points = answers.iter().flat_map(|answer| answer.points.iter().map(move |point| (answer, point)));
    let points = points.filter_map(|(answer, point)| Some((answer, point, of(point)?)));
    let mut rows = TableBuilder::new(format!("{what}: {quantity}"), points);
    if several {
        rows = rows.text("network", "network", |(answer, ..)| answer.network.clone());
    }
    let interval = if several { relative } else { interval_cell };
    rows.number("bs", if several { "bs" } else { "batch size" }, |(_, point, _)| point.batch)
        .number(quantity, quantity, |(.., prediction)| prediction.value.to_string())
        .number(&format!("{quantity}_interval"), "90 %", |(.., prediction)| interval(prediction))
}

/// "-11/+13 %".
fn relative(prediction: &Prediction) -> Cell {
    let percent = |end: f64| {
        let percent = 100.0 * (end / prediction.value.value() - 1.0);
        if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
    };
    let written =
        |PredictionInterval { low, high, .. }| format!("{}/{} %", percent(low.value()), percent(high.value()));
    prediction.interval.map(written).into()
}

/// A line for every device, network and batch size.
fn prior_table(devices: &[DeviceAnswers], title: String) -> Table {
    let answers = devices.iter().flat_map(|device| device.answers.iter().map(move |answer| (device, answer)));
    let lines = answers.flat_map(|(device, answer)| answer.points.iter().map(move |point| (device, answer, point)));
    let mut table = TableBuilder::new(title, lines);
    if devices.len() > 1 {
        table = table.text("device", "device", |(device, ..)| device.name().to_owned());
    }
    if networks(devices) > 1 {
        table = table.text("network", "network", |(_, answer, _)| answer.network.clone());
    }
    let (all, memory) = if is_page(devices) {
        ("in all, 90 %", interval_cell as fn(&_) -> _)
    } else {
        ("in all up to", upper_end_cell as _)
    };
    table = table
        .number("bs", "bs", |(.., point)| point.batch)
        .number("tensors", "tensors", |(.., point)| point.tensors_in_words())
        .number("memory_interval", all, |(.., point)| point.memory.as_ref().map_or(Cell::Missing, memory));
    if is_limited(devices) {
        table = table.number("verdict", "verdict", |(.., point)| point.verdict.map(decision_text)).number(
            "max_batch_safe",
            "max bs",
            |(_, answer, _)| answer.max_batch.map(|max| max.safe),
        );
    }
    table
        .number("latency_interval", "latency, 90 %", |(.., point)| {
            point.latency.as_ref().map_or(Cell::Missing, interval_cell)
        })
        .table()
}

/// In tables with many lines the lower end, which is hardly more than the tensors, is left out; the other formats have
/// it.
fn upper_end_cell(prediction: &Prediction) -> Cell {
    prediction.interval.map(|interval| interval.high.to_string()).into()
}

fn is_page(devices: &[DeviceAnswers]) -> bool {
    devices.len() == 1 && networks(devices) == 1
}

fn networks(devices: &[DeviceAnswers]) -> usize {
    devices.first().map_or(0, |device| device.answers.len())
}

fn is_limited(devices: &[DeviceAnswers]) -> bool {
    devices.iter().flat_map(|device| &device.answers).any(|answer| answer.limit.is_some())
}

impl PredictionBreakdown {
    /// The components of latency and memory, if the fingerprints give them.
    pub(super) fn tables(&self) -> Vec<Table> {
        let shares = self.shares.as_ref().map(|shares| {
            let of = |share: &LatencyShare| (share.name.clone(), share.latency.into(), share.latency.0);
            let classes = shares.classes.iter().map(of).collect();
            let whole = shares.classes.iter().map(|share| share.latency.0).sum();
            let costliest = shares.layers.iter().take(LAYERS).map(of).collect();
            [
                self.table(["Latency by class of operation", "class", "latency_ms"], classes, whole),
                self.table(["The costliest layers", "layer", "latency_ms"], costliest, whole),
            ]
        });
        let memory = self.alive.as_ref().map(|alive| {
            let parts =
                components(alive).into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into(), bytes.0 as f64));
            let whole = alive.total().0 as f64;
            self.table(["Simulated memory at its peak", "component", "memory_bytes"], parts.collect(), whole)
        });
        shares.into_iter().flatten().chain(memory).collect()
    }

    fn table(&self, [title, what, unit]: [&str; 3], parts: Vec<(String, Cell, f64)>, whole: f64) -> Table {
        TableBuilder::new(format!("{title}, batch size {}", self.batch), parts)
            .text(what, what, |part| part.0.clone())
            .number(unit, unit.split('_').next().unwrap_or(unit), |part| part.1.clone())
            .number("share_percent", "share", |part| Percent(100.0 * part.2 / whole))
            .table()
    }
}

/// The components of the peak, largest first.
fn components(alive: &TensorsAtPeak) -> Vec<(&'static str, Bytes)> {
    use TensorRole::{ActivationGradients, Activations, OptimizerState, WeightGradients, Weights, Workspace};
    let roles = [Weights, WeightGradients, OptimizerState, Activations, ActivationGradients, Workspace];
    let parts = roles.map(|role| (role.name(), alive.bytes(role))).into_iter();
    let mut parts: Vec<_> = parts.chain([("fragmentation", alive.fragmentation())]).collect();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}
