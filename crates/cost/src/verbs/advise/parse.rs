//! The checked values of the section.

use super::Advise;
use crate::verbs::extents::Extents;
use crate::verbs::source::Source;
use crate::verbs::{asking, step};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Stage, Step};
use perf4sight_verb::config::Values;

impl Advise {
    pub(super) fn parse(values: &Values<'_>) -> Result<Self> {
        let (batch, stage): (u64, Stage) = (values.get("bs")?, values.named("stage", Stage::parse)?);
        let changes = step::changes(values, &[stage])?;
        // The settings of the fingerprints' step are only known when they are loaded.
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
            extents: Extents::parse(values)?,
            output: asking::output(values, &["json", "html"])?,
            overwrite: values.get("overwrite")?,
        };
        advise.check().map_err(|error| values.placed("target", error))?;
        Ok(advise)
    }
}
