//! `breakdown.json`, whose words `docs/breakdown.md` explains.

use super::Shown;
use super::run::Run;
use serde_json::{Value, json};

/// The newest format.
const FORMAT: u32 = 1;

/// The whole document.
pub(super) fn of(shown: &Shown) -> Value {
    let mut document = run(&shown.run);
    document["format"] = FORMAT.into();
    document["warnings"] = shown.warnings.clone().into();
    document["after"] = shown.after.as_ref().map_or(Value::Null, run);
    document
}

fn run(run: &Run) -> Value {
    let rank = |ranked: &crate::traces::Ranked| json!({ "rank": ranked.rank, "file": ranked.trace.file });
    json!({ "ranks": run.ranks().map(|(ranked, _)| rank(ranked)).collect::<Value>() })
}
