//! Files that are there as a whole or not at all.

use crate::error::{Error, Result};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// What everybody may do with a new file, before the user's mask.
const MODE: u32 = 0o666;

/// Writes a file, and the folders it lies in, and waits until the disk has it. A crash, a power cut, a full disk or a reader at the
/// wrong moment finds the old file or the new one, never half of it. What is there and no file, a pipe or a device, is written to and stays.
///
/// # Errors
/// When the file cannot be written; the old one is then as it was.
pub fn save(file: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if file.file_name().is_none() {
        return Err(Error::usage("names no file").file(file));
    }
    write(file, folder_of(file), contents.as_ref()).map_err(|cause| {
        Error::io(file, "write the file", &cause).help("make room or permit writing, or choose another folder")
    })
}

fn write(file: &Path, folder: &Path, contents: &[u8]) -> io::Result<()> {
    // What is there and no file, such as a pipe or a device, is written to, not replaced.
    if fs::metadata(file).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return fs::OpenOptions::new().write(true).open(file)?.write_all(contents);
    }
    fs::create_dir_all(folder)?;
    let mut unfinished = unfinished(folder)?;
    unfinished.write_all(contents)?;
    // Before it takes the old one's place: a power cut would else leave the new name and no content.
    unfinished.as_file().sync_all()?;
    unfinished.persist(file)?;
    sync_folder(folder)
}

/// A new file that goes when it is dropped. Nobody can have put a link to another file in its place, for its name is not to be guessed.
fn unfinished(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".").suffix(".new").permissions(Permissions::from_mode(MODE)).tempfile_in(folder)
}

/// Makes sure that a folder takes files of so many bytes, and leaves none.
///
/// # Errors
/// When it does not.
pub fn try_folder(folder: &Path, bytes: usize) -> io::Result<()> {
    let mut probe = unfinished(folder)?;
    probe.write_all(&vec![b' '; bytes])?;
    probe.as_file().sync_all()
}

/// The folder that a file lies in.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the disk knows which files a folder has.
///
/// # Errors
/// When the disk fails. File systems that cannot do this for folders do it by themselves.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(cause) if matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("deep/file");
        for text in ["first", "second and longer", ""] {
            save(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        assert!(save(&file.join("below"), "").is_err());
        assert!(save(Path::new("/"), "").unwrap_err().to_string().contains("names no file"));
    }

    #[test]
    fn a_link_in_place_of_the_file_is_replaced_and_not_followed() {
        let folder = TempDir::new().unwrap();
        let [secret, link] = ["secret", "link"].map(|name| folder.path().join(name));
        fs::write(&secret, "kept").unwrap();
        symlink(&secret, &link).unwrap();
        save(&link, "new").unwrap();
        assert_eq!([&secret, &link].map(|file| fs::read_to_string(file).unwrap()), ["kept", "new"]);
    }

    #[test]
    fn what_is_no_file_is_written_to_and_stays() {
        use std::os::unix::fs::FileTypeExt;
        let there = Path::new("/dev/full");
        assert!(save(there, "much").is_err(), "a full disk is an error");
        assert!(fs::metadata(there).unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_file_is_as_readable_as_any_other() {
        let folder = TempDir::new().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        save(&ours, "").unwrap();
        fs::write(&theirs, "").unwrap();
        let [ours, theirs] = [ours, theirs].map(|file| fs::metadata(file).unwrap().permissions().mode());
        assert_eq!(ours, theirs);
    }
}
