//! Whether a file can be written, or a folder filled, at its place.

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use perf4sight_base::path_name::display_path;
use perf4sight_base::{atomic_write, input_file};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is written to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceForm {
    /// A file; links to it are followed, even where they lead to nothing yet.
    File,
    /// A folder, which is made with its parents if it does not exist.
    Folder,
}

/// The most bytes of a name on the file systems of Linux (NAME_MAX).
const LONGEST: usize = 255;

/// Refuses a place that cannot be written to, in words. Nothing is made there.
pub(super) fn check(path: &Path, form: PlaceForm) -> Result<(), String> {
    if path.iter().any(|name| name.len() > LONGEST) {
        return Err(format!("a name in it is longer than {LONGEST} bytes"));
    }
    if form == PlaceForm::File && path.as_os_str().as_bytes().ends_with(b"/") {
        return Err("its name ends as that of a folder".to_owned());
    }
    let path = match form {
        PlaceForm::File if input_file::is_inherited(path) => return Ok(()),
        PlaceForm::File => atomic_write::link_target(path).map_err(|cause| cause.to_string())?,
        PlaceForm::Folder => path.to_owned(),
    };
    let (there, about) = nearest(&path)?;
    let folder = match (there == path && form == PlaceForm::File, about.is_dir()) {
        (true, true) => return Err("it is a folder".to_owned()),
        (true, false) => {
            allowed(&there, AccessFlags::W_OK)?;
            // A pipe or a device is written into; a file is replaced by a new one.
            if !about.is_file() {
                return Ok(());
            }
            atomic_write::folder_of(&path).to_owned()
        }
        (false, true) => there,
        (false, false) if there == path => return Err("it is a file".to_owned()),
        (false, false) => return Err(format!("{} is a file", display_path(&there))),
    };
    allowed(&folder, AccessFlags::W_OK | AccessFlags::X_OK)?;
    match statvfs(&folder) {
        // A file system without blocks of its own, such as a tmpfs without a limit, is not full.
        Ok(disk) if disk.blocks() > 0 && disk.blocks_available() == 0 => Err("the disk is full".to_owned()),
        _ => Ok(()),
    }
}

/// The longest part of a path that exists.
fn nearest(path: &Path) -> Result<(PathBuf, Metadata), String> {
    let mut path = path;
    loop {
        match fs::metadata(path) {
            Ok(about) => return Ok((path.to_owned(), about)),
            // No folder can be made in the place of such a link, nor through it.
            Err(cause) if cause.kind() == ErrorKind::NotFound && path.is_symlink() => {
                return Err(format!("{} is a link that leads nowhere", display_path(path)));
            }
            Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                path = atomic_write::folder_of(path);
            }
            Err(cause) => return Err(format!("{}: {cause}", display_path(path))),
        }
    }
}

fn allowed(path: &Path, flags: AccessFlags) -> Result<(), String> {
    access(path, flags).map_err(|cause| format!("{}: {}", display_path(path), cause.desc()))
}
