//! The keys of `[advise]`.

use crate::verbs::asking_keys;
use perf4sight_step::workload::LARGEST_BATCH;
use perf4sight_verb::config::Missing::{Literal, Required, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    section: "advise",
    about: "tells what makes a step of one network fit, and what each way costs",
    keys: &[
        Key {
            name: "network",
            kind: Kind::Text,
            default: Required,
            help: "A known network, NAME@LEVEL for one pruned to that percentage, or an ONNX file.",
        },
        asking_keys::FINGERPRINT,
        Key {
            name: "target",
            kind: Kind::Text,
            default: Unset,
            help: "Instead of fingerprints what is believed of a kind of device before anything is measured: a name as in target of [fingerprint], or a file that describes one.",
        },
        Key {
            name: "bs",
            kind: Kind::Integer(1, LARGEST_BATCH as i64),
            default: Required,
            help: "Samples of the step that is wanted.",
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
        asking_keys::DEVICE,
        asking_keys::DATASET,
        asking_keys::INPUT,
        asking_keys::CLASSES,
        Key {
            name: "output",
            kind: Kind::List(&Kind::Path),
            default: Literal("[]"),
            help: "Files to write the advice to: .json with everything, .html as a page.",
        },
        asking_keys::OVERWRITE,
    ],
};
