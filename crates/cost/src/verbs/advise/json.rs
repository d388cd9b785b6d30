//! The advice for programs.

use super::Advice;
use super::search::AdviceCandidate;
use perf4sight_base::error::Error;
use serde_json::{Value, json};

/// The fields of advice, by which a file of earlier advice is recognised.
pub(super) const EMPTY: &str = r#"{"network": 0, "device": 0, "prior": 0, "bs": 0, "step": 0, "limit_bytes": 0, "answer": 0, "asked": 0,
    "fits": 0, "nearest": 0, "single": 0, "helps_most": 0, "left_out": 0, "untimed": 0, "remarks": 0, "warnings": 0}"#;

impl Advice {
    pub(super) fn json(&self, warnings: &[String]) -> Value {
        let fitting = |same: bool| {
            let rows: Vec<AdviceCandidate> =
                self.findings.fitting.iter().filter(|one| one.learns_the_same == same).cloned().collect();
            self.rows(&rows)
        };
        let one = |candidate: Option<&AdviceCandidate>| candidate.map(|candidate| self.row(candidate));
        let withheld = |changes: &[(String, Error)]| -> Value {
            changes.iter().map(|(change, reason)| json!({ "change": change, "reason": reason.to_string() })).collect()
        };
        json!({
            "network": self.network,
            "device": self.device,
            "prior": self.is_prior,
            "bs": self.asked.batch,
            "step": self.asked.step.cell(),
            "limit_bytes": self.limit.map(|limit| limit.bytes.0),
            "answer": self.to_sentences(),
            "asked": self.row(&self.findings.asked),
            "fits": { "learns_the_same": fitting(true), "learns_otherwise": fitting(false) },
            "nearest": one(self.findings.nearest.as_ref()),
            "single": self.rows(&self.findings.single),
            "helps_most": { "learns_the_same": one(self.most_saving(true)), "learns_otherwise": one(self.most_saving(false)) },
            "left_out": withheld(&self.withheld.refused),
            "untimed": withheld(&self.withheld.untimed),
            "remarks": self.remarks(),
            "warnings": warnings,
        })
    }

    fn rows(&self, rows: &[AdviceCandidate]) -> Value {
        rows.iter().map(|one| self.row(one)).collect()
    }

    /// A row of the flat table, with its changes by key.
    fn row(&self, one: &AdviceCandidate) -> Value {
        let mut row = self.flat(std::slice::from_ref(one)).to_json()[0].take();
        row["changes"] = self.changes(one).into_iter().map(|(key, word)| (key.to_owned(), Value::from(word))).collect();
        row
    }
}
