//! The keys of `[predict]`.

use crate::config::Missing::{Literal, Required, Unset};
use crate::config::{Key, Kind, Table};
use crate::workload::{Accumulate, LARGEST_BATCH};

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
        Key {
            name: "fingerprint",
            kind: Kind::Path,
            default: Literal("{fingerprint.model_storedir}"),
            help: "Folder of the fingerprints.",
        },
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
        Key {
            name: "stage",
            kind: Kind::Word(&["training", "inference"]),
            default: Literal("{fingerprint.stage}"),
            help: "What a step does.",
        },
        Key {
            name: "optimizer",
            kind: Kind::Text,
            default: Unset,
            help: "How the step changes the weights: sgd, sgd_without_momentum, adam, adamw or rmsprop; by default as the steps that were profiled.",
        },
        Key {
            name: "zero_grad",
            kind: Kind::Word(&["keep", "free"]),
            default: Unset,
            help: "What becomes of gradients: keep or free; by default as in the steps that were profiled, and with another optimizer as PyTorch does (free), but for sgd, which is as published (keep).",
        },
        Key {
            name: "precision",
            kind: Kind::Text,
            default: Unset,
            help: "What numbers the step computes with: fp32, amp_bf16, amp_fp16 or bf16; by default as in the steps that were profiled. Memory is simulated for all that the device computes with, latency is told at the precision that was profiled alone.",
        },
        Key {
            name: "trainable",
            kind: Kind::Text,
            default: Unset,
            help: "Which weights the step changes: all, classifier, 'last N', bias, normalisation, or patterns of layer names; by default as the steps that were profiled.",
        },
        Key {
            name: "frozen_normalisation",
            kind: Kind::Word(&["train", "eval"]),
            default: Unset,
            help: "How batch normalisations work whose weights are not changed: train or eval; by default as in the steps that were profiled.",
        },
        Key {
            name: "accumulate",
            kind: Kind::Integer(1, Accumulate::MOST as i64),
            default: Unset,
            help: "In how many passes the samples go through the network before the weights are changed; by default as in the steps that were profiled.",
        },
        Key {
            name: "checkpoint",
            kind: Kind::Text,
            default: Unset,
            help: "Which parts of forward run again in backward: none, 'N segments' or 'every block'; by default as in the steps that were profiled.",
        },
        Key {
            name: "mem_limit",
            kind: Kind::Memory,
            default: Unset,
            help: "The memory that a step must fit into, all that it uses; by default what there was when the device was profiled.",
        },
        Key {
            name: "require_fit",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether a step that may not fit ends the run with exit code 7.",
        },
        Key { name: "device_name", kind: Kind::Text, default: Unset, help: "Refuse fingerprints of another device." },
        Key {
            name: "dataset",
            kind: Kind::Text,
            default: Unset,
            help: "Refuse fingerprints of another dataset; with target the one whose images known networks read, by default imagenet.",
        },
        Key {
            name: "output",
            kind: Kind::List(&Kind::Path),
            default: Literal("[]"),
            help: "Files to write the predictions to: .csv with a row per network and batch size, .json with everything, .html as a page, of one network with a chart of its memory over the step.",
        },
    ],
};
