//! How large what a network reads and gives is to be.

use super::images;
use crate::config::Values;
use crate::error::{Error, Result};
use crate::network::Shape;
use crate::network::onnx::{self, Dims, Loaded, Magnitudes};

/// How large what a network reads and gives is to be, where its file leaves that open or it is not to be as its name or its file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    /// Sizes of what a file leaves open.
    pub dims: Dims,
    /// One sample of its only input.
    pub input: Option<Shape>,
    /// Classes that a known network tells apart.
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
    /// A file that cannot be used, an input that it does not take, another number of classes than its own.
    pub(super) fn read(&self, file: &str) -> Result<Loaded> {
        self.check_classes(file)?;
        match &self.input {
            Some(input) => onnx::read_at(file, &self.dims, input),
            None => onnx::read_sized(file, &self.dims),
        }
    }

    /// The same, with the magnitudes of its filters.
    ///
    /// # Errors
    /// Also a file without weights.
    pub(super) fn read_with_magnitudes(&self, file: &str) -> Result<(Loaded, Magnitudes)> {
        self.check_classes(file)?;
        onnx::read_with_magnitudes(file, &self.dims, self.input.as_ref())
    }

    fn check_classes(&self, file: &str) -> Result<()> {
        let refused = |classes| {
            Error::usage(format!("a file has as many classes as it was exported with, not {classes}"))
                .file(file)
                .help("leave classes out, or export the network with so many")
        };
        self.classes.map_or(Ok(()), |classes| Err(refused(classes)))
    }
}
