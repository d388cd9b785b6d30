//! Writes `replay.json`.

use super::tables;
use crate::Analysis;
use serde_json::{Value, json};

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

/// The whole file.
pub(super) fn of(analysis: &Analysis, answer: &str, warnings: &[String]) -> Value {
    json!({
        "format": FORMAT,
        "answer": answer,
        "world_size": analysis.job.world_size,
        "steps": analysis.job.steps.iter().map(|step| &step.name).collect::<Vec<_>>(),
        "step_ms": summary(analysis.step()),
        "ranks": tables::ranks(analysis).to_json(),
        "who_waits_for_whom": matrix(analysis),
        "stragglers": stragglers(analysis),
        "communication": tables::communication(analysis).to_json(),
        "exchanges": analysis.exchanges.all.len(),
        "unmatched": unmatched(analysis),
        "warnings": warnings,
    })
}

fn summary(of: Option<perf4sight_base::summary::Summary>) -> Value {
    of.map_or(
        Value::Null,
        |summary| json!({"mean": summary.mean, "median": summary.median, "interval": summary.interval}),
    )
}

/// Rows of milliseconds: of the rank that waits, by the rank that it waits for.
fn matrix(analysis: &Analysis) -> Value {
    let ranks = 0..analysis.job.ranks.len();
    let row = |rank: usize| -> Vec<Option<f64>> {
        ranks.clone().map(|other| Some(analysis.waiting.summary(rank, other)?.mean)).collect()
    };
    ranks.clone().map(row).collect()
}

fn stragglers(analysis: &Analysis) -> Value {
    let straggler = |one: &crate::waiting::Straggler| {
        let excess = |one: &crate::waiting::Excess| {
            json!({
                "activity": one.activity.name(), "kind": one.activity.kind(),
                "own_ms": one.own, "others_ms": one.others, "longer_ms": one.longer(),
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
    analysis.stragglers.iter().map(straggler).collect()
}

fn unmatched(analysis: &Analysis) -> Value {
    let entry = |((rank, operation), count): ((u32, crate::collectives::Operation), usize)| json!({"rank": rank, "operation": operation.label(), "calls": count});
    analysis.exchanges.unmatched(&analysis.job).into_iter().map(entry).collect()
}
