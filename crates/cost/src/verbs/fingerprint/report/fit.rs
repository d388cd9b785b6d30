//! Whether steps fit: verdicts compared with outcomes, and the largest batch.

use super::Assessment;
use super::ReportEvidence;
use crate::evaluation::{ConfusionMatrix, JudgedStep, LargestBatch, LargestBatchScores};
use crate::fingerprint::FitMethod;
use perf4sight_base::units::{Percent, count_text, grouped_digits};
use perf4sight_report::{
    AnswerTone, Axis, Block, Chart, Fact, Plot, Scatter, ScatterPoint, Series, Table, TableBuilder,
};

/// The half-width of the band around the largest batch that ran.
const BAND: f64 = 0.1;
/// With fewer failures than this, correct verdicts on all of them are still mostly luck.
const TELLING: usize = 10;
const NAMED: usize = 4;
const REMEDY: &str = "profile larger batches, or set mem_limit";

/// The section on verdicts, the hardest test first.
pub fn blocks(evidence: &ReportEvidence, part: &Assessment) -> Vec<Block> {
    let (trial, how) = part.hardest();
    let Some(scores) = ConfusionMatrix::from_verdicts(&trial.judged) else {
        return vec![Block::Text(nothing_tested(part))];
    };
    let verdicts = [
        Block::Text(format!("Tested on {how}.")),
        Block::Headline(headline(&scores)),
        Block::Table(confusion(&scores)),
    ];
    let largest = LargestBatchScores::from_variants(&trial.largest);
    let limits = largest.map(|scores| {
        let charts = charts(evidence, &trial.largest).map(Block::Chart);
        [Block::Headline(limits(&scores))].into_iter().chain(charts)
    });
    verdicts.into_iter().chain(limits.into_iter().flatten()).collect()
}

/// A few sentences for the top of the page, with the reliability of verdicts.
pub fn verdict(part: &Assessment) -> (AnswerTone, String) {
    let (trial, how) = part.hardest();
    let Some(scores) = ConfusionMatrix::from_verdicts(&trial.judged) else {
        return (AnswerTone::Caution, nothing_tested(part));
    };
    let largest = LargestBatchScores::from_variants(&trial.largest);
    let batches = largest.map(|largest| {
        format!(
            " The safe batch size fits for {} of the variants and uses {} of what there is.",
            Percent(100.0 - largest.unsafe_share),
            Percent(largest.used)
        )
    });
    let text = format!(
        "Whether a step fits is predicted correctly for {} of {} steps of {how}; always saying \"fits\" would be right for {}. {}{}",
        Percent(scores.accuracy),
        grouped_digits(scores.rows() as u64),
        Percent(scores.always_fits),
        failures(&trial.judged),
        batches.unwrap_or_default()
    );
    (tone(&scores, largest.as_ref()), text)
}

/// Correct verdicts on only a few failures, or no more correct ones than by always predicting a fit, are no reason to
/// rely on verdicts.
fn tone(scores: &ConfusionMatrix, largest: Option<&LargestBatchScores>) -> AnswerTone {
    let proven = scores.unfit() >= TELLING && scores.accuracy > scores.always_fits;
    match (scores.accuracy, largest.map_or(0.0, |largest| largest.unsafe_share)) {
        (accuracy, risk) if accuracy >= 95.0 && risk <= 5.0 && proven => AnswerTone::Good,
        (accuracy, risk) if accuracy >= 85.0 && risk <= 20.0 => AnswerTone::Caution,
        _ => AnswerTone::Bad,
    }
}

/// "Only 2 did not fit (resnet50 at batch 16, resnet50_20 at batch 16), which shows little: profile larger batches, or set mem_limit."
fn failures(judged: &[JudgedStep]) -> String {
    let unfit: Vec<&JudgedStep> = judged.iter().filter(|one| !one.fitted).collect();
    let name = |one: &&JudgedStep| format!("{} at batch {}", one.variant, one.batch);
    let mut names: Vec<String> = unfit.iter().take(NAMED).map(name).collect();
    if let Some(more @ 1..) = unfit.len().checked_sub(NAMED) {
        names.push(format!("{more} more"));
    }
    match unfit.len() {
        0 => format!("None of them failed, so failures were not tested: {REMEDY}."),
        few @ ..TELLING => format!("Only {few} did not fit ({}), which shows little: {REMEDY}.", names.join(", ")),
        many => format!("{} did not fit ({}).", grouped_digits(many as u64), names.join(", ")),
    }
}

