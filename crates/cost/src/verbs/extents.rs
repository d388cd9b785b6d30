//! The sizes of a network's input and output, as users set them.

use super::images;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Shape;
use perf4sight_onnx as onnx;
use perf4sight_onnx::{LoadedOnnx, Magnitudes, NamedDims};
use perf4sight_verb::config::SettingValues;
use std::path::Path;

/// The sizes of a network's input and output, if its file leaves them open or they differ from those of its name or
/// file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkExtents {
    /// The sizes of dimensions that a file leaves open.
    pub dims: NamedDims,
    /// One sample of its only input.
    pub input: Option<Shape>,
    /// Classes of the result, where it is a classifier's.
    pub classes: Option<usize>,
}

impl NetworkExtents {
    /// Parses the settings `input`, `classes` and `dim`.
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let (input, classes) = (images::input(values)?, images::classes(values)?);
        let sizes = values.get::<Option<Vec<String>>>("dim")?.unwrap_or_default();
        let dims = sizes.iter().map(|size| onnx::parse_dim(size)).collect::<Result<Vec<_>>>().and_then(onnx::dims);
        Ok(NetworkExtents { dims: dims.map_err(|error| values.with_place("dim", error))?, input, classes })
    }

    pub(super) fn read(&self, file: impl AsRef<Path>) -> Result<LoadedOnnx> {
        let file = file.as_ref();
        check_exported(file)?;
        let loaded = match &self.input {
            Some(input) => onnx::read_at(file, &self.dims, input).map_err(|error| self.with_advice(error)),
            None => onnx::read_sized(file, &self.dims),
        };
        loaded.and_then(|loaded| self.told_apart(loaded, file))
    }

    pub(super) fn read_with_magnitudes(&self, file: impl AsRef<Path>) -> Result<(LoadedOnnx, Magnitudes)> {
        let file = file.as_ref();
        check_exported(file)?;
        let (loaded, mut magnitudes) = onnx::read_with_magnitudes(file, &self.dims, self.input.as_ref())?;
        let loaded = self.told_apart(loaded, file)?;
        // A classifier for other classes has new filters: their magnitudes are unknown, and they are not pruned.
        for node in loaded.network.nodes() {
            if let Some(known) = magnitudes.get_mut(&node.name) {
                known.resize(node.classes().unwrap_or(known.len()), 0.0);
            }
        }
        Ok((loaded, magnitudes))
    }

    /// The input with its channels first, if they seem to be last: 3x320x320 for 320x320x3.
    fn channels_first(&self) -> Option<Shape> {
        match self.input.as_ref()?.dims() {
            &[height, width, channels @ (1 | 3 | 4)] if height > 4 => Some(Shape::new([channels, height, width])),
            _ => None,
        }
    }

    /// Refuses an input with its channels last for a listed network.
    pub(super) fn check_channels(&self, name: &str) -> Result<()> {
        let (Some(input), Some(turned)) = (&self.input, self.channels_first()) else { return Ok(()) };
        Err(Error::usage(format!("input {input} has its channels last; {name} reads them first"))
            .help(format!("write {turned}")))
    }

    fn with_advice(&self, error: Error) -> Error {
        let turned = self.channels_first();
        turned
            .into_iter()
            .fold(error, |error, turned| error.help(format!("exports of PyTorch read channels first: write {turned}")))
    }

    fn told_apart(&self, loaded: LoadedOnnx, file: &Path) -> Result<LoadedOnnx> {
        let Some(classes) = self.classes else { return Ok(loaded) };
        let network = loaded.network.telling_apart(classes).map_err(|error| error.file(file))?;
        Ok(LoadedOnnx { network, ..loaded })
    }
}

/// Extensions of network files of other programs.
pub(super) const FOREIGN: [&str; 9] = ["pt", "pth", "ckpt", "bin", "safetensors", "pkl", "h5", "keras", "tflite"];

/// Refuses files without a graph, before they are parsed as one.
fn check_exported(file: &Path) -> Result<()> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let problem = match file.metadata() {
        Ok(found) if found.is_file() && found.len() == 0 => "is empty".to_owned(),
        Ok(found) if found.is_file() && FOREIGN.contains(&ending) => format!("is a .{ending} file, not ONNX"),
        _ => return Ok(()),
    };
    Err(Error::input(problem)
        .file(file)
        .expected("a network that was exported to ONNX")
        .help("load the model in Python, and export it: torch.onnx.export(model, example_input, \"net.onnx\")"))
}
