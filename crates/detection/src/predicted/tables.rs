//! The predictions for a detector, as a sentence and a table.

use super::super::Detection;
use super::super::tables::setting_text;
use super::{CostInterval, PredictedAnswer, SettingPrediction};
use perf4sight_base::units::{Bytes, Milliseconds, Percent, count_text};
use perf4sight_report::{Table, TableBuilder, significant};

pub(super) fn to_sentences(answer: &PredictedAnswer) -> String {
    answer.predictions.iter().map(sentence).collect::<Vec<String>>().join("\n")
}

pub(super) fn basis(answer: &PredictedAnswer) -> String {
    format!(
        "from the fingerprint of {} and {} of this detector, less those of the batch and size that is predicted; steps are predicted without \
         waiting for data; intervals hold nine of ten where steps differ by chance and graphs cost what the fingerprint says",
        answer.device,
        count_text(answer.rows, "measured setting")
    )
}

fn sentence(one: &SettingPrediction) -> String {
    let step = one.step;
    let images = one.setting.batch as f64;
    let waiting = one.waiting.unwrap_or_default();
    let [low, high] = [step.high, step.low].map(|seconds| significant(images / (seconds + waiting)));
    let rate = significant(images / (step.value + waiting));
    let data = if one.waiting.is_some() { "loading its data" } else { "if it never waits for data" };
    let memory = one
        .memory
        .map_or(String::new(), |memory| format!(", and at most {} above what the process holds before", range(memory)));
    format!("{}: {rate} images/s ({low} to {high}), {data}{memory}", setting_text(one.setting))
}

fn range(memory: CostInterval) -> String {
    let [value, low, high] = [memory.value, memory.low, memory.high].map(|bytes| Bytes(bytes as u64));
    format!("{value} ({low} to {high})")
}

/// One line a setting.
pub(super) fn table(answer: &PredictedAnswer, asked: &Detection) -> Table {
    let whole = |one: &SettingPrediction| one.step.value + one.waiting.unwrap_or_default();
    let milliseconds = |seconds: f64| Milliseconds(1e3 * seconds);
    let training = |one: &SettingPrediction| {
        let steps = (answer.images / one.setting.batch) as f64;
        milliseconds(asked.epochs as f64 * steps * whole(one))
    };
    let used = |one: &SettingPrediction, of: fn(CostInterval) -> f64| one.memory.map(|memory| Bytes(of(memory) as u64));
    let off = |predicted: f64, measured: f64| Percent(100.0 * (predicted / measured - 1.0));
    TableBuilder::new("Predicted", &answer.predictions)
        .number("batch", "batch", |one| one.setting.batch)
        .number("num_workers", "workers", |one| one.setting.num_workers)
        .number("step_ms", "step, no waiting", |one| milliseconds(one.step.value))
        .number("step_low_ms", "from", |one| milliseconds(one.step.low))
        .number("step_high_ms", "to", |one| milliseconds(one.step.high))
        .number("waiting_ms", "waiting", |one| one.waiting.map(milliseconds))
        .number("images_per_second", "images/s", |one| one.setting.batch as f64 / whole(one))
        .number("training_ms", count_text(asked.epochs, "epoch"), |one| training(one))
        .number("used_bytes", "used", |one| used(one, |memory| memory.value))
        .number("used_low_bytes", "from", |one| used(one, |memory| memory.low))
        .number("used_high_bytes", "to", |one| used(one, |memory| memory.high))
        .number("measured_step_ms", "the same measured", |one| Some(milliseconds(one.measured?.0)))
        .number("step_off_percent", "off", |one| Some(off(one.step.value, one.measured?.0)))
        .number("measured_used_bytes", "used measured", |one| Some(Bytes(one.measured?.1)))
        .number("used_off_percent", "off", |one| Some(off(one.memory?.value, one.measured?.1 as f64)))
        .table()
}