fn nothing_tested(part: &Assessment) -> String {
    let tried = part.tested.rows.len() + part.tested.failed.len();
    let failures = [part.fitted, Some(part.tested)].into_iter().flatten().flat_map(|gathered| &gathered.failed);
    let failures = failures.filter(|attempt| attempt.did_not_fit()).count();
    match part.fingerprint.recipe().method {
        _ if tried == 0 => {
            format!("Whether a step fits: nothing to judge by, for there is no row to test on ({}).", part.tested)
        }
        _ if failures == 0 => format!(
            "Nothing in this profile ran out of memory, so there are no verdicts on whether a step fits, and no largest batch: {REMEDY}."
        ),
        method @ FitMethod::Perf4sight => format!("The method {method} gives no verdicts on whether a step fits."),
        FitMethod::Hybrid => {
            "Whether a step fits: what failed here follows no limit of memory, so there are no verdicts.".to_owned()
        }
    }
}

fn headline(scores: &ConfusionMatrix) -> Vec<Fact> {
    let tried = format!("of {} steps that were tried", grouped_digits(scores.rows() as u64));
    vec![
        Fact::new("ran out of memory", scores.unfit()).remark(tried),
        Fact::new("right verdicts", Percent(scores.accuracy))
            .remark(format!("{} by always saying \"fits\"", Percent(scores.always_fits))),
        Fact::new("precision", scores.precision.map(Percent)).remark("of those said not to fit, did not"),
        Fact::new("recall", scores.recall.map(Percent)).remark("of those that did not fit, said so"),
        Fact::new("borderline", scores.borderline).remark("neither is 90 % sure"),
        Fact::new("Brier score", scores.brier).remark("0 is perfect, 0.25 a coin"),
    ]
}

fn limits(scores: &LargestBatchScores) -> Vec<Fact> {
    let variants = count_text(scores.variants as u64, "variant");
    let [best, worst] = scores.possible.map(|error| format!("{error:.0}"));
    let error = if best == worst { format!("{best} %") } else { format!("{best} to {worst} %") };
    let remark = format!(
        "mean error over {variants}; sizes between the last that ran and the first that did not were not tried"
    );
    vec![
        Fact::new("largest batch", error).remark(remark),
        Fact::new("unsafe", Percent(scores.unsafe_share)).remark("of the safe batch sizes ran out of memory"),
        Fact::new("used", Percent(scores.used)).remark("of the largest batch that ran, by the safe one"),
    ]
}

fn confusion(scores: &ConfusionMatrix) -> Table {
    let happened = [("ran", scores.cleared, scores.false_alarms), ("ran out of memory", scores.missed, scores.found)];
    TableBuilder::new("Verdicts at even odds", happened)
        .text("happened", "what happened", |row| row.0)
        .number("fits", "predicted to fit", |row| row.1)
        .number("does_not_fit", "predicted not to fit", |row| row.2)
        .table()
}

/// The largest safe batch and the largest batch with an even chance, each compared with the largest batch that ran.
fn charts(evidence: &ReportEvidence, largest: &[LargestBatch]) -> [Chart; 2] {
    let chart = |title: &str, caption: &str, said: fn(&LargestBatch) -> u64| {
        let points = |name: &String| {
            let own = largest.iter().filter(|one| one.variant.network == *name);
            Series::new(name, own.map(|one| point(one, said(one))))
        };
        let plot = Scatter {
            x: Axis::log("largest batch that ran"),
            y: Axis::log("predicted"),
            band: BAND,
            series: evidence.networks().iter().map(points).collect(),
        };
        let caption = format!(
            "A point on the line is the largest batch that ran; the next one tried ran out of memory. {caption}"
        );
        Chart::new(title, caption, Plot::Scatter(plot))
    };
    [
        chart("Largest batch, safe", "Points should lie on the line or below.", |one| one.said.safe),
        chart("Largest batch, as likely as not", "Points should lie near the line.", |one| one.said.likely),
    ]
}

fn point(one: &LargestBatch, predicted: u64) -> ScatterPoint {
    let label = format!("{}: {} ran, {} ran out of memory, predicted {predicted}", one.variant, one.fitted, one.failed);
    ScatterPoint { x: one.fitted as f64, y: predicted as f64, label }
}
