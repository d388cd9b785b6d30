//! Traces in `../shared/traces`, which is not part of the repository: a test that reads them is skipped, and says so, where it is absent.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use std::fs;
use std::path::{Path, PathBuf};

pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        eprintln!("skipped: this test reads ../shared/traces/{name}, which is absent here");
    }
    path.exists().then_some(path)
}

pub fn files(folder: &str) -> Vec<PathBuf> {
    let Some(folder) = shared(folder) else { return Vec::new() };
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.to_string_lossy().ends_with(".json.gz")).collect()
}
