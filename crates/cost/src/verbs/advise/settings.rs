//! The settings of `[advise]` and `perf4sight advise`, and their checked values.

use super::Advise;
use crate::verbs::asking::{
    DATASET, DEVICE, EXTENTS, FINGERPRINT, HOLDS_OUTPUTS, HTML, MEM_LIMIT, NETWORK, OVERWRITE, TARGET, THREADS,
};
use crate::verbs::step::{OF_STEPS, STAGE};
use crate::verbs::wanted_step::WantedStep;
use perf4sight_base::error::Result;
use perf4sight_step::workload::LARGEST_BATCH;
use perf4sight_verb::config::{Setting, SettingTable, SettingValues, integer, path};

pub(super) const TABLE: SettingTable = SettingTable {
    section: "advise",
    about: "finds what makes a step of one network fit into memory, and what each way costs",
    groups: &[
        &[NETWORK, FINGERPRINT, TARGET, THREADS, HOLDS_OUTPUTS, BATCH, STAGE],
        OF_STEPS,
        &[MEM_LIMIT, DEVICE, DATASET],
        EXTENTS,
        &[OUTPUT, PAGE, OVERWRITE],
    ],
};

const BATCH: Setting = integer("bs", 1, LARGEST_BATCH as i64)
    .required()
    .with_flag("batch")
    .alias("bs")
    .value("SIZE")
    .help("Batch size of the step that must fit.");

const OUTPUT: Setting = path("output")
    .many_values()
    .or_default("[]")
    .in_configurations()
    .help("Files to write the advice to: .json with everything, .html as a page.");

const PAGE: Setting = HTML.help("Also write a page: time against memory, and a chart of the memory over the step.");

impl Advise {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let batch = values.get("bs")?;
        let target = values.get::<Option<String>>("target")?.map(|target| vec![target]);
        let wanted = WantedStep::parse(values, target, &[batch], &["json", "html"])?;
        let advise = Advise { network: values.get("network")?, batch, wanted };
        advise.check().map_err(|error| values.with_place("target", error))?;
        Ok(advise)
    }
}
