//! Fits a model of steps on measured plans, and reports how far it is off for plans that were left out.

use super::trained::{
    DistinctPlans, LeftOutError, LeftOutPrediction, LeftOutPredictions, TrainedFiles, TrainedModel,
    interrupted_summary, mean_and_median, page_of,
};
use super::{check_unused, staged, watch};
use crate::all_reduce::AllReduceTimes;
use crate::model_file::CostModel;
use crate::plan::MeasuredPlan;
use crate::plans_csv;
use crate::staged::NetworkShape;
use crate::step::{LeftOutPlans, LeftOutRow, StepModel};
use crate::verb::plan_table;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Percent, count_text};
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles, Section, Summary, TableFinding, Verb};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A fit of measured plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainModel {
    pub(super) plans: PathBuf,
    pub(super) allreduce: Vec<PathBuf>,
    pub(super) layers: Vec<PathBuf>,
    pub(super) links: Option<PathBuf>,
    pub(super) shape: Option<NetworkShape>,
    pub(super) out: PathBuf,
    pub(super) overwrite: bool,
}

impl TrainModel {
    pub(super) fn parse(values: &SettingValues<'_>, out: PathBuf) -> Result<Self> {
        check_unused(values, &["gpu", "rows"], "this is for operations, and plans are given")?;
        let files = |key| -> Result<Vec<PathBuf>> { Ok(values.get::<Option<_>>(key)?.unwrap_or_default()) };
        let plans = values.get::<Option<PathBuf>>("plans")?;
        let plans = plans.ok_or_else(|| {
            Error::usage("nothing to fit is given")
                .expected("measured plans (plans) or folders of operations (operations)")
        })?;
        let train = TrainModel {
            plans,
            allreduce: files("allreduce")?,
            layers: files("layers")?,
            links: values.get("links")?,
            shape: values.named_if_set("shape", staged::shape)?,
            out,
            overwrite: values.get("overwrite")?,
        };
        train.check().map_err(|error| values.with_place("plans", error))?;
        Ok(train)
    }

    /// Refuses inputs that the plans have no use for, or lack.
    fn check(&self) -> Result<()> {
        let is_staged = staged::is_staged(&self.plans);
        let for_staged = !self.layers.is_empty() || self.links.is_some() || self.shape.is_some();
        let complete = !self.layers.is_empty() && self.links.is_some() && self.shape.is_some();
        match (is_staged, for_staged, complete) {
            (false, true, _) => {
                Err(Error::usage("layers, links and shape are for plans in JSON").help("leave them out"))
            }
            (true, _, false) => Err(Error::usage("plans in JSON need more")
                .expected("times of layers (layers), bandwidths (links) and the network (shape)")),
            (true, _, true) if !self.allreduce.is_empty() => {
                Err(Error::usage("allreduce is for plans in CSV").help("leave it out"))
            }
            (true, _, true) | (false, false, _) => Ok(()),
        }
    }

    pub(super) fn findings(&self, left_out_percent: f64) -> Vec<TableFinding> {
        let column = TableColumn::number("left_out_percent", "error of plans left out");
        vec![TableFinding { about: self.out.display().to_string(), column, cell: Percent(left_out_percent).into() }]
    }

    /// The files of the model, none of which is an input.
    pub(super) fn files(&self) -> Result<TrainedFiles> {
        TrainedFiles::new(&self.out, self.inputs().map(|(_, path)| path.as_path()), self.overwrite)
    }

    /// The inputs with their keys.
    fn inputs(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> + Clone {
        let plans = std::iter::once(("plans", &self.plans));
        let tables = self.allreduce.iter().map(|path| ("allreduce", path));
        let layers = self.layers.iter().map(|path| ("layers", path));
        plans.chain(tables).chain(layers).chain(self.links.iter().map(|path| ("links", path)))
    }

    fn fit(&self, rows: Vec<MeasuredPlan>, context: &Context) -> Result<StepModel> {
        let mut all_reduce = AllReduceTimes::default();
        self.allreduce.iter().try_for_each(|table| all_reduce.add(table))?;
        let progress = context.console.progress(StepModel::PARTS, "fitting");
        let fitted = StepModel::fit_watched(rows, all_reduce, &watch(&progress, context));
        fitted.map_err(|error| error.file(&self.plans))
    }
}

/// No transformer is trained in parallel on samples of fewer tokens.
const FEW_TOKENS: u64 = 32;

impl Verb for TrainModel {
    /// Fits the plans, writes the model, and reports how far it is off for plans that were left out.
    ///
    /// # Errors
    /// Files that cannot be read or contradict themselves; too few plans; a file of others in the model's place.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        if staged::is_staged(&self.plans) {
            return staged::train(self, context);
        }
        let files = self.files()?;
        let (rows, warnings) = plans_csv::read_with_warnings(&self.plans)?;
        warnings.into_iter().for_each(|warning| context.warn(warning));
        let model = match self.fit(rows, context) {
            Err(_) if context.cancelled() => return Ok(interrupted_summary()),
            fitted => fitted?,
        };
        doubts(&model).into_iter().for_each(|doubt| context.warn(doubt));
        let trained = describe_model(&model);
        let files = files.write(&CostModel::Plans(Box::new(model.clone())), &trained, context)?;
        let tables = [left_out(&model), parameters(&model)];
        Ok(Summary {
            findings: self.findings(model.left_out_percent()),
            files,
            json: json!({
                "plans": model.measured().len(),
                "left_out": tables[0].to_json(),
                "parameters": tables[1].to_json(),
                "warnings": context.warnings(),
            }),
            answer: trained.answer,
            tables: tables.into(),
            ..Summary::default()
        })
    }
}

