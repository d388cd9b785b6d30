//! A network in a temporary file, for as long as workers read it.

use crate::records::Variant;
use perf4sight_base::error::Result;
use perf4sight_base::temporary_folder::TemporaryFolder;
use perf4sight_network::Network;
use perf4sight_onnx as onnx;
use std::env;
use std::path::{Path, PathBuf};

/// The file and its folder, which are deleted when this is dropped.
pub(super) struct TemporaryFile {
    _folder: TemporaryFolder,
    file: PathBuf,
}

impl TemporaryFile {
    /// Writes a network under the name of its variant.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(network: &Network, variant: &Variant) -> Result<Self> {
        let folder = TemporaryFolder::new(&env::temp_dir())?;
        let file = folder.path().join(format!("{variant}.onnx"));
        onnx::write(network, &file)?;
        Ok(TemporaryFile { _folder: folder, file })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}
