//! The settings of `[profile]`, and the device settings that it shares with `perf4sight profile --check-noise`.

use crate::verbs::asking::MAX_THREADS;
use crate::verbs::step::{
    ACCUMULATE, CHECKPOINT, FROZEN_NORMALISATION, LOSS, OPTIMIZER, PRECISION, TRAINABLE, ZERO_GRAD, stages,
};
use perf4sight_step::workload::{LARGEST_BATCH, Variable};
use perf4sight_verb::config::{Setting, SettingTable, flag, integer, memory, number, path, text, word};

/// An upper bound on useful repeats.
const MAX_REPEATS: i64 = 100;

pub(super) const TABLE: SettingTable = SettingTable {
    section: "profile",
    about: "measures the networks of a dataset on a device, or writes down what to measure",
    groups: &[MEASURED, OF_DEVICES, OF_STEPS],
};

const MEASURED: &[Setting] = &[
    flag("create_config").or_default("True").help("Write what to measure to test_config."),
    text("dataset").or_default("{create_network_dataset.dataset}")
        .help("Dataset of the networks; it names folders."),
    text("input").or_default("{create_network_dataset.input}")
        .help("Shape of one image, such as 3x320x320, if it differs from the dataset's. It becomes part of the names of folders and of the rows, so that measurements of different sizes stay apart."),
    integer("classes", 1, i64::MAX).or_default("{create_network_dataset.classes}")
        .help("Number of classes, if it differs from the dataset's. It, too, becomes part of the names of folders and of the rows."),
    text("network").many_values().required()
        .help("Networks to measure, at every level found in local_model_loc."),
    flag("teach")
        .help("Measure perf4sight's calibration networks too. Together they contain every class of operation, so that a fit knows the cost of attention, normalisation or GELU even if no network here has them. It takes a minute or two longer for each stage on one core of a server. They are written to local_model_loc, timed operation by operation, and never scored."),
    integer("bs", 1, LARGEST_BATCH as i64).many_values().required().help("Batch sizes, such as [1,8,32]."),
    word("profile_variables", || Variable::ALL.map(Variable::name).to_vec()).many_values().or_default("['memory', 'latency']")
        .help("What to measure: memory, latency, and, together with latency, layers: the time of every operation."),
    path("device_model_loc").or_default("{local_model_loc}")
        .help("Folder of the networks on the device; written into test_config."),
    path("local_model_loc").or_default("{create_network_dataset.model_path}/{dataset}{-input}{-classes}")
        .help("The folder that holds {network}_{level}.onnx here."),
    flag("run_profiling").or_default("True").help("Measure what test_config says."),
    flag("save").or_default("True").help("Store the rows in log_dir; with False they are only shown."),
    flag("till_first_fail")
        .help("Measure batch sizes in ascending order, and write no rows for those that are skipped because a smaller one ran out of memory. By default the order is random."),
    integer("repeats", 1, MAX_REPEATS).or_default("1")
        .help("Number of rows for each configuration. One row is already the quicker of two measurements that are apart in time. With two or more rows, the report shows how much of an error is noise of the device."),
    word("plan", || vec!["grid", "adaptive"]).or_default("grid")
        .help("What to measure: grid measures everything; adaptive measures the rows that improve the fit most, at most 15 % of them, and stops when more would no longer improve predictions."),
    text("budget")
        .help("Time limit for measuring, earlier runs included, such as 20 min, 90 s or 2 h; by default none."),
    path("log_dir").or_default("profiling_csvs/{device_name}/{dataset}{-input}{-classes}").help("Folder of the rows."),
    path("test_config").or_default("{log_dir}/test_config")
        .help("What to measure: one file for all networks (.ini), or a folder with one {network}.ini each."),
    text("device_name").or_default("{device}").help("Name of the device in the names of folders; set it to separate two machines."),
];

