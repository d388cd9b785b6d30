//! The results as JSON, and the strategy in its published form.

use super::{StrategyResults, tables};
use crate::passes::PassResults;
use perf4sight_base::overwrite::PROGRAM;
use serde_json::{Value, json};

/// The version of `optimize.json`.
pub(super) const FORMAT: u32 = 1;

pub(super) fn to_json(shown: &StrategyResults) -> Value {
    json!({
        "generator": PROGRAM,
        "format": FORMAT,
        "answer": shown.answer,
        "step_ms": shown.start.before as f64 / 1e6,
        "proposals": tables::proposals(shown).to_json(),
        "for_other_programs": tables::others(shown).to_json(),
        "nothing_for": shown.found.nothing,
        "warnings": shown.warnings,
    })
}

/// `{"best_strategy": [[operation, object, what goes with it], ...]}`.
pub(super) fn strategy(found: &PassResults) -> Value {
    json!({ "best_strategy": found.strategy })
}
