//! The settings of `[profile]`, and the device settings that it shares with `perf4sight profile --check-noise`.

use crate::verbs::step::{
    ACCUMULATE, CHECKPOINT, FROZEN_NORMALISATION, LOSS, OPTIMIZER, PRECISION, TRAINABLE, ZERO_GRAD, stages,
};
use perf4sight_step::workload::{LARGEST_BATCH, Variable};
use perf4sight_verb::config::{Setting, Table, flag, integer, memory, number, path, text, word};

/// An upper bound on useful repeats.
const MAX_REPEATS: i64 = 100;
/// More threads than any supported machine has.
const MAX_THREADS: i64 = 4096;

pub(super) const TABLE: Table = Table {
    section: "profile",
    about: "measures the networks of a dataset on a device, or writes down what to measure",
    groups: &[MEASURED, OF_DEVICES, OF_STEPS],
};

const MEASURED: &[Setting] = &[
    flag("create_config").or("True").help("Write what to measure to test_config."),
    text("dataset").or("{create_network_dataset.dataset}")
        .help("The dataset the networks are for; it names folders."),
    text("input").or("{create_network_dataset.input}")
        .help("Shape of one image such as 3x320x320, if not as in the dataset; it becomes part of the names of folders and of the rows, so that measurements of different sizes stay apart."),
    integer("classes", 1, i64::MAX).or("{create_network_dataset.classes}")
        .help("How many classes there are where it is not as the dataset has it; it follows as well."),
    text("network").many().required()
        .help("The network or networks to measure, at every level found in local_model_loc."),
    flag("teach")
        .help("Measure small networks of perf4sight's own, too, which between them hold every class of operation: a fit then knows what attention, normalisation or GELU cost, though no network here has them. A minute or two on top for each stage on a server's core; they are written to local_model_loc, timed operation by operation, and scored nowhere."),
    integer("bs", 1, LARGEST_BATCH as i64).many().required().help("Batch sizes, such as [1,8,32]."),
    word("profile_variables", || Variable::ALL.map(Variable::name).to_vec()).many().or("['memory', 'latency']")
        .help("What is measured: memory, latency, and with latency also layers, the time of every operation."),
    path("device_model_loc").or("{local_model_loc}")
        .help("Where the networks are stored on the device; written into test_config."),
    path("local_model_loc").or("{create_network_dataset.model_path}/{dataset}{-input}{-classes}")
        .help("The folder that holds {network}_{level}.onnx here."),
    flag("run_profiling").or("True").help("Measure what test_config says."),
    flag("save").or("True").help("Keep the rows in log_dir; with False they are only shown."),
    flag("till_first_fail")
        .help("Go up the batch sizes in order, and write no rows for those that are skipped after a smaller one ran out of memory. By default their order is random."),
    integer("repeats", 1, MAX_REPEATS).or("1")
        .help("How often everything is measured, in rounds. With two or more the report shows how much of an error is the device's own noise."),
    word("plan", || vec!["grid", "adaptive"]).or("grid")
        .help("What is measured: grid measures everything; adaptive what teaches the fit most, at most 15 % of the rows, and stops when more would no longer make predictions better."),
    text("budget")
        .help("The time that measuring may take, earlier runs included, such as 20 min, 90 s or 2 h; by default as long as it needs."),
    path("log_dir").or("profiling_csvs/{device_name}/{dataset}{-input}{-classes}").help("The folder of the rows."),
    path("test_config").or("{log_dir}/test_config")
        .help("What to measure: one file for all networks (.ini), or a folder with one {network}.ini each."),
    text("device_name").or("{device}").help("The device's name in folders; set it to separate two machines."),
];

