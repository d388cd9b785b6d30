//! Counts files and their total size.

use super::files::{DatasetWalk, EntryKind, FoundEntry};
use crate::RunWatch;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The interval of progress reports.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Number and size of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSize {
    /// Regular files; those with several names count once for each name.
    pub files: u64,
    /// Their total size: the bytes that a job reads if it reads all of them.
    pub bytes: u64,
    /// Symbolic links to files and folders, which were followed.
    pub links: u64,
    /// Entries that could not be examined.
    pub unreadable: u64,
}

impl DataSize {
    /// The total size of the files.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }
}

/// Counts the files in a folder and its subfolders, or a single file. Symbolic links are followed, as a job follows
/// them, except links to a folder that contains them. `progress` is called periodically. None after Ctrl-C.
///
/// # Errors
/// Data that does not exist, cannot be examined, or is neither a file nor a folder.
pub fn count(data: &Path, watch: &RunWatch<'_>, progress: &mut dyn FnMut(&DataSize)) -> Result<Option<DataSize>> {
    let found = DatasetWalk::new(data).map_err(|cause| {
        Error::io(data, "look at the data", &cause).expected("a file, or a folder that may be listed")
    })?;
    let (mut size, mut shown) = (DataSize::default(), Instant::now());
    for found in found {
        // A folder may hold a million files.
        if watch.cancelled() {
            return Ok(None);
        }
        size.add(&found);
        if shown.elapsed() >= SHOWN_EVERY {
            progress(&size);
            shown = Instant::now();
        }
    }
    Ok(Some(size))
}

impl DataSize {
    fn add(&mut self, found: &FoundEntry) {
        match found.what {
            EntryKind::File(_, length) => {
                self.files += 1;
                self.bytes += length;
                self.links += u64::from(found.linked);
            }
            EntryKind::Folder => self.links += u64::from(found.linked),
            EntryKind::Other => {}
            EntryKind::Unreadable => self.unreadable += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;
    use tempfile::TempDir;

    fn counted(data: &Path) -> Result<Option<DataSize>> {
        count(data, &RunWatch::quiet(&AtomicBool::new(false)), &mut |_| ())
    }

    #[test]
    fn files_below_are_counted_by_all_their_names() {
        let data = TempDir::new().unwrap();
        fs::create_dir_all(data.path().join("a/b")).unwrap();
        fs::write(data.path().join("a/b/one"), [0; 1000]).unwrap();
        fs::write(data.path().join("two"), [0; 234]).unwrap();
        symlink(data.path(), data.path().join("a/round")).unwrap();
        let all = DataSize { files: 2, bytes: 1234, links: 0, unreadable: 0 };
        assert_eq!(counted(data.path()).unwrap(), Some(all), "a link that leads round is none to follow");
        // A usual layout of datasets: links to a file and to a folder of files elsewhere, and a dangling link.
        let elsewhere = TempDir::new().unwrap();
        fs::write(elsewhere.path().join("three"), [0; 50]).unwrap();
        symlink(elsewhere.path().join("three"), data.path().join("three")).unwrap();
        symlink(elsewhere.path(), data.path().join("train")).unwrap();
        symlink("nowhere", data.path().join("stale")).unwrap();
        let all = DataSize { files: 4, bytes: 1334, links: 2, unreadable: 1 };
        assert_eq!(counted(data.path()).unwrap(), Some(all));
        assert_eq!(counted(&data.path().join("two")).unwrap().unwrap().bytes(), Bytes(234));
    }

    #[test]
    fn what_is_missing_is_named_and_what_is_empty_is_empty() {
        let data = TempDir::new().unwrap();
        assert_eq!(counted(data.path()).unwrap(), Some(DataSize::default()));
        let error = counted(&data.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none: cannot look at the data"), "{error}");
    }

    #[test]
    #[ignore = "makes a million files: cargo test -p perf4sight-machine --lib -- --ignored a_million_files --nocapture"]
    fn a_million_files_are_counted_in_seconds() {
        let data = TempDir::new().unwrap();
        for folder in 0..1000 {
            let folder = data.path().join(folder.to_string());
            fs::create_dir(&folder).unwrap();
            (0..1000).for_each(|file| fs::write(folder.join(file.to_string()), "one").unwrap());
        }
        let (begun, mut shown) = (Instant::now(), 0);
        let size = count(data.path(), &RunWatch::quiet(&AtomicBool::new(false)), &mut |_| shown += 1).unwrap().unwrap();
        println!("{size:?} in {:?}, progress shown {shown} times", begun.elapsed());
        assert_eq!((size.files, size.bytes), (1_000_000, 3_000_000));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
