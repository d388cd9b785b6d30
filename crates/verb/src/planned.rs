//! The files that will be there when a section starts.

use crate::Outline;
use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The files that exist when a section starts: those on disk and those that earlier sections write.
#[derive(Debug, Clone, Default)]
pub struct PlannedFiles {
    /// Places, so that it does not matter how a path is spelled.
    written: BTreeSet<PathBuf>,
    rows: BTreeMap<PathBuf, Vec<String>>,
}

impl PlannedFiles {
    /// Adds the files that a section will write.
    pub fn add(&mut self, outline: &Outline<'_>) {
        self.written.extend(outline.written().map(|written| place(&written.path)));
        for (file, row) in &outline.rows {
            self.rows.entry(place(file)).or_default().push(row.clone());
        }
    }

    /// The rows that earlier sections will add to a file at most, in their words.
    pub fn rows(&self, file: &Path) -> &[String] {
        self.rows.get(&place(file)).map_or(&[], Vec::as_slice)
    }

    /// Whether a file or folder will be there. In a folder that an earlier section fills, every file may be.
    pub fn exists(&self, path: &Path) -> bool {
        path.exists() || self.is_written(path)
    }

    /// Whether an earlier section will write a file or folder, or something in it, whether or not it is there already.
    pub fn is_written(&self, path: &Path) -> bool {
        let path = place(path);
        self.written.iter().any(|written| written.starts_with(&path) || path.starts_with(written))
    }

    /// The first folder into which an earlier section writes such a file; from the current folder where it is below it.
    pub fn folder_that_gets(&self, is_such: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let folder = self.written.iter().find(|path| is_such(path))?.parent()?;
        Some(folder.strip_prefix(place(Path::new("."))).unwrap_or(folder).to_owned())
    }

    /// The files of a folder with this extension, sorted; none where the folder is absent.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(&self, folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
        let here = place(folder);
        let written =
            self.written.iter().filter(|path| path.parent() == Some(&here)).filter_map(|path| path.file_name());
        let mut files: BTreeSet<PathBuf> = written.map(|name| folder.join(name)).collect();
        if folder.is_dir() {
            let refused = |cause: std::io::Error| Error::io(folder, "list this folder", &cause);
            for entry in fs::read_dir(folder).map_err(refused)? {
                files.insert(entry.map_err(refused)?.path());
            }
        }
        files.retain(|path| path.extension().is_some_and(|found| found == extension));
        Ok(files.into_iter().collect())
    }
}

/// Where a path leads, however it is spelled: relative, with `..`, or through links. What is not there yet follows as it is spelled.
pub(crate) fn place(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut place = PathBuf::new();
    let mut missing = 0_usize;
    for part in path.components() {
        if part == Component::ParentDir {
            place.pop();
            missing = missing.saturating_sub(1);
            continue;
        }
        place.push(part);
        if missing == 0 && place.is_symlink() {
            // It may lead to what is not there yet.
            let led = atomic_write::link_target(&place).unwrap_or_else(|_| place.clone());
            place = led.canonicalize().unwrap_or(led);
        }
        if missing > 0 || !place.exists() {
            missing += 1;
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyedPath;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_that_will_be_written_is_known_by_every_name_of_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("there")).unwrap();
        symlink("there", at("link")).unwrap();
        symlink("there/new/net.onnx", at("dangling")).unwrap();
        symlink("there/new", at("folder")).unwrap();
        let mut planned = PlannedFiles::default();
        planned.add(&Outline { writes: vec![KeyedPath::new("out", at("there/new/net.onnx"))], ..Outline::default() });
        for name in [
            "there/new/net.onnx",
            "link/new/net.onnx",
            "there/new/../new/./net.onnx",
            "dangling",
            "folder/net.onnx",
            "link/../there/new",
        ] {
            assert!(planned.exists(&at(name)), "{name}");
        }
        for name in ["there/new/other.onnx", "new/net.onnx", "there/new/../net.onnx"] {
            assert!(!planned.exists(&at(name)), "{name}");
        }
        assert_eq!(planned.files(&at("link/new"), "onnx").unwrap(), [at("link/new/net.onnx")]);
    }

    /// A path that no file system takes is no place, and is given back at once.
    #[test]
    fn a_path_of_any_length_is_answered() {
        let long = format!("/{}", "a/".repeat(200_000));
        assert_eq!(place(Path::new(&long)), Path::new(&long));
    }
}
