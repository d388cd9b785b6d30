//! Does it fit: verdicts beside what happened, and the largest batch.

use super::Assessment;
use crate::evaluation::{Confusion, Largest, LargestScores, Trial};
use crate::report::{Axis, Block, Chart, Column, Fact, Plot, Point, Scatter, Series, Table, Tone};
use crate::units::{Percent, grouped};

/// Half width of the band around the largest batch that ran.
const BAND: f64 = 0.1;

/// What there is to say of verdicts, the hardest test first.
pub fn blocks(part: &Assessment) -> Vec<Block> {
    let (trial, how) = hardest(part);
    let Some(scores) = Confusion::of(&trial.judged) else {
        return vec![Block::Text(nothing(part))];
    };
    let verdicts = [
        Block::Text(format!("Tested on {how}.")),
        Block::Headline(headline(&scores)),
        Block::Table(confusion(&scores)),
    ];
    let largest = LargestScores::of(&trial.largest);
    let limits = largest.map(|scores| [Block::Headline(limits(&scores)), Block::Chart(chart(&trial.largest))]);
    verdicts.into_iter().chain(limits.into_iter().flatten()).collect()
}

/// One sentence for the top of the page, with how far to trust it; none where no verdicts can be given.
pub fn verdict(part: &Assessment) -> (Tone, String) {
    let (trial, how) = hardest(part);
    let Some(scores) = Confusion::of(&trial.judged) else { return (Tone::Caution, nothing(part)) };
    let largest = LargestScores::of(&trial.largest);
    let tone = match (scores.accuracy, largest.map_or(0.0, |largest| largest.unsafe_share)) {
        (accuracy, risk) if accuracy >= 95.0 && risk <= 5.0 => Tone::Good,
        (accuracy, risk) if accuracy >= 85.0 && risk <= 20.0 => Tone::Caution,
        _ => Tone::Bad,
    };
    let batches = largest.map(|largest| {
        format!(
            " The safe batch size fits for {} of the variants and uses {} of what there is.",
            Percent(100.0 - largest.unsafe_share),
            Percent(largest.used)
        )
    });
    let text = format!(
        "Whether a step fits is told right for {} of {} steps of {how}.{}",
        Percent(scores.accuracy),
        grouped(scores.rows() as u64),
        batches.unwrap_or_default()
    );
    (tone, text)
}

/// Fits without the network where there are such, the fingerprint itself otherwise.
fn hardest<'a>(part: &Assessment<'a>) -> (&'a Trial, &'static str) {
    match &part.study.own.left_out {
        Some(left_out) => (left_out, "networks that were left out of the fit"),
        None => (&part.study.own.whole, "networks that were fitted on"),
    }
}

fn nothing(part: &Assessment) -> String {
    let failures = [part.fitted, Some(part.tested)].into_iter().flatten().flat_map(|gathered| &gathered.failed);
    match failures.filter(|attempt| attempt.did_not_fit()).count() {
        0 => "Nothing in this profile ran out of memory, so there are no verdicts on whether a step fits, and no largest batch: \
              profile larger batches, or set mem_limit."
            .to_owned(),
        _ => format!("The method {} gives no verdicts on whether a step fits.", part.fingerprint.method()),
    }
}

fn headline(scores: &Confusion) -> Vec<Fact> {
    let tried = format!("of {} steps that were tried", grouped(scores.rows() as u64));
    vec![
        Fact::new("ran out of memory", scores.found + scores.missed).remark(tried),
        Fact::new("right verdicts", Percent(scores.accuracy)),
        Fact::new("precision", scores.precision.map(Percent)).remark("of those said not to fit, did not"),
        Fact::new("recall", scores.recall.map(Percent)).remark("of those that did not fit, said so"),
        Fact::new("borderline", scores.borderline).remark("neither is 90 % sure"),
        Fact::new("Brier score", scores.brier).remark("0 is perfect, 0.25 a coin"),
    ]
}

fn limits(scores: &LargestScores) -> Vec<Fact> {
    let variants = format!("mean error over {} variants", scores.variants);
    vec![
        Fact::new("largest batch", Percent(scores.mape)).remark(variants),
        Fact::new("unsafe", Percent(scores.unsafe_share)).remark("of the safe batch sizes ran out of memory"),
        Fact::new("used", Percent(scores.used)).remark("of the largest batch that ran, by the safe one"),
    ]
}

fn confusion(scores: &Confusion) -> Table {
    let columns = [
        Column::text("happened", "what happened"),
        Column::number("fits", "said to fit"),
        Column::number("does_not_fit", "said not to fit"),
    ];
    let mut table = Table::new("Verdicts at even odds", columns);
    table.row(["ran".into(), scores.cleared.into(), scores.false_alarms.into()]);
    table.row(["ran out of memory".into(), scores.missed.into(), scores.found.into()]);
    table
}

fn chart(largest: &[Largest]) -> Chart {
    let point = |one: &Largest, predicted: u64| Point {
        x: one.fitted as f64,
        y: predicted as f64,
        label: format!("{}: {} ran, {} ran out of memory, predicted {predicted}", one.variant, one.fitted, one.failed),
    };
    let plot = Scatter {
        x: Axis::log("largest batch that ran"),
        y: Axis::log("predicted"),
        band: BAND,
        series: vec![
            Series::new("safe", largest.iter().map(|one| point(one, one.said.safe))),
            Series::new("as likely as not", largest.iter().map(|one| point(one, one.said.likely))),
        ],
    };
    let caption = "On the line lies the largest batch that ran; the next one that was tried ran out of memory. Safe ones should lie below.";
    Chart::new("Largest batch", caption, Plot::Scatter(plot))
}
