//! Finds a network to prune: a file of its name, or else a network of the zoo.

use crate::verbs::extents::NetworkExtents;
use crate::verbs::named::check_own_name;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::ImageDataset;
use perf4sight_onnx as onnx;
use perf4sight_onnx::{Magnitudes, NamedDims};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// A network that was found, but not read yet.
pub(super) enum NetworkSource {
    /// In a file; with the magnitudes of its filters if requested.
    File {
        name: String,
        path: PathBuf,
        magnitudes: bool,
    },
    Zoo(Network),
}

/// A network that is ready to be pruned.
pub(super) struct LoadedNetwork {
    pub network: Network,
    /// Empty unless requested.
    pub magnitudes: Magnitudes,
    pub warnings: Vec<String>,
}

impl NetworkSource {
    /// Finds the network `name`, with or without the extension of its file.
    pub fn find(name: &str, folder: &Path, images: &ImageDataset, magnitudes: bool) -> Result<Self> {
        let name = name.strip_suffix(".onnx").unwrap_or(name);
        check_own_name(name)?;
        let path = folder.join(format!("{name}.onnx"));
        if path.is_file() {
            check_dataset(name, &path, images)?;
            return Ok(NetworkSource::File { name: name.to_string(), path, magnitudes });
        }
        // Other names of known networks are refused: rows and files would be of a network that the configuration does not name.
        if !zoo::names().any(|known| known == name) {
            return Err(unknown_network_error(name, folder));
        }
        let network = zoo::build(name, images.clone())?;
        match magnitudes {
            false => Ok(NetworkSource::Zoo(network)),
            true => {
                Err(Error::config(format!("mode l1 needs the weights of {name}, and {} is not a file", path.display()))
                    .help("export the network with its weights to that file, or choose mode = random"))
            }
        }
    }

    pub fn name(&self) -> &str {
        match self {
            NetworkSource::File { name, .. } => name,
            NetworkSource::Zoo(network) => network.name(),
        }
    }

    /// Its file, where it is in one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            NetworkSource::File { path, .. } => Some(path),
            NetworkSource::Zoo(_) => None,
        }
    }

    /// Reads it with the sizes in `files`.
    pub fn load(&self, files: &NetworkExtents) -> Result<LoadedNetwork> {
        match self {
            NetworkSource::Zoo(network) => {
                Ok(LoadedNetwork { network: network.clone(), magnitudes: Magnitudes::new(), warnings: Vec::new() })
            }
            NetworkSource::File { path, magnitudes: true, .. } => {
                let (loaded, magnitudes) = own_extents(path, files)?.read_with_magnitudes(path)?;
                Ok(Self::to_loaded_network(path, loaded, magnitudes))
            }
            NetworkSource::File { path, .. } => {
                Ok(Self::to_loaded_network(path, own_extents(path, files)?.read(path)?, Magnitudes::new()))
            }
        }
    }

    fn to_loaded_network(path: &Path, loaded: onnx::LoadedOnnx, magnitudes: Magnitudes) -> LoadedNetwork {
        let warnings = loaded.warnings.iter().map(|warning| format!("{}: {warning}", path.display())).collect();
        LoadedNetwork { network: loaded.network, magnitudes, warnings }
    }
}

impl fmt::Display for NetworkSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkSource::File { path, .. } => write!(f, "{}", path.display()),
            NetworkSource::Zoo(network) => write!(f, "{} (built in)", network.name()),
        }
    }
}

/// The requested sizes, except those of dimensions that this file does not have.
fn own_extents(path: &Path, files: &NetworkExtents) -> Result<NetworkExtents> {
    if files.dims.is_empty() {
        return Ok(files.clone());
    }
    let open = onnx::open_dims(path)?;
    let own = files.dims.iter().filter(|(name, _)| open.contains(*name));
    Ok(NetworkExtents { dims: own.map(|(name, &size)| (name.clone(), size)).collect(), ..files.clone() })
}

/// Refuses sizes of dimensions that no file leaves open.
pub(super) fn check_dims(sources: &[NetworkSource], dims: &NamedDims) -> Result<()> {
    let mut open: BTreeSet<String> = BTreeSet::new();
    for source in sources.iter().filter(|_| !dims.is_empty()) {
        if let NetworkSource::File { path, .. } = source {
            // A file that cannot be read might have the dimensions; its error is reported when it is pruned.
            let Ok(own) = onnx::open_dims(path) else { return Ok(()) };
            open.extend(own);
        }
    }
    let Some(unknown) = dims.keys().find(|name| !open.contains(*name)) else { return Ok(()) };
    let open = open.into_iter().collect::<Vec<_>>().join(", ");
    let known = if open.is_empty() { "none of them leaves any open".to_owned() } else { format!("one of {open}") };
    Err(Error::config(format!("no file leaves a dimension \"{unknown}\" open")).expected(known))
}

/// Refuses images with their channels last for listed networks.
pub(super) fn check_input(sources: &[NetworkSource], files: &NetworkExtents) -> Result<()> {
    sources.iter().try_for_each(|source| match source {
        NetworkSource::Zoo(network) => files.check_channels(network.name()),
        NetworkSource::File { .. } => Ok(()),
    })
}

/// Refuses a number of classes that a file cannot have.
pub(super) fn check_classes(sources: &[NetworkSource], files: &NetworkExtents) -> Result<()> {
    let Some(classes) = files.classes else { return Ok(()) };
    for source in sources {
        if let NetworkSource::File { path, .. } = source {
            // The error of a file that cannot be read is reported when it is pruned.
            let exported =
                own_extents(path, &NetworkExtents { classes: None, ..files.clone() }).and_then(|own| own.read(path));
            let Ok(onnx::LoadedOnnx { network, .. }) = exported else { continue };
            network.telling_apart(classes)?;
        }
    }
    Ok(())
}

/// Refuses a file of a known network for other images: its variants would be written to the wrong folder.
fn check_dataset(name: &str, path: &Path, images: &ImageDataset) -> Result<()> {
    if !zoo::names().any(|known| known == name) {
        return Ok(());
    }
    let network = onnx::read(path)?.network;
    if network.input_shape() == images.input() || images.is_sized() {
        return Ok(());
    }
    let (input, word) = (images.input(), images.word());
    Err(Error::config(format!("{} reads images of {}", path.display(), network.input_shape()))
        .expected(format!("images of {input}, as set by dataset = {word}"))
        .help(format!(
            "choose the dataset the file was made for, set input = {input} to read the file for that size, or choose a model_desc_dir without it"
        )))
}

fn unknown_network_error(name: &str, folder: &Path) -> Error {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stems = files.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".onnx")?.to_string()));
    let mut known: Vec<String> = stems.chain(zoo::names().map(str::to_string)).collect();
    known.sort();
    known.dedup();
    Error::config(format!("there is no network \"{name}\""))
        .expected(format!("an ONNX file in {} or one that `perf4sight networks` lists", folder.display()))
        .help(perf4sight_base::error::suggestion(name, known.iter().map(String::as_str)))
}
