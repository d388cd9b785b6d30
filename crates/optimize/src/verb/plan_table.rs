//! Plans as rows of tables, and what is warned of them.

use crate::plan::TransformerPlan;
use crate::step::{LeftOutPlans, PredictedStep};
use perf4sight_report::{Cell, TableColumn};
use perf4sight_verb::Context;
use std::collections::{BTreeMap, BTreeSet};

/// The number of GPUs, by its name in [`crate::plan::TransformerPlan::numbers`].
const GPUS: &str = "gpus";
/// GPUs of a usual server.
const SERVER: u64 = 8;
/// Values of a number that a warning names.
const NAMED: usize = 5;

/// The numbers in which plans differ: places in [`TransformerPlan::numbers`].
pub(super) fn differing_numbers(plans: &[TransformerPlan]) -> Vec<usize> {
    let Some(first) = plans.first().map(TransformerPlan::numbers) else { return Vec::new() };
    let differs = |place: &usize| plans.iter().any(|plan| plan.numbers()[*place] != first[*place]);
    (0..first.len()).filter(differs).collect()
}

/// Columns of these numbers.
pub(super) fn columns(places: &[usize], plan: &TransformerPlan) -> Vec<TableColumn> {
    let names = plan.numbers();
    places.iter().map(|place| TableColumn::number(names[*place].0, names[*place].0.replace('_', " "))).collect()
}

/// Cells of these numbers.
pub(super) fn cells(places: &[usize], plan: &TransformerPlan) -> Vec<Cell> {
    places.iter().map(|place| Cell::from(plan.numbers()[*place].1)).collect()
}

/// "tensor 2 x data 2 x pipeline 1, micro-batch 4".
pub(super) fn degrees_text(plan: &TransformerPlan) -> String {
    format!(
        "tensor {} x data {} x pipeline {}, micro-batch {}",
        plan.tensor_parallel, plan.data_parallel, plan.pipeline_parallel, plan.micro_batch
    )
}

/// "each plan", "tensor parallel 8".
pub(super) fn left_out(one: &LeftOutPlans) -> String {
    match one.value {
        Some(value) => format!("{} {value}", one.what),
        None => one.what.clone(),
    }
}

/// "tensor_parallel 8, gpus 16", "tensor_parallel 2 x micro_batch 8"; empty where everything was measured.
pub(super) fn unmeasured_text(step: &PredictedStep) -> String {
    let words = |number: &(&str, u64)| format!("{} {}", number.0, number.1);
    let together = step.never_together.iter().map(words).collect::<Vec<_>>().join(" x ");
    let all = step.unmeasured.iter().map(words).chain(Some(together).filter(|words| !words.is_empty()));
    all.collect::<Vec<_>>().join(", ")
}

/// "yes" for a plan that the model was fitted on.
pub(super) fn fitted_cell(is_fitted: bool) -> Cell {
    Cell::from(if is_fitted { "yes" } else { "" })
}

/// Warns once of each number that no measured plan had, and of all combinations.
pub(super) fn warn_of_unmeasured(steps: &[PredictedStep], context: &mut Context) {
    let mut values: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    steps.iter().flat_map(|step| &step.unmeasured).for_each(|(name, value)| {
        values.entry(name).or_default().insert(*value);
    });
    for (name, values) in values {
        let count = steps.iter().filter(|step| step.unmeasured.iter().any(|(own, _)| *own == name)).count();
        let more = values.len().saturating_sub(NAMED);
        let named = values.iter().take(NAMED).map(u64::to_string);
        let named = named.chain((more > 0).then(|| format!("{more} others"))).collect::<Vec<_>>().join(", ");
        let links = if name == GPUS && values.last().is_some_and(|gpus| *gpus > SERVER) {
            ", and hold links between servers from NVLink to Ethernet of 10 Gb/s"
        } else {
            ""
        };
        context.warn(format_args!(
            "no measured plan has {name} = {named}, which {count} of {} plans have: their intervals are wider{links}",
            steps.len()
        ));
    }
    let combinations = steps.iter().filter(|step| !step.never_together.is_empty()).count();
    if combinations > 0 {
        context.warn(format_args!(
            "{combinations} of {} plans combine degrees and sizes that were never measured together: their intervals are wider",
            steps.len()
        ));
    }
}
