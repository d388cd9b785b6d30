//! The keys of `[profile]`.

use perf4sight_step::workload::{Accumulate, LARGEST_BATCH};
use perf4sight_verb::config::Missing::{Literal, Required, Unset};
use perf4sight_verb::config::{Key, Kind, Table};

/// More rounds than anybody waits for.
const MAX_REPEATS: i64 = 100;
/// More threads than any machine this runs on has.
const MAX_THREADS: i64 = 4096;

pub(super) const TABLE: Table = Table {
    section: "profile",
    about: "measures the networks of a dataset on a device, or writes down what to measure",
    keys: &[
        Key {
            name: "create_config",
            kind: Kind::Flag,
            default: Literal("True"),
            help: "Write what to measure to test_config.",
        },
        Key {
            name: "dataset",
            kind: Kind::Text,
            default: Literal("{create_network_dataset.dataset}"),
            help: "The dataset the networks are for; it names folders.",
        },
        Key {
            name: "input",
            kind: Kind::Text,
            default: Literal("{create_network_dataset.input}"),
            help: "One image where it is not as the dataset has it, 3x320x320, which the networks read; it follows in the names of folders and in the rows, so that measurements of different sizes are told apart.",
        },
        Key {
            name: "classes",
            kind: Kind::Integer(1, i64::MAX),
            default: Literal("{create_network_dataset.classes}"),
            help: "How many classes there are where it is not as the dataset has it; it follows as well.",
        },
        Key {
            name: "network",
            kind: Kind::List(&Kind::Text),
            default: Required,
            help: "The network or networks to measure, at every level found in local_model_loc.",
        },
        Key {
            name: "teach",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Measure small networks of perf4sight's own, too, which between them hold every class of operation: a fit then knows what attention, normalisation or GELU cost, though no network here has them. A minute or two on top for each stage on a server's core; they are written to local_model_loc, timed operation by operation, and scored nowhere.",
        },
        Key {
            name: "bs",
            kind: Kind::List(&Kind::Integer(1, LARGEST_BATCH as i64)),
            default: Required,
            help: "Batch sizes, such as [1,8,32].",
        },
        Key {
            name: "stage",
            kind: Kind::List(&Kind::Text),
            default: Literal("training"),
            help: "What a step does: training, inference or both.",
        },
        Key {
            name: "profile_variables",
            kind: Kind::List(&Kind::Text),
            default: Literal("['memory', 'latency']"),
            help: "What is measured: memory, latency, and beside latency also layers, the time of every operation.",
        },
        Key {
            name: "device_model_loc",
            kind: Kind::Path,
            default: Literal("{local_model_loc}"),
            help: "Where the networks lie on the device; written into test_config.",
        },
        Key {
            name: "local_model_loc",
            kind: Kind::Path,
            default: Literal("{create_network_dataset.model_path}/{dataset}{-input}{-classes}"),
            help: "The folder that holds {network}_{level}.onnx here.",
        },
        Key {
            name: "run_profiling",
            kind: Kind::Flag,
            default: Literal("True"),
            help: "Measure what test_config says.",
        },
        Key {
            name: "gpu_id",
            kind: Kind::Integer(0, MAX_THREADS),
            default: Literal("0"),
            help: "Which GPU of several; devices without GPUs ignore it.",
        },
        Key {
            name: "save",
            kind: Kind::Flag,
            default: Literal("True"),
            help: "Keep the rows in log_dir; with False they are only shown.",
        },
        Key {
            name: "device",
            kind: Kind::Text,
            default: Literal("cpu"),
            help: "What to measure on: cpu, simulated, recorded, or a GPU: cuda, 2080ti, jetson, orin; with a worker also tx2.",
        },
        Key {
            name: "worker",
            kind: Kind::List(&Kind::Text),
            default: Unset,
            help: "The command of another worker, such as python3 workers/torch_worker.py; by default perf4sight's own, beside it. It runs without a shell; as a list, its words may contain spaces.",
        },
        Key {
            name: "host",
            kind: Kind::Text,
            default: Unset,
            help: "A machine to measure on over ssh: user@address, user@address:port or an alias from ~/.ssh/config. The worker's files and the networks go there.",
        },
        Key {
            name: "hosts",
            kind: Kind::List(&Kind::Text),
            default: Unset,
            help: "Several machines of one kind, which share the configurations.",
        },
        Key {
            name: "ssh_config",
            kind: Kind::Path,
            default: Unset,
            help: "A file to use in place of ~/.ssh/config. Whatever it says, ssh never prompts, and unknown host keys are refused.",
        },
        Key {
            name: "reconnect",
            kind: Kind::Number(0.0),
            default: Literal("300"),
            help: "Seconds to go on trying when the connection to the machine was lost.",
        },
        Key {
            name: "libtorch_cuda",
            kind: Kind::Path,
            default: Unset,
            help: "For GPUs: where PyTorch 2.11 with CUDA lies, its folder or libtorch_cuda.so; by default LIBTORCH_CUDA of the environment, else the PyTorch that python3 finds.",
        },
        Key {
            name: "tf32",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "For GPUs: whether products of fp32 numbers may be rounded to TF32.",
        },
        Key {
            name: "cudnn_benchmark",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "For GPUs: whether cuDNN tries its algorithms during the warm-up and takes the fastest.",
        },
        Key {
            name: "till_first_fail",
            kind: Kind::Flag,
            default: Literal("False"),
            help: "Go up the batch sizes in order, and write no rows for those that are skipped after a smaller one ran out of memory. By default their order is random.",
        },
        Key {
            name: "repeats",
            kind: Kind::Integer(1, MAX_REPEATS),
            default: Literal("1"),
            help: "How often everything is measured, in rounds. With two or more the report can tell how much of an error is the device's own noise.",
        },
        Key {
            name: "plan",
            kind: Kind::Word(&["grid", "adaptive"]),
            default: Literal("grid"),
            help: "What is measured: grid measures everything; adaptive what teaches the fit most, at most 15 % of the rows, and stops when more would no longer make predictions better.",
        },
        Key {
            name: "budget",
            kind: Kind::Text,
            default: Unset,
            help: "The time that measuring may take, earlier runs included, such as 20 min, 90 s or 2 h; by default as long as it needs.",
        },
        Key {
            name: "log_dir",
            kind: Kind::Path,
            default: Literal("profiling_csvs/{device_name}/{dataset}{-input}{-classes}"),
            help: "The folder of the rows.",
        },
        Key {
            name: "test_config",
            kind: Kind::Path,
            default: Literal("{log_dir}/test_config"),
            help: "What to measure: one file for all networks (.ini), or a folder with one {network}.ini each.",
        },
        Key {
            name: "device_name",
            kind: Kind::Text,
            default: Literal("{device}"),
            help: "The device's name in folders; set it to tell two machines apart.",
        },
        Key {
            name: "threads",
            kind: Kind::Integer(1, MAX_THREADS),
            default: Unset,
            help: "Threads of the compute library; by default as many as the machine runs at the same time.",
        },
        Key {
            name: "mem_limit",
            kind: Kind::Memory,
            default: Unset,
            help: "Memory that a measurement may use before it counts as out of memory, on a GPU the memory of the GPU; by default 80 % of the main memory that is available, or all of a GPU that has its own.",
        },
        Key {
            name: "cpus",
            kind: Kind::Number(0.01),
            default: Unset,
            help: "CPUs that a measurement may use, also in fractions, held by affinity and a control group; by default all.",
        },
        Key {
            name: "kernel_mem_limit",
            kind: Kind::Memory,
            default: Unset,
            help: "Main memory that the kernel gives to a measurement, held by a control group: beyond it the measurement is ended and counts as out of memory.",
        },
        Key {
            name: "timeout",
            kind: Kind::Number(0.1),
            default: Literal("600"),
            help: "Seconds after which a measurement counts as hung and is ended; until then it holds the machine, for nothing tells a hung worker from one with a long step, and a first step on a small board takes minutes.",
        },
        Key {
            name: "optimizer",
            kind: Kind::Text,
            default: Literal("sgd"),
            help: "How a training step changes the weights: sgd (as published, with momentum 0.9 and weight decay), sgd_without_momentum (and without decay), adam, adamw or rmsprop, with PyTorch's own numbers.",
        },
        Key {
            name: "zero_grad",
            kind: Kind::Word(&["keep", "free"]),
            default: Unset,
            help: "What becomes of gradients: keep fills them with zeros where they lie, free frees them before the step, as PyTorch does since 2.0; by default keep with sgd, which is as published, and free with every other optimizer.",
        },
        Key {
            name: "precision",
            kind: Kind::Text,
            default: Literal("fp32"),
            help: "What numbers a step computes with: fp32; amp_bf16 or amp_fp16, which run forward and loss under PyTorch's autocast (half precision with a gradient scaler); or bf16, which holds weights, gradients and optimizer states in bfloat16 too.",
        },
        Key {
            name: "trainable",
            kind: Kind::Text,
            default: Literal("all"),
            help: "Which weights a training step changes: all, classifier (those of the last operation with weights), 'last N' (of the last N), bias, normalisation (scales and shifts), or patterns of layer names such as 'layer4.*,fc'. No gradient is computed below the lowest of them, and nothing kept for it.",
        },
        Key {
            name: "frozen_normalisation",
            kind: Kind::Word(&["train", "eval"]),
            default: Literal("train"),
            help: "How batch normalisations work in training whose weights it does not change: train, with the statistics of the batch, as PyTorch does, or eval, with those they keep.",
        },
        Key {
            name: "accumulate",
            kind: Kind::Integer(1, Accumulate::MOST as i64),
            default: Literal("1"),
            help: "In how many passes forward and backward the samples of a batch go through the network before the weights are changed, once; bs counts the samples of all passes, and a row is one change of the weights.",
        },
        Key {
            name: "checkpoint",
            kind: Kind::Text,
            default: Literal("none"),
            help: "Which parts of forward a training step runs again in backward instead of keeping what they made: none, 'N segments' (all but the last of N, equally many stretches each), or 'every block'.",
        },
        Key {
            name: "loss",
            kind: Kind::Text,
            default: Literal("cross_entropy"),
            help: "What a training step compares the network's result with: cross_entropy, of the classes of a vector, of every pixel of an image whose channels are classes, of every place of a sequence; or mean_squared_error, as many numbers as the result has.",
        },
        Key {
            name: "device_source",
            kind: Kind::Path,
            default: Unset,
            help: "For device = recorded the profile it answers from, for simulated a JSON file of what it can do.",
        },
        Key {
            name: "seed",
            kind: Kind::Integer(0, i64::MAX),
            default: Literal("0"),
            help: "Seed of the networks' weights, of their input and of simulated noise.",
        },
    ],
};
