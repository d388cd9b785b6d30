//! What several topics need: where the development-only data lies.

use std::path::{Path, PathBuf};

/// A folder of the development-only data beside the checkout; `None`, said aloud, where it is absent.
#[allow(dead_code)]
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(name);
    if !path.exists() {
        eprintln!("skipped: this test reads ../shared/{name}, which is absent here");
        return None;
    }
    Some(path)
}
