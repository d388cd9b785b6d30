//! `[cost_model]` and `perf4sight cost-model`: fits a model of steps on measured plans, or of operations on traces of several
//! GPUs, and predicts others.

use super::operations::{self, PredictOperations, TrainOperations};
use super::trained::{
    DistinctPlans, LeftOutError, LeftOutPrediction, LeftOutPredictions, TrainedFiles, TrainedModel,
    interrupted_summary, mean_and_median, page_of, score_sentence,
};
use super::{plan_table, staged};
use crate::all_reduce::AllReduceTimes;
use crate::model_file::{self, CostModel};
use crate::plan::{MeasuredPlan, TransformerPlan};
use crate::plans_csv::{self, PlanRow};
use crate::staged::NetworkShape;
use crate::step::{LeftOutPlans, LeftOutRow, PredictedStep, StepModel};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Percent, count_text};
use perf4sight_base::{overwrite, stats};
use perf4sight_replay::verb::analyze;
use perf4sight_report::{Cell, Progress, Table, TableColumn, significant};
use perf4sight_verb::config::DefaultValue::Unset;
use perf4sight_verb::config::{Setting, SettingTable as Settings, SettingValues, flag, path, text, word};
use perf4sight_verb::{
    Context, CountedNoun, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, TableFinding, Verb, VerbSpec,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The section `[cost_model]`.
pub static SPEC: Spec = Spec {
    table: Settings {
        section: "cost_model",
        about: "fits a model of steps on measured plans of parallel training, or of operations on traces of several GPUs",
        groups: &[&[PLANS, ALLREDUCE, LAYERS, LINKS, SHAPE, OPERATIONS, ROWS, OUT, OVERWRITE]],
    },
    subject: CountedNoun { one: "model", several: "models" },
    parse: |values| match operations(values)? {
        Some(folder) => Ok(Box::new(train_operations(values, folder, values.get("out")?)?)),
        None => Ok(Box::new(TrainModel::parse(values, values.get("out")?)?)),
    },
};

/// `perf4sight cost-model`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings {
        section: "cost-model",
        about: "predicts what a step of a parallel transformer takes from few measured plans, and what operations take on other GPUs",
        groups: &[
            &[ACTION, MODEL, PLANS, ALLREDUCE, LAYERS, LINKS, SHAPE, OPERATIONS, ROWS, GPU, OUT, OVERWRITE],
            &[OPTION, SUB_OPTION, PATH],
            analyze::PUBLISHED,
            analyze::ACCEPTED,
        ],
    },
    after_help: AFTER_HELP,
    parse,
};

const AFTER_HELP: &str = "\
Examples:
  perf4sight cost-model train --plans measured.csv --allreduce allreduce_a100_8.csv --out model.json
  perf4sight cost-model predict model.json --plans candidates.csv --out predictions.csv
  perf4sight cost-model train traces-by-gpu/ --out operations.json
  perf4sight cost-model predict operations.json --operations rows.csv --gpu H100
  perf4sight cost-model --option optimize --sub_option train_gpu --platform TENSORFLOW --path traces-by-gpu/";

/// One of both says what to do.
const ACTIONS: &str = "train, predict or --option";

const ACTION: Setting = word("action", || vec!["train", "predict"])
    .on_command_line()
    .positional("train|predict")
    .one_of(ACTIONS)
    .help("Fit a model on measured plans or operations, or predict others with a model.");

const MODEL: Setting = path("model")
    .on_command_line()
    .positional("MODEL.json|TRACES")
    .help("The model to predict with; to fit operations, their folder.");

const OPERATIONS: Setting = path("operations")
    .value("PATH")
    .help("To fit: folders GPU/NETWORK/ with traces of PyTorch's profiler, tables of operations, or dPRO's avg.txt, name.txt and metadata.json. On the command line, predict reads a table here.");

const ROWS: Setting = path("rows").value("FILE.csv").help("Where to write the operations that were read, as a table.");

const GPU: Setting = text("gpu").on_command_line().value("NAME").help("The GPU to predict operations on.");

const OPTION: Setting = word("option", || vec!["optimize"])
    .on_command_line()
    .requires("sub_option")
    .one_of(ACTIONS)
    .help("As dPRO's mg_generate_dataset.py takes it: optimize.");

const SUB_OPTION: Setting = word("sub_option", || vec![operations::TRAIN_GPU, operations::TRAIN_AMP])
    .on_command_line()
    .alias("sub_option")
    .requires("option")
    .help("Of --option: train_gpu fits operations of several GPUs, train_amp of both precisions.");

const PATH: Setting = path("path")
    .many_values()
    .on_command_line()
    .requires("option")
    .value("DIR")
    .help("Of --option: the folder of the traces, by GPU and network.");

