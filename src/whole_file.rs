//! Files that are there as a whole or not at all.

use crate::error::{Error, Result};
use std::fs;
use std::path::Path;

/// Writes a file, and the folders it lies in. A crash, a full disk or a reader at the wrong moment finds the old file or the
/// new one, never half of it.
///
/// # Errors
/// When the file cannot be written; the old one is then as it was.
pub fn save(file: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let failed = |cause: std::io::Error| {
        Error::io(file, "write the file", &cause).help("make room or permit writing, or choose another folder")
    };
    let mut name = file.file_name().ok_or_else(|| Error::usage("names no file").file(file))?.to_os_string();
    // Two programs that write the same file do not write the same unfinished one.
    name.push(format!(".{}.new", std::process::id()));
    let unfinished = file.with_file_name(name);
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(&unfinished, contents)).and_then(|()| fs::rename(&unfinished, file));
    written.map_err(|cause| {
        // Half a file helps nobody, and the disk may be full.
        let _ = fs::remove_file(&unfinished);
        failed(cause)
    })
}
