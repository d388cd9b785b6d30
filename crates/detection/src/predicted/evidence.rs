//! The basis of predictions: measured settings of the same detector, the costs of their steps, and their uncertainty.

use super::super::store::{self, Circumstances, StoredOutcome, StoredRow};
use super::super::timing;
use super::super::trainer::DetectorTrainer;
use super::super::{Detection, SweepSetting};
use super::{BatchLoad, area};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::mean;
use perf4sight_step::detection::{BackboneBatch, DetectionTask, MeasuredDetection, StepSeconds};
use perf4sight_verb::Context;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Relative random error of measured steps, and of the graphs' times between batch sizes.
pub(super) const NOISE: f64 = 0.05;
/// The same for disturbed ones: with busy neighbours, single steps were up to 36 % from their mean (docs/detection.md).
const DISTURBED: f64 = 0.2;

/// A setting whose steps ran.
pub(super) struct MeasuredSetting {
    pub task: DetectionTask,
    pub measured: MeasuredDetection,
    disturbance: Option<String>,
}

/// Collects the measurements of this detector in these circumstances, at any batch and size of images. Warns of those
/// that are not used, and of those with less weight.
///
/// # Errors
/// Nothing measured to go by, or nothing of a training that learns.
pub(super) fn gather(
    asked: &Detection,
    trainer: &DetectorTrainer,
    context: &mut Context,
) -> Result<Vec<MeasuredSetting>> {
    let wanted = comparable(&asked.circumstances(trainer), &asked.task);
    let kept = store::read(&asked.out)?;
    let other = kept.iter().map(|row| comparable(&row.circumstances, &row.task)).find(|row| *row != wanted);
    let otherwise = other.map_or(String::new(), |other| {
        format!(": the measurements here were made with {}", differences(&other, &wanted))
    });
    let alike = kept.into_iter().filter(|row| comparable(&row.circumstances, &row.task) == wanted);
    let (mut evidence, mut doubtful) = (Vec::new(), false);
    for (task, measured) in alike.filter_map(measured) {
        if let Some(doubt) = timing::losses_doubt(&measured.losses) {
            context.warn(format!("{}: {doubt}; predictions leave it out", task_text(&task)));
            doubtful = true;
        } else {
            evidence.push(MeasuredSetting { disturbance: timing::disturbance(&measured), task, measured });
        }
    }
    if evidence.is_empty() {
        let nothing = match doubtful {
            true => {
                "no training of this detector that changes its weights was measured here with these settings".to_owned()
            }
            false => format!("this detector was not measured here with these settings{otherwise}"),
        };
        return Err(Error::input(nothing)
            .file(&asked.out)
            .expected("a few measured steps, such as those of batch sizes 1 and 2")
            .help("run the same command without predict, with small batches (batch_size)"));
    }
    evidence.iter().filter_map(MeasuredSetting::warning).for_each(|words| context.warn(words));
    Ok(evidence)
}

/// "batch 2, 2 workers, prefetch 2 at 192 px".
fn task_text(task: &DetectionTask) -> String {
    let DetectionTask { batch, num_workers, prefetch_factor, .. } = *task;
    let size = task.size.map_or(String::new(), |size| format!(" at {size} px"));
    super::super::tables::setting_text(SweepSetting { batch, num_workers, prefetch_factor }) + &size
}

/// The steps of a row, where their batches were recorded.
fn measured(row: StoredRow) -> Option<(DetectionTask, MeasuredDetection)> {
    match row.outcome {
        StoredOutcome::Measured(measured) if !measured.batches.is_empty() => Some((row.task, *measured)),
        StoredOutcome::Measured(_) | StoredOutcome::OutOfMemory(_) => None,
    }
}

/// The circumstances and the task that measurement and request must share: all except those that predictions vary.
fn comparable(circumstances: &Circumstances, task: &DetectionTask) -> (Circumstances, DetectionTask) {
    let free = DetectionTask {
        batch: 0,
        num_workers: 0,
        prefetch_factor: 0,
        size: None,
        steps: 0,
        warm_up: 0,
        learning_rate: 0.0,
        trace: None,
        ..task.clone()
    };
    (Circumstances { mem_limit: None, seed: 0, ..circumstances.clone() }, free)
}

