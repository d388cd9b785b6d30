//! The settings of `[detection]` and `perf4sight detection`; the keys are those of `[training]` in a published TOML file too.

use super::BoxSource;
use super::dataset::MOST;
use perf4sight_verb::config::Conflicts::WithAllBut;
use perf4sight_verb::config::{Setting, SettingTable, flag, integer, memory, number, path, text, time, word};

/// Upper limit of counts: far above any practical value.
const MANY: i64 = 1_000_000;

pub(super) const TABLE: SettingTable = SettingTable {
    section: "detection",
    about: "trains a detector for some steps: images a second, where the time of a step goes, which setting is best",
    groups: &[&[CONFIG], OF_A_TRAINING, &[MAKE_DATASET, IMAGES]],
};

const CONFIG: Setting = path("config").on_command_line().value("FILE")
    .help("TOML file with a table [training], as published: num_epochs, batch_size, prefetch_factor, num_workers, device, and other keys of the section [detection].");

const OF_A_TRAINING: &[Setting] = &[
    path("data").value("DIR")
        .help("Folder of the data set, in the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt."),
    path("out").or_default("detection").value("DIR")
        .help("Folder for the measurements and the report. Settings that are stored there are not measured again."),
    flag("overwrite").help("Discard the measurements in the folder and measure again."),
    text("network").or_default("fasterrcnn_resnet50_fpn").value("NAME")
        .help("A detector of torchvision, or module:function of your own."),
    integer("num_epochs", 1, MANY).or_default("10").value("NUMBER").with_flag("epochs")
        .help("Epochs of the training whose duration is estimated."),
    integer("batch_size", 1, MANY).many_values().or_default("8").value("SIZES")
        .help("Images per step; several values are measured one after the other."),
    integer("prefetch_factor", 1, MANY).many_values().or_default("2").value("NUMBERS")
        .help("Batches that each data loading process loads ahead."),
    integer("num_workers", 0, 10_000).many_values().or_default("4").value("NUMBERS").help("Number of processes that load data."),
    text("device").value("PLACE")
        .help("Device to train on: cpu, or cuda: and a number; by default cuda:0 if PyTorch finds a GPU."),
    integer("threads", 1, 4096).value("NUMBER")
        .help("Threads of the compute library; by default as many as the machine can run at once."),
    integer("steps", 2, MANY).or_default("10").value("NUMBER")
        .help("Number of steps that are timed as a whole. As many more are timed part by part."),
    integer("warm_up", 2, MANY).or_default("2").value("NUMBER")
        .help("Number of warm-up steps, reported separately. The last one uses the largest batch that the data set allows, which shows how much memory must be free."),
    integer("size", 1, 65_536).value("PIXELS")
        .help("Length of the shorter side of images, in pixels; by default the network's own."),
    word("boxes", || BoxSource::ALL.map(BoxSource::name).to_vec()).or_default("trimap")
        .help("What the boxes enclose: the pet, from its trimap, or its head, from its XML file."),
    word("precision", || vec!["fp32", "amp_bf16", "amp_fp16"]).or_default("fp32").help("Precision of the computation."),
    word("optimizer", || vec!["adamw", "sgd"]).or_default("adamw").help("Optimizer of the training."),
    number("learning_rate", 1e-12).or_default("1e-4").value("RATE")
        .help("Learning rate. With 5e-3, the default of the training script that this command follows, random weights diverge, which changes the time of a step."),
    number("clip", 1e-12).value("NORM").help("Maximum norm of gradients; larger ones are clipped."),
    flag("channels_last").help("Store images in channels-last layout."),
    flag("pin_memory").help("Load batches into pinned memory, from which a GPU copies asynchronously."),
    flag("weights").help("Download the backbone's trained weights; by default weights are random."),
    memory("mem_limit", "MiB").value("SIZE").help("Memory limit: a step that needs more does not fit."),
    text("python").or_default("python3").value("COMMAND").help("Python with PyTorch and torchvision."),
    time("timeout").or_default("1h").help("Time after which a setting counts as hung."),
    integer("seed", 0, i64::MAX).or_default("0").value("NUMBER").help("Seed of the weights and of the order of images."),
    path("trace").value("DIR").help("Folder for traces, for [breakdown]: of each setting, three more steps are traced."),
    text("host").value("USER@ADDRESS")
        .help("A machine to measure on over ssh: user@address, user@address:port or an alias from ~/.ssh/config. The data is stored there."),
    path("ssh_config").value("FILE").requires("host").help("File to use in place of ~/.ssh/config."),
    number("reconnect", 0.0).or_default("300").in_configurations()
        .help("Seconds to keep trying after the connection to the machine was lost."),
    path("predict").value("DIR")
        .help("Folder of this device's fingerprint. Settings are then predicted, not measured: from the fingerprint, and from settings in out that were measured with other batch sizes or image sizes."),
];

const MAKE_DATASET: Setting = path("make_dataset")
    .on_command_line()
    .value("DIR")
    .conflicts(WithAllBut(&["images", "seed"]))
    .help("Generate a synthetic data set in that layout, and train nothing.");

const IMAGES: Setting = integer("images", 1, MOST as i64)
    .or_default("32")
    .on_command_line()
    .value("NUMBER")
    .requires("make_dataset")
    .help("Number of images to generate.");

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight detection --make-dataset pets-small
  perf4sight detection --data pets-small --batch-size 2
  perf4sight detection --config train.toml --data pets
  perf4sight detection --data pets --batch-size 2,4,8 --num-workers 0,2,4 --device cuda:0 --steps 50 --precision amp_fp16
  perf4sight detection --data pets --network ssdlite320_mobilenet_v3_large --python ~/venv/bin/python --json
  perf4sight detection --data pets --batch-size 8,16 --size 640 --predict fingerprinting/orin/imagenet

The data have the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt. Weights are random, and
nothing is downloaded unless --weights is given. Every setting runs in a process of its own; the folder of --out keeps each when it is
finished, so that the same command goes on where it stopped. Settings that are left out are those of --config, otherwise the defaults of the section [detection].";
