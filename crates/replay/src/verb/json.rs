//! Writes `replay.json`.

use super::{ReplayResults, hang as dumps, tables};
use crate::Analysis;
use crate::hang::HangReport;
use crate::replayed_job::ReplayedJob;
use perf4sight_base::overwrite::PROGRAM;
use serde_json::{Value, json};

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

/// The whole file.
pub(super) fn to_json(shown: &ReplayResults) -> Value {
    let ReplayResults { analysis, replayed, answer, warnings, hang, .. } = shown;
    json!({
        "generator": PROGRAM,
        "format": FORMAT,
        "answer": answer,
        "world_size": analysis.job.world_size,
        "steps": analysis.job.steps.iter().map(|step| &step.name).collect::<Vec<_>>(),
        "recorded_steps_in_each": analysis.job.cycle,
        "step_ms": summary(analysis.step()),
        "ranks": tables::ranks(analysis).to_json(),
        "who_waits_for_whom": matrix(analysis),
        "stragglers": stragglers(analysis),
        "communication": tables::communication(analysis).to_json(),
        "exchanges": analysis.exchanges.all.len(),
        "unmatched": unmatched(analysis),
        "replay": replayed.as_ref().map(|replayed| replay(analysis, replayed)),
        "hang": (!hang.blocked.is_empty()).then(|| dumps::json(hang)),
        "warnings": warnings,
    })
}

/// The same of dumps without times, of which everything but the hang is empty.
pub(super) fn of_hang(hang: &HangReport, answer: &str, warnings: &[String]) -> Value {
    let (nothing, none) = (Value::Null, json!([]));
    json!({
        "generator": PROGRAM,
        "format": FORMAT,
        "answer": answer,
        "world_size": nothing,
        "steps": none,
        "recorded_steps_in_each": nothing,
        "step_ms": nothing,
        "ranks": none,
        "who_waits_for_whom": none,
        "stragglers": none,
        "communication": none,
        "exchanges": 0,
        "unmatched": none,
        "replay": nothing,
        "hang": dumps::json(hang),
        "warnings": warnings,
    })
}

fn replay(analysis: &Analysis, replayed: &ReplayedJob) -> Value {
    let assumptions =
        replayed.answered_scenarios().map(|(text, outcome)| json!({"what_if": text, "assumes": outcome.assumptions}));
    let unanswered =
        replayed.unanswered_scenarios().map(|(text, why)| json!({"what_if": text, "cannot_be_asked": why.to_string()}));
    json!({
        "operations": replayed.step.graph.nodes().len(),
        "graph_bytes": replayed.step.graph.bytes(),
        "ranks": tables::replayed::ranks(replayed).to_json(),
        "typical_ms": replayed.typical as f64 / 1e6,
        "as_recorded_ms": replayed.as_recorded as f64 / 1e6,
        "plain_step_between_ms": replayed.plain_bounds.map(|bounds| bounds.map(|bound| bound as f64 / 1e6)),
        "steps": tables::replayed::steps(analysis, replayed).to_json(),
        "left_out_error_percent": replayed.error().map(|error| error.median),
        "left_out_error_under_load_percent": replayed.error().map(|error| error.under_load),
        "steps_differ_percent": replayed.error().map(|error| error.spread),
        "plain_step_ms": replayed.distortion.map(|(_, distortion)| distortion.plain as f64 / 1e6),
        "recorded_step_ms": replayed.distortion.map(|(_, distortion)| distortion.recorded as f64 / 1e6),
        "distortion_percent": replayed.distortion.map(|(_, distortion)| distortion.percent()),
        "critical_path": tables::replayed::critical(replayed).to_json(),
        "operations_on_critical_path": tables::replayed::names(replayed).to_json(),
        "communication": tables::replayed::communication(replayed).to_json(),
        "what_ifs": tables::replayed::what_ifs(replayed).to_json(),
        "what_ifs_by_one_rank": tables::replayed::single_rank_table(replayed).to_json(),
        "what_ifs_unanswered": unanswered.collect::<Vec<_>>(),
        "assumptions": assumptions.collect::<Vec<_>>(),
    })
}

fn summary(of: Option<perf4sight_base::summary::ValueSummary>) -> Value {
    of.map_or(
        Value::Null,
        |summary| json!({"mean": summary.mean, "median": summary.median, "interval": summary.interval}),
    )
}

/// Rows of milliseconds: of the rank that waits, by the rank that it waits for.
fn matrix(analysis: &Analysis) -> Value {
    let ranks = 0..analysis.job.ranks.len();
    let row = |rank: usize| -> Vec<Option<f64>> {
        let known = |other: &usize| analysis.waiting.summary(rank, *other).filter(|_| analysis.is_waiting_known());
        ranks.clone().map(|other| Some(known(&other)?.mean)).collect()
    };
    ranks.clone().map(row).collect()
}

fn stragglers(analysis: &Analysis) -> Value {
    let straggler = |one: &crate::waiting::Straggler| {
        let excess = |one: &crate::waiting::ActivityExcess| {
            json!({
                "activity": one.activity.name(), "kind": one.activity.kind(),
                "own_ms": one.own, "others_ms": one.others, "others_between_ms": one.others_between, "longer_ms": one.longer(),
            })
        };
        json!({
            "rank": analysis.job.ranks[one.rank].number,
            "caused_ms": summary(Some(one.caused)),
            "share": one.share,
            "steadiness": one.steadiness,
            "longer": one.excess.iter().map(excess).collect::<Vec<_>>(),
        })
    };
    analysis.stragglers.iter().filter(|_| analysis.is_waiting_known()).map(straggler).collect()
}

fn unmatched(analysis: &Analysis) -> Value {
    let entry = |((rank, operation), count): ((u32, crate::collectives::CollectiveOperation), usize)| json!({"rank": rank, "operation": operation.label(), "calls": count});
    analysis.exchanges.unmatched(&analysis.job).into_iter().map(entry).collect()
}
