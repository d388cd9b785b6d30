//! The checked values of the section.

use super::Advise;
use crate::verbs::extents::Extents;
use crate::verbs::source::Source;
use crate::verbs::step;
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Stage, Step};
use perf4sight_verb::config::Values;
use std::path::PathBuf;

impl Advise {
    pub(super) fn parse(values: &Values<'_>) -> Result<Self> {
        let output: Vec<PathBuf> = values.get("output")?;
        let is_known = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "json" || ending == "html");
        if let Some(other) = output.iter().find(|file| !is_known(file)) {
            return Err(values
                .error("output", format!("{} has an unknown ending", other.display()))
                .expected("files that end in .json or .html"));
        }
        let (batch, stage): (u64, Stage) = (values.get("bs")?, values.named("stage", Stage::parse)?);
        let changes = step::changes(values, &[stage])?;
        // What the fingerprints' step has is known when they are read.
        step::check_batches(values, changes.of(Step::published(stage)), &[batch])?;
        let advise = Advise {
            network: values.get("network")?,
            source: Source::parse(values, values.get::<Option<String>>("target")?.map(|target| vec![target]))?,
            batch,
            stage,
            changes,
            limit: values.get("mem_limit")?,
            device: values.get("device_name")?,
            dataset: values.get("dataset")?,
            extents: Extents::configured(values)?,
            output,
            overwrite: values.get("overwrite")?,
        };
        advise.check().map_err(|error| values.placed("target", error))?;
        Ok(advise)
    }
}
