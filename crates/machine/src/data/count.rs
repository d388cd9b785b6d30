//! How many files there are, and how large they are together.

use crate::Watch;
use perf4sight_conventions::error::{Error, Result};
use perf4sight_conventions::units::Bytes;
use std::fs::{self, DirEntry, ReadDir};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often progress is told.
const TELL: Duration = Duration::from_millis(500);

/// How much data there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataSize {
    /// Regular files; those with several names once for each name.
    pub files: u64,
    /// What is in them: what a job that reads all of them reads.
    pub bytes: u64,
    /// Entries that could not be looked at.
    pub unreadable: u64,
}

impl DataSize {
    /// What is in the files.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }
}

/// Counts the files in a folder and those below, or the one file that it is; links are followed for the data itself only. `progress`
/// is told now and then how far it has come. None after Ctrl-C.
///
/// # Errors
/// Data that is not there or cannot be looked at, or that is no file and no folder.
pub fn count(data: &Path, watch: &Watch<'_>, progress: &mut dyn FnMut(&DataSize)) -> Result<Option<DataSize>> {
    let about = fs::metadata(data).map_err(|cause| Error::io(data, "look at the data", &cause))?;
    if about.is_file() {
        return Ok(Some(DataSize { files: 1, bytes: about.len(), unreadable: 0 }));
    }
    let first = fs::read_dir(data);
    let first = first.map_err(|cause| Error::io(data, "list the data", &cause).expected("a file or a folder"))?;
    let (mut size, mut folders, mut told) = (DataSize::default(), vec![first], Instant::now());
    while let Some(folder) = folders.last_mut() {
        match folder.next() {
            None => drop(folders.pop()),
            // A folder may hold a million files.
            Some(_) if watch.cancelled() => return Ok(None),
            Some(entry) => folders.extend(size.add(entry)),
        }
        if told.elapsed() >= TELL {
            progress(&size);
            told = Instant::now();
        }
    }
    Ok(Some(size))
}

impl DataSize {
    /// Adds an entry of a folder; of a folder what lies in it, which is to be added too.
    fn add(&mut self, entry: io::Result<DirEntry>) -> Option<ReadDir> {
        // Neither follows links.
        let known = entry.and_then(|entry| Ok((entry.file_type()?, entry)));
        let below = match known {
            Ok((kind, entry)) if kind.is_dir() => fs::read_dir(entry.path()).map(Some),
            Ok((kind, entry)) if kind.is_file() => entry.metadata().map(|about| {
                self.files += 1;
                self.bytes += about.len();
                None
            }),
            Ok(_) => Ok(None),
            Err(cause) => Err(cause),
        };
        self.unreadable += u64::from(below.is_err());
        below.unwrap_or(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;
    use tempfile::TempDir;

    fn counted(data: &Path) -> Result<Option<DataSize>> {
        count(data, &Watch::quiet(&AtomicBool::new(false)), &mut |_| ())
    }

    #[test]
    fn files_below_are_counted_and_links_are_not() {
        let data = TempDir::new().unwrap();
        fs::create_dir_all(data.path().join("a/b")).unwrap();
        fs::write(data.path().join("a/b/one"), [0; 1000]).unwrap();
        fs::write(data.path().join("two"), [0; 234]).unwrap();
        symlink(data.path(), data.path().join("a/round")).unwrap();
        let all = DataSize { files: 2, bytes: 1234, unreadable: 0 };
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
        let (begun, mut told) = (Instant::now(), 0);
        let size = count(data.path(), &Watch::quiet(&AtomicBool::new(false)), &mut |_| told += 1).unwrap().unwrap();
        println!("{size:?} in {:?}, progress told {told} times", begun.elapsed());
        assert_eq!((size.files, size.bytes), (1_000_000, 3_000_000));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
