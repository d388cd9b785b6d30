//! Plans to choose from, with what is predicted of them.

use super::cost_model::{self, staged};
use super::plan_table;
use crate::memory;
use crate::model_file::{self, CostModel};
use crate::plan::TransformerPlan;
use crate::plans_csv::{self, PlanRow};
use crate::staged::{MeasuredStagedPlan, PredictedStagedPlan, StagedModel};
use crate::step::{PredictedStep, StepModel};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, count_text};
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_verb::Context;
use std::collections::HashMap;
use std::path::Path;

/// Numbers that say which network a plan trains.
const NETWORK: [&str; 5] = ["hidden", "heads", "layers", "sequence", "vocabulary"];

/// Cells under their columns.
type NumberCells = Vec<(TableColumn, Cell)>;

/// A plan with what is predicted of it.
#[derive(Debug, Clone)]
pub(super) struct CandidatePlan {
    /// What it is called in sentences.
    pub name: String,
    /// All that describes it, and what of that differs among the plans.
    pub numbers: NumberCells,
    pub differing: NumberCells,
    pub global_batch: u64,
    pub step_ms: f64,
    pub interval_ms: (f64, f64),
    pub peak: Bytes,
    pub fit: BudgetFit,
    /// What no measured plan has.
    pub unmeasured: String,
}

/// Whether a plan fits into the budget, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BudgetFit {
    /// Without a budget.
    NotAsked,
    /// The upper end of its memory fits.
    Fits,
    /// Only the lower end does.
    Uncertain,
    Exceeds,
}

impl BudgetFit {
    fn new((low, high): (f64, f64), budget: Option<Bytes>) -> Self {
        let Some(Bytes(budget)) = budget else { return BudgetFit::NotAsked };
        let budget = budget as f64;
        match (low <= budget, high <= budget) {
            (_, true) => BudgetFit::Fits,
            (true, false) => BudgetFit::Uncertain,
            (false, false) => BudgetFit::Exceeds,
        }
    }

    fn name(self) -> &'static str {
        match self {
            BudgetFit::NotAsked => "not asked",
            BudgetFit::Fits => "yes",
            BudgetFit::Uncertain => "perhaps",
            BudgetFit::Exceeds => "no",
        }
    }
}

impl CandidatePlan {
    /// Samples a second, where a step takes so long.
    pub fn rate_at(&self, step_ms: f64) -> f64 {
        1e3 * self.global_batch as f64 / step_ms
    }
}

/// The plans with their predictions: those that fit, those that may, those that do not, each the fastest first.
///
/// # Errors
/// Files that cannot be read or are of different kinds; plans of several networks.
pub(super) fn rank(
    plans: &Path,
    model: &Path,
    budget: Option<Bytes>,
    context: &mut Context,
) -> Result<Vec<CandidatePlan>> {
    let candidates = match model_file::load(model)? {
        CostModel::Plans(model) => of_table(plans, &model, budget, context),
        CostModel::Staged(model) => of_stages(plans, &model, budget, context),
        CostModel::Operations(_) => {
            return Err(Error::input("this is a model of operations")
                .file(model)
                .expected("a model of steps, which perf4sight cost-model train --plans fits"));
        }
    };
    let mut candidates = candidates.map_err(|error| error.file(plans))?;
    candidates.sort_by(|one, other| {
        let rates = other.rate_at(other.step_ms).total_cmp(&one.rate_at(one.step_ms));
        one.fit.cmp(&other.fit).then(rates)
    });
    Ok(candidates)
}

fn of_table(
    file: &Path,
    model: &StepModel,
    budget: Option<Bytes>,
    context: &mut Context,
) -> Result<Vec<CandidatePlan>> {
    staged::check_is_table(file)?;
    let (rows, ignored) = plans_csv::read_with_ignored(file)?;
    let doubts = cost_model::doubts(model);
    ignored.into_iter().chain(given_twice(&rows)).chain(doubts).for_each(|warning| context.warn(warning));
    let plans: Vec<TransformerPlan> = rows.iter().map(|row| row.plan).collect();
    let differing = plan_table::differing_numbers(&plans);
    check_network(&plans, &differing)?;
    let steps: Vec<PredictedStep> = plans.iter().map(|plan| model.predict(plan)).collect();
    plan_table::warn_of_unmeasured(&steps, context);
    if budget.is_some() {
        context.warn("memory is computed from published formulas, nothing of it was measured: ± 20 % are assumed");
    }
    let every: Vec<usize> = (0..plans[0].numbers().len()).collect();
    let numbers = |places: &[usize], plan: &TransformerPlan| {
        plan_table::columns(places, plan).into_iter().zip(plan_table::cells(places, plan)).collect()
    };
    let candidates = plans.iter().zip(steps).map(|(plan, step)| {
        let peak = memory::peak(plan);
        let ends = [1.0 - memory::ASSUMED_ERROR, 1.0 + memory::ASSUMED_ERROR].map(|factor| factor * peak.0 as f64);
        CandidatePlan {
            name: plan_table::degrees_text(plan),
            numbers: numbers(&every, plan),
            differing: numbers(&differing, plan),
            global_batch: plan.global_batch,
            step_ms: step.step_ms,
            interval_ms: step.interval_ms,
            peak,
            fit: BudgetFit::new(ends.into(), budget),
            unmeasured: plan_table::unmeasured_text(&step),
        }
    });
    Ok(candidates.collect())
}

