//! The checked values of the section.

use super::{Form, Predict};
use crate::config::Values;
use crate::error::Result;
use crate::network::onnx::Dims;
use crate::sections::step;
use crate::workload::Stage;
use std::path::PathBuf;

impl Predict {
    pub(super) fn parse(values: &Values<'_>) -> Result<Self> {
        let output: Vec<PathBuf> = values.get("output")?;
        let known = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "csv" || ending == "json");
        if let Some(other) = output.iter().find(|file| !known(file)) {
            return Err(values
                .error("output", format!("{} has an unknown ending", other.display()))
                .expected("files that end in .csv or .json"));
        }
        Ok(Predict {
            networks: values.get("networks")?,
            fingerprints: values.get("fingerprint")?,
            batches: values.get("bs")?,
            stage: values.named("stage", Stage::parse)?,
            changes: step::changes(values)?,
            limit: values.get("mem_limit")?,
            require_fit: values.get("require_fit")?,
            device: values.get("device_name")?,
            dataset: values.get("dataset")?,
            dims: Dims::new(),
            output,
            form: Form::Tables,
        })
    }
}
