//! The keys of `[detection]`, which are those of `[training]` in a published TOML file too.

use perf4sight_verb::config::Missing::{Literal, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

/// Most of what is counted: far more than anybody trains with.
const MANY: i64 = 1_000_000;

pub(super) const TABLE: Table = Table {
    section: "detection",
    about: "trains a detector for some steps, and says what its parts take and which setting suits",
    keys: &[
        Key {
            name: "data",
            kind: Kind::Path,
            default: Unset,
            help: "Folder of the data, in the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt.",
        },
        Key {
            name: "out",
            kind: Kind::Path,
            default: Literal("detection"),
            help: "Folder for what is measured and the report. Settings that were measured there are not measured again.",
        },
        Key {
            name: "overwrite",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether settings that were measured there are measured anew.",
        },
        Key {
            name: "network",
            kind: Kind::Text,
            default: Literal("fasterrcnn_resnet50_fpn"),
            help: "A detector of torchvision, or module:function of your own.",
        },
        Key {
            name: "num_epochs",
            kind: Kind::Integer(1, MANY),
            default: Literal("10"),
            help: "Epochs of the training whose time is told.",
        },
        Key {
            name: "batch_size",
            kind: Kind::List(&Kind::Integer(1, MANY)),
            default: Literal("8"),
            help: "Images of a step; several are tried one after the other.",
        },
        Key {
            name: "prefetch_factor",
            kind: Kind::List(&Kind::Integer(1, MANY)),
            default: Literal("2"),
            help: "Batches that each loading process loads ahead.",
        },
        Key {
            name: "num_workers",
            kind: Kind::List(&Kind::Integer(0, 10_000)),
            default: Literal("4"),
            help: "Processes that load data.",
        },
        Key {
            name: "device",
            kind: Kind::Text,
            default: Unset,
            help: "What is trained on: cpu, or cuda: and a number; by default cuda:0 where PyTorch sees a GPU.",
        },
        Key {
            name: "threads",
            kind: Kind::Integer(1, 4096),
            default: Unset,
            help: "Threads of the compute library; by default as many as the machine runs at the same time.",
        },
        Key {
            name: "steps",
            kind: Kind::Integer(2, MANY),
            default: Literal("10"),
            help: "Steps that are measured freely; as many more are measured part by part.",
        },
        Key {
            name: "warm_up",
            kind: Kind::Integer(2, MANY),
            default: Literal("2"),
            help: "Slower steps at the beginning, which are told apart. The last of them takes the largest batch that the data may give, and says what must fit.",
        },
        Key {
            name: "size",
            kind: Kind::Integer(1, 65_536),
            default: Unset,
            help: "Pixels of the shorter side of images; by default the network's own.",
        },
        Key {
            name: "boxes",
            kind: Kind::Word(&["trimap", "head"]),
            default: Literal("trimap"),
            help: "What is boxed: the pet, from its trimap, or its head, from its xml file.",
        },
        Key {
            name: "precision",
            kind: Kind::Word(&["fp32", "amp_bf16", "amp_fp16"]),
            default: Literal("fp32"),
            help: "What numbers are computed with.",
        },
        Key {
            name: "optimizer",
            kind: Kind::Word(&["adamw", "sgd"]),
            default: Literal("adamw"),
            help: "How weights change.",
        },
        Key {
            name: "learning_rate",
            kind: Kind::Number(1e-12),
            default: Literal("1e-4"),
            help: "How far. With the published 5e-3 random weights diverge, and steps take another time.",
        },
        Key {
            name: "clip",
            kind: Kind::Number(1e-12),
            default: Unset,
            help: "The norm that gradients are clipped to.",
        },
        Key {
            name: "channels_last",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether images lie pixel by pixel.",
        },
        Key {
            name: "pin_memory",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether batches lie in memory that a GPU copies from by itself.",
        },
        Key {
            name: "weights",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether the backbone's trained weights are downloaded; else they are random.",
        },
        Key { name: "mem_limit", kind: Kind::Memory, default: Unset, help: "Memory past which a step does not fit." },
        Key {
            name: "python",
            kind: Kind::Text,
            default: Literal("python3"),
            help: "The Python that has PyTorch and torchvision.",
        },
        Key {
            name: "timeout",
            kind: Kind::Text,
            default: Literal("1h"),
            help: "Time after which a setting counts as hung.",
        },
        Key {
            name: "seed",
            kind: Kind::Integer(0, i64::MAX),
            default: Literal("0"),
            help: "Seed of weights and of the order of images.",
        },
        Key {
            name: "trace",
            kind: Kind::Path,
            default: Unset,
            help: "Folder for a trace of three more steps of each setting, for [breakdown].",
        },
        Key {
            name: "host",
            kind: Kind::Text,
            default: Unset,
            help: "A machine to measure on over ssh: user@address, user@address:port or an alias from ~/.ssh/config. The data lie there.",
        },
        Key { name: "ssh_config", kind: Kind::Path, default: Unset, help: "A file to use in place of ~/.ssh/config." },
        Key {
            name: "reconnect",
            kind: Kind::Number(0.0),
            default: Literal("300"),
            help: "Seconds to go on trying when the connection to the machine was lost.",
        },
        Key {
            name: "predict",
            kind: Kind::Path,
            default: Unset,
            help: "Folder of this device's fingerprint. Nothing is measured then: settings are predicted, from it and from what was measured in out with other batch sizes or images of another size.",
        },
    ],
};
