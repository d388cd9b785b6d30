//! What configurations ask of images and classes where they are not as the dataset has them, in the keys that several sections have.

use perf4sight_base::error::{Error, Result};
use perf4sight_network::Shape;
use perf4sight_network::zoo::{Images, parse_classes, parse_input};
use perf4sight_onnx as onnx;
use perf4sight_verb::config::Values;
use std::collections::BTreeMap;
use std::path::Path;

/// One image, where the key `input` says it.
///
/// # Errors
/// What is no shape, with its place.
pub(super) fn input(values: &Values<'_>) -> Result<Option<Shape>> {
    values.named_if_set("input", parse_input)
}

/// How many classes there are, where the key `classes` says it.
///
/// # Errors
/// None at all, or too many, with its place.
pub(super) fn classes(values: &Values<'_>) -> Result<Option<usize>> {
    values.named_if_set("classes", parse_classes)
}

/// The images of `dataset`, `input` and `classes`.
///
/// # Errors
/// A word that names no folder; a dataset that nobody knows, of which not both are said, with its place.
pub(super) fn of(values: &Values<'_>) -> Result<Images> {
    let (input, classes) = (input(values)?, classes(values)?);
    Images::of(&values.folder_name("dataset")?, input.as_ref(), classes)
        .map_err(|error| values.placed("dataset", error))
}

/// Refuses networks, in files that are there, which read others than a word says that tells how large images are.
///
/// # Errors
/// The first of them.
pub(super) fn check<'a>(networks: impl Iterator<Item = (&'a str, &'a Path)>) -> Result<()> {
    let sized = networks.filter_map(|(word, file)| Some((Images::named(word).ok()?, file)));
    let files: BTreeMap<&Path, Images> = sized
        .filter(|(images, file)| images.is_sized() && file.is_file())
        .map(|(images, file)| (file, images))
        .collect();
    files.into_iter().try_for_each(|(file, images)| {
        let network = onnx::read(file)?.network;
        match network.input_shape() == images.input() {
            true => Ok(()),
            false => Err(Error::input(format!("reads {}, not {}", network.read(), images.input()))
                .file(file)
                .expected(format!("networks for the images of {}, as input says", images.word()))
                .help("let [create_network_dataset] write the networks with the same input, or set local_model_loc")),
        }
    })
}

/// Their word, whatever `dataset` is.
///
/// # Errors
/// See [`input`] and [`classes`].
pub(super) fn word(values: &Values<'_>) -> Result<String> {
    let (input, classes) = (input(values)?, classes(values)?);
    Ok(Images::worded(&values.folder_name("dataset")?, input.as_ref(), classes))
}
