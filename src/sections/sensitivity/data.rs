//! The data of a job, brought into memory.

use crate::machine::Watch;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// How much is read at a time.
const PIECE: usize = 1 << 20;

/// Reads all data once, so that what has room lies in memory; gives up after Ctrl-C. Files that cannot be read are the job's business.
pub(super) fn warm(data: &Path, watch: &Watch<'_>) {
    let mut piece = vec![0; PIECE];
    for file in files(data) {
        let Ok(mut file) = File::open(file) else { continue };
        while !watch.cancelled() && file.read(&mut piece).is_ok_and(|count| count > 0) {}
    }
}

/// All regular files, one after another; links are followed for the data itself only.
fn files(data: &Path) -> impl Iterator<Item = PathBuf> {
    let mut visit = vec![data.to_owned()];
    std::iter::from_fn(move || {
        while let Some(path) = visit.pop() {
            let Ok(entries) = fs::read_dir(&path) else { return Some(path) };
            let entries = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
            visit.extend(entries.map(|entry| entry.path()));
        }
        None
    })
}
