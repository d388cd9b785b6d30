//! The predictions for a detector, as a sentence and a table.

use super::super::Detection;
use super::super::tables::words;
use super::{Answer, Estimate, Prediction};
use perf4sight_base::units::{Bytes, Milliseconds, Percent, counted};
use perf4sight_report::{Cell, Column, Table, significant};

/// A sentence for each setting.
pub(super) fn sentences(answer: &Answer) -> String {
    answer.predictions.iter().map(sentence).collect::<Vec<String>>().join("\n")
}

/// The basis of the predictions.
pub(super) fn basis(answer: &Answer) -> String {
    format!(
        "from the fingerprint of {} and {} of this detector, less those of the batch and size that is predicted; steps are predicted without \
         waiting for data; intervals hold nine of ten where steps differ by chance and graphs cost what the fingerprint says",
        answer.device,
        counted(answer.rows, "measured setting")
    )
}

fn sentence(one: &Prediction) -> String {
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

/// One line a setting.
pub(super) fn table(answer: &Answer, asked: &Detection) -> Table {
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
    for one in &answer.predictions {
        let whole = one.step.value + one.waiting.unwrap_or_default();
        let steps = (answer.images / one.setting.batch) as f64;
        let milliseconds = |seconds: f64| Cell::from(Milliseconds(1e3 * seconds));
        let bytes = |of: &dyn Fn(Estimate) -> f64| Cell::from(one.memory.map(|memory| Bytes(of(memory) as u64)));
        let off = |predicted: f64, measured: f64| Percent(100.0 * (predicted / measured - 1.0));
        let (step, used) = one.measured.unzip();
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
            step.map_or(Cell::Missing, milliseconds),
            step.map(|measured| off(one.step.value, measured)).into(),
            used.map(Bytes).into(),
            one.memory.zip(used).map(|(memory, used)| off(memory.value, used as f64)).into(),
        ]);
    }
    table
}
