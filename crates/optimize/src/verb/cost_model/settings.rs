//! The settings of `[cost_model]` and `perf4sight cost-model`.

use super::operations;
use perf4sight_verb::config::DefaultValue::Unset;
use perf4sight_verb::config::{Setting, flag, path, text, word};

/// One of both says what to do.
const ACTIONS: &str = "train, predict or --option";

pub(super) const ACTION: Setting = word("action", || vec!["train", "predict"])
    .on_command_line()
    .positional("train|predict")
    .one_of(ACTIONS)
    .help("Fit a model on measured plans or operations, or predict others with a model.");

pub(super) const MODEL: Setting = path("model")
    .on_command_line()
    .positional("MODEL.json|TRACES")
    .help("The model to predict with; to fit operations, their folder.");

pub(super) const OPERATIONS: Setting = path("operations")
    .value("PATH")
    .help("To fit: folders GPU/NETWORK/ with traces of PyTorch's profiler, tables of operations, or dPRO's avg.txt, name.txt and metadata.json. On the command line, predict reads a table here.");

pub(super) const ROWS: Setting =
    path("rows").value("FILE.csv").help("Where to write the operations that were read, as a table.");

pub(super) const GPU: Setting = text("gpu").on_command_line().value("NAME").help("The GPU to predict operations on.");

pub(super) const OPTION: Setting = word("option", || vec!["optimize"])
    .on_command_line()
    .requires("sub_option")
    .one_of(ACTIONS)
    .help("As dPRO's mg_generate_dataset.py takes it: optimize.");

pub(super) const SUB_OPTION: Setting = word("sub_option", || vec![operations::TRAIN_GPU, operations::TRAIN_AMP])
    .on_command_line()
    .alias("sub_option")
    .requires("option")
    .help("Of --option: train_gpu fits operations of several GPUs, train_amp of both precisions.");

pub(super) const PATH: Setting = path("path")
    .many_values()
    .on_command_line()
    .requires("option")
    .value("DIR")
    .help("Of --option: the folder of the traces, by GPU and network.");

pub(super) const PLANS: Setting = path("plans").value("FILE")
    .help("Plans, one a row: gpus, global_batch, micro_batch, hidden, heads, layers, sequence, tensor_parallel, data_parallel, pipeline_parallel; to fit, with step_ms or step_s. Or JSON of plans in stages, as Sailor writes it.");

pub(super) const ALLREDUCE: Setting = path("allreduce").many_values().value("FILE")
    .help("Times of all-reduces by bytes: output of all_reduce_perf, or CSV whose name ends in the number of ranks; may be given several times.");

pub(super) const LAYERS: Setting = path("layers").many_values().value("FILE.json")
    .help("For plans in JSON: times of layers by micro-batch, tensor degree and layer, a file for each kind of GPU, which its name ends in.");

pub(super) const LINKS: Setting = path("links")
    .value("FILE.json")
    .help("For plans in JSON: bandwidths between nodes by kind of GPU, as polynomials.");

pub(super) const SHAPE: Setting = text("shape")
    .value("NUMBERS")
    .help("For plans in JSON: the network, such as hidden=1024,heads=16,sequence=2048,vocabulary=50272.");

pub(super) const OUT: Setting = path("out")
    .or_default("model.json")
    .or_on_command_line(Unset)
    .value("FILE")
    .help("Where to write the model, and its page (.html) next to it. On the command line, predict writes its predictions here, as CSV.");

pub(super) const OVERWRITE: Setting = flag("overwrite").help("Replace files that perf4sight did not write.");