fn of_stages(
    file: &Path,
    model: &StagedModel,
    budget: Option<Bytes>,
    context: &mut Context,
) -> Result<Vec<CandidatePlan>> {
    let plans = staged::plans(file)?;
    let predicted: Vec<PredictedStagedPlan> =
        plans.iter().map(|plan| model.predict(&plan.plan)).collect::<Result<_>>()?;
    staged::doubts(model).into_iter().for_each(|doubt| context.warn(doubt));
    staged::warn_of_unmeasured(&predicted, context);
    if budget.is_some() && predicted.iter().any(|plan| plan.peak_bytes.is_none()) {
        return Err(Error::input("the model knows nothing of memory")
            .help("fit it on plans with max_mem, or leave memory_budget out"));
    }
    Ok(plans.iter().zip(predicted).map(|(plan, predicted)| staged_candidate(plan, predicted, budget)).collect())
}

fn staged_candidate(
    measured: &MeasuredStagedPlan,
    predicted: PredictedStagedPlan,
    budget: Option<Bytes>,
) -> CandidatePlan {
    let plan = &measured.plan;
    let numbers: NumberCells = vec![
        (TableColumn::text("plan", "plan"), plan.name.as_str().into()),
        (TableColumn::number("stages", "stages"), plan.stages.len().into()),
        (TableColumn::number("replicas", "replicas"), plan.replicas().into()),
        (TableColumn::number("micro_batch", "micro batch"), plan.micro_batch.into()),
    ];
    let step = predicted.step_s;
    CandidatePlan {
        name: plan.name.clone(),
        differing: numbers.clone(),
        numbers,
        global_batch: plan.global_batch,
        step_ms: 1e3 * step.value,
        interval_ms: (1e3 * step.interval.0, 1e3 * step.interval.1),
        peak: Bytes(predicted.peak_bytes.map_or(0, |peak| peak.value as u64)),
        fit: BudgetFit::new(predicted.peak_bytes.map_or((0.0, 0.0), |peak| peak.interval), budget),
        unmeasured: predicted.unmeasured.join(", "),
    }
}

/// Plans that are given again, which stand in the answer as often.
fn given_twice(rows: &[PlanRow]) -> Option<String> {
    let mut first = HashMap::new();
    let lines = rows.iter().map(|row| (row.line, *first.entry(row.plan.numbers()).or_insert(row.line)));
    let again: Vec<(usize, usize)> = lines.filter(|(line, first)| line != first).collect();
    let (line, first) = again.first()?;
    let plans = count_text(rows.len() as u64, "plan");
    Some(format!(
        "{} of {plans} repeat another, and are ranked as often: line {line} has the plan of line {first}",
        again.len()
    ))
}

/// Plans of several networks have no common best.
fn check_network(plans: &[TransformerPlan], differing: &[usize]) -> Result<()> {
    let names = plans.first().map(TransformerPlan::numbers);
    let named = names.iter().flat_map(|names| differing.iter().map(|place| names[*place].0));
    match named.into_iter().find(|name| NETWORK.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Error::input(format!("the plans are of several networks: {name} differs"))
            .expected("plans that train the same network")),
    }
}

/// The plans in their order, described by some of their numbers.
pub(super) fn table(candidates: &[CandidatePlan], numbers: fn(&CandidatePlan) -> &NumberCells) -> Table {
    let described = candidates.first().into_iter().flat_map(numbers).map(|(column, _)| column.clone());
    let predicted = [
        TableColumn::number("samples_per_second", "samples/s"),
        TableColumn::number("predicted_ms", "step (ms)"),
        TableColumn::number("low_ms", "from (ms)"),
        TableColumn::number("high_ms", "to (ms)"),
        TableColumn::number("peak_bytes", "memory, about"),
        TableColumn::text("fits", "fits"),
        TableColumn::text("unmeasured", "never measured"),
    ];
    let mut table = Table::new(
        "Plans: those that fit, those that may, those that do not; each the fastest first",
        described.chain(predicted),
    );
    for one in candidates {
        let times = [one.rate_at(one.step_ms), one.step_ms, one.interval_ms.0, one.interval_ms.1].map(Cell::from);
        let end = [Cell::from(one.peak), one.fit.name().into(), one.unmeasured.as_str().into()];
        table.row(numbers(one).iter().map(|(_, cell)| cell.clone()).chain(times).chain(end));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_are_given_again_are_named() {
        let plan = TransformerPlan {
            gpus: 2,
            global_batch: 16,
            micro_batch: 8,
            hidden: 1024,
            heads: 16,
            layers: 24,
            sequence: 1024,
            vocabulary: 51_200,
            tensor_parallel: 1,
            data_parallel: 1,
            pipeline_parallel: 2,
        };
        let rows = |batches: &[u64]| -> Vec<PlanRow> {
            let plans = batches.iter().map(|batch| TransformerPlan { global_batch: *batch, ..plan });
            plans.enumerate().map(|(place, plan)| PlanRow { plan, step_ms: None, line: place + 2 }).collect()
        };
        assert_eq!(given_twice(&rows(&[16, 32])), None);
        let again = given_twice(&rows(&[16, 32, 64, 32])).unwrap();
        assert!(again.starts_with("1 of 4 plans") && again.ends_with("line 5 has the plan of line 3"), "{again}");
    }
}
