//! The changes between two runs, as text and as a table.

use super::tables::{category_name, range};
use crate::{
    BusierSide, ComparedMeasure, Comparison, DifferenceVerdict, MeanOfAll, MeasureDifference, Metric, MetricUnit,
    TimeCategory,
};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_record::{LongIterations, WithoutRecording};
use perf4sight_report::{Cell, Table, TableBuilder};

const NOISE: &str = "no difference that can be distinguished from noise";

/// Whether an iteration takes less or more time, in one line: the mean of all first, where long ones make it another.
pub(super) fn answer_line(comparison: &Comparison) -> String {
    let iterations = of_iterations(comparison);
    comparison
        .mean_of_all
        .map_or(iterations.clone(), |all| format!("{}; of those that were recorded, {iterations}", of_all(&all)))
}

fn of_all(all: &MeanOfAll) -> String {
    let milliseconds = |nanoseconds: f64| Milliseconds(nanoseconds / 1e6);
    let change = all.after.mean - all.before.mean;
    let by = |word| {
        let ends = all.interval.map(|ends| ends.map(|end| milliseconds(end.abs())));
        let ends = ends.map(|[one, other]| if one.0 <= other.0 { [one, other] } else { [other, one] });
        let ends = ends.map(|ends| format!(" (with 95 % {})", range(ends.map(|end| end.to_string()))));
        format!("{} {word}{}", milliseconds(change.abs()), ends.unwrap_or_default())
    };
    let verdict = match DifferenceVerdict::of_interval(all.interval) {
        DifferenceVerdict::Less => by("less"),
        DifferenceVerdict::More => by("more"),
        DifferenceVerdict::Noise => NOISE.to_owned(),
    };
    let side = |mean: f64, long: Option<LongIterations>| {
        let long = long.map_or("no such ones".to_owned(), |long| {
            format!("{} of {} took {}", long.longest.count, long.of, milliseconds(long.longest.mean))
        });
        format!("{} ({long})", milliseconds(mean))
    };
    format!(
        "the mean of all iterations, long ones included, without recording: {} before and {} after, {verdict}",
        side(all.before.mean, all.long[0]),
        side(all.after.mean, all.long[1])
    )
}

fn of_iterations(comparison: &Comparison) -> String {
    let Some(total) = comparison.get(ComparedMeasure::Metric(Metric::TotalTimeSec)) else {
        return "the runs have no iterations to compare".to_owned();
    };
    let [before, after] = [total.before.mean, total.after.mean].map(|seconds| Milliseconds(1e3 * seconds));
    let Some(interval) = total.interval else {
        return format!("an iteration took {before} before and {after} after; {}", unknown_reason(total));
    };
    let word = match total.verdict() {
        DifferenceVerdict::Less => "less",
        DifferenceVerdict::More => "more",
        DifferenceVerdict::Noise => {
            let parts = if comparison
                .differences
                .iter()
                .any(|one| one.interval.is_some() && one.verdict() != DifferenceVerdict::Noise)
            {
                "; parts of it changed, but by less than whole iterations vary"
            } else {
                ""
            };
            let by = noise_of(comparison);
            return format!("an iteration took {before} before and {after} after: {NOISE} (by {by}){parts}");
        }
    };
    let [one, other] = interval.map(|seconds| Milliseconds(1e3 * seconds.abs()));
    let (low, high) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let percent = total.percent().map_or(String::new(), |percent| format!(", {}", Percent(percent.abs())));
    format!(
        "an iteration takes {} {word} than before{percent} (with 95 % between {low} and {high}, by {}){}{}",
        Milliseconds(1e3 * total.change.abs()),
        noise_of(comparison),
        busier_remark(comparison).unwrap_or_default(),
        comparison
            .without_recording
            .map_or(String::new(), |sides| without_recording(sides, comparison.correction_holds))
    )
}

fn busier_remark(comparison: &Comparison) -> Option<String> {
    let side = match comparison.busier_side()? {
        BusierSide::Before => "before",
        BusierSide::After => "after",
    };
    let processor = comparison.get(ComparedMeasure::Processor)?;
    let [before, after] = [processor.before, processor.after].map(|side| Milliseconds(side.mean / 1e6));
    let python = comparison.get(ComparedMeasure::Set { category: TimeCategory::Wait, gpu_busy: false }).is_some();
    let or = if python { "a call waited that is not known to" } else { "the script waited more (--stacks shows that)" };
    let busier = format!("the machine was busier {side}, as other programs had the processor, or {or}");
    let percent = processor.percent().map_or(String::new(), |percent| format!(" ({percent:+.1} %)"));
    Some(match works_as_well(comparison) {
        true => format!(
            ", for two reasons: the processor has {} to do, {before} before and {after} after{percent}; and for the rest, {busier}",
            if processor.change > 0.0 { "more" } else { "less" }
        ),
        false => {
            format!(
                ", though what the processor has to do did not change so, {before} before and {after} after: {busier}"
            )
        }
    })
}

