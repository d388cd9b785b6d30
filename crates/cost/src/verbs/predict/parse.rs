//! The checked values of the section.

use super::{Form, Predict};
use crate::verbs::extents::Extents;
use crate::verbs::source::Source;
use crate::verbs::step;
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Stage, Step};
use perf4sight_verb::config::Values;
use std::path::PathBuf;

impl Predict {
    pub(super) fn parse(values: &Values<'_>) -> Result<Self> {
        let output: Vec<PathBuf> = values.get("output")?;
        let known = |file: &PathBuf| {
            file.extension().is_some_and(|ending| ["csv", "json", "html"].iter().any(|known| ending == *known))
        };
        if let Some(other) = output.iter().find(|file| !known(file)) {
            return Err(values
                .error("output", format!("{} has an unknown ending", other.display()))
                .expected("files that end in .csv, .json or .html"));
        }
        let (batches, stage): (Vec<u64>, Stage) = (values.get("bs")?, values.named("stage", Stage::parse)?);
        let changes = step::changes(values, &[stage])?;
        // What the fingerprints' step has is known when they are read.
        step::check_batches(values, changes.of(Step::published(stage)), &batches)?;
        let predict = Predict {
            networks: values.get("networks")?,
            source: Source::parse(values, values.get("target")?)?,
            batches,
            stage,
            changes,
            limit: values.get("mem_limit")?,
            require_fit: values.get("require_fit")?,
            device: values.get("device_name")?,
            dataset: values.get("dataset")?,
            extents: Extents::configured(values)?,
            output,
            overwrite: values.get("overwrite")?,
            form: Form::Tables,
        };
        predict.check().map_err(|error| values.placed("require_fit", error))?;
        Ok(predict)
    }
}
