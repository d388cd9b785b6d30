//! How large what a network reads and gives is to be.

use super::images;
use perf4sight_base::error::Result;
use perf4sight_network::Shape;
use perf4sight_onnx as onnx;
use perf4sight_onnx::{Dims, Loaded, Magnitudes};
use perf4sight_verb::config::Values;
use std::path::Path;

/// How large what a network reads and gives is to be, where its file leaves that open or it is not to be as its name or its file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    /// Sizes of what a file leaves open.
    pub dims: Dims,
    /// One sample of its only input.
    pub input: Option<Shape>,
    /// Classes that it tells apart.
    pub classes: Option<usize>,
}

impl Extents {
    /// What the keys `input` and `classes` say; what a file leaves open is said in arguments alone.
    ///
    /// # Errors
    /// What is no shape and no number of classes, with its place.
    pub(super) fn configured(values: &Values<'_>) -> Result<Self> {
        Ok(Extents { input: images::input(values)?, classes: images::classes(values)?, ..Extents::default() })
    }

    /// What is in a file.
    ///
    /// # Errors
    /// A file that cannot be used, an input that it does not take, a number of classes that it cannot tell apart.
    pub(super) fn read(&self, file: impl AsRef<Path>) -> Result<Loaded> {
        let file = file.as_ref();
        let loaded = match &self.input {
            Some(input) => onnx::read_at(file, &self.dims, input),
            None => onnx::read_sized(file, &self.dims),
        };
        loaded.and_then(|loaded| self.told_apart(loaded, file))
    }

    /// The same, with the magnitudes of its filters.
    ///
    /// # Errors
    /// Also a file without weights.
    pub(super) fn read_with_magnitudes(&self, file: impl AsRef<Path>) -> Result<(Loaded, Magnitudes)> {
        let file = file.as_ref();
        let (loaded, mut magnitudes) = onnx::read_with_magnitudes(file, &self.dims, self.input.as_ref())?;
        let loaded = self.told_apart(loaded, file)?;
        // Filters of other classes are new ones, of which nobody knows anything, and which stay.
        for node in loaded.network.nodes() {
            if let Some(known) = magnitudes.get_mut(&node.name) {
                known.resize(node.classes().unwrap_or(known.len()), 0.0);
            }
        }
        Ok((loaded, magnitudes))
    }

    fn told_apart(&self, loaded: Loaded, file: &Path) -> Result<Loaded> {
        let Some(classes) = self.classes else { return Ok(loaded) };
        let network = loaded.network.telling_apart(classes).map_err(|error| error.file(file))?;
        Ok(Loaded { network, ..loaded })
    }
}
