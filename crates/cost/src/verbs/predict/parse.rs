//! The checked values of the section.

use super::{Form, Predict};
use crate::verbs::extents::Extents;
use crate::verbs::source::Source;
use crate::verbs::{asking, step};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Stage, Step};
use perf4sight_verb::config::Values;
use std::path::Path;

impl Predict {
    pub(super) fn parse(values: &Values<'_>) -> Result<Self> {
        let (batches, stage): (Vec<u64>, Stage) = (values.get("bs")?, values.named("stage", Stage::parse)?);
        let changes = step::changes(values, &[stage])?;
        // The settings of the fingerprints' step are only known when they are loaded.
        step::check_batches(values, changes.of(Step::published(stage)), &batches)?;
        let networks: Vec<String> = values.get("networks")?;
        check_no_sizes(values, &networks, &batches)?;
        let predict = Predict {
            networks,
            source: Source::parse(values, values.get("target")?)?,
            batches,
            stage,
            changes,
            limit: values.get("mem_limit")?,
            require_fit: values.get("require_fit")?,
            device: values.get("device_name")?,
            dataset: values.get("dataset")?,
            extents: Extents::parse(values)?,
            output: asking::output(values, &["csv", "json", "html"])?,
            overwrite: values.get("overwrite")?,
            form: if values.get("csv")? { Form::Csv } else { Form::Tables },
        };
        predict.check().map_err(|error| values.placed("require_fit", error))?;
        Ok(predict)
    }
}

/// Batch sizes separated by blanks on the command line would be read as networks.
fn check_no_sizes(values: &Values<'_>, networks: &[String], batches: &[u64]) -> Result<()> {
    let is_size = |word: &&String| word.parse::<u64>().is_ok() && !Path::new(word).exists();
    let apart: Vec<&str> = networks.iter().filter(is_size).map(String::as_str).collect();
    let Some(first) = apart.first() else { return Ok(()) };
    let asked = batches.iter().filter(|_| values.writes("bs")).map(u64::to_string);
    let all: Vec<String> = asked.chain(apart.iter().map(|&word| word.to_owned())).collect();
    Err(values
        .error("networks", format!("\"{first}\" is no network"))
        .expected("batch sizes in one word, networks by name or file")
        .help(format!("write batch sizes with commas: {}", values.written_as("bs", &all.join(",")))))
}
