//! The settings of `perf4sight calibrate`.

use super::{Calibrate, CalibrationSource};
use crate::device::kind::DeviceKind;
use crate::verbs::asking;
use crate::verbs::step::{precisions, stages};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{LARGEST_BATCH, Precision, Stage};
use perf4sight_verb::config::Conflicts::With;
use perf4sight_verb::config::{Setting, SettingTable, SettingValues, flag, integer, path, text, word};

pub(super) const TABLE: SettingTable = SettingTable {
    section: "calibrate",
    about: "refits stored fingerprints with a few measured rows of a new network, or names the rows to measure",
    groups: &[&[
        asking::NETWORK,
        FINGERPRINT,
        path("rows").many_values().value("FILE.csv").conflicts(With(&["measure"]))
            .help("Files of measured rows as [profile] writes them, with 1 to 4 rows of latency or memory; may be given several times."),
        text("measure").value_if_bare("cpu").value("DEVICE").help("Measure the rows now, on this machine."),
        flag("force")
            .help("Measure even if the fingerprint is of another device, and accept disturbed times."),
        integer("bs", 1, LARGEST_BATCH as i64).many_values().value("SIZES")
            .help("Batch sizes to measure and to show; by default the most informative ones."),
        word("stage", stages).or_default("training").help("Stage of the step."),
        word("precision", precisions)
            .help("Precision of the measured steps; by default that of the profile. Rows of another precision calibrate the latency of all steps of that precision, of any network."),
        path("save").value("DIR").help("Store the refitted fingerprints in this folder; without it they are only shown."),
        flag("overwrite").requires("save").help("Replace fingerprints that are stored there."),
    ]],
};

const FINGERPRINT: Setting = path("fingerprint").required().value("DIR").help(asking::FINGERPRINT.help);

impl Calibrate {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let source = match values.get::<Option<String>>("measure")? {
            Some(device) => {
                CalibrationSource::Device(DeviceKind::parse(&device).map_err(|error| values.located("measure", error))?)
            }
            None => values.get::<Option<_>>("rows")?.map_or(CalibrationSource::Nowhere, CalibrationSource::Files),
        };
        Ok(Calibrate {
            network: values.get("network")?,
            fingerprints: values.get("fingerprint")?,
            stage: values.parse_word("stage", Stage::parse)?,
            precision: values.named_if_set("precision", Precision::parse)?,
            source,
            batches: values.get::<Option<_>>("bs")?.unwrap_or_default(),
            force: values.get("force")?,
            save: values.get("save")?,
            overwrite: values.get("overwrite")?,
        })
    }
}
