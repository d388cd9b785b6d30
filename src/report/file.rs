//! Whole files: there at once or not at all.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Writes a file and the folders it lies in. A crash, or a reader at the wrong moment, finds the old file or the new one,
/// never half of it.
///
/// # Errors
/// When the file cannot be written.
pub fn save(file: &Path, contents: &str) -> Result<()> {
    let mut unfinished = OsString::from(file);
    unfinished.push(".new");
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(&unfinished, contents)).and_then(|()| fs::rename(&unfinished, file));
    written.map_err(|cause| {
        // Half a file helps nobody, and the disk may be full.
        let _ = fs::remove_file(&unfinished);
        Error::io(file, "write the file", &cause).help("make room or permit writing, or choose another folder")
    })
}
