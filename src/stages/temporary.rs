//! A network in a file of its own, for as long as workers read it.

use crate::error::{Error, Result};
use crate::network::{Network, onnx};
use crate::records::Variant;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The file and its folder, which go when this is dropped.
pub(super) struct Temporary {
    folder: PathBuf,
    file: PathBuf,
}

impl Temporary {
    /// Writes a network under the name of its variant.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(network: &Network, variant: &Variant) -> Result<Self> {
        let folder = env::temp_dir().join(format!("perf4sight-{}-{variant}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|cause| Error::io(&folder, "make this folder", &cause))?;
        let written = Temporary { file: folder.join(format!("{variant}.onnx")), folder };
        onnx::write(network, &written.file)?;
        Ok(written)
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing is lost where it stays behind.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