pub(super) const OF_DEVICES: &[Setting] = &[
    text("device").or("cpu").value("NAME")
        .help("What to measure on: cpu, simulated, recorded, or a GPU: cuda, 2080ti, jetson, orin; with a worker also tx2."),
    path("device_source").value("FILE")
        .help("For device = recorded the profile it answers from, for simulated a JSON file of what it can do."),
    text("worker").many().value("COMMAND")
        .help("The command of another worker, such as python3 workers/torch_worker.py; by default perf4sight's own. It runs without a shell; as a list, its words may contain spaces."),
    text("host").in_configurations()
        .help("A machine to measure on over ssh: user@address, user@address:port or an alias from ~/.ssh/config. The worker's files and the networks go there."),
    text("hosts").many().in_configurations().help("Several machines of one kind, which share the configurations."),
    path("ssh_config").in_configurations()
        .help("A file to use in place of ~/.ssh/config. Whatever it says, ssh never prompts, and unknown host keys are refused."),
    number("reconnect", 0.0).or("300").in_configurations()
        .help("Seconds to go on trying when the connection to the machine was lost."),
    path("libtorch_cuda").in_configurations()
        .help("For GPUs: the folder of PyTorch 2.11 with CUDA, or its libtorch_cuda.so; by default LIBTORCH_CUDA of the environment, or the PyTorch that python3 finds."),
    integer("gpu_id", 0, MAX_THREADS).or("0").value("NUMBER")
        .help("Which GPU of several; devices without GPUs ignore it."),
    flag("tf32").in_configurations().help("For GPUs: whether products of fp32 numbers may be rounded to TF32."),
    flag("cudnn_benchmark").in_configurations()
        .help("For GPUs: whether cuDNN tries its algorithms during the warm-up and takes the fastest."),
    integer("threads", 1, MAX_THREADS).value("NUMBER")
        .help("Threads of the compute library; by default as many as the machine runs at the same time."),
    memory("mem_limit", "MiB").in_configurations()
        .help("Memory that a measurement may use before it counts as out of memory, on a GPU the memory of the GPU; by default 80 % of the main memory that is available, or all of a GPU that has its own."),
    number("cpus", 0.01).in_configurations()
        .help("CPUs that a measurement may use, also in fractions, held by affinity and a control group; by default all."),
    memory("kernel_mem_limit", "MiB").in_configurations()
        .help("Main memory that the kernel gives to a measurement, enforced by a control group: beyond it the measurement is ended and counts as out of memory."),
    number("timeout", 0.1).or("600").in_configurations()
        .help("Seconds after which a measurement counts as hung and is ended; a first step on a small board takes minutes."),
    integer("seed", 0, i64::MAX).or("0").value("NUMBER")
        .help("Seed of the networks' weights, of their input and of simulated noise."),
];

const OF_STEPS: &[Setting] = &[
    word("stage", stages).many().or("training").help("What a step does: training, inference or both."),
    OPTIMIZER.or("sgd")
        .help("How a training step changes the weights: sgd (as published, with momentum 0.9 and weight decay), sgd_without_momentum (and without decay), adam, adamw or rmsprop, with PyTorch's own numbers."),
    ZERO_GRAD
        .help("What becomes of gradients: keep fills them with zeros in place, free frees them before the step, as PyTorch does since 2.0; by default keep with sgd, which is as published, and free with every other optimizer."),
    PRECISION.or("fp32")
        .help("What numbers a step computes with: fp32; amp_bf16 or amp_fp16, which run forward and loss under PyTorch's autocast (half precision with a gradient scaler); or bf16, which holds weights, gradients and optimizer states in bfloat16 too."),
    TRAINABLE.or("all")
        .help("Which weights a training step changes: all, classifier (those of the last operation with weights), 'last N' (of the last N), bias, normalisation (scales and shifts), or patterns of layer names such as 'layer4.*,fc'. No gradient is computed below the lowest of them, and nothing kept for it."),
    FROZEN_NORMALISATION.or("train")
        .help("How batch normalisations work in training whose weights it does not change: train, with the statistics of the batch, as PyTorch does, or eval, with those they keep."),
    ACCUMULATE.or("1")
        .help("In how many passes forward and backward the samples of a batch go through the network before the weights are changed, once; bs counts the samples of all passes, and a row is one change of the weights."),
    CHECKPOINT.or("none")
        .help("Which parts of forward a training step runs again in backward instead of keeping what they made: none, 'N segments' (all but the last of N, equally many stretches each), or 'every block'."),
    LOSS.or("cross_entropy")
        .help("What a training step compares the network's result with: cross_entropy, of the classes of a vector, of every pixel of an image whose channels are classes, of every place of a sequence; or mean_squared_error, as many numbers as the result has."),
];