const PLANS: Setting = path("plans").value("FILE")
    .help("Plans, one a row: gpus, global_batch, micro_batch, hidden, heads, layers, sequence, tensor_parallel, data_parallel, pipeline_parallel; to fit, with step_ms or step_s. Or JSON of plans in stages, as Sailor writes it.");

const ALLREDUCE: Setting = path("allreduce").many_values().value("FILE")
    .help("Times of all-reduces by bytes: output of all_reduce_perf, or CSV whose name ends in the number of ranks; may be given several times.");

const LAYERS: Setting = path("layers").many_values().value("FILE.json")
    .help("For plans in JSON: times of layers by micro-batch, tensor degree and layer, a file for each kind of GPU, which its name ends in.");

const LINKS: Setting = path("links")
    .value("FILE.json")
    .help("For plans in JSON: bandwidths between nodes by kind of GPU, as polynomials.");

const SHAPE: Setting = text("shape")
    .value("NUMBERS")
    .help("For plans in JSON: the network, such as hidden=1024,heads=16,sequence=2048,vocabulary=50272.");

const OUT: Setting = path("out")
    .or_default("model.json")
    .or_on_command_line(Unset)
    .value("FILE")
    .help("Where to write the model, and its page (.html) next to it. On the command line, predict writes its predictions here, as CSV.");

const OVERWRITE: Setting = flag("overwrite").help("Replace files that perf4sight did not write.");

/// A fit of measured plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainModel {
    pub(super) plans: PathBuf,
    allreduce: Vec<PathBuf>,
    pub(super) layers: Vec<PathBuf>,
    pub(super) links: Option<PathBuf>,
    pub(super) shape: Option<NetworkShape>,
    pub(super) out: PathBuf,
    pub(super) overwrite: bool,
}

/// Predictions of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictPlans {
    model: PathBuf,
    plans: Option<PathBuf>,
    operations: Option<PathBuf>,
    gpu: Option<String>,
    pub(super) out: Option<PathBuf>,
    pub(super) overwrite: bool,
}

fn parse(values: &SettingValues<'_>) -> Result<Box<dyn Verb>> {
    if let Some(sub_option) = values.get::<Option<String>>("sub_option")? {
        return Ok(Box::new(operations::published(values, &sub_option)?));
    }
    let model: Option<PathBuf> = values.get("model")?;
    let out: Option<PathBuf> = values.get("out")?;
    let place = || Error::usage("no output file for the model is given").expected("a file such as model.json (out)");
    match (values.get::<Option<String>>("action")?.as_deref(), model, operations(values)?) {
        (Some("train"), None, None) => Ok(Box::new(TrainModel::parse(values, out.ok_or_else(place)?)?)),
        (Some("train"), Some(folder), None) | (Some("train"), None, Some(folder)) => {
            Ok(Box::new(train_operations(values, folder, out.ok_or_else(place)?)?))
        }
        (Some("train"), Some(_), Some(_)) => Err(Error::usage("two folders of operations are given").expected("one")),
        (_, Some(model), _) => Ok(Box::new(PredictPlans::parse(values, model, out)?)),
        (_, None, _) => Err(Error::usage("there is no model to predict with")
            .expected("perf4sight cost-model predict MODEL.json with --plans FILE or --operations FILE.csv")),
    }
}

fn operations(values: &SettingValues<'_>) -> Result<Option<PathBuf>> {
    values.get("operations")
}

/// What is for plans alone.
const OF_PLANS: [&str; 5] = ["plans", "allreduce", "layers", "links", "shape"];

/// Refuses settings that would change nothing.
fn check_unused(values: &SettingValues<'_>, keys: &[&'static str], why: &str) -> Result<()> {
    match keys.iter().find(|key| values.writes(key)) {
        Some(key) => Err(values.error(key, why).help("leave it out")),
        None => Ok(()),
    }
}

fn train_operations(values: &SettingValues<'_>, folder: PathBuf, out: PathBuf) -> Result<TrainOperations> {
    check_unused(values, &OF_PLANS, "this is for plans, and operations are given")?;
    check_unused(values, &["gpu"], "this is to predict, and a model is trained")?;
    let (rows, overwrite) = (values.get("rows")?, values.get("overwrite")?);
    Ok(TrainOperations { folder, out, rows, both_precisions: false, overwrite })
}