/// What is doubtful of a model, whoever uses it: assumed links, and rows that contradict others.
pub(in crate::verb) fn doubts(model: &StepModel) -> Vec<String> {
    let links = model.assumes_all_reduce().then(|| {
        "the model was trained without times of all-reduces: a ring over NVLink is assumed; intervals of degrees of which none was measured reach up to PCIe (allreduce)".to_owned()
    });
    let short = model.measured().iter().find(|row| row.plan.sequence < FEW_TOKENS).map(|row| {
        format!("a measured plan has sequence = {}: it is tokens of a sample, not thousands of them", row.plan.sequence)
    });
    let contradictions = predictions_left_out(model).contradictions(different(model));
    links.into_iter().chain(short).chain(contradictions).collect()
}

/// Plans that agree are said to contradict each other where so few differ that predictions rest on the priors: random rows of vTrain, all 0.2 to 4 times
/// as long, were in 16 of 96 tables of 9 and 10 rows, in 1 of 96 of 12 and 15.
const ENOUGH: usize = 12;

fn different(model: &StepModel) -> DistinctPlans {
    DistinctPlans { plans: model.different_plans(), by: "but for the samples of a step", enough: ENOUGH }
}

/// Numbers whose values are compared on the page: others, such as samples of a step, hardly matter.
const COMPARED: [&str; 6] = ["gpus", "micro batch", "hidden", "tensor parallel", "data parallel", "pipeline parallel"];

fn describe_model(model: &StepModel) -> TrainedModel {
    let count = count_text(model.measured().len() as u64, "measured plan");
    let compared = |one: &&LeftOutPlans| one.value.is_none() || COMPARED.contains(&one.what.as_str());
    let off = model.rows_left_out().map(|row| 100.0 * (row.predicted_ms / row.measured.step_ms - 1.0).abs());
    let off: Vec<f64> = off.collect();
    let error = |one: &LeftOutPlans| LeftOutError {
        name: plan_table::left_out(one),
        mean: one.mean_percent,
        nine_of_ten: Some(one.nine_of_ten_percent),
    };
    let combination = model.combination_left_out_percent().map_or(String::new(), |percent| {
        format!("; it is {} for combinations of degree and sizes of which no plan was in the fit", Percent(percent))
    });
    TrainedModel {
        title: "A model of steps of parallel training".to_owned(),
        subtitle: format!("Fitted on {count}."),
        answer: format!(
            "A step of a plan like these is predicted with an error of {}: the mean for each of {count}, left out of the fit{combination}.",
            mean_and_median(model.left_out_percent(), &off)
        ),
        errors: model.left_out().iter().filter(compared).map(error).collect(),
        predictions: predictions_left_out(model),
        tables: vec![left_out(model)],
        parameters: Some(parameters(model)),
    }
}

/// Steps that were predicted without their measurement, by degree of tensor parallelism.
fn predictions_left_out(model: &StepModel) -> LeftOutPredictions {
    let mut series: BTreeMap<u64, Vec<LeftOutPrediction>> = BTreeMap::new();
    for LeftOutRow { measured: row, predicted_ms, deviations } in model.rows_left_out() {
        let name = plan_table::degrees_text(&row.plan);
        let prediction = LeftOutPrediction { name, measured: row.step_ms, predicted: predicted_ms, deviations };
        series.entry(row.plan.tensor_parallel).or_default().push(prediction);
    }
    let series = series.into_iter().map(|(degree, points)| (format!("tensor parallel {degree}"), points));
    LeftOutPredictions { what: "step (ms)", series: series.collect() }
}

impl Section for TrainModel {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        Ok(Outline {
            steps: vec![format!("fits the plans of {}", self.plans.display())],
            reads: self.inputs().map(|(key, path)| KeyedPath { key, path: path.clone() }).collect(),
            writes: [self.out.clone(), page_of(&self.out)].map(|path| KeyedPath { key: "out", path }).into(),
            ..Outline::default()
        }
        .check_value("out", || self.files().map(drop))
        .check_each("plans", |plans| match staged::is_staged(plans) {
            true => staged::plans(plans).map(drop),
            false => plans_csv::read_measured(plans).map(drop),
        })
        .check_each("allreduce", |table| AllReduceTimes::default().add(table)))
    }
}

fn left_out(model: &StepModel) -> Table {
    let columns = [
        TableColumn::text("left_out", "left out"),
        TableColumn::number("plans", "plans"),
        TableColumn::number("mean_percent", "mean error"),
        TableColumn::number("nine_of_ten_percent", "nine of ten within"),
        TableColumn::number("worst_percent", "worst"),
    ];
    let mut table = Table::new("Errors of plans that were left out of the fit", columns);
    for one in model.left_out() {
        let errors = [one.mean_percent, one.nine_of_ten_percent, one.worst_percent].map(|off| Percent(off).into());
        table.row([Cell::from(plan_table::left_out(one)), one.plans.into()].into_iter().chain(errors));
    }
    table
}

fn parameters(model: &StepModel) -> Table {
    let columns = [TableColumn::text("parameter", "parameter"), TableColumn::number("value", "value")];
    let mut table = Table::new("Parameters of the fit", columns);
    for (name, value) in model.parameters() {
        table.row([Cell::from(name), Cell::from(value)]);
    }
    table
}
