//! The keys of `[sensitivity]`.

use super::nodes;
use perf4sight_verb::config::Missing::{Literal, Required, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

pub(super) const TABLE: Table = Table {
    section: "sensitivity",
    about: "finds how many CPUs, how much memory and which storage a training job needs",
    keys: &[
        Key {
            name: "command",
            kind: Kind::List(&Kind::Text),
            default: Required,
            help: "The job, such as python3 train.py --arch resnet18. It runs without a shell; as a list, its words may contain spaces.",
        },
        Key {
            name: "out",
            kind: Kind::Path,
            default: Literal("sensitivity"),
            help: "Folder for the points, profile.json and the report. Points that lie there are not measured again.",
        },
        Key {
            name: "overwrite",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Whether points in the folder are thrown away and measured anew.",
        },
        Key { name: "job_name", kind: Kind::Text, default: Unset, help: "What the job is called; else as its script." },
        Key {
            name: "cpu",
            kind: Kind::Number(0.01),
            default: Unset,
            help: "The most CPUs that are tried; else all there are.",
        },
        Key {
            name: "cpu_step",
            kind: Kind::Number(0.01),
            default: Unset,
            help: "How close numbers of CPUs lie that are tried; else 0.25 up to 6 CPUs, 0.5 up to 12, and whole ones.",
        },
        Key {
            name: "memory",
            kind: Kind::Text,
            default: Unset,
            help: "The most memory that the job gets, such as 64GiB; a number alone is GB.",
        },
        Key {
            name: "num_gpus",
            kind: Kind::Integer(0, 1024),
            default: Unset,
            help: "How many GPUs the job uses, for what to request; else one where there is one. As many processes share the CPUs.",
        },
        Key {
            name: "batch",
            kind: Kind::Integer(1, 1_000_000_000),
            default: Unset,
            help: "Samples of an iteration on each GPU, passed to the script as --batch.",
        },
        Key {
            name: "workers",
            kind: Kind::Integer(0, 100_000),
            default: Unset,
            help: "Workers that load data, passed to the script as --workers.",
        },
        Key {
            name: "max_iterations",
            kind: Kind::Integer(1, 1_000_000_000),
            default: Unset,
            help: "Iterations after which a point ends at the latest, passed to the script as --max-iterations.",
        },
        Key {
            name: "data",
            kind: Kind::Path,
            default: Unset,
            help: "The data that an epoch reads: a file or a folder, passed to the script as --data.",
        },
        Key {
            name: "pass",
            kind: Kind::List(&Kind::Word(&["batch", "workers", "max-iterations", "data", "none"])),
            default: Unset,
            help: "Which of the four are passed to the script; else those whose names stand in its text or among its arguments.",
        },
        Key {
            name: "samples",
            kind: Kind::Integer(1, i64::MAX),
            default: Unset,
            help: "Samples of an epoch; else as many as data has files.",
        },
        Key {
            name: "step_pattern",
            kind: Kind::Text,
            default: Unset,
            help: "A regular expression that the job's output matches once an iteration; what its group named step holds is the iteration's number.",
        },
        Key {
            name: "iterations",
            kind: Kind::Integer(1, 1_000_000_000),
            default: Unset,
            help: "How many iterations the whole command makes, where it tells of none: its time is divided by them.",
        },
        Key {
            name: "warm_up",
            kind: Kind::Integer(0, 1_000_000),
            default: Literal("5"),
            help: "Iterations at the beginning of each run that do not count.",
        },
        Key {
            name: "point_time",
            kind: Kind::Text,
            default: Literal("60s"),
            help: "Time after which a run ends though its rate is not known to 3 %.",
        },
        Key {
            name: "budget",
            kind: Kind::Text,
            default: Unset,
            help: "Time for everything, such as 20 min, though a run gets 5 s at the least; what is known then is told.",
        },
        Key {
            name: "memory_bandwidth",
            kind: Kind::Text,
            default: Unset,
            help: "What the job can read from memory in a second, such as 8GB.",
        },
        Key {
            name: "storage_bandwidth",
            kind: Kind::Text,
            default: Unset,
            help: "What can be read from the storage of the data in a second, such as 500MB; else it is measured.",
        },
        Key {
            name: "docker_img",
            kind: Kind::Text,
            default: Unset,
            help: "The image of docker that the job runs in; else it runs here.",
        },
        Key {
            name: "container_mnt",
            kind: Kind::Path,
            default: Unset,
            help: "Where the container has the data; else where it lies here.",
        },
        Key {
            name: "nnodes",
            kind: Kind::Integer(1, nodes::MOST as i64),
            default: Literal("1"),
            help: "How many servers the job runs on; each runs the same configuration with its own node_rank.",
        },
        Key {
            name: "node_rank",
            kind: Kind::Integer(0, nodes::MOST as i64),
            default: Literal("0"),
            help: "Which of them this is, from 0; node 0 leads and writes what comes of it.",
        },
        Key {
            name: "master_addr",
            kind: Kind::Text,
            default: Literal("127.0.0.1"),
            help: "How the others reach node 0.",
        },
        Key {
            name: "master_port",
            kind: Kind::Integer(1, 65535),
            default: Literal("29500"),
            help: "A free port of node 0 at which the processes of the job meet.",
        },
        Key {
            name: "node_port",
            kind: Kind::Integer(1, 65535),
            default: Unset,
            help: "A free port of node 0 at which the profilers meet; else the one behind master_port.",
        },
        Key {
            name: "node_wait",
            kind: Kind::Text,
            default: Literal("10min"),
            help: "How long it is waited until all nodes have come.",
        },
    ],
};
