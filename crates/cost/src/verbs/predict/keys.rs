//! The keys of `[predict]`.

use crate::verbs::asking_keys;
use perf4sight_step::workload::LARGEST_BATCH;
use perf4sight_verb::config::Missing::{Literal, Required, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    section: "predict",
    about: "predicts latency, memory and whether it fits for networks that were never profiled",
    keys: &[
        Key {
            name: "networks",
            kind: Kind::List(&Kind::Text),
            default: Required,
            help: "What to predict: known networks, NAME@LEVEL for one pruned to that percentage, ONNX files, folders of them, patterns such as nets/*.onnx.",
        },
        asking_keys::FINGERPRINT,
        Key {
            name: "target",
            kind: Kind::List(&Kind::Text),
            default: Unset,
            help: "Instead of fingerprints what is believed of kinds of devices before anything is measured: names as in target of [fingerprint], files that describe one, or all.",
        },
        Key {
            name: "bs",
            kind: Kind::List(&Kind::Integer(1, LARGEST_BATCH as i64)),
            default: Literal("[1,2,4,8,16,32]"),
            help: "Batch sizes.",
        },
        asking_keys::STAGE,
        asking_keys::OPTIMIZER,
        asking_keys::ZERO_GRAD,
        asking_keys::PRECISION,
        asking_keys::TRAINABLE,
        asking_keys::FROZEN_NORMALISATION,
        asking_keys::ACCUMULATE,
        asking_keys::CHECKPOINT,
        asking_keys::LOSS,
        asking_keys::MEM_LIMIT,
        Key {
            name: "require_fit",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether a step that may not fit ends the run with exit code 7.",
        },
        asking_keys::DEVICE,
        asking_keys::DATASET,
        asking_keys::INPUT,
        asking_keys::CLASSES,
        Key {
            name: "output",
            kind: Kind::List(&Kind::Path),
            default: Literal("[]"),
            help: "Files to write the predictions to: .csv with a row per network and batch size, .json with everything, .html as a page, of one network with a chart of its memory over the step.",
        },
        asking_keys::OVERWRITE,
    ],
};
