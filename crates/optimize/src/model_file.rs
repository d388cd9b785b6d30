//! The file of a step model.

use crate::step::{Fitted, StepModel};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{input_file, overwrite};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What the file says that it is.
const FORMAT: &str = "perf4sight step model";
/// Changes whenever a parameter or its meaning does: models of other versions are trained again.
const VERSION: u32 = 1;
/// The remedy for a file of another version or kind.
const TRAIN: &str = "perf4sight cost-model train --plans PLANS.csv --out MODEL.json fits one";

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Serialize)]
struct Written<'a> {
    format: &'static str,
    version: u32,
    fitted: &'a Fitted,
}

#[derive(Deserialize)]
struct Body {
    fitted: Fitted,
}

/// Writes a model.
///
/// # Errors
/// A file of others in its place, unless `overwrite`; a failed write.
pub fn save(model: &StepModel, file: &Path, overwrite: bool) -> Result<()> {
    let written = Written { format: FORMAT, version: VERSION, fitted: model.fitted() };
    let text = serde_json::to_string(&written)
        .map_err(|cause| Error::input(format!("the model cannot be written as JSON: {cause}")).file(file))?;
    overwrite::save(file, text, overwrite)
}

/// Reads a model.
///
/// # Errors
/// A file that cannot be read, is no model, or one of another version.
pub fn load(file: &Path) -> Result<StepModel> {
    let text = input_file::text(file, "read the model of steps")?;
    parse(&text).map_err(|error| error.file(file))
}

fn parse(text: &str) -> Result<StepModel> {
    let head: Head = serde_json::from_str(text).map_err(|cause| no_model(&cause))?;
    if head.format != FORMAT {
        return Err(Error::input(format!("this is a \"{}\"", head.format)).expected(FORMAT).help(TRAIN));
    }
    if head.version != VERSION {
        let problem = format!("this model has version {}", head.version);
        return Err(Error::input(problem).expected(format!("version {VERSION}")).help(TRAIN));
    }
    let body: Body = serde_json::from_str(text).map_err(|cause| no_model(&cause))?;
    StepModel::try_from(body.fitted)
}

fn no_model(cause: &serde_json::Error) -> Error {
    Error::input(format!("this is no model of steps: {cause}")).expected(format!("JSON of a {FORMAT}")).help(TRAIN)
}
