//! Keys that several sections share, for images and classes that differ from those of the dataset.

use perf4sight_base::error::{Error, Result};
use perf4sight_network::Shape;
use perf4sight_network::zoo::{ImageDataset, parse_classes, parse_input};
use perf4sight_onnx as onnx;
use perf4sight_verb::config::SettingValues;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn input(values: &SettingValues<'_>) -> Result<Option<Shape>> {
    values.named_if_set("input", parse_input)
}

pub(super) fn classes(values: &SettingValues<'_>) -> Result<Option<usize>> {
    values.named_if_set("classes", parse_classes)
}

/// The images given by `dataset`, `input` and `classes`.
pub(super) fn images_from_values(values: &SettingValues<'_>) -> Result<ImageDataset> {
    let (input, classes) = (input(values)?, classes(values)?);
    ImageDataset::from_dataset(&values.folder_name("dataset")?, input.as_ref(), classes)
        .map_err(|error| values.with_place("dataset", error))
}

/// Refuses existing network files whose input size differs from the one that the word for the images gives.
pub(super) fn check<'a>(networks: impl Iterator<Item = (&'a str, &'a Path)>) -> Result<()> {
    let sized = networks.filter_map(|(word, file)| Some((ImageDataset::from_word(word).ok()?, file)));
    let files: BTreeMap<&Path, ImageDataset> = sized
        .filter(|(images, file)| images.is_sized() && file.is_file())
        .map(|(images, file)| (file, images))
        .collect();
    files.into_iter().try_for_each(|(file, images)| {
        let network = onnx::read(file)?.network;
        match network.input_shape() == images.input() {
            true => Ok(()),
            false => Err(Error::input(format!("reads {}, not {}", network.read(), images.input()))
                .file(file)
                .expected(format!("networks for the images of {}, as set by input", images.word()))
                .help("let [create_network_dataset] write the networks with the same input, or set local_model_loc")),
        }
    })
}

pub(super) fn word(values: &SettingValues<'_>) -> Result<String> {
    let (input, classes) = (input(values)?, classes(values)?);
    Ok(ImageDataset::word_for(&values.folder_name("dataset")?, input.as_ref(), classes))
}