pub(super) const OF_DEVICES: &[Setting] = &[
    text("device").or_default("cpu").value("NAME")
        .help("Device to measure on: cpu, simulated, recorded, or a GPU: cuda, 2080ti, jetson, orin; with a worker also tx2."),
    path("device_source").value("FILE")
        .help("For device = recorded: the profile it answers from. For simulated: a JSON file that describes it."),
    text("worker").many_values().value("COMMAND")
        .help("Command of another worker, such as python3 workers/torch_worker.py; by default perf4sight's own. It runs without a shell. In a list, words may contain spaces."),
    text("host").in_configurations()
        .help("A machine to measure on over ssh: user@address, user@address:port or an alias from ~/.ssh/config. The files of the worker and the networks are copied there."),
    text("hosts").many_values().in_configurations().help("Several machines of one kind, among which the configurations are divided."),
    path("ssh_config").in_configurations()
        .help("File to use in place of ~/.ssh/config. In any case, ssh never prompts, and unknown host keys are refused."),
    number("reconnect", 0.0).or_default("300").in_configurations()
        .help("Seconds to keep trying after the connection to the machine was lost."),
    path("libtorch_cuda").in_configurations()
        .help("For GPUs: folder of PyTorch 2.11 with CUDA, or its libtorch_cuda.so; by default the environment variable LIBTORCH_CUDA, or the PyTorch of python3."),
    integer("gpu_id", 0, MAX_THREADS).or_default("0").value("NUMBER")
        .help("Number of the GPU, if there are several; devices without GPUs ignore it."),
    flag("tf32").in_configurations().help("For GPUs: whether fp32 matrix products may use TF32."),
    flag("cudnn_benchmark").in_configurations()
        .help("For GPUs: whether cuDNN tries its algorithms during the warm-up and uses the fastest."),
    integer("threads", 1, MAX_THREADS).value("NUMBER")
        .help("Threads of the compute library; by default as many as the machine can run at once."),
    memory("mem_limit", "MiB").in_configurations()
        .help("Memory that a measurement may use before it counts as out of memory; on a GPU, the GPU's memory. By default 80 % of the available main memory, or all memory of a GPU that has its own."),
    number("cpus", 0.01).in_configurations()
        .help("Number of CPUs that a measurement may use, also a fraction, limited by affinity and a control group; by default all."),
    memory("kernel_mem_limit", "MiB").in_configurations()
        .help("Main memory that a measurement may use, limited by a control group: the kernel ends a measurement that needs more, and it counts as out of memory."),
    number("timeout", 0.1).or_default("600").in_configurations()
        .help("Seconds after which a measurement counts as hung and is ended. The first step on a small board takes minutes."),
    integer("seed", 0, i64::MAX).or_default("0").value("NUMBER")
        .help("Seed of the networks' weights, of their input and of simulated noise."),
];

const OF_STEPS: &[Setting] = &[
    word("stage", stages).many_values().or_default("training").help("Stage of a step: training, inference or both."),
    OPTIMIZER.or_default("sgd")
        .help("Optimizer of a training step: sgd (as in the perf4sight paper, with momentum 0.9 and weight decay), sgd_without_weight_decay (with momentum), sgd_without_momentum (without both), adam, adamw or rmsprop, with PyTorch's defaults."),
    ZERO_GRAD
        .help("What zero_grad() does to gradients: keep fills them with zeros in place; free frees them before the step, as PyTorch does since 2.0. By default keep with sgd, as in the perf4sight paper, and free with every other optimizer."),
    PRECISION.or_default("fp32")
        .help("Precision of a step: fp32; amp_bf16 or amp_fp16, with forward and loss under PyTorch's autocast (amp_fp16 with a gradient scaler); or bf16, with weights, gradients and optimizer states in bfloat16 too."),
    TRAINABLE.or_default("all")
        .help("Weights that a training step changes: all, classifier (those of the last operation with weights), 'last N' (of the last N), bias, normalisation (scales and shifts), or patterns of layer names such as 'layer4.*,fc'. Before the first layer with such weights, no gradient is computed and nothing is kept for backward."),
    FROZEN_NORMALISATION.or_default("train")
        .help("Mode of batch normalisations whose weights are frozen: train uses the statistics of the batch, as PyTorch does by default; eval uses the running statistics."),
    ACCUMULATE.or_default("1")
        .help("Gradient accumulation: number of forward and backward passes that share the samples of a batch, before one update of the weights. bs counts the samples of all passes, and a row is one update of the weights."),
    CHECKPOINT.or_default("none")
        .help("Activation checkpointing: the segments of forward that run again in backward instead of keeping their activations. none, 'N segments' (all but the last of N segments of equal length), or 'every block'."),
    LOSS.or_default("cross_entropy")
        .help("Loss of a training step: cross_entropy, of a vector of classes, of every pixel of an image whose channels are classes, or of every position of a sequence; or mean_squared_error, of all numbers of the result."),
];
