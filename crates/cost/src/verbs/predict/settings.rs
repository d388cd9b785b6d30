//! The settings of `[predict]` and `perf4sight predict`, and their checked values.

use super::{OutputForm, Predict};
use crate::verbs::asking::{
    DATASET, DEVICE, EXTENTS, FINGERPRINT, HOLDS_OUTPUTS, HTML, MEM_LIMIT, NETWORK, OVERWRITE, TARGET, THREADS,
};
use crate::verbs::step::{OF_STEPS, STAGE};
use crate::verbs::wanted_step::WantedStep;
use perf4sight_base::error::Result;
use perf4sight_step::workload::LARGEST_BATCH;
use perf4sight_verb::config::Conflicts::With;
use perf4sight_verb::config::DefaultValue::Literal;
use perf4sight_verb::config::{Setting, SettingTable, SettingValues, flag, integer, path};
use std::path::Path;

pub(super) const TABLE: SettingTable = SettingTable {
    section: "predict",
    about: "predicts latency, memory and whether it fits for networks that were never profiled",
    groups: &[
        &[NETWORKS, FINGERPRINT, TARGETS, THREADS, HOLDS_OUTPUTS, BATCHES, STAGE],
        OF_STEPS,
        &[MEM_LIMIT, REQUIRE_FIT, DEVICE, DATASET],
        EXTENTS,
        &[OUTPUT, CSV, PAGE, OVERWRITE],
    ],
};

const NETWORKS: Setting = Setting { key: "networks", ..NETWORK }.many_values().positional("NET.onnx|DIR|NAME|NAME@LEVEL")
    .help("Networks to predict: ONNX files, folders of them, patterns such as nets/*.onnx, names of known networks, NAME@LEVEL for one pruned by that percentage.");

const TARGETS: Setting = TARGET.many_values().commas().value("NAME|FILE.json|all")
    .help("Predict without a fingerprint, from what is known of kinds of devices before anything is measured: names such as orin,tx2, or all; a file describes another kind.");

const BATCHES: Setting = integer("bs", 1, LARGEST_BATCH as i64)
    .many_values()
    .or_default("[1,2,4,8,16,32]")
    .or_on_command_line(Literal("1"))
    .value("SIZES")
    .help("Batch sizes, such as 1,8,32.");

const REQUIRE_FIT: Setting = flag("require_fit").help("End with exit code 7 if a step may not fit.");

const OUTPUT: Setting = path("output").many_values().or_default("[]").in_configurations()
    .help("Files to write the predictions to: .csv with a row per network and batch size, .json with everything, .html as a page (of one network, with a chart of its memory over the step).");

const CSV: Setting = flag("csv")
    .on_command_line()
    .conflicts(With(&["json"]))
    .help("Print comma-separated rows, one per network and batch size, instead of tables.");

const PAGE: Setting = HTML.help("Also write a page; of one network, with a chart of its memory over the step.");

impl Predict {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let (networks, batches): (Vec<String>, Vec<u64>) = (values.get("networks")?, values.get("bs")?);
        check_no_sizes(values, &networks, &batches)?;
        let predict = Predict {
            networks,
            wanted: WantedStep::parse(values, values.get("target")?, &batches, &["csv", "json", "html"])?,
            batches,
            require_fit: values.get("require_fit")?,
            form: if values.get("csv")? { OutputForm::Csv } else { OutputForm::Tables },
        };
        predict.check().map_err(|error| values.with_place("require_fit", error))?;
        Ok(predict)
    }
}

/// Batch sizes separated by blanks on the command line would be read as networks.
fn check_no_sizes(values: &SettingValues<'_>, networks: &[String], batches: &[u64]) -> Result<()> {
    let is_size = |word: &&String| word.parse::<u64>().is_ok() && !Path::new(word).exists();
    let apart: Vec<&str> = networks.iter().filter(is_size).map(String::as_str).collect();
    let Some(first) = apart.first() else { return Ok(()) };
    let asked = batches.iter().filter(|_| values.writes("bs")).map(u64::to_string);
    let all: Vec<String> = asked.chain(apart.iter().map(|&word| word.to_owned())).collect();
    Err(values
        .error("networks", format!("\"{first}\" is not a network"))
        .expected("batch sizes in one word, networks by name or file")
        .help(format!("write batch sizes with commas: {}", values.written_as("bs", &all.join(",")))))
}
