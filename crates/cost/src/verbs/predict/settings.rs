//! The settings of `[predict]` and `perf4sight predict`.

use crate::verbs::asking::{DATASET, DEVICE, EXTENTS, FINGERPRINT, HTML, MEM_LIMIT, NETWORK, OVERWRITE, TARGET};
use crate::verbs::step::{OF_STEPS, STAGE};
use perf4sight_step::workload::LARGEST_BATCH;
use perf4sight_verb::config::Conflicts::With;
use perf4sight_verb::config::Missing::Literal;
use perf4sight_verb::config::{Setting, Table, flag, integer, path};

pub(super) const TABLE: Table = Table {
    section: "predict",
    about: "predicts latency, memory and whether it fits for networks that were never profiled",
    groups: &[
        &[NETWORKS, FINGERPRINT, TARGETS, BATCHES, STAGE],
        OF_STEPS,
        &[MEM_LIMIT, REQUIRE_FIT, DEVICE, DATASET],
        EXTENTS,
        &[OUTPUT, CSV, PAGE, OVERWRITE],
    ],
};

const NETWORKS: Setting = Setting { key: "networks", ..NETWORK }.many().positional("NET.onnx|DIR|NAME|NAME@LEVEL")
    .help("What to predict: ONNX files, folders of them, patterns such as nets/*.onnx, names of known networks, NAME@LEVEL for one pruned to that percentage.");

const TARGETS: Setting = TARGET.many().commas().value("NAME|FILE.json|all")
    .help("Predict without a fingerprint, from published facts about kinds of devices: names such as orin,tx2, or all; a file describes another kind.");

const BATCHES: Setting = integer("bs", 1, LARGEST_BATCH as i64)
    .many()
    .or("[1,2,4,8,16,32]")
    .or_on_command_line(Literal("1"))
    .value("SIZES")
    .help("Batch sizes, such as 1,8,32.");

const REQUIRE_FIT: Setting = flag("require_fit").help("End with exit code 7 where a step may not fit.");

const OUTPUT: Setting = path("output").many().or("[]").in_configurations()
    .help("Files to write the predictions to: .csv with a row per network and batch size, .json with everything, .html as a page, of one network with a chart of its memory over the step.");

const CSV: Setting = flag("csv")
    .on_command_line()
    .conflicts(With(&["json"]))
    .help("Print comma-separated rows, one per network and batch size, instead of tables.");

const PAGE: Setting =
    HTML.help("Write a page as well, of one network with a chart of what is in memory while a step runs.");
