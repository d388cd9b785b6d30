//! Settings shared by verbs and sections that predict steps without measuring them: source of predictions, memory
//! limit, network input.

use super::source::EVERY;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_platform::Platform;
use perf4sight_verb::config::Conflicts::With;
use perf4sight_verb::config::DefaultValue::Unset;
use perf4sight_verb::config::{Setting, SettingValues, flag, integer, memory, path, text, word};
use std::path::{Path, PathBuf};

pub(super) const NETWORK: Setting = text("network")
    .required()
    .positional("NET.onnx|NAME|NAME@LEVEL")
    .completed_by(networks)
    .help("An ONNX file, the name of a known network, or NAME@LEVEL for one pruned by that percentage.");

pub(super) const FINGERPRINT: Setting = path("fingerprint")
    .or_default("{fingerprint.model_storedir}")
    .or_on_command_line(Unset)
    .one_of("source")
    .value("DIR")
    .help("The folder that [fingerprint] wrote, such as fingerprinting/cpu/imagenet.");

pub(super) const TARGET: Setting = text("target").value("NAME|FILE.json").completed_by(targets)
    .one_of("source").conflicts(With(&["device_name"]))
    .help("Predict without a fingerprint, from what is known of a kind of device such as orin before anything is measured; a file describes another kind.");

/// More threads than any supported machine has.
pub(super) const MAX_THREADS: i64 = 4096;

pub(super) const THREADS: Setting = integer("threads", 1, MAX_THREADS)
    .value("NUMBER")
    .help("With target, on a CPU: how many threads compute (torch.get_num_threads()), each of which has buffers of its own; by default two.");

pub(super) const HOLDS_OUTPUTS: Setting = flag("holds_outputs").help(
    "With target: the loop keeps the network's outputs in a variable until its step ends; by default they are freed when the loss is known.",
);

/// What only a kind of device is asked with: a fingerprint is of steps that were measured.
pub(super) const OF_TARGETS: [&str; 2] = [THREADS.key, HOLDS_OUTPUTS.key];

pub(super) const MEM_LIMIT: Setting = memory("mem_limit", "MiB").value("MEMORY").help(
    "The memory that a step must fit into, all that it uses, such as 8GiB; by default what the profiled device had.",
);

pub(super) const DEVICE: Setting =
    text("device_name").with_flag("device").value("NAME").help("Refuse fingerprints of another device.");

pub(super) const DATASET: Setting = text("dataset").value("NAME")
    .help("Refuse fingerprints of another dataset. With target: the dataset whose images known networks read, by default imagenet.");

pub(super) const INPUT: Setting = text("input")
    .value("SHAPE")
    .help("Shape of one input sample, such as 3x320x320, if it differs from the dataset's or the file's.");

pub(super) const CLASSES: Setting = integer("classes", 1, i64::MAX)
    .value("NUMBER")
    .help("Number of classes, if it differs from the dataset's or the file's.");

const DIM: Setting = text("dim").many_values().on_command_line().value("NAME=SIZE").help(
    "Size of a dimension that the file leaves open, by its name there, such as tokens=197; may be given several times.",
);

/// The sizes of networks' inputs and outputs.
pub(super) const EXTENTS: &[Setting] = &[INPUT, CLASSES, DIM];

/// The dataset that gives the images and classes of a known network, unless other settings do.
pub(super) const IMAGES_OF: Setting = word("dataset", || Dataset::ALL.map(Dataset::name).to_vec())
    .or_default("imagenet")
    .help("Dataset whose images and classes a known network is built for.");

/// Whether existing files that perf4sight did not write are replaced.
pub(super) const OVERWRITE: Setting =
    flag("overwrite").help("Replace files that perf4sight did not write too; its own are replaced in any case.");

/// An HTML page to write in addition.
pub(super) const HTML: Setting = path("html").on_command_line().value("FILE.html");

/// The path given by [`HTML`], if any.
pub(super) fn html(values: &SettingValues<'_>) -> Result<Option<PathBuf>> {
    let page: Option<PathBuf> = values.get("html")?;
    match page.as_ref().is_some_and(|page| !ends_in(page, &["html"])) {
        true => Err(values.with_place("html", Error::usage("a page ends in .html"))),
        false => Ok(page),
    }
}

/// The files given by the key `output` and by the argument [`HTML`].
pub(super) fn output(values: &SettingValues<'_>, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let output: Vec<PathBuf> = values.get("output")?;
    if let Some(other) = output.iter().find(|file| !ends_in(file, endings)) {
        return Err(values
            .error("output", format!("{} has an unknown ending", other.display()))
            .expected(format!("files that end in .{}", endings.join(", ."))));
    }
    Ok(output.into_iter().chain(html(values)?).collect())
}

fn ends_in(file: &Path, endings: &[&str]) -> bool {
    file.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
}

pub(super) fn networks() -> Vec<&'static str> {
    zoo::names().collect()
}

/// The known kinds of devices, and the name for all of them.
pub(super) fn targets() -> Vec<&'static str> {
    Platform::names().chain([EVERY]).collect()
}
