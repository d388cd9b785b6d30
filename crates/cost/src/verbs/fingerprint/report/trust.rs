//! A judgement of the fingerprint's accuracy in words, at the top of the page.

use super::protocols::ReportProtocol;
use super::{Assessment, ReportEvidence, fit, origin, tables};
use crate::evaluation::Evaluation;
use perf4sight_base::stats::ErrorScores;
use perf4sight_base::units::Percent;
use perf4sight_report::{AnswerTone, Block, Fact};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeSet;

/// The minimum coverage, in percent, of the 90 % intervals on every network's rows for reliable intervals: the few
/// rows of one network scatter this much.
const LEAST_HELD: f64 = 60.0;

/// The text for a reader who reads nothing else.
pub fn blocks(evidence: &ReportEvidence) -> Vec<Block> {
    let parts = &evidence.assessments;
    let judged = parts.iter().map(judge);
    let fits = parts.iter().filter(|part| part.quantity() == Quantity::Memory).map(fit::verdict);
    let verdicts = judged.chain(fits).map(|(tone, text)| Block::Verdict(tone, text));
    let headline = parts.iter().flat_map(headline);
    verdicts.chain([Block::Headline(headline.collect())]).chain(origin::blocks(evidence)).collect()
}

/// The meaning of the scores for users of the predictions.
fn judge(part: &Assessment) -> (AnswerTone, String) {
    let name = tables::title(part.quantity());
    let telling = part.known_network_cases();
    let Some(known) = telling.scores_over_networks() else {
        return (AnswerTone::Bad, format!("{name}: there was no row to test it on ({}).", part.tested));
    };
    let tested = match part.tests_unseen() {
        true => "at levels it was not fitted on",
        false => "at levels it was fitted on, which flatters it",
    };
    let familiar = format!("{} off on average for networks it knows, {tested}", Percent(known.mape));
    let (Some(new), Some(left_out)) = (left_out(part), &part.study.own.left_out) else {
        let reason = part.study.missing.join("; ");
        let worst = worst(&telling);
        let text = format!(
            "{name} predictions are {familiar}.{worst} How far off they are for other networks is not known: {reason}."
        );
        return (tone(&known).max(AnswerTone::Caution), text);
    };
    let text = format!(
        "{name} predictions are {} off on average for networks it has never seen, nine in ten at most {}{}; {familiar}.{}",
        Percent(new.mape),
        Percent(new.p90),
        bias_direction(&new),
        worst(&left_out.evaluation)
    );
    (tone(&new).max(coverage_tone(&left_out.evaluation)), text)
}

/// Intervals with a low coverage on one network are not reliable, however small the mean error.
fn coverage_tone(evaluation: &Evaluation) -> AnswerTone {
    let networks: BTreeSet<&String> = evaluation.cases.iter().map(|case| &case.variant.network).collect();
    let held =
        networks.into_iter().filter_map(|name| evaluation.filter(|case| case.variant.network == *name).coverage_90());
    if held.fold(100.0, f64::min) < LEAST_HELD { AnswerTone::Caution } else { AnswerTone::Good }
}

/// The network with the worst predictions, its error, and the coverage of its intervals.
fn worst(evaluation: &Evaluation) -> String {
    let networks = evaluation.by(|case| case.variant.network.clone()).into_iter();
    let Some((name, scores)) = networks.max_by(|(_, a), (_, b)| a.mape.total_cmp(&b.mape)) else {
        return String::new();
    };
    let held = evaluation.filter(|case| case.variant.network == name).coverage_90();
    let held = held.map(|held| format!("; its 90 % intervals hold {} of its rows", Percent(held)));
    format!(" Worst is {name}, {} off{}.", Percent(scores.mape), held.unwrap_or_default())
}

/// With fewer than 20 rows a mean error is itself mostly chance. The published method reaches 2 to 8 % at unseen
/// levels of known networks: up to there predictions are good enough for decisions, up to 20 % with a margin.
fn tone(scores: &ErrorScores) -> AnswerTone {
    match scores.mape {
        mape if mape <= 8.0 && scores.rows >= 20 => AnswerTone::Good,
        mape if mape <= 20.0 && scores.rows >= 5 => AnswerTone::Caution,
        _ => AnswerTone::Bad,
    }
}

fn left_out(part: &Assessment) -> Option<ErrorScores> {
    part.study.own.left_out.as_ref()?.evaluation.scores_over_networks()
}

/// The direction of the predictions' bias, if it is more than a fifth of the error.
fn bias_direction(scores: &ErrorScores) -> String {
    match scores.bias {
        bias if bias.abs() <= scores.mape / 5.0 => String::new(),
        bias if bias > 0.0 => format!(", too high by {} on average", Percent(bias)),
        bias => format!(", too low by {} on average", Percent(-bias)),
    }
}

fn headline(part: &Assessment) -> Vec<Fact> {
    let name = part.quantity();
    let error = |what: &str, scores: Option<ErrorScores>| {
        let fact = Fact::new(format!("{name}: {what}"), scores.map(|scores| Percent(scores.mape)));
        fact.remark(
            scores.map_or("not tested".to_owned(), |scores| format!("mean error over networks, {} rows", scores.rows)),
        )
    };
    let inside = part.study.own.left_out.as_ref().and_then(|left_out| left_out.evaluation.coverage_90());
    let intervals = Fact::new(format!("{name}: 90 % intervals hold"), inside.map(Percent));
    let basis = part.basis().map_or("none given".to_owned(), |basis| basis.to_string());
    let unseen = ReportProtocol::Unseen.cases(part, &part.study.own).and_then(|cases| cases.scores_over_networks());
    let familiar = if part.tests_unseen() { "known networks" } else { "levels fitted on" };
    vec![error("new networks", left_out(part)), error(familiar, unseen), intervals.remark(basis)]
}
