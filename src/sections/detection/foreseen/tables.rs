//! What was predicted of a detector, as a sentence and a table.

use super::super::Detection;
use super::super::tables::words;
use super::{Answer, Estimate, Foretold, busy};
use crate::frame::{Context, Summary};
use crate::report::{Cell, Column, Table, significant};
use crate::units::{Bytes, Milliseconds, Percent, counted};
use serde_json::json;

pub(super) fn summary(asked: &Detection, answer: &Answer, context: &Context) -> Summary {
    let Answer { foretold, rows, images, device } = answer;
    let table = table(foretold, asked, *images);
    let sentences: Vec<String> = foretold.iter().map(sentence).collect();
    let rests = format!(
        "from the fingerprint of {device} and {} of this detector, less those of the batch and size that is predicted; a step is told without its \
         waiting for data; intervals hold nine of ten where steps differ by chance and graphs cost what the fingerprint says",
        counted(*rows, "measured setting")
    );
    Summary {
        answer: sentences.join("\n"),
        headline: rests,
        json: json!({
            "network": asked.task.network,
            "size": asked.task.size,
            "device": device,
            "rows": rows,
            "settings": table.to_json(),
            "warnings": context.warnings(),
        }),
        tables: vec![table],
        ..Summary::default()
    }
}

fn sentence(one: &Foretold) -> String {
    let step = one.step;
    let images = one.setting.batch as f64;
    let waiting = one.waiting.unwrap_or_default();
    let [low, high] = [step.high, step.low].map(|seconds| significant(images / (seconds + waiting)));
    let rate = significant(images / (step.value + waiting));
    let data = if one.waiting.is_some() { "loading its data" } else { "if it never waits for data" };
    let memory = one
        .memory
        .map_or(String::new(), |memory| format!(", and at most {} above what the process holds before", range(memory)));
    format!("{}: {rate} images/s ({low} to {high}), {data}{memory}", words(one.setting))
}

fn range(memory: Estimate) -> String {
    let [value, low, high] = [memory.value, memory.low, memory.high].map(|bytes| Bytes(bytes as u64));
    format!("{value} ({low} to {high})")
}

fn table(foretold: &[Foretold], asked: &Detection, images: u64) -> Table {
    let columns = [
        Column::number("batch", "batch"),
        Column::number("num_workers", "workers"),
        Column::number("step_ms", "step, no waiting"),
        Column::number("step_low_ms", "from"),
        Column::number("step_high_ms", "to"),
        Column::number("waiting_ms", "waiting"),
        Column::number("images_per_second", "images/s"),
        Column::number("training_ms", counted(asked.epochs, "epoch")),
        Column::number("used_bytes", "used"),
        Column::number("used_low_bytes", "from"),
        Column::number("used_high_bytes", "to"),
        Column::number("measured_step_ms", "the same measured"),
        Column::number("step_off_percent", "off"),
        Column::number("measured_used_bytes", "used measured"),
        Column::number("used_off_percent", "off"),
    ];
    let mut table = Table::new("Predicted", columns);
    for one in foretold {
        let whole = one.step.value + one.waiting.unwrap_or_default();
        let steps = (images / one.setting.batch) as f64;
        let milliseconds = |seconds: f64| Cell::from(Milliseconds(1e3 * seconds));
        let bytes = |of: &dyn Fn(Estimate) -> f64| Cell::from(one.memory.map(|memory| Bytes(of(memory) as u64)));
        let off = |predicted: f64, measured: f64| Percent(100.0 * (predicted / measured - 1.0));
        let known = one.measured.as_deref();
        let used = known.map(|measured| measured.memory.used);
        table.row([
            one.setting.batch.into(),
            one.setting.num_workers.into(),
            milliseconds(one.step.value),
            milliseconds(one.step.low),
            milliseconds(one.step.high),
            one.waiting.map_or(Cell::Missing, milliseconds),
            (one.setting.batch as f64 / whole).into(),
            milliseconds(asked.epochs as f64 * steps * whole),
            bytes(&|memory| memory.value),
            bytes(&|memory| memory.low),
            bytes(&|memory| memory.high),
            known.map_or(Cell::Missing, |measured| milliseconds(busy(measured))),
            known.map(|measured| off(one.step.value, busy(measured))).into(),
            used.map(Bytes).into(),
            one.memory.zip(used).map(|(memory, used)| off(memory.value, used as f64)).into(),
        ]);
    }
    table
}
