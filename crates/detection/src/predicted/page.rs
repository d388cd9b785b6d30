//! The page of a prediction: the answer, steps and memory over batch sizes next to the measurements, and the basis.

use super::super::Detection;
use super::{CostInterval, PredictedAnswer, SettingPrediction};
use perf4sight_base::units::Bytes;
use perf4sight_report::{AnswerTone, Axis, Block, Chart, Line, Page, Plot, Series, Table, Value, sentence};

/// The whole page; `sentences` and `basis` are the texts of the console.
pub(super) fn build_page(
    asked: &Detection,
    answer: &PredictedAnswer,
    table: &Table,
    [sentences, basis]: [&str; 2],
    warnings: &[String],
) -> Page {
    let mut page = Page::new(format!("Training {}", asked.task.network), format!("Predicted for {}", answer.device));
    let verdicts = sentences.lines().map(|line| Block::Verdict(AnswerTone::Caution, sentence(line)));
    page.chapter("Answer", verdicts.chain([Block::Table(table.clone())]));
    let charts = [Some(steps(&answer.predictions)), memory(&answer.predictions)];
    page.chapter("Over batch sizes", charts.into_iter().flatten().map(Block::Chart));
    page.chapter(
        "What it is based on",
        [Block::List([basis].into_iter().chain(warnings.iter().map(String::as_str)).map(sentence).collect())],
    );
    page
}

fn steps(predictions: &[SettingPrediction]) -> Chart {
    let predicted = |one: &SettingPrediction| Some(one.step);
    let measured = |one: &SettingPrediction| one.measured.map(|(seconds, _)| seconds);
    let plot = over_batches("seconds", predictions, predicted, measured, 1.0);
    Chart::new("A step without waiting for data", "Predicted, with intervals that hold nine of ten.", plot)
}

/// None without a fingerprint of memory.
fn memory(predictions: &[SettingPrediction]) -> Option<Chart> {
    predictions.iter().find(|one| one.memory.is_some())?;
    let mib = Bytes::from_mib(1.0).0 as f64;
    let measured = |one: &SettingPrediction| one.measured.map(|(_, used)| used as f64);
    let plot = over_batches("MiB", predictions, |one| one.memory, measured, mib);
    let caption = "Of the largest batch that the data may give.";
    Some(Chart::new("Memory above what the process holds before", caption, plot))
}

/// Two lines: the predictions, and the measurements where there are any.
fn over_batches(
    name: &str,
    predictions: &[SettingPrediction],
    estimate: impl Fn(&SettingPrediction) -> Option<CostInterval>,
    measured: impl Fn(&SettingPrediction) -> Option<f64>,
    unit: f64,
) -> Plot {
    let mut sorted: Vec<&SettingPrediction> = predictions.iter().collect();
    sorted.sort_by_key(|one| one.setting.batch);
    let value = |one: &SettingPrediction, value: f64, interval: Option<(f64, f64)>| Value {
        x: one.setting.batch as f64,
        y: value / unit,
        interval: interval.map(|(low, high)| (low / unit, high / unit)),
    };
    let predicted = sorted.iter().filter_map(|one| {
        let CostInterval { value: middle, low, high } = estimate(one)?;
        Some(value(one, middle, Some((low, high))))
    });
    let seen = sorted.iter().filter_map(|one| Some(value(one, measured(one)?, None)));
    let series = [Series::new("predicted", predicted), Series::new("measured", seen)];
    let series = series.into_iter().filter(|series| !series.data.is_empty()).collect();
    Plot::Line(Line::new(Axis::linear("batch size"), Axis::linear(name), series))
}
