//! Keys that sections have in common which ask about steps without measuring them: what answers, what the step does, what it must fit into.

use perf4sight_step::workload::Accumulate;
use perf4sight_verb::config::Missing::{Literal, Unset};
use perf4sight_verb::config::{Key, Kind};

pub(super) const FINGERPRINT: Key = Key {
    name: "fingerprint",
    kind: Kind::Path,
    default: Literal("{fingerprint.model_storedir}"),
    help: "Folder of the fingerprints.",
};

pub(super) const STAGE: Key = Key {
    name: "stage",
    kind: Kind::Word(&["training", "inference"]),
    default: Literal("{fingerprint.stage}"),
    help: "What a step does.",
};

pub(super) const OPTIMIZER: Key = Key {
    name: "optimizer",
    kind: Kind::Text,
    default: Unset,
    help: "How the step changes the weights: sgd, sgd_without_momentum, adam, adamw or rmsprop; by default as the steps that were profiled.",
};

pub(super) const ZERO_GRAD: Key = Key {
    name: "zero_grad",
    kind: Kind::Word(&["keep", "free"]),
    default: Unset,
    help: "What becomes of gradients: keep or free; by default free, as PyTorch does; where steps were profiled as in these, and with sgd instead of their optimizer keep, as published.",
};

pub(super) const PRECISION: Key = Key {
    name: "precision",
    kind: Kind::Text,
    default: Unset,
    help: "What numbers the step computes with: fp32, amp_bf16, amp_fp16 or bf16; by default as in the steps that were profiled. Memory is simulated for all that the device computes with, latency is told at the precision that was profiled, and at those that it was calibrated with (perf4sight calibrate --precision).",
};

pub(super) const TRAINABLE: Key = Key {
    name: "trainable",
    kind: Kind::Text,
    default: Unset,
    help: "Which weights the step changes: all, classifier, 'last N', bias, normalisation, or patterns of layer names; by default as the steps that were profiled.",
};

pub(super) const FROZEN_NORMALISATION: Key = Key {
    name: "frozen_normalisation",
    kind: Kind::Word(&["train", "eval"]),
    default: Unset,
    help: "How batch normalisations work whose weights are not changed: train or eval; by default as in the steps that were profiled.",
};

pub(super) const ACCUMULATE: Key = Key {
    name: "accumulate",
    kind: Kind::Integer(1, Accumulate::MOST as i64),
    default: Unset,
    help: "In how many passes the samples go through the network before the weights are changed; by default as in the steps that were profiled.",
};

pub(super) const CHECKPOINT: Key = Key {
    name: "checkpoint",
    kind: Kind::Text,
    default: Unset,
    help: "Which parts of forward run again in backward: none, 'N segments' or 'every block'; by default as in the steps that were profiled.",
};

pub(super) const LOSS: Key = Key {
    name: "loss",
    kind: Kind::Text,
    default: Unset,
    help: "What the network's result is compared with: cross_entropy or mean_squared_error; by default as in the steps that were profiled.",
};

pub(super) const MEM_LIMIT: Key = Key {
    name: "mem_limit",
    kind: Kind::Memory,
    default: Unset,
    help: "The memory that a step must fit into, all that it uses; by default what there was when the device was profiled.",
};

pub(super) const DEVICE: Key =
    Key { name: "device_name", kind: Kind::Text, default: Unset, help: "Refuse fingerprints of another device." };

pub(super) const DATASET: Key = Key {
    name: "dataset",
    kind: Kind::Text,
    default: Unset,
    help: "Refuse fingerprints of another dataset; with target the one whose images known networks read, by default imagenet.",
};

pub(super) const OVERWRITE: Key = Key {
    name: "overwrite",
    kind: Kind::Flag,
    default: Literal("False"),
    help: "Whether files that perf4sight did not write are replaced too; its own are in any case.",
};

pub(super) const INPUT: Key = Key {
    name: "input",
    kind: Kind::Text,
    default: Unset,
    help: "One sample of what networks read, such as 3x320x320, where it is not as the fingerprint's dataset or the file has it.",
};

pub(super) const CLASSES: Key = Key {
    name: "classes",
    kind: Kind::Integer(1, i64::MAX),
    default: Unset,
    help: "How many classes networks tell apart, where it is not as in the fingerprint's dataset or in the file.",
};
