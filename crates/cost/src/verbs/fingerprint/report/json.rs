//! `report.json`: the report for programs.

use super::{Assessment, ReportEvidence};
use crate::evaluation::{Accuracy, ClassScores, ConfusionMatrix, LargestBatchScores, MethodTests, Trial};
use perf4sight_step::workload::Quantity;
use serde_json::{Map, Value, json};

/// The whole file: scores by the name of each quantity; values that differ between equal runs are under `provenance`.
pub fn report(evidence: &ReportEvidence) -> Value {
    let parts = &evidence.assessments;
    let mut json: Map<String, Value> = parts.iter().map(|part| (part.quantity().name().into(), scores(part))).collect();
    json.insert("device".into(), evidence.device.into());
    json.insert("dataset".into(), evidence.dataset.into());
    json.insert("stage".into(), evidence.step.stage.name().into());
    json.insert("step".into(), evidence.step.cell().into());
    json.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    json.insert("not_used".into(), evidence.not_used().into());
    json.insert("warnings".into(), json!(evidence.warnings()));
    json.insert("fingerprints".into(), parts.iter().map(fingerprint).collect());
    let fits = parts.iter().map(|part| json!(part.fingerprint.provenance)).collect::<Vec<_>>();
    json.insert(
        "provenance".into(),
        json!({ "date": evidence.date, "config": evidence.config, "fits": fits, "profiles": evidence.profiles }),
    );
    Value::Object(json)
}

fn fingerprint(part: &Assessment) -> Value {
    let fingerprint = part.fingerprint;
    json!({
        "quantity": part.quantity(),
        "method": fingerprint.recipe().method.name(),
        "step": fingerprint.subject().step.cell(),
        "seed": fingerprint.recipe().seed,
        "fitted_on": fingerprint.fitted_on(),
        "taught_by": fingerprint.taught_by(),
    })
}

/// Every protocol of one quantity; null if nothing was tested.
fn scores(part: &Assessment) -> Value {
    let (study, quantity) = (part.study, part.quantity());
    let Value::Object(mut json) = protocols(&study.own, quantity) else { return Value::Null };
    json.insert("published".into(), study.published().map_or(Value::Null, |published| protocols(published, quantity)));
    json.insert("noise_floor".into(), json!(study.noise));
    let curve = |protocols: &MethodTests| (protocols.method.name().to_owned(), json!(protocols.learning));
    let curves: Map<String, Value> = [&study.own].into_iter().chain(&study.published).map(curve).collect();
    json.insert("learning_curve".into(), curves.into());
    json.insert("intervals".into(), part.basis().map_or(Value::Null, |basis| basis.to_string().into()));
    json.insert("missing".into(), study.missing.clone().into());
    Value::Object(json)
}

/// One method: its scores, and under `left_out` the same keys for fits without each network, with equal weight for
/// every network.
fn protocols(protocols: &MethodTests, quantity: Quantity) -> Value {
    let whole = &protocols.whole;
    let Value::Object(mut json) = trial(whole, whole.evaluation.accuracy(), quantity) else { return Value::Null };
    let left_out = protocols.left_out.as_ref();
    let left_out = left_out.map(|left_out| trial(left_out, left_out.evaluation.accuracy_over_networks(), quantity));
    json.insert("left_out".into(), left_out.unwrap_or(Value::Null));
    Value::Object(json)
}

fn trial(trial: &Trial, accuracy: Option<Accuracy>, quantity: Quantity) -> Value {
    let Value::Object(mut json) = json!(accuracy) else { return Value::Null };
    if !trial.classes.is_empty() {
        json.insert("operations".into(), json!(ClassScores::by_class(&trial.classes)));
    }
    if quantity == Quantity::Memory {
        json.insert("verdict".into(), json!(ConfusionMatrix::from_verdicts(&trial.judged)));
        json.insert("max_batch".into(), json!(LargestBatchScores::from_variants(&trial.largest)));
    }
    Value::Object(json)
}
