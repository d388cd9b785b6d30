//! Predicts plans with a model, and compares with what was measured.

use super::operations::PredictOperations;
use super::trained::{MeasuredPrediction, score_sentence};
use super::{OF_PLANS, check_unused, doubts, operations, staged};
use crate::model_file::{self, CostModel};
use crate::plan::TransformerPlan;
use crate::plans_csv::{self, PlanRow};
use crate::step::{PredictedStep, StepModel};
use crate::verb::plan_table;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, Summary, Verb};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Predictions of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictPlans {
    pub(super) model: PathBuf,
    pub(super) plans: Option<PathBuf>,
    pub(super) operations: Option<PathBuf>,
    pub(super) gpu: Option<String>,
    pub(super) out: Option<PathBuf>,
    pub(super) overwrite: bool,
}

impl PredictPlans {
    pub(super) fn parse(values: &SettingValues<'_>, model: PathBuf, out: Option<PathBuf>) -> Result<Self> {
        check_unused(
            values,
            &[&OF_PLANS[1..], &["rows"]].concat(),
            "this is to train, and the model holds what it was trained on",
        )?;
        let (plans, operations) = (values.get::<Option<PathBuf>>("plans")?, operations(values)?);
        if plans.is_some() {
            check_unused(values, &["gpu", "operations"], "this is for operations, and plans are given")?;
        }
        Ok(PredictPlans { model, plans, operations, gpu: values.get("gpu")?, out, overwrite: values.get("overwrite")? })
    }

    fn check_out(&self) -> Result<()> {
        let inputs = || [Some(&self.model), self.plans.as_ref(), self.operations.as_ref()].into_iter().flatten();
        self.out.iter().try_for_each(|out| overwrite::check_inputs(out, inputs().map(PathBuf::as_path)))
    }

    /// The plans to predict.
    ///
    /// # Errors
    /// None are given.
    pub(super) fn plans(&self) -> Result<&Path> {
        self.plans
            .as_deref()
            .ok_or_else(|| Error::usage("the model is of plans, and none are given").expected("--plans FILE"))
    }

    fn operations(&self) -> Result<PredictOperations> {
        let operations = self.operations.clone().ok_or_else(|| {
            Error::usage("the model is of operations, and none are given").expected("--operations FILE.csv")
        })?;
        Ok(PredictOperations { operations, gpu: self.gpu.clone(), out: self.out.clone(), overwrite: self.overwrite })
    }
}

impl Verb for PredictPlans {
    /// Predicts every plan; compares with what was measured where the file holds it.
    ///
    /// # Errors
    /// Files that cannot be read or contradict themselves; a file of others in the predictions' place.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check_out()?;
        match model_file::load(&self.model)? {
            CostModel::Plans(model) => self.predict(&model, context),
            CostModel::Staged(model) => staged::predict(self, &model, context),
            CostModel::Operations(model) => self.operations()?.run(&model, context),
        }
    }
}

impl PredictPlans {
    fn predict(&self, model: &StepModel, context: &mut Context) -> Result<Summary> {
        staged::check_is_table(self.plans()?)?;
        let (rows, ignored) = plans_csv::read_with_ignored(self.plans()?)?;
        ignored.into_iter().chain(doubts(model)).for_each(|warning| context.warn(warning));
        let steps: Vec<PredictedStep> = rows.iter().map(|row| model.predict(&row.plan)).collect();
        plan_table::warn_of_unmeasured(&steps, context);
        let every: Vec<usize> = (0..rows[0].plan.numbers().len()).collect();
        let fitted: Vec<bool> = rows.iter().map(|row| model.is_fitted(&row.plan)).collect();
        let whole = predictions(&rows, &steps, &fitted, &every);
        if let Some(out) = &self.out {
            overwrite::save(out, whole.to_csv(), self.overwrite)?;
        }
        let plans: Vec<TransformerPlan> = rows.iter().map(|row| row.plan).collect();
        Ok(Summary {
            answer: error_sentence(&rows, &steps, &fitted),
            tables: vec![predictions(&rows, &steps, &fitted, &plan_table::differing_numbers(&plans))],
            files: self.out.iter().map(|out| ("predictions", out.clone())).collect(),
            json: json!({ "predictions": whole.to_json(), "warnings": context.warnings() }),
            ..Summary::default()
        })
    }
}

fn predictions(rows: &[PlanRow], steps: &[PredictedStep], fitted: &[bool], places: &[usize]) -> Table {
    let is_measured = rows.iter().any(|row| row.step_ms.is_some());
    let mut columns = plan_table::columns(places, &rows[0].plan);
    columns.extend([
        TableColumn::number("predicted_ms", "step (ms)"),
        TableColumn::number("low_ms", "from (ms)"),
        TableColumn::number("high_ms", "to (ms)"),
    ]);
    columns.extend(is_measured.then(|| TableColumn::number("measured_ms", "measured (ms)")));
    columns.extend([TableColumn::text("unmeasured", "never measured"), TableColumn::text("fitted", "fitted")]);
    let mut table = Table::new("Predicted steps; nine of ten measurements are expected in the interval", columns);
    for ((row, step), fitted) in rows.iter().zip(steps).zip(fitted) {
        let mut cells = plan_table::cells(places, &row.plan);
        cells.extend([step.step_ms, step.interval_ms.0, step.interval_ms.1].map(Cell::from));
        cells.extend(is_measured.then(|| row.step_ms.map_or(Cell::from(""), Cell::from)));
        cells.extend([plan_table::unmeasured_text(step).into(), plan_table::fitted_cell(*fitted)]);
        table.row(cells);
    }
    table
}

/// How far predictions are from what was measured.
fn error_sentence(rows: &[PlanRow], steps: &[PredictedStep], fitted: &[bool]) -> String {
    let all = rows.iter().zip(steps).zip(fitted).filter_map(|((row, step), is_fitted)| {
        let PredictedStep { step_ms: predicted, interval_ms: interval, .. } = *step;
        Some(MeasuredPrediction { is_fitted: *is_fitted, measured: row.step_ms?, predicted, interval })
    });
    score_sentence(all, "measured plan")
}
