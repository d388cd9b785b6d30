//! `cost-model` with plans in stages: what is read, fitted, predicted and shown.

use super::trained::{
    DistinctPlans, LeftOutError, LeftOutPrediction, LeftOutPredictions, MeasuredPrediction, TrainedModel,
    interrupted_summary, mean_and_median, score_sentence,
};
use super::{PredictPlans, TrainModel, watch};
use crate::model_file::CostModel;
use crate::repeated::{self, TimedPlan, each_once};
use crate::staged::{
    KnownCluster, LEAST_PLANS, LayerTimes, LeftOutPlan, MeasuredStagedPlan, NetworkShape, NodeLinks, PlanEstimate,
    PredictedStagedPlan, StagedModel, read_staged_plans,
};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::units::{Bytes, Percent, count_text};
use perf4sight_report::{Cell, Table, TableBuilder, TableColumn};
use perf4sight_verb::{Context, Summary};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Whether a file of plans holds them in stages: JSON.
pub(super) fn is_staged(plans: &Path) -> bool {
    plans.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

/// Refuses plans in stages where the model is of another kind.
pub(in crate::verb) fn check_is_table(plans: &Path) -> Result<()> {
    match is_staged(plans) {
        false => Ok(()),
        true => Err(Error::usage("the model is of plans in CSV, these are in JSON")
            .file(plans)
            .help("perf4sight cost-model train fits a model of plans in JSON")),
    }
}

/// Parses "hidden=1024,heads=16,sequence=2048,vocabulary=50272".
pub(super) fn shape(text: &str) -> Result<NetworkShape> {
    let wrong = |problem: String| {
        Error::usage(problem).expected("four numbers such as hidden=1024,heads=16,sequence=2048,vocabulary=50272")
    };
    let mut numbers = BTreeMap::new();
    for word in text.split(',') {
        let (name, value) = word.split_once('=').ok_or_else(|| wrong(format!("\"{word}\" is not a name=number")))?;
        let value: u64 = value
            .trim()
            .parse()
            .ok()
            .filter(|value| *value > 0)
            .ok_or_else(|| wrong(format!("\"{value}\" is not a number from 1")))?;
        if numbers.insert(name.trim(), value).is_some() {
            return Err(wrong(format!("{} is there twice", name.trim())));
        }
    }
    let mut take = |name: &str| numbers.remove(name).ok_or_else(|| wrong(format!("{name} is missing")));
    let shape = NetworkShape {
        hidden: take("hidden")?,
        heads: take("heads")?,
        sequence: take("sequence")?,
        vocabulary: take("vocabulary")?,
    };
    match numbers.first_key_value() {
        Some((name, _)) => Err(wrong(format!("there is no {name}"))),
        None if !shape.hidden.is_multiple_of(shape.heads) => {
            Err(wrong(format!("hidden = {} is not a multiple of heads = {}", shape.hidden, shape.heads)))
        }
        None => Ok(shape),
    }
}

/// Fits a model, writes it with its page, and reports how far it is off.
pub(super) fn train(train: &TrainModel, context: &mut Context) -> Result<Summary> {
    let files = train.files()?;
    let plans = read_staged_plans(&train.plans)?;
    let cluster = cluster(train)?;
    let repeated = repeated_warnings(&plans).map_err(|error| error.file(&train.plans))?;
    same_measurements(&plans)
        .into_iter()
        .chain(unmeasured(&plans))
        .chain(repeated)
        .for_each(|warning| context.warn(warning));
    let different = each_once(plans.iter().map(|plan| (plan.plan.identity(), ()))).len();
    let progress = context.console.progress(2 * different as u64, "fitting");
    let model = match StagedModel::fit_watched(&plans, cluster, &watch(&progress, context)) {
        Err(_) if context.cancelled() => return Ok(interrupted_summary()),
        fitted => fitted.map_err(|error| error.file(&train.plans))?,
    };
    drop(progress);
    let (time, memory) = model.left_out_percent();
    if memory.is_none() {
        context.warn("too few plans have a measured max_mem: memory is not predicted");
    }
    doubts(&model).into_iter().for_each(|doubt| context.warn(doubt));
    let trained = describe_model(&model);
    let files = files.write(&CostModel::Staged(Box::new(model)), &trained, context)?;
    Ok(Summary {
        findings: train.findings(time),
        files,
        json: json!({
            "plans": different,
            "step_left_out_percent": time,
            "memory_left_out_percent": memory,
            "left_out": trained.tables[0].to_json(),
            "warnings": context.warnings(),
        }),
        answer: trained.answer,
        ..Summary::default()
    })
}

/// What is doubtful of a model, whoever uses it: plans that contradict others, parameters far from the usual ones.
pub(in crate::verb) fn doubts(model: &StagedModel) -> Vec<String> {
    let contradictions = |predictions: LeftOutPredictions, left_out| predictions.contradictions(different(left_out));
    let [steps, peaks] = [model.steps_left_out(), model.peaks_left_out()];
    let of_steps = contradictions(predictions("step (s)", "steps", steps), steps);
    let of_peaks = contradictions(predictions("memory (bytes)", "peaks", peaks), peaks);
    let of_peaks = of_peaks.filter(|peaks| of_steps.as_ref() != Some(peaks));
    of_steps.into_iter().chain(of_peaks).chain(model.unusual()).collect()
}

/// Plans with the measurements of others: of Sailor's plans on mixed GPUs two have the same.
fn same_measurements(plans: &[MeasuredStagedPlan]) -> Vec<String> {
    let is_same = |one: &MeasuredStagedPlan, other: &MeasuredStagedPlan| {
        one.step_s.is_some() && one.step_s == other.step_s && one.peak_bytes == other.peak_bytes
    };
    let pairs = plans.iter().enumerate().filter_map(|(place, plan)| {
        let earlier =
            plans[..place].iter().find(|earlier| is_same(plan, earlier) && plan.plan.stages != earlier.plan.stages)?;
        Some(format!(
            "{} and {} are other plans with the same measurements: one may be wrong",
            earlier.plan.name, plan.plan.name
        ))
    });
    pairs.collect()
}

/// How many plans lack a measurement that others have.
fn unmeasured(plans: &[MeasuredStagedPlan]) -> Vec<String> {
    let lack = |name: &str, has: fn(&MeasuredStagedPlan) -> bool| {
        let without = plans.iter().filter(|plan| !has(plan)).count();
        (0 < without && without < plans.len())
            .then(|| format!("{without} of {} plans have no {name}, and are left out of the fit of that", plans.len()))
    };
    let each = [lack("real (a step)", |plan| plan.step_s.is_some()), lack("max_mem", |plan| plan.peak_bytes.is_some())];
    each.into_iter().flatten().collect()
}

/// What to say of plans that are given several times.
///
/// # Errors
/// See [`repeated::check`].
fn repeated_warnings(plans: &[MeasuredStagedPlan]) -> Result<Vec<String>> {
    let timed = plans.iter().enumerate().filter_map(|(place, MeasuredStagedPlan { plan, step_s, .. })| {
        Some(TimedPlan {
            plan: plan.identity(),
            time: (*step_s)?,
            row: format!("plan {} ({})", place + 1, plan.name),
            line: None,
        })
    });
    repeated::check(&timed.collect::<Vec<_>>(), "s")
}

/// Plans with the same measurement are left out together.
fn different(plans: &[LeftOutPlan]) -> DistinctPlans {
    let measured: BTreeSet<u64> = plans.iter().map(|plan| plan.measured().to_bits()).collect();
    DistinctPlans { plans: measured.len(), by: "by what was measured", enough: LEAST_PLANS }
}

fn describe_model(model: &StagedModel) -> TrainedModel {
    let (time, memory) = model.left_out_percent();
    let (steps, peaks) = (model.steps_left_out(), model.peaks_left_out());
    let count = count_text(steps.len() as u64, "plan");
    let errors = |plans: &[LeftOutPlan]| plans.iter().map(LeftOutPlan::off_percent).collect::<Vec<f64>>();
    let memory_words =
        memory.map_or(String::new(), |off| format!(", its memory of {}", mean_and_median(off, &errors(peaks))));
    let error = |one: &LeftOutPlan| LeftOutError { name: one.name.clone(), mean: one.off_percent(), nine_of_ten: None };
    TrainedModel {
        title: "A model of steps of training in stages".to_owned(),
        subtitle: format!("Fitted on {count}."),
        answer: format!(
            "A step of a plan like these is predicted with an error of {}{memory_words}: mean errors of each of {count}, left out of the fit.",
            mean_and_median(time, &errors(steps))
        ),
        errors: steps.iter().map(error).collect(),
        predictions: predictions("step (s)", "steps", steps),
        tables: vec![left_out(steps, peaks)],
        parameters: None,
    }
}

fn predictions(what: &'static str, series: &str, plans: &[LeftOutPlan]) -> LeftOutPredictions {
    let one = |one: &LeftOutPlan| LeftOutPrediction {
        name: one.name.clone(),
        measured: one.measured(),
        predicted: one.predicted,
        deviations: None,
    };
    LeftOutPredictions { what, series: vec![(series.to_owned(), plans.iter().map(one).collect())] }
}

fn left_out(steps: &[LeftOutPlan], peaks: &[LeftOutPlan]) -> Table {
    let peak = |step: &LeftOutPlan| peaks.iter().find(|peak| peak.name == step.name);
    let of_peak = |step: &LeftOutPlan, cell: fn(&LeftOutPlan) -> Cell| peak(step).map_or(Cell::from(""), cell);
    TableBuilder::new("Plans that were left out of the fit", steps)
        .text("plan", "plan", |step| step.name.clone())
        .number("measured_s", "measured (s)", |step| step.measured())
        .number("predicted_s", "predicted (s)", |step| step.predicted)
        .number("off_percent", "off", |step| Percent(step.off_percent()))
        .number("measured_bytes", "memory", |step| of_peak(step, |peak| Bytes(peak.measured() as u64).into()))
        .number("predicted_bytes", "predicted", |step| of_peak(step, |peak| Bytes(peak.predicted as u64).into()))
        .number("memory_off_percent", "off", |step| of_peak(step, |peak| Percent(peak.off_percent()).into()))
        .table()
}

fn cluster(train: &TrainModel) -> Result<KnownCluster> {
    let mut layers = LayerTimes::default();
    train.layers.iter().try_for_each(|file| layers.add(file))?;
    let (Some(links), Some(shape)) = (&train.links, train.shape) else {
        return Err(Error::usage("plans in JSON need links and shape"));
    };
    Ok(KnownCluster { shape, layers, links: NodeLinks::read(links)? })
}

/// Predicts plans; compares with what was measured where the file holds it.
pub(super) fn predict(predict: &PredictPlans, model: &StagedModel, context: &mut Context) -> Result<Summary> {
    let file = predict.plans()?;
    let plans = plans(file)?;
    let predicted = plans.iter().map(|plan| model.predict(&plan.plan)).collect::<Result<Vec<_>>>();
    let predicted = predicted.map_err(|error| error.file(file))?;
    doubts(model).into_iter().for_each(|doubt| context.warn(doubt));
    warn_of_unmeasured(&predicted, context);
    let fitted: Vec<[bool; 2]> = plans.iter().map(|plan| model.are_fitted(plan)).collect();
    let table = table(&plans, &predicted, &fitted);
    if let Some(out) = &predict.out {
        overwrite::save(out, table.to_csv(), predict.overwrite)?;
    }
    Ok(Summary {
        answer: error_sentence(&plans, &predicted, &fitted),
        files: predict.out.iter().map(|out| ("predictions", out.clone())).collect(),
        json: json!({ "predictions": table.to_json(), "warnings": context.warnings() }),
        tables: vec![table],
        ..Summary::default()
    })
}

/// Plans in stages.
///
/// # Errors
/// See [`read_staged_plans`]; a table, for which the model is not.
pub(in crate::verb) fn plans(file: &Path) -> Result<Vec<MeasuredStagedPlan>> {
    match is_staged(file) {
        true => read_staged_plans(file),
        false => Err(Error::usage("the model is of plans in JSON, these are in another file")
            .file(file)
            .expected("a file that ends in .json")),
    }
}

/// Warns once of all that no measured plan has.
pub(in crate::verb) fn warn_of_unmeasured(predicted: &[PredictedStagedPlan], context: &mut Context) {
    let unmeasured: BTreeSet<&str> = predicted.iter().flat_map(|plan| &plan.unmeasured).map(String::as_str).collect();
    for one in unmeasured {
        context.warn(format_args!("no measured plan has {one}: intervals of plans with it are wider"));
    }
}

/// What of a plan the model was fitted on.
fn fitted_cell(fitted: [bool; 2]) -> Cell {
    Cell::from(match fitted {
        [true, true] => "yes",
        [true, false] => "step",
        [false, true] => "memory",
        [false, false] => "",
    })
}

fn table(plans: &[MeasuredStagedPlan], predicted: &[PredictedStagedPlan], fitted: &[[bool; 2]]) -> Table {
    let columns = [
        TableColumn::text("plan", "plan"),
        TableColumn::number("predicted_s", "step (s)"),
        TableColumn::number("low_s", "from (s)"),
        TableColumn::number("high_s", "to (s)"),
        TableColumn::number("measured_s", "measured (s)"),
        TableColumn::number("peak_bytes", "memory"),
        TableColumn::number("peak_high_bytes", "to"),
        TableColumn::number("measured_bytes", "measured"),
        TableColumn::text("unmeasured", "never measured"),
        TableColumn::text("fitted", "fitted"),
    ];
    let mut table = Table::new("Predicted plans; nine of ten measurements are expected in the interval", columns);
    let bytes = |value: Option<f64>| value.map_or(Cell::from(""), |value| Bytes(value as u64).into());
    for ((plan, step), fitted) in plans.iter().zip(predicted).zip(fitted) {
        let time = step.step_s;
        table.row([
            Cell::from(plan.plan.name.as_str()),
            time.value.into(),
            time.interval.0.into(),
            time.interval.1.into(),
            plan.step_s.map_or(Cell::from(""), Cell::from),
            bytes(step.peak_bytes.map(|peak| peak.value)),
            bytes(step.peak_bytes.map(|peak| peak.interval.1)),
            bytes(plan.peak_bytes),
            step.unmeasured.join(", ").into(),
            fitted_cell(*fitted),
        ]);
    }
    table
}

/// How far predictions are from what was measured.
fn error_sentence(plans: &[MeasuredStagedPlan], predicted: &[PredictedStagedPlan], fitted: &[[bool; 2]]) -> String {
    let triples = || plans.iter().zip(predicted).zip(fitted).map(|((plan, step), fitted)| (plan, step, *fitted));
    let scored = |is_fitted, measured, PlanEstimate { value: predicted, interval, .. }| MeasuredPrediction {
        is_fitted,
        measured,
        predicted,
        interval,
    };
    let steps = triples().filter_map(|(plan, step, fitted)| Some(scored(fitted[0], plan.step_s?, step.step_s)));
    let peaks =
        triples().filter_map(|(plan, step, fitted)| Some(scored(fitted[1], plan.peak_bytes?, step.peak_bytes?)));
    let sentences = [score_sentence(steps, "measured step"), score_sentence(peaks, "measured memory peak")];
    sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join(" ")
}
