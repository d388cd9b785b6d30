//! What changed from one run to another, as words and as a table.

use super::tables::{class_name, range};
use crate::breakdown::{Comparison, Difference, Measure, Metric, Unit, Verdict};
use crate::report::{Cell, Column, Table};
use crate::units::{Milliseconds, Percent};

/// What is said where nothing can be.
const NOISE: &str = "no difference that could be told from noise";

/// Whether an iteration takes less or more time, in one line.
pub(super) fn answer(comparison: &Comparison) -> String {
    let Some(total) = comparison.get(Measure::Metric(Metric::TotalTimeSec)) else {
        return "the runs have no iterations to compare".to_owned();
    };
    let [before, after] = [total.before.mean, total.after.mean].map(|seconds| Milliseconds(1e3 * seconds));
    let Some(interval) = total.interval else {
        return format!(
            "an iteration took {before} before and {after} after; of a single one nobody knows how much is noise"
        );
    };
    let word = match total.verdict() {
        Verdict::Less => "less",
        Verdict::More => "more",
        Verdict::Noise => {
            let parts =
                if comparison.differences.iter().any(|one| one.interval.is_some() && one.verdict() != Verdict::Noise) {
                    "; parts of it changed, but by less than whole iterations vary"
                } else {
                    ""
                };
            return format!("an iteration took {before} before and {after} after: {NOISE}{parts}");
        }
    };
    let [one, other] = interval.map(|seconds| Milliseconds(1e3 * seconds.abs()));
    let (low, high) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let percent = total.percent().map_or(String::new(), |percent| format!(", {}", Percent(percent.abs())));
    format!(
        "an iteration takes {} {word} than before{percent} (with 95 % between {low} and {high})",
        Milliseconds(1e3 * total.change.abs())
    )
}

/// Every number before and after.
pub(super) fn table(comparison: &Comparison) -> Table {
    let gpu = comparison.has_gpu();
    let mut table = Table::new(
        "What changed; all intervals hold together with 95 %, and tell nothing of how runs differ from one start to the next",
        [
            Column::text("of", "of"),
            Column::number("before", "before"),
            Column::number("after", "after"),
            Column::number("change", "change"),
            Column::number("interval", "95 %"),
            Column::text("verdict", "verdict"),
        ],
    );
    // What is nothing in both runs has not changed, and is not worth a row.
    let worth = |difference: &&Difference| difference.before.mean != 0.0 || difference.after.mean != 0.0;
    for difference in comparison.differences.iter().filter(worth) {
        let cell = |value: f64| shown(difference.of, value);
        let signed = |value: f64| format!("{}{}", if value >= 0.0 { "+" } else { "" }, cell(value));
        let interval = difference.interval.map(|interval| range(interval.map(signed)));
        table.row([
            name(difference.of, gpu).into(),
            cell(difference.before.mean),
            cell(difference.after.mean),
            signed(difference.change).into(),
            interval.into(),
            verdict(difference).into(),
        ]);
    }
    table
}

fn verdict(difference: &Difference) -> String {
    let percent = difference
        .percent()
        .map_or(String::new(), |percent| format!("{}{} ", if percent >= 0.0 { "+" } else { "" }, Percent(percent)));
    match (difference.interval, difference.verdict()) {
        (None, _) => "a single iteration".to_owned(),
        (_, Verdict::Less) => format!("{percent}less"),
        (_, Verdict::More) => format!("{percent}more"),
        (_, Verdict::Noise) => NOISE.to_owned(),
    }
}

fn name(measure: Measure, gpu: bool) -> String {
    match measure {
        Measure::Set { class, gpu_busy } => class_name(class, gpu_busy, gpu),
        Measure::Metric(metric) => metric.name().to_owned(),
    }
}

/// A value as people read it.
fn shown(measure: Measure, value: f64) -> Cell {
    match measure {
        Measure::Set { .. } => Milliseconds(value / 1e6).into(),
        Measure::Metric(metric) => match metric.unit() {
            Unit::Seconds => Milliseconds(1e3 * value).into(),
            Unit::Percent => Percent(value).into(),
            Unit::Times => value.into(),
        },
    }
}
