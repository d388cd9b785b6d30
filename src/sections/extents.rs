//! How large what a network reads and gives is to be.

use crate::error::{Error, Result};
use crate::network::Shape;
use crate::network::onnx::{self, Dims, Loaded};

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
    /// What is in a file.
    ///
    /// # Errors
    /// A file that cannot be used, an input that it does not take, another number of classes than its own.
    pub(super) fn read(&self, file: &str) -> Result<Loaded> {
        if let Some(classes) = self.classes {
            return Err(Error::usage(format!("a file has as many classes as it was exported with, not {classes}"))
                .file(file)
                .help("leave classes out, or export the network with so many"));
        }
        match &self.input {
            Some(input) => onnx::read_at(file, &self.dims, input),
            None => onnx::read_sized(file, &self.dims),
        }
    }
}
