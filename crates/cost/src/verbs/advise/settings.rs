//! The settings of `[advise]` and `perf4sight advise`.

use crate::verbs::asking::{DATASET, DEVICE, EXTENTS, FINGERPRINT, HTML, MEM_LIMIT, NETWORK, OVERWRITE, TARGET};
use crate::verbs::step::{OF_STEPS, STAGE};
use perf4sight_step::workload::LARGEST_BATCH;
use perf4sight_verb::config::{Setting, Table, integer, path};

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
    .help("Samples of the step that is wanted.");

const OUTPUT: Setting = path("output")
    .many()
    .or("[]")
    .in_configurations()
    .help("Files to write the advice to: .json with everything, .html as a page.");

const PAGE: Setting =
    HTML.help("Write a page as well: time against memory, and what is in memory while the step runs.");
