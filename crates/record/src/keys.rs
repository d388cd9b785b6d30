//! The keys of `[record]`.

use perf4sight_verb::config::Missing::{Literal, Required, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    section: "record",
    about: "runs a training script, records some of its iterations and times as many without recording",
    keys: &[
        Key {
            name: "command",
            kind: Kind::List(&Kind::Text),
            default: Required,
            help: "The command, such as python3 train.py --epochs 1, or one with torchrun. It runs without a shell; as a list, its words may contain spaces.",
        },
        Key {
            name: "iterations",
            kind: Kind::Integer(1, 100_000),
            default: Literal("20"),
            help: "How many iterations are recorded, and how many timed without recording.",
        },
        Key {
            name: "warm_up",
            kind: Kind::Integer(0, 100_000),
            default: Literal("5"),
            help: "How many iterations come before those that count.",
        },
        Key {
            name: "stacks",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether Python functions are recorded too. Without them nobody knows the share of Python; with them recording costs more.",
        },
        Key {
            name: "out",
            kind: Kind::Path,
            default: Literal("recording"),
            help: "Folder for the traces and times. Nothing is written anywhere else.",
        },
        Key {
            name: "time_limit",
            kind: Kind::Text,
            default: Unset,
            help: "Time after which the command is ended, such as 90s or 10min; a number alone is seconds.",
        },
        Key {
            name: "overwrite",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether a recording that lies in the folder is replaced.",
        },
    ],
};