impl TrainModel {
    fn parse(values: &SettingValues<'_>, out: PathBuf) -> Result<Self> {
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
pub(super) fn doubts(model: &StepModel) -> Vec<String> {
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

/// Shows progress; ends a fit after Ctrl-C.
pub(super) fn watch<'a>(progress: &'a Progress, context: &'a Context) -> impl Fn(u64) -> Result<()> + 'a {
    |pieces| {
        progress.advance(pieces);
        match context.cancelled() {
            true => Err(Error::usage("interrupted")),
            false => Ok(()),
        }
    }
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

impl PredictPlans {
    fn parse(values: &SettingValues<'_>, model: PathBuf, out: Option<PathBuf>) -> Result<Self> {
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
    let pairs = rows.iter().zip(steps).zip(fitted);
    let measured = pairs.filter_map(|((row, step), fitted)| Some((*fitted, (row.step_ms?, step))));
    score_sentence(measured.collect(), "measured plan", |measured: &[(f64, &PredictedStep)]| {
        let off = measured.iter().map(|(truth, step)| 100.0 * (step.step_ms / truth - 1.0).abs());
        let held = measured.iter().filter(|(truth, step)| (step.interval_ms.0..=step.interval_ms.1).contains(truth));
        format!(
            "Predictions of {} that were not fitted are {} % off on average; measurements within their intervals: {}.",
            count_text(measured.len() as u64, "measured plan"),
            significant(stats::mean(&off.collect::<Vec<_>>())),
            held.count()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_report::{Console, ConsoleSettings as Output, OutputMode};
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::SystemTime;

    fn train(out: PathBuf) -> TrainModel {
        let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vtrain/plans.csv");
        TrainModel { plans, allreduce: Vec::new(), layers: Vec::new(), links: None, shape: None, out, overwrite: false }
    }

    fn context(is_cancelled: bool) -> Context {
        let output = Output { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
        let console = Console::writing_to(output, std::io::sink(), std::io::sink());
        let cancel = Arc::new(AtomicBool::new(is_cancelled));
        Context::new(console, || SystemTime::UNIX_EPOCH, cancel, PathBuf::new(), String::new())
    }

    #[test]
    fn a_fit_writes_a_model_and_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let tests = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
        let staged = TrainModel {
            plans: tests("sailor/plans.json"),
            layers: vec![tests("sailor/layers_OPT-350_GH-96.json")],
            links: Some(tests("sailor/network_coefficients.json")),
            shape: Some(NetworkShape { hidden: 1024, heads: 16, sequence: 2048, vocabulary: 50_272 }),
            ..train(folder.path().join("staged.json"))
        };
        for (train, part) in [(train(folder.path().join("model.json")), "tensor parallel 4"), (staged, "N32_D16")] {
            let summary = train.run(&mut context(false)).unwrap();
            let files: Vec<&Path> = summary.files.iter().map(|(_, file)| file.as_path()).collect();
            assert_eq!(files, [train.out.clone(), page_of(&train.out)]);
            let page = fs::read_to_string(files[1]).unwrap();
            assert!(page.contains(part) && page.contains("Measured against predicted"), "{part}");
            assert!(model_file::load(files[0]).is_ok() && !summary.json["left_out"].is_null());
            // Ours are replaced.
            train.run(&mut context(false)).unwrap();
        }
    }

    /// Measured plans, models and tables that the program did not write stay; an input stays in any case.
    #[test]
    fn predictions_replace_predictions_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [model, plans, measured, out] =
            ["model.json", "plans.csv", "measured.csv", "out.csv"].map(|name| folder.path().join(name));
        for copy in [&plans, &measured] {
            fs::copy(train(model.clone()).plans, copy).unwrap();
        }
        train(model.clone()).run(&mut context(false)).unwrap();
        let predict = |out: &Path, overwrite| {
            let (plans, out) = (Some(plans.clone()), Some(out.to_owned()));
            PredictPlans { model: model.clone(), plans, operations: None, gpu: None, out, overwrite }
                .run(&mut context(false))
        };
        let refusal = |out: &Path, overwrite| {
            let before = fs::read(out).unwrap();
            let message = predict(out, overwrite).unwrap_err().to_string();
            assert_eq!(fs::read(out).unwrap(), before);
            message
        };
        assert!(refusal(&measured, false).contains("did not write"));
        assert!([&plans, &model].into_iter().all(|input| refusal(input, true).contains("an input would be replaced")));
        assert!(predict(&out, false).is_ok() && predict(&out, false).is_ok());
        // What was said at the fit is said to whoever uses the model.
        let warnings = predict(&out, false).unwrap().json["warnings"].to_string();
        assert!(warnings.contains("NVLink is assumed"), "{warnings}");
        let own = TrainModel { plans: measured.clone(), overwrite: true, ..train(measured.clone()) };
        assert!(own.run(&mut context(false)).unwrap_err().to_string().contains("an input would be replaced"));
    }

    /// The model predicts the plans that it was fitted on: none of them is scored. Of a file in which one has another global batch, one is.
    #[test]
    fn plans_of_the_fit_are_not_scored() {
        let folder = tempfile::tempdir().unwrap();
        let [model, other, out] = ["model.json", "other.csv", "out.csv"].map(|name| folder.path().join(name));
        let train = train(model.clone());
        train.run(&mut context(false)).unwrap();
        let answer = |plans: &Path| {
            let (plans, out) = (Some(plans.to_owned()), Some(out.clone()));
            let predict =
                PredictPlans { model: model.clone(), plans, operations: None, gpu: None, out, overwrite: false };
            predict.run(&mut context(false)).unwrap().answer
        };
        let text = fs::read_to_string(&train.plans).unwrap();
        let count = text.lines().count() - 1;
        assert_eq!(answer(&train.plans), format!("{count} measured plans were fitted, and say nothing of others."));
        let rows = fs::read_to_string(&out).unwrap();
        assert_eq!(rows.lines().filter(|row| row.ends_with(",yes")).count(), count);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let place = lines[0].split(',').position(|name| name == "global_batch").unwrap();
        let mut cells: Vec<String> = lines[1].split(',').map(str::to_owned).collect();
        cells[place] = (64 * cells[place].parse::<u64>().unwrap()).to_string();
        lines[1] = cells.join(",");
        fs::write(&other, lines.join("\n")).unwrap();
        let answer = answer(&other);
        assert!(answer.starts_with("Predictions of 1 measured plan that were not fitted are"), "{answer}");
        assert!(answer.ends_with(&format!("{} measured plans were fitted, and say nothing of others.", count - 1)));
    }

    /// A row of vTrain's plans twenty times; five of its rows as of a GPU that is 2.2 times as fast: rows that agree. Of 250 rows all are compared; one of 25 that is ten times as long is
    /// in another unit. The same plan in 289 and 376 ms, 1.3 times as long, is named by its lines.
    #[test]
    fn rows_contradict_others_only_where_others_say_something() {
        let folder = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(train(PathBuf::new()).plans).unwrap();
        let (header, rows) = text.split_once('\n').unwrap();
        let times = |row: &str, factor: f64| {
            let (plan, step) = row.rsplit_once(',').unwrap();
            format!("{plan},{}\n", factor * step.parse::<f64>().unwrap())
        };
        let warnings = |rows: String| {
            let plans = folder.path().join("plans.csv");
            fs::write(&plans, format!("{header}\n{rows}")).unwrap();
            let mut context = context(false);
            TrainModel { plans, ..train(folder.path().join("model.json")) }.run(&mut context).unwrap();
            let said = context.warnings().iter().filter(|warning| !warning.contains("all-reduces"));
            said.cloned().collect::<Vec<String>>()
        };
        assert_eq!(header.rsplit(',').next(), Some("step_ms"));
        let first = rows.lines().next().unwrap();
        let equal = warnings(times(first, 1.0).repeat(20));
        assert!(equal.len() == 1 && equal[0].contains("others: 1 (but for the samples"), "{equal:?}");
        let faster = warnings(rows.lines().step_by(50).map(|row| times(row, 0.45)).collect());
        assert!(faster.len() == 1 && faster[0].contains("too few plans differ"), "{faster:?}");
        assert_eq!(warnings(rows.to_owned()), Vec::<String>::new());
        let in_other_unit = rows.lines().step_by(10).enumerate();
        let in_other_unit = in_other_unit.map(|(place, row)| times(row, if place == 3 { 10.0 } else { 1.0 }));
        let contradicts = warnings(in_other_unit.collect());
        assert!(
            contradicts.len() == 1 && contradicts[0].starts_with("some rows contradict others: "),
            "{contradicts:?}"
        );
        let twice = warnings(format!("{rows}{}", times(first, 1.3)));
        let last = format!("in line {} (1.30 times)", rows.lines().count() + 2);
        assert!(twice.len() == 1 && twice[0].contains("ms in line 2 and") && twice[0].contains(&last), "{twice:?}");
    }

    #[test]
    fn an_interrupted_fit_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let summary = train(folder.path().join("model.json")).run(&mut context(true)).unwrap();
        assert_eq!(summary.headline, "interrupted; nothing was written");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A page that others wrote stays, and no model is written without one.
    #[test]
    fn a_page_of_others_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.html"), "<html>mine</html>").unwrap();
        let error = train(folder.path().join("model.json")).run(&mut context(false)).unwrap_err();
        assert!(error.to_string().contains("model.html"), "{error}");
        assert!(!folder.path().join("model.json").exists());
        let error = train(folder.path().join("model.html")).run(&mut context(false)).unwrap_err();
        assert!(error.to_string().contains("replaced by its page"), "{error}");
    }
}
