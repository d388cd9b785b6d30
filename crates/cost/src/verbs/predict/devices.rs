//! What is believed of devices that nobody measured: a line a device, and what fits where.

use super::answer::{Answer, Point};
use super::sentence::step;
use super::tables::ends;
use super::tell::Answers;
use crate::fingerprint::{Call, Prediction};
use crate::verbs::verdict::called;
use perf4sight_base::units::Bytes;
use perf4sight_report::{Cell, Column, Table};

/// What all rests on that is said of devices nobody measured.
pub(super) fn basis(devices: usize) -> String {
    let (prior, device) = if devices == 1 { ("a prior", "this device") } else { ("priors", "these devices") };
    format!(
        "{prior}: nothing was measured on {device}; memory of tensors is simulated, what a process takes beside them and all latency are what is \
         believed of such devices, and nine of ten measurements should lie in the intervals"
    )
}

/// A line for every device, network and batch size.
pub(super) fn table(devices: &[Answers], title: String) -> Table {
    let several = |several: bool, column: &str| several.then(|| Column::text(column, column));
    let heads = [several(devices.len() > 1, "device"), several(networks(devices) > 1, "network")];
    let all = if is_page(devices) { "in all, 90 %" } else { "in all up to" };
    let limited = is_limited(devices).then_some([("verdict", "verdict"), ("max_batch_safe", "max bs")]);
    let own = [("bs", "bs"), ("tensors", "tensors"), ("memory_interval", all)];
    let numbers = own.into_iter().chain(limited.into_iter().flatten()).chain([("latency_interval", "latency, 90 %")]);
    let numbers = numbers.map(|(key, heading)| Column::number(key, heading));
    let mut table = Table::new(title, heads.into_iter().flatten().chain(numbers));
    for device in devices {
        for answer in &device.answers {
            for point in &answer.points {
                table.row(cells(devices, device, answer, point));
            }
        }
    }
    table
}

fn cells(devices: &[Answers], device: &Answers, answer: &Answer, point: &Point) -> Vec<Cell> {
    let heads = [(devices.len() > 1).then(|| device.name()), (networks(devices) > 1).then_some(&*answer.network)];
    let mut cells: Vec<Cell> = heads.into_iter().flatten().map(Cell::from).collect();
    let tensors = point.tensors.map(|tensors| tensors.to_string());
    let all = if is_page(devices) { ends } else { upper };
    cells.extend([point.batch.into(), tensors.into(), point.memory.as_ref().map_or(Cell::Missing, all)]);
    if is_limited(devices) {
        cells.extend([point.verdict.map(called).into(), answer.max_batch.map(|max| max.safe).into()]);
    }
    cells.push(point.latency.as_ref().map_or(Cell::Missing, ends));
    cells
}

/// Where there is a line for many things the lower end, which is hardly more than the tensors, is left to the other forms.
fn upper(prediction: &Prediction) -> Cell {
    prediction.interval.map(|interval| interval.high.to_string()).into()
}

/// One network on one device.
fn is_page(devices: &[Answers]) -> bool {
    devices.len() == 1 && networks(devices) == 1
}

fn networks(devices: &[Answers]) -> usize {
    devices.first().map_or(0, |device| device.answers.len())
}

fn is_limited(devices: &[Answers]) -> bool {
    devices.iter().flat_map(|device| &device.answers).any(|answer| answer.limit.is_some())
}

/// Where a single network fits; of several how many fit on every device.
pub(super) fn sentences(devices: &[Answers], asked: Option<Bytes>) -> String {
    let one: Vec<(&Answers, &Answer)> = devices
        .iter()
        .filter_map(|device| match device.answers.as_slice() {
            [answer] => Some((device, answer)),
            _ => None,
        })
        .collect();
    match asked {
        None => UNLIMITED.to_owned(),
        Some(limit) if one.len() == devices.len() => placed(&one, limit),
        Some(_) => {
            let sentences = devices.iter().map(|device| format!("{}: {}", device.name(), device.sentences(asked)));
            sentences.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Why there is no verdict, and how to get one.
pub(super) const UNLIMITED: &str = "nothing says what a step must fit into: give --mem-limit (mem_limit)";

fn placed(devices: &[(&Answers, &Answer)], limit: Bytes) -> String {
    let largest = |answer: &Answer| {
        answer.points.iter().max_by_key(|point| point.batch).map(|point| (point.batch, point.verdict))
    };
    let called = |call: Call| -> Vec<&str> {
        let so = devices.iter().filter(|(_, answer)| {
            largest(answer).is_some_and(|(_, verdict)| verdict.is_some_and(|verdict| verdict.call == call))
        });
        so.map(|(device, _)| device.name()).collect()
    };
    let words = [
        (Call::Fits, format!("fits into {} on", limit.in_full())),
        (Call::Borderline, "is open on".to_owned()),
        (Call::DoesNotFit, "does not fit on".to_owned()),
    ];
    let parts = words.into_iter().map(|(call, words)| (words, called(call))).filter(|(_, devices)| !devices.is_empty());
    let parts: Vec<String> = parts.map(|(words, devices)| format!("{words} {}", devices.join(", "))).collect();
    let batch = devices.first().and_then(|(_, answer)| largest(answer)).map_or(1, |(batch, _)| batch);
    format!("{} {}", step(batch), parts.join("; "))
}
