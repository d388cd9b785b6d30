//! The keys of `[breakdown]`.

use perf4sight_verb::config::Missing::{Literal, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    section: "breakdown",
    about: "shows where the iterations of a recorded training script spend their time",
    keys: &[
        Key {
            name: "traces",
            kind: Kind::List(&Kind::Path),
            default: Literal("{record.out}"),
            help: "Traces of one run, one of each rank, or a folder of them.",
        },
        Key {
            name: "out",
            kind: Kind::Path,
            default: Literal("breakdown"),
            help: "Folder for report.html, breakdown.json, breakdown.csv, stacks.folded and the plots. An earlier breakdown in it is replaced.",
        },
        Key {
            name: "iteration",
            kind: Kind::Text,
            default: Unset,
            help: "The name of the events that are the iterations: of a range, a function or an operator. Without it they are the steps of PyTorch's profiler, else those of an optimizer, else what repeats.",
        },
        Key {
            name: "compare",
            kind: Kind::List(&Kind::Path),
            default: Unset,
            help: "The traces of another run, or a folder of them, to show what changed from the first to this one. Either may be several folders, each a recording of the run.",
        },
    ],
};
