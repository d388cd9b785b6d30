//! The keys of `[fingerprint]`.

use perf4sight_step::workload::Accumulate;
use perf4sight_verb::config::Missing::{Literal, Required, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

const NAMES: Kind = Kind::List(&Kind::Text);
const LEVELS: Kind = Kind::List(&Kind::Integer(0, 99));
const FOLDERS: Kind = Kind::List(&Kind::Path);

pub(super) const TABLE: Table = Table {
    section: "fingerprint",
    about: "fits the performance model of a device to a profile and tells how far to trust it",
    keys: &[
        Key {
            name: "evaluate",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Only evaluate the stored fingerprints; fit nothing.",
        },
        Key {
            name: "overwrite",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Fit anew where a fingerprint is stored already; otherwise the stored one is used as it is.",
        },
        Key {
            name: "stage",
            kind: Kind::Word(&["training", "inference"]),
            default: Literal("training"),
            help: "Which rows to fit; rows that name no stage belong to it.",
        },
        Key {
            name: "optimizer",
            kind: Kind::Text,
            default: Literal("{profile.optimizer}"),
            help: "Which rows to fit: those of steps with this optimizer. A fingerprint of one step answers for others, too.",
        },
        Key {
            name: "zero_grad",
            kind: Kind::Word(&["keep", "free"]),
            default: Literal("{profile.zero_grad}"),
            help: "Which rows to fit, likewise: keep or free; by default keep with sgd, and free with every other optimizer.",
        },
        Key {
            name: "precision",
            kind: Kind::Text,
            default: Literal("{profile.precision}"),
            help: "Which rows to fit, likewise: fp32, amp_bf16, amp_fp16 or bf16.",
        },
        Key {
            name: "trainable",
            kind: Kind::Text,
            default: Literal("{profile.trainable}"),
            help: "Which rows to fit, likewise.",
        },
        Key {
            name: "frozen_normalisation",
            kind: Kind::Word(&["train", "eval"]),
            default: Literal("{profile.frozen_normalisation}"),
            help: "Which rows to fit, likewise.",
        },
        Key {
            name: "accumulate",
            kind: Kind::Integer(1, Accumulate::MOST as i64),
            default: Literal("{profile.accumulate}"),
            help: "Which rows to fit, likewise.",
        },
        Key {
            name: "checkpoint",
            kind: Kind::Text,
            default: Literal("{profile.checkpoint}"),
            help: "Which rows to fit, likewise.",
        },
        Key {
            name: "loss",
            kind: Kind::Text,
            default: Literal("{profile.loss}"),
            help: "Which rows to fit, likewise.",
        },
        Key { name: "memory_model", kind: Kind::Flag, default: Literal("True"), help: "Fit and evaluate memory." },
        Key { name: "latency_model", kind: Kind::Flag, default: Literal("True"), help: "Fit and evaluate latency." },
        Key { name: "train_nets", kind: NAMES, default: Required, help: "Networks to fit on." },
        Key {
            name: "train_logs",
            kind: LEVELS,
            default: Literal("[0,30,50,70,90]"),
            help: "Levels to fit on, all repeats of each.",
        },
        Key { name: "eval_nets", kind: NAMES, default: Literal("{train_nets}"), help: "Networks to evaluate on." },
        Key {
            name: "eval_logs",
            kind: LEVELS,
            default: Literal("[]"),
            help: "Levels to evaluate on; by default whatever there is besides train_logs.",
        },
        Key {
            name: "memory_logs",
            kind: FOLDERS,
            default: Literal("['{profile.log_dir}/memory']"),
            help: "Folders of the memory rows to fit on.",
        },
        Key {
            name: "eval_memory_logs",
            kind: FOLDERS,
            default: Literal("[]"),
            help: "Folders of the memory rows to evaluate on; by default memory_logs.",
        },
        Key {
            name: "latency_logs",
            kind: FOLDERS,
            default: Literal("['{profile.log_dir}/latency']"),
            help: "Folders of the latency rows to fit on.",
        },
        Key {
            name: "eval_latency_logs",
            kind: FOLDERS,
            default: Literal("[]"),
            help: "Folders of the latency rows to evaluate on; by default latency_logs.",
        },
        Key {
            name: "device_name",
            kind: Kind::Text,
            default: Literal("{profile.device_name}"),
            help: "The device the fingerprint is of; it names a folder.",
        },
        Key {
            name: "dataset",
            kind: Kind::Text,
            default: Literal("{profile.dataset}{-profile.input}{-profile.classes}"),
            help: "The dataset the networks are for; it names a folder.",
        },
        Key {
            name: "model_storedir",
            kind: Kind::Path,
            default: Literal("fingerprinting/{device_name}/{dataset}"),
            help: "Folder of the fingerprints and their report; the report of inference lies in a folder of that name in it.",
        },
        Key {
            name: "pruned_models_storedir",
            kind: Kind::Path,
            default: Literal("{profile.local_model_loc}"),
            help: "Folder of the network files; a row's network is found by the stem of its file name.",
        },
        Key {
            name: "target",
            kind: Kind::Text,
            default: Unset,
            help: "What kind of device was profiled: cpu, cpu_avx2, cuda, cuda_tf32 (a GPU from Ampere on with tf32 on), tx2, jetson, orin, or a file that describes one; by default what the profile's provenance says, else device_name.",
        },
        Key {
            name: "method",
            kind: Kind::Word(&["hybrid", "perf4sight"]),
            default: Literal("hybrid"),
            help: "How to fit; hybrid: simulated memory and physical latency, corrected by what was measured; perf4sight: the published 300 extremely randomised trees on summed features.",
        },
        Key {
            name: "seed",
            kind: Kind::Integer(0, i64::MAX),
            default: Literal("0"),
            help: "Seed of the fit: the same rows and seed give the same fingerprint.",
        },
    ],
};
