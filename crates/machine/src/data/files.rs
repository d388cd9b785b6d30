//! Iterates over the files of a dataset.

use std::fs::{self, Metadata, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All regular files in a folder and its subfolders, or the single file, with their lengths in bytes. Symbolic links
/// are followed. Entries that cannot be examined are skipped, because a job cannot read them either.
///
/// # Errors
/// Data that does not exist.
pub fn files(data: &Path) -> io::Result<impl Iterator<Item = (PathBuf, u64)>> {
    Ok(DatasetWalk::new(data)?.filter_map(|found| match found.what {
        EntryKind::File(path, length) => Some((path, length)),
        EntryKind::Folder | EntryKind::Other | EntryKind::Unreadable => None,
    }))
}

/// Walks through a dataset. Symbolic links are followed, as a reader follows them; a file with several names is found
/// once for each. A link to a folder that contains it is not followed.
#[derive(Debug)]
pub(super) struct DatasetWalk {
    /// The type of the data itself.
    first: Option<EntryKind>,
    /// The stack of open folders, by device and inode.
    folders: Vec<((u64, u64), ReadDir)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub what: EntryKind,
    /// Whether it was reached through a symbolic link and is not a folder.
    pub linked: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A regular file and its length in bytes.
    File(PathBuf, u64),
    Folder,
    /// A pipe, a device, or a link to a folder that contains it: nothing to read.
    Other,
    /// An entry that cannot be examined, such as a dangling link.
    Unreadable,
}

impl DatasetWalk {
    /// Starts a walk.
    ///
    /// # Errors
    /// Data that does not exist, that is neither a file nor a folder, or a folder that cannot be listed.
    pub fn new(data: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(data)?;
        let about = fs::metadata(&path)?;
        if about.is_file() {
            return Ok(DatasetWalk { first: Some(EntryKind::File(path, about.len())), folders: Vec::new() });
        }
        let folders = vec![(identity(&about), fs::read_dir(path)?)];
        Ok(DatasetWalk { first: Some(EntryKind::Folder), folders })
    }

    fn look(&mut self, path: PathBuf) -> EntryKind {
        match fs::metadata(&path) {
            Err(_) => EntryKind::Unreadable,
            Ok(about) if about.is_dir() => self.classify(&path, &about),
            Ok(about) if about.is_file() => EntryKind::File(path, about.len()),
            Ok(_) => EntryKind::Other,
        }
    }

    fn classify(&mut self, path: &Path, about: &Metadata) -> EntryKind {
        let own = identity(about);
        if self.folders.iter().any(|(folder, _)| *folder == own) {
            return EntryKind::Other;
        }
        let Ok(entries) = fs::read_dir(path) else { return EntryKind::Unreadable };
        self.folders.push((own, entries));
        EntryKind::Folder
    }
}

/// The device and inode of a folder, which do not depend on its name.
fn identity(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

impl Iterator for DatasetWalk {
    type Item = FoundEntry;

    fn next(&mut self) -> Option<FoundEntry> {
        if let Some(what) = self.first.take() {
            return Some(FoundEntry { what, linked: false });
        }
        loop {
            let (_, folder) = self.folders.last_mut()?;
            let Some(entry) = folder.next() else {
                self.folders.pop();
                continue;
            };
            let Ok(entry) = entry else { return Some(FoundEntry { what: EntryKind::Unreadable, linked: false }) };
            let linked = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            return Some(FoundEntry { what: self.look(entry.path()), linked });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// Links to the data and in it are followed, except cyclic ones. Pipes are not opened.
    #[test]
    fn files_are_found_by_all_their_names() {
        let root = TempDir::new().unwrap();
        let data = root.path().join("data");
        fs::create_dir_all(data.join("below")).unwrap();
        fs::write(data.join("below/one"), [0; 10]).unwrap();
        symlink("below/one", data.join("two")).unwrap();
        symlink("nowhere", data.join("three")).unwrap();
        symlink("..", data.join("below/round")).unwrap();
        symlink("below", data.join("again")).unwrap();
        mkfifo(&data.join("pipe"), Mode::S_IRWXU).unwrap();
        symlink("data", root.path().join("link")).unwrap();
        let mut found: Vec<(PathBuf, u64)> = files(&root.path().join("link")).unwrap().collect();
        found.sort();
        let data = fs::canonicalize(&data).unwrap();
        assert_eq!(found, ["again/one", "below/one", "two"].map(|name| (data.join(name), 10)));
        assert!(files(&root.path().join("none")).is_err());
    }
}