/// Whether processor time changed as iterations did, so that it explains a part of that.
fn works_as_well(comparison: &Comparison) -> bool {
    let verdict = |measure| comparison.get(measure).map(MeasureDifference::verdict);
    let [processor, total] = [ComparedMeasure::Processor, ComparedMeasure::Metric(Metric::TotalTimeSec)].map(verdict);
    processor == total && processor.is_some_and(|verdict| verdict != DifferenceVerdict::Noise)
}

/// The change without the overhead of recording on both sides, which may be as large as the change. Of a mean that is not reliable only the
/// interval is shown.
fn without_recording(sides: [WithoutRecording; 2], holds: [bool; 2]) -> String {
    let milliseconds = |nanoseconds: f64| Milliseconds(nanoseconds / 1e6);
    let side = |at: usize| {
        let WithoutRecording { mean, interval } = sides[at];
        let interval =
            interval.map(|ends| format!("{} with 95 %", range(ends.map(|end| milliseconds(end).to_string()))));
        match (holds[at], interval) {
            (true, Some(interval)) => format!("{} ({interval})", milliseconds(mean)),
            (true, None) => milliseconds(mean).to_string(),
            (false, Some(interval)) => interval,
            (false, None) => "not known".to_owned(),
        }
    };
    let [before, after] = sides;
    let apart = before.interval.zip(after.interval).is_some_and(|([a, b], [c, d])| b < c || d < a);
    let chance = if apart { "" } else { ", which may be none" };
    let change = milliseconds((after.mean - before.mean).abs());
    let word = if after.mean < before.mean { "less" } else { "more" };
    let changed = match (holds, apart) {
        ([true, true], _) => format!("it is {change} {word}{chance}"),
        (_, true) => format!("it is {word}, by how much is not known"),
        (_, false) => "it is not known whether it is less or more".to_owned(),
    };
    format!(", recording included; without what recording takes {changed}: {} before and {} after", side(0), side(1))
}

/// The number of recordings of a comparison, and the variation that they do not cover.
fn noise_of(comparison: &Comparison) -> String {
    let [before, after] = comparison.recordings;
    let uncovered = match is_of_starts(comparison) {
        true => "",
        false => ", which does not cover how one start of a script differs from the next",
    };
    format!("{before} recording{} before and {after} after{uncovered}", if before == 1 { "" } else { "s" })
}

/// Whether the noise includes the variation between starts of the script, which a single recording does not show.
fn is_of_starts(comparison: &Comparison) -> bool {
    comparison.recordings.iter().all(|count| *count > 1)
}

/// All numbers before and after; those that are zero in both runs have no row.
pub(super) fn table(comparison: &Comparison) -> Table {
    let (gpu, busier) = (comparison.has_gpu(), comparison.busier_side());
    let partly = works_as_well(comparison);
    let title = format!(
        "What changed, by {}; the iteration is tested by itself, with 95 %, the rest after it and together",
        noise_of(comparison)
    );
    let certain = if is_of_starts(comparison) { "verdict" } else { "between these recordings" };
    let signed = |one: &MeasureDifference, value: f64| {
        format!("{}{}", if value >= 0.0 { "+" } else { "" }, of_change(one.of, value))
    };
    let interval = |one: &MeasureDifference| Some(range(one.interval?.map(|end| signed(one, end))));
    let worth = |one: &&MeasureDifference| one.before.mean != 0.0 || one.after.mean != 0.0;
    TableBuilder::new(title, comparison.differences.iter().filter(worth))
        .text("of", "of", |one| name(one.of, gpu))
        .number("before", "before", |one| value_cell(one.of, one.before.mean))
        .number("after", "after", |one| value_cell(one.of, one.after.mean))
        .number("change", "change", |one| signed(one, one.change))
        .number("interval", "95 %", |one| interval(one))
        .text("verdict", certain, |one| verdict(one, busier.filter(|_| one.of.is_on_the_wall()), partly))
        .table()
}

fn verdict(difference: &MeasureDifference, busier: Option<BusierSide>, partly: bool) -> String {
    // For a share, a percentage would be confused with percentage points.
    let percent = difference.percent().filter(|_| !is_share(difference.of));
    let percent = percent.map_or(String::new(), |percent| format!("{} ", Percent(percent.abs())));
    let part = if partly { "partly not" } else { "not" };
    match (difference.interval, difference.verdict()) {
        (None, _) => unknown_reason(difference).to_owned(),
        (_, DifferenceVerdict::Noise) => NOISE.to_owned(),
        (_, DifferenceVerdict::Less) if busier == Some(BusierSide::Before) => {
            format!("{percent}less, {part} of the processor")
        }
        (_, DifferenceVerdict::More) if busier == Some(BusierSide::After) => {
            format!("{percent}more, {part} of the processor")
        }
        (_, DifferenceVerdict::Less) => format!("{percent}less"),
        (_, DifferenceVerdict::More) => format!("{percent}more"),
    }
}

