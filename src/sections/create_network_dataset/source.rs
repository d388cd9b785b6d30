//! Where a network to prune comes from: a file of its name, or else the zoo.

use crate::error::{Error, Result};
use crate::network::onnx::{self, Dims, Magnitudes};
use crate::network::zoo::{self, Dataset};
use crate::network::{Network, Shape};
use crate::sections::named::check_own_name;
use std::collections::BTreeSet;
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

    /// Reads it, dimensions that its file leaves open being as large as `dims` says.
    pub fn load(&self, dims: &Dims) -> Result<Loaded> {
        match self {
            Source::Zoo(network) => {
                Ok(Loaded { network: network.clone(), magnitudes: Magnitudes::new(), warnings: Vec::new() })
            }
            Source::File { path, magnitudes: true, .. } => onnx::read_with_magnitudes(path, &own(path, dims)?)
                .map(|(loaded, magnitudes)| Self::loaded(path, loaded, magnitudes)),
            Source::File { path, .. } => {
                onnx::read_sized(path, &own(path, dims)?).map(|loaded| Self::loaded(path, loaded, Magnitudes::new()))
            }
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

/// Those sizes that a file has a dimension for.
fn own(path: &Path, dims: &Dims) -> Result<Dims> {
    if dims.is_empty() {
        return Ok(Dims::new());
    }
    let open = onnx::open_dims(path)?;
    Ok(dims.iter().filter(|(name, _)| open.contains(*name)).map(|(name, &size)| (name.clone(), size)).collect())
}

/// Refuses sizes of dimensions that no file leaves open.
pub(super) fn check_dims(sources: &[Source], dims: &Dims) -> Result<()> {
    let mut open: BTreeSet<String> = BTreeSet::new();
    for source in sources.iter().filter(|_| !dims.is_empty()) {
        if let Source::File { path, .. } = source {
            // One that cannot be read, which is told of when it is to be pruned, may be the one that has them.
            let Ok(own) = onnx::open_dims(path) else { return Ok(()) };
            open.extend(own);
        }
    }
    let Some(unknown) = dims.keys().find(|name| !open.contains(*name)) else { return Ok(()) };
    let open = open.into_iter().collect::<Vec<_>>().join(", ");
    let known = if open.is_empty() { "none of them leaves any open".to_owned() } else { format!("one of {open}") };
    Err(Error::config(format!("no file leaves a dimension \"{unknown}\" open")).expected(known))
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