/// Differences between the measurement and the request: "threads 1, not 2".
fn differences(
    (measured, its): &(Circumstances, DetectionTask),
    (asked, task): &(Circumstances, DetectionTask),
) -> String {
    let facts_of = |circumstances: &Circumstances, task: &DetectionTask| {
        let facts = [serde_json::to_value(circumstances), serde_json::to_value(task)];
        let members = facts.into_iter().flatten().filter_map(|value| value.as_object().cloned());
        let each = members.flatten().flat_map(|(name, value)| match value {
            Value::Object(members) => members.into_iter().collect(),
            value => vec![(name, value)],
        });
        each.filter(|(_, value)| !value.is_null()).collect::<BTreeMap<String, Value>>()
    };
    let (there, here) = (facts_of(measured, its), facts_of(asked, task));
    let names: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
    let differs = names.into_iter().filter(|name| there.get(*name) != here.get(*name));
    let word = |value: Option<&Value>| value.map_or("none".to_owned(), Value::to_string);
    let words = differs.map(|name| format!("{name} {}, not {}", word(there.get(name)), word(here.get(name))));
    words.collect::<Vec<String>>().join("; ")
}

impl MeasuredSetting {
    /// The warning where it has less weight.
    fn warning(&self) -> Option<String> {
        let disturbance = self.disturbance.as_ref()?;
        Some(format!("{}: disturbed: {disturbance}; predictions believe its times less", task_text(&self.task)))
    }

    /// The relative error of its times.
    pub fn noise(&self) -> f64 {
        if self.disturbance.is_some() { DISTURBED } else { NOISE }
    }

    /// The average load of its free steps.
    pub fn load(&self) -> BatchLoad {
        let images = self.task.batch as f64;
        let proposals = mean(&self.free().iter().map(|batch| batch.proposals as f64).collect::<Vec<_>>());
        BatchLoad { images, proposals, pixels: images * self.mean_area() }
    }

    /// The batches of all steps but the first.
    fn free(&self) -> &[BackboneBatch] {
        let MeasuredDetection { batches, first, .. } = &self.measured;
        &batches[first.parts.len().min(batches.len() - 1)..]
    }

    fn mean_area(&self) -> f64 {
        mean(&self.free().iter().map(|batch| area([batch.height, batch.width])).collect::<Vec<_>>())
    }

    /// Height and width of the batch that is as large as they were on average, nearly; none where there was no batch.
    pub fn typical(&self) -> Option<[u64; 2]> {
        let mean = self.mean_area();
        let off = |batch: &&BackboneBatch| (area([batch.height, batch.width]) - mean).abs();
        let nearest = self.free().iter().min_by(|one, other| off(one).total_cmp(&off(other)));
        nearest.map(|batch| [batch.height, batch.width])
    }

    /// Seconds of an exact step that change the weights.
    pub fn optimizer(&self) -> f64 {
        mean(&self.measured.exact.parts.iter().map(|parts| parts.optimizer).collect::<Vec<_>>())
    }

    /// Seconds of the backbone in an exact step, forward and backward; none where they were not measured.
    pub fn trunk(&self) -> Option<f64> {
        let both = |parts: &StepSeconds| Some(parts.trunk_forward? + parts.trunk_backward?);
        let all = self.measured.exact.parts.iter().map(both).collect::<Option<Vec<f64>>>()?;
        Some(mean(&all))
    }

    /// Seconds of a free step without waiting for data.
    pub fn busy(&self) -> f64 {
        mean(&self.measured.plain.parts.iter().map(|parts: &StepSeconds| parts.sum() - parts.wait).collect::<Vec<_>>())
    }

    /// Proposals of an image: the number that the network samples for it, whatever its size.
    pub fn proposals(&self) -> f64 {
        let load = self.load();
        load.proposals / load.images
    }

    /// Seconds of waiting for the data of an image.
    pub fn waiting(&self) -> f64 {
        mean(&self.measured.plain.parts.iter().map(|parts| parts.wait).collect::<Vec<_>>()) / self.task.batch as f64
    }
}
