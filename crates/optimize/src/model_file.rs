//! The file of a model: of steps, or of operations.

use crate::staged::StagedModel;
use crate::step::{FittedStep, StepModel};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{input_file, overwrite};
use perf4sight_operations::{self as operations, OperationModel};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Of plans whose stages are alike, as a table holds them.
const PLANS: &str = "perf4sight model of plans";
/// Of plans in stages.
const STAGED: &str = "perf4sight model of staged plans";
/// What the files of all models are alike.
pub const ALIKE: &str = r#"{"format": "perf4sight model"}"#;
/// Changes whenever a parameter or its meaning does: models of other versions are trained again.
const VERSION: u32 = 5;
/// The remedy for a file of another version or kind.
const TRAIN: &str = "perf4sight cost-model train --plans PLANS --out MODEL.json fits one";

/// A model that was fitted.
#[derive(Debug, Clone)]
pub enum CostModel {
    /// Of plans whose stages are alike.
    Plans(Box<StepModel>),
    /// Of plans in stages.
    Staged(Box<StagedModel>),
    /// Of single operations.
    Operations(Box<OperationModel>),
}

#[derive(Deserialize)]
struct ModelHeader {
    format: String,
    version: u32,
}

#[derive(Serialize)]
struct WrittenModel<T> {
    format: &'static str,
    version: u32,
    fitted: T,
}

#[derive(Deserialize)]
struct ModelBody<T> {
    fitted: T,
}

/// Writes a model.
///
/// # Errors
/// A file of others in its place, unless `overwrite`; a failed write.
pub fn save(model: &CostModel, file: &Path, overwrite: bool) -> Result<()> {
    let text = match model {
        CostModel::Plans(model) => text(PLANS, model.stored()),
        CostModel::Staged(model) => text(STAGED, model),
        CostModel::Operations(model) => return operations::save(model, file, overwrite),
    };
    let text =
        text.map_err(|cause| Error::input(format!("the model cannot be written as JSON: {cause}")).file(file))?;
    overwrite::save(file, text, overwrite)
}

fn text(format: &'static str, fitted: impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(&WrittenModel { format, version: VERSION, fitted })
}

/// Reads a model.
///
/// # Errors
/// A file that cannot be read, is no model, or one of another version.
pub fn load(file: &Path) -> Result<CostModel> {
    let text = input_file::text(file, "read the model")?;
    let numbers: Value = serde_json::from_str(&text).map_err(|cause| {
        Error::input(format!("is not a complete model: {cause}"))
            .file(file)
            .expected("JSON that cost-model train wrote")
    })?;
    check_numbers(&numbers).map_err(|error| error.file(file))?;
    match head(&text) {
        Ok(head) if head.format == operations::FORMAT => {
            operations::load(file).map(|model| CostModel::Operations(Box::new(model)))
        }
        head => head.and_then(|head| parse(&text, &head)).map_err(|error| error.file(file)),
    }
}

/// Beyond this no parameter of a model is, nor any of its rows.
const LARGEST: f64 = 1e60;

/// Refuses numbers that no fit writes.
fn check_numbers(value: &Value) -> Result<()> {
    match value {
        Value::Number(number) if number.as_f64().is_some_and(|number| number.abs() > LARGEST) => {
            Err(Error::input(format!("this model holds the number {number}, and is damaged")).help(TRAIN))
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(fields) => fields.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

fn head(text: &str) -> Result<ModelHeader> {
    serde_json::from_str(text).map_err(|cause| no_model(&cause))
}

fn parse(text: &str, head: &ModelHeader) -> Result<CostModel> {
    if head.version != VERSION {
        let problem = format!("this model has version {}", head.version);
        return Err(Error::input(problem).expected(format!("version {VERSION}")).help(TRAIN));
    }
    match head.format.as_str() {
        PLANS => {
            let model = StepModel::try_from(body::<FittedStep>(text)?)?;
            let is_whole = model.rows().all(|(_, step)| is_time(step.interval_ms.0) && is_time(step.interval_ms.1));
            match is_whole {
                true => Ok(CostModel::Plans(Box::new(model))),
                false => Err(Error::input("this model predicts no times for its own rows, and is damaged").help(TRAIN)),
            }
        }
        STAGED => Ok(CostModel::Staged(Box::new(body(text)?))),
        other => Err(Error::input(format!("this is a \"{other}\"")).expected(format!("a {PLANS}")).help(TRAIN)),
    }
}

fn is_time(milliseconds: f64) -> bool {
    milliseconds.is_finite() && milliseconds > 0.0
}

fn body<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str::<ModelBody<T>>(text).map(|body| body.fitted).map_err(|cause| no_model(&cause))
}

fn no_model(cause: &serde_json::Error) -> Error {
    Error::input(format!("this is not a model of steps: {cause}")).expected(format!("JSON of a {PLANS}")).help(TRAIN)
}
