//! The settings of `[detection]` and `perf4sight detection`; the keys are those of `[training]` in a published TOML file too.

use super::Boxes;
use super::dataset::MOST;
use perf4sight_verb::config::Conflicts::WithAllBut;
use perf4sight_verb::config::{Setting, Table, flag, integer, memory, number, path, text, time, word};

/// Upper limit of counts: far above any practical value.
const MANY: i64 = 1_000_000;

pub(super) const TABLE: Table = Table {
    section: "detection",
    about: "trains a detector for some steps: images a second, where the time of a step goes, which setting is best",
    groups: &[&[CONFIG], OF_A_TRAINING, &[MAKE_DATASET, IMAGES]],
};

const CONFIG: Setting = path("config").on_command_line().value("FILE")
    .help("A TOML file with a table [training], as published: num_epochs, batch_size, prefetch_factor, num_workers, device, and other keys of the section [detection].");

const OF_A_TRAINING: &[Setting] = &[
    path("data").value("DIR")
        .help("Folder of the data, in the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt."),
    path("out").or("detection").value("DIR")
        .help("Folder for what is measured and the report. Settings that were measured there are not measured again."),
    flag("overwrite").help("Measure again what was measured there."),
    text("network").or("fasterrcnn_resnet50_fpn").value("NAME")
        .help("A detector of torchvision, or module:function of your own."),
    integer("num_epochs", 1, MANY).or("10").value("NUMBER").named("epochs")
        .help("Epochs of the training whose time is estimated."),
    integer("batch_size", 1, MANY).many().or("8").value("SIZES")
        .help("Images of a step; several are tried one after the other."),
    integer("prefetch_factor", 1, MANY).many().or("2").value("NUMBERS")
        .help("Batches that each loading process loads ahead."),
    integer("num_workers", 0, 10_000).many().or("4").value("NUMBERS").help("Processes that load data."),
    text("device").value("PLACE")
        .help("What is trained on: cpu, or cuda: and a number; by default cuda:0 where PyTorch sees a GPU."),
    integer("threads", 1, 4096).value("NUMBER")
        .help("Threads of the compute library; by default as many as the machine runs at the same time."),
    integer("steps", 2, MANY).or("10").value("NUMBER")
        .help("Steps that are timed as a whole; as many more are timed part by part."),
    integer("warm_up", 2, MANY).or("2").value("NUMBER")
        .help("Warm-up steps, reported separately. The last of them takes the largest batch that the data may give, which shows what must fit."),
    integer("size", 1, 65_536).value("PIXELS")
        .help("Pixels of the shorter side of images; by default the network's own."),
    word("boxes", || Boxes::ALL.map(Boxes::name).to_vec()).or("trimap")
        .help("What is boxed: the pet, from its trimap, or its head, from its xml file."),
    word("precision", || vec!["fp32", "amp_bf16", "amp_fp16"]).or("fp32").help("What numbers are computed with."),
    word("optimizer", || vec!["adamw", "sgd"]).or("adamw").help("How weights change."),
    number("learning_rate", 1e-12).or("1e-4").value("RATE")
        .help("How far. With the published 5e-3 random weights diverge, and steps take another time."),
    number("clip", 1e-12).value("NORM").help("The norm that gradients are clipped to."),
    flag("channels_last").help("Store images in channels-last layout."),
    flag("pin_memory").help("Load batches into pinned memory, from which a GPU copies asynchronously."),
    flag("weights").help("Download the backbone's trained weights; by default weights are random."),
    memory("mem_limit", "MiB").value("SIZE").help("Memory past which a step does not fit."),
    text("python").or("python3").value("COMMAND").help("The Python that has PyTorch and torchvision."),
    time("timeout").or("1h").help("Time after which a setting counts as hung."),
    integer("seed", 0, i64::MAX).or("0").value("NUMBER").help("Seed of weights and of the order of images."),
    path("trace").value("DIR").help("Folder for a trace of three more steps of each setting, for [breakdown]."),
    text("host").value("USER@ADDRESS")
        .help("A machine to measure on over ssh: user@address, user@address:port or an alias from ~/.ssh/config. The data is stored there."),
    path("ssh_config").value("FILE").requires("host").help("A file to use in place of ~/.ssh/config."),
    number("reconnect", 0.0).or("300").in_configurations()
        .help("Seconds to go on trying when the connection to the machine was lost."),
    path("predict").value("DIR")
        .help("Folder of this device's fingerprint. Nothing is measured then: settings are predicted, from it and from what was measured in out with other batch sizes or images of another size."),
];

const MAKE_DATASET: Setting = path("make_dataset")
    .on_command_line()
    .value("DIR")
    .conflicts(WithAllBut(&["images", "seed"]))
    .help("Make up data in that layout, and train nothing.");

const IMAGES: Setting = integer("images", 1, MOST as i64)
    .or("32")
    .on_command_line()
    .value("NUMBER")
    .requires("make_dataset")
    .help("How many images to make up.");

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
finished, so that the same command goes on where it stopped. What is not said here is as --config says, or as in the section [detection].";