fn unknown_reason(difference: &MeasureDifference) -> &'static str {
    match difference.before.count.min(difference.after.count) {
        1 => "the noise of a single iteration is unknown",
        _ => "all iterations are equal, so that the noise is unknown",
    }
}

fn name(measure: ComparedMeasure, gpu: bool) -> String {
    match measure {
        ComparedMeasure::Set { category, gpu_busy } => category_name(category, gpu_busy, gpu),
        ComparedMeasure::Processor => "processor time".to_owned(),
        ComparedMeasure::Metric(metric) => metric.name().to_owned(),
    }
}

fn is_share(measure: ComparedMeasure) -> bool {
    matches!(measure, ComparedMeasure::Metric(metric) if metric.unit() == MetricUnit::Percent)
}

/// A change as text; shares change by percentage points.
fn of_change(measure: ComparedMeasure, change: f64) -> String {
    match is_share(measure) {
        true => format!("{change:.1} points"),
        false => value_cell(measure, change).to_string(),
    }
}

fn value_cell(measure: ComparedMeasure, value: f64) -> Cell {
    match measure {
        ComparedMeasure::Set { .. } | ComparedMeasure::Processor => Milliseconds(value / 1e6).into(),
        ComparedMeasure::Metric(metric) => match metric.unit() {
            MetricUnit::Seconds => Milliseconds(1e3 * value).into(),
            MetricUnit::Percent => Percent(value).into(),
            MetricUnit::Times => value.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::summary::ValueSummary;

    /// By hand: iterations of 12 ms take 26, of which the processor has 10.8 and 12.5 to do: 1.7 of 14 ms explain less than half, and are no noise. Where the
    /// interval of the 1.7 contains 0, only other programs are named.
    #[test]
    fn a_slower_script_on_a_busier_machine_is_called_both() {
        let difference = |of, [before, after]: [f64; 2], interval| MeasureDifference {
            of,
            before: ValueSummary::compute(&[before; 2]).unwrap(),
            after: ValueSummary::compute(&[after; 2]).unwrap(),
            change: after - before,
            interval: Some(interval),
        };
        let total = ComparedMeasure::Metric(Metric::TotalTimeSec);
        for (interval, said) in [
            (
                [1.1e6, 2.2e6],
                "for two reasons: the processor has more to do, 10.8 ms before and 12.5 ms after (+15.7 %)",
            ),
            (
                [-0.1e6, 3.5e6],
                "though what the processor has to do did not change so, 10.8 ms before and 12.5 ms after",
            ),
        ] {
            let comparison = Comparison {
                differences: vec![
                    difference(total, [0.012, 0.026], [0.009, 0.019]),
                    difference(ComparedMeasure::Processor, [10.8e6, 12.5e6], interval),
                ],
                recordings: [1, 1],
                without_recording: None,
                correction_holds: [true; 2],
                mean_of_all: None,
            };
            let answer = answer_line(&comparison);
            assert!(answer.contains(said) && answer.contains("the machine was busier after"), "{answer}");
        }
    }

    /// If the intervals overlap or one is missing, the change may be none.
    #[test]
    fn a_change_without_recording_that_may_be_none_is_called_so() {
        let of = |ends: [Option<[f64; 2]>; 2], holds: [bool; 2]| {
            let [before, after] = ends;
            let [before, after] =
                [(2e6, before), (1e6, after)].map(|(mean, interval)| WithoutRecording { mean, interval });
            without_recording([before, after], holds)
        };
        let words = |ends| of(ends, [true; 2]);
        let refused = of([Some([1.8e6, 2.2e6]), Some([0.9e6, 1.1e6])], [true, false]);
        assert!(refused.ends_with("it is less, by how much is not known: 2.00 ms (1.80 – 2.20 ms with 95 %) before and 0.900 – 1.10 ms with 95 % after"), "{refused}");
        let refused = of([Some([0.5e6, 3e6]), None], [false, false]);
        assert!(
            refused.ends_with(
                "it is not known whether it is less or more: 0.500 – 3.00 ms with 95 % before and not known after"
            ),
            "{refused}"
        );
        let apart = words([Some([1.8e6, 2.2e6]), Some([0.9e6, 1.1e6])]);
        assert!(apart.contains("it is 1.00 ms less: 2.00 ms"), "{apart}");
        for ends in [[Some([0.5e6, 3e6]), Some([0.9e6, 1.1e6])], [None, Some([0.9e6, 1.1e6])], [None, None]] {
            let words = words(ends);
            assert!(words.contains("it is 1.00 ms less, which may be none: 2.00 ms"), "{words}");
        }
    }
}
