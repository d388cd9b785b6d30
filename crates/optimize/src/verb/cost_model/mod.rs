//! `[cost_model]` and `perf4sight cost-model`: fits a model of steps on measured plans, or of operations on traces of several
//! GPUs, and predicts others.

pub mod operations;
mod predict_plans;
mod settings;
pub(super) mod staged;
#[cfg(test)]
mod tests;
mod train_plans;
mod trained;

pub use predict_plans::PredictPlans;
pub use train_plans::TrainModel;

pub(super) use train_plans::doubts;

use operations::TrainOperations;
use perf4sight_base::error::{Error, Result};
use perf4sight_replay::verb::analyze;
use perf4sight_report::Progress;
use perf4sight_verb::config::{SettingTable as Settings, SettingValues};
use perf4sight_verb::{Context, CountedNoun, Spec, Verb, VerbSpec};
use settings::{
    ACTION, ALLREDUCE, GPU, LAYERS, LINKS, MODEL, OPERATIONS, OPTION, OUT, OVERWRITE, PATH, PLANS, ROWS, SHAPE,
    SUB_OPTION,
};
use std::path::PathBuf;

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
