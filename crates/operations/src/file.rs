//! The file of a model of operations.

use crate::model::OperationModel;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{input_file, overwrite};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What such a file says that it is.
pub const FORMAT: &str = "perf4sight model of operations";
/// Changes whenever a parameter or its meaning does: models of other versions are trained again.
const VERSION: u32 = 2;
const TRAIN: &str = "perf4sight cost-model train traces-by-gpu/ --out MODEL.json fits one";

#[derive(Serialize)]
struct WrittenOperations<'m> {
    format: &'static str,
    version: u32,
    fitted: &'m OperationModel,
}

#[derive(Deserialize)]
struct OperationsHeader {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
struct OperationsBody {
    fitted: OperationModel,
}

/// Writes a model.
///
/// # Errors
/// A file of others in its place, unless `overwrite`; a failed write.
pub fn save(model: &OperationModel, file: &Path, overwrite: bool) -> Result<()> {
    let text = serde_json::to_string(&WrittenOperations { format: FORMAT, version: VERSION, fitted: model });
    let text =
        text.map_err(|cause| Error::input(format!("the model cannot be written as JSON: {cause}")).file(file))?;
    overwrite::save(file, text, overwrite)
}

/// Reads a model.
///
/// # Errors
/// A file that cannot be read, is no model of operations, or one of another version.
pub fn load(file: &Path) -> Result<OperationModel> {
    let text = input_file::text(file, "read the model of operations")?;
    parse(&text).map_err(|error| error.file(file))
}

fn parse(text: &str) -> Result<OperationModel> {
    let no_model = |cause: serde_json::Error| {
        Error::input(format!("this is not a model of operations: {cause}"))
            .expected(format!("JSON of a {FORMAT}"))
            .help(TRAIN)
    };
    let OperationsHeader { format, version } = serde_json::from_str(text).map_err(no_model)?;
    if format != FORMAT {
        return Err(Error::input(format!("this is a \"{format}\"")).expected(format!("a {FORMAT}")).help(TRAIN));
    }
    if version != VERSION {
        let problem = format!("this model has version {version}");
        return Err(Error::input(problem).expected(format!("version {VERSION}")).help(TRAIN));
    }
    Ok(serde_json::from_str::<OperationsBody>(text).map_err(no_model)?.fitted)
}
