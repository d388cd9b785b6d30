//! The settings of `[advise]` and `perf4sight advise`, and their checked values.

use super::Advise;
use crate::verbs::asking::{DATASET, DEVICE, EXTENTS, FINGERPRINT, HTML, MEM_LIMIT, NETWORK, OVERWRITE, TARGET};
use crate::verbs::extents::Extents;
use crate::verbs::source::Source;
use crate::verbs::step::{OF_STEPS, STAGE};
use crate::verbs::{asking, step};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{LARGEST_BATCH, Stage, Step};
use perf4sight_verb::config::{Setting, Table, Values, integer, path};

pub(super) const TABLE: Table = Table {
    section: "advise",
    about: "finds what makes a step of one network fit into memory, and what each way costs",
    groups: &[
        &[NETWORK, FINGERPRINT, TARGET, BATCH, STAGE],
        OF_STEPS,
        &[MEM_LIMIT, DEVICE, DATASET],
        EXTENTS,
        &[OUTPUT, PAGE, OVERWRITE],
    ],
};

const BATCH: Setting = integer("bs", 1, LARGEST_BATCH as i64)
    .required()
    .named("batch")
    .alias("bs")
    .value("SIZE")
    .help("Batch size of the step that must fit.");

const OUTPUT: Setting = path("output")
    .many()
    .or("[]")
    .in_configurations()
    .help("Files to write the advice to: .json with everything, .html as a page.");

const PAGE: Setting = HTML.help("Also write a page: time against memory, and a chart of the memory over the step.");

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
