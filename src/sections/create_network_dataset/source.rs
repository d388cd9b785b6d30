//! Where a network to prune comes from: a file of its name, or else the zoo.

use crate::error::{Error, Result};
use crate::network::onnx::{self, Magnitudes};
use crate::network::zoo::{self, Dataset};
use crate::network::{Network, Shape};
use crate::sections::named::check_own_name;
use std::fmt;
use std::path::{Path, PathBuf};

/// A network that was found, not read yet.
pub(super) enum Source {
    /// In a file; with the magnitudes of its filters where they are asked for.
    File { name: String, path: PathBuf, magnitudes: bool },
    /// In the zoo.
    Zoo(Network),
}

/// A network, ready to be pruned.
pub(super) struct Loaded {
    pub network: Network,
    /// Empty unless they were asked for.
    pub magnitudes: Magnitudes,
    pub warnings: Vec<String>,
}

impl Source {
    /// The network `name`, with or without the ending of its file.
    pub fn find(name: &str, folder: &Path, dataset: Dataset, magnitudes: bool) -> Result<Self> {
        let name = name.strip_suffix(".onnx").unwrap_or(name);
        check_own_name(name)?;
        let path = folder.join(format!("{name}.onnx"));
        if path.is_file() {
            check_dataset(name, &path, dataset)?;
            return Ok(Source::File { name: name.to_string(), path, magnitudes });
        }
        let network = zoo::build(name, dataset).map_err(|error| match zoo::names().any(|known| known == name) {
            true => error,
            false => unknown(name, folder),
        })?;
        match magnitudes {
            false => Ok(Source::Zoo(network)),
            true => {
                Err(Error::config(format!("mode l1 needs the weights of {name}, and {} is no file", path.display()))
                    .help("export the network with its weights to that file, or choose mode = random"))
            }
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Source::File { name, .. } => name,
            Source::Zoo(network) => network.name(),
        }
    }

    pub fn load(&self) -> Result<Loaded> {
        match self {
            Source::Zoo(network) => {
                Ok(Loaded { network: network.clone(), magnitudes: Magnitudes::new(), warnings: Vec::new() })
            }
            Source::File { path, magnitudes: true, .. } => {
                onnx::read_with_magnitudes(path).map(|(loaded, magnitudes)| Self::loaded(path, loaded, magnitudes))
            }
            Source::File { path, .. } => onnx::read(path).map(|loaded| Self::loaded(path, loaded, Magnitudes::new())),
        }
    }

    fn loaded(path: &Path, loaded: onnx::Loaded, magnitudes: Magnitudes) -> Loaded {
        let warnings = loaded.warnings.iter().map(|warning| format!("{}: {warning}", path.display())).collect();
        Loaded { network: loaded.network, magnitudes, warnings }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File { path, .. } => write!(f, "{}", path.display()),
            Source::Zoo(network) => write!(f, "{} (built in)", network.name()),
        }
    }
}

/// Refuses a file of a known network that was made for another dataset: its variants would stand in the wrong folder.
fn check_dataset(name: &str, path: &Path, dataset: Dataset) -> Result<()> {
    if !zoo::names().any(|known| known == name) {
        return Ok(());
    }
    let network = onnx::read(path)?.network;
    let images = Shape::new([3, dataset.size(), dataset.size()]);
    if *network.input_shape() == images {
        return Ok(());
    }
    Err(Error::config(format!("{} reads images of {}", path.display(), network.input_shape()))
        .expected(format!("images of {images}, as dataset = {dataset} says"))
        .help("choose the dataset the file was made for, or a model_desc_dir without it"))
}

fn unknown(name: &str, folder: &Path) -> Error {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stems = files.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".onnx")?.to_string()));
    let mut known: Vec<String> = stems.chain(zoo::names().map(str::to_string)).collect();
    known.sort();
    known.dedup();
    Error::config(format!("there is no network \"{name}\""))
        .expected(format!("an ONNX file in {} or one that `perf4sight networks` lists", folder.display()))
        .help(crate::error::suggestion(name, known.iter().map(String::as_str)))
}
