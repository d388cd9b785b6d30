//! Atomic writes: a file exists completely or not at all.

use crate::error::{Error, Result};
use crate::input_file;
use nix::unistd::geteuid;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

const MODE: u32 = 0o666;

/// Links in a row that are followed, as in the kernel.
const LINKS: usize = 40;

/// Writes a file and its folders, and waits until the disk has them. A crash, a power cut, a full disk or a reader at the wrong moment finds the
/// old file or the new one, never half of it. The new file keeps the mode and owner of the old one. Links are followed; pipes and devices are
/// written to.
///
/// # Errors
/// When the file cannot be written; the old one is then as it was.
pub fn save(file: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if file.file_name().is_none() {
        return Err(Error::usage("names no file").file(file));
    }
    save_stream(file, |target| target.write_all(contents.as_ref()))
}

/// The same with contents that need not fit into memory: `write` writes them.
///
/// # Errors
/// As [`save`], and those of `write`.
pub fn save_stream(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    stream(file, write).map_err(|cause| {
        let help = match cause.kind() {
            ErrorKind::IsADirectory => "it is a folder: name a file in it",
            _ => "make room or permit writing, or choose another folder",
        };
        Error::io(display_name(file), "write the file", &cause).help(help)
    })
}

/// Writes a file that does not exist yet; an existing one, which another process may write at the same moment, stays as it is. Readers find it
/// complete.
///
/// # Errors
/// When it cannot be written.
pub fn save_new(file: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let write = || {
        let mut unfinished = temporary_file(folder_of(file))?;
        unfinished.as_file_mut().write_all(contents.as_ref())?;
        unfinished.as_file().sync_all()?;
        match unfinished.persist_noclobber(file) {
            Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => Ok(()),
            persisted => persisted.map(drop).map_err(io::Error::from),
        }
    };
    write().map_err(|cause| Error::io(file, "write the file", &cause).help("make room or permit writing"))
}

/// The name of a file; of a link also its target.
pub fn display_name(file: &Path) -> PathBuf {
    match fs::read_link(file) {
        Ok(target) => PathBuf::from(format!("{} -> {}", file.display(), target.display())),
        Err(_) => file.to_owned(),
    }
}

fn stream(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let is_other = |there: Metadata| !there.is_file() && !there.is_dir();
    if input_file::is_inherited(file) || fs::metadata(file).is_ok_and(is_other) {
        let mut target = BufWriter::new(OpenOptions::new().write(true).open(file)?);
        write(&mut target)?;
        return target.flush();
    }
    let file = link_target(file)?;
    let folder = folder_of(&file);
    fs::create_dir_all(folder)?;
    let mut unfinished = temporary_file(folder)?;
    let mut target = BufWriter::new(unfinished.as_file_mut());
    write(&mut target)?;
    target.flush()?;
    drop(target);
    // Opening it for writing fails where its owner forbids that.
    match OpenOptions::new().write(true).open(&file) {
        Ok(old) => keep_owner_and_mode(unfinished.as_file(), &old.metadata()?)?,
        Err(cause) if cause.kind() == ErrorKind::NotFound => {}
        Err(cause) => return Err(cause),
    }
    // Before it replaces the old one: otherwise a power cut could leave the new name without content.
    unfinished.as_file().sync_all()?;
    unfinished.persist(&file)?;
    sync_folder(folder)
}

/// The target of links, which must belong to this user or to the folder's owner, as the kernel demands in shared folders (`fs.protected_symlinks`).
///
/// # Errors
/// Links of others, and those that lead to each other.
pub fn link_target(file: &Path) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&file) else { return Ok(file) };
        let owner = fs::symlink_metadata(&file)?.uid();
        let folder = folder_of(&file);
        if owner != geteuid().as_raw() && owner != fs::metadata(folder)?.uid() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it is another user's link"));
        }
        file = folder.join(target);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// Without the right to change the owner, at least the group is kept.
fn keep_owner_and_mode(new: &File, old: &Metadata) -> io::Result<()> {
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(new, Some(old.uid()), Some(old.gid())).or_else(|_| fchown(new, None, Some(old.gid())))?;
    }
    new.set_permissions(old.permissions())
}

/// A new file that is removed when it is dropped. Its name cannot be guessed, so no other process can create it first
/// as a link.
fn temporary_file(folder: &Path) -> io::Result<NamedTempFile> {
    // Opened here, because the errors of tempfile name a file that nobody knows.
    let create = |file: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(file);
    tempfile::Builder::new().prefix(".").suffix(".new").make_in(folder, create)
}

/// Checks that a file of that many bytes can be written to a folder; leaves none behind.
///
/// # Errors
/// When such a file cannot be written.
pub fn try_folder(folder: &Path, bytes: usize) -> io::Result<()> {
    let mut probe = temporary_file(folder)?;
    probe.as_file_mut().write_all(&vec![b' '; bytes])?;
    probe.as_file().sync_all()
}

/// The folder that a file is in, `.` for a bare name.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the disk has the names of a folder's files.
///
/// # Errors
/// When the disk fails. File systems without this operation for folders do it by themselves.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(cause) if matches!(cause.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
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
        assert!(save(folder.path(), "").unwrap_err().to_string().contains("name a file in it"));
        let error = save(Path::new("/proc/file"), "").unwrap_err().to_string();
        assert!(error.contains("/proc/file") && !error.contains(".new"), "{error}");
    }

    #[test]
    fn the_first_of_several_writers_keeps_its_file() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("file");
        ["first", "second"].into_iter().for_each(|text| save_new(&file, text).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(save_new(&file.join("below"), "").is_err());
    }

    #[test]
    fn a_link_is_followed_and_stays() {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        let [file, link, more] = ["elsewhere/file", "link", "more"].map(|name| folder.path().join(name));
        symlink("elsewhere/file", &link).unwrap();
        symlink(&link, &more).unwrap();
        // One that leads to no file yet, one to a file.
        for text in ["first", "second"] {
            save(&more, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!([&link, &more].into_iter().all(|link| link.is_symlink()));
        }
        let error = save(&folder.path().join("elsewhere/file/below"), "").unwrap_err().to_string();
        assert!(error.contains("elsewhere/file/below"), "{error}");
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = TempDir::new().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        symlink(&one, &other).unwrap();
        symlink(&other, &one).unwrap();
        let error = save(&one, "new").unwrap_err().to_string();
        assert!(error.contains(&format!("{} -> {}", one.display(), other.display())), "{error}");
    }

    /// Only the superuser can give files away, so only there is anything to be seen.
    #[test]
    fn owners_are_kept_and_links_of_other_users_refused() {
        let folder = TempDir::new().unwrap();
        let [file, secret, link] = ["file", "secret", "link"].map(|name| folder.path().join(name));
        [&file, &secret].into_iter().for_each(|file| fs::write(file, "old").unwrap());
        symlink(&secret, &link).unwrap();
        if !geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&file, Some(1234), Some(5678)).unwrap();
        lchown(&link, Some(1234), None).unwrap();
        save(&file, "new").unwrap();
        let about = fs::metadata(&file).unwrap();
        assert_eq!((about.uid(), about.gid()), (1234, 5678));
        assert!(save(&link, "new").unwrap_err().to_string().contains("another user's link"));
        assert_eq!(fs::read_to_string(&secret).unwrap(), "old");
    }

    #[test]
    fn modes_are_kept() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("file");
        for mode in [0o600, 0o664, 0o755] {
            fs::write(&file, "old").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            save(&file, "new").unwrap();
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, mode);
        }
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
