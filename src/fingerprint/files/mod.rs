//! Fingerprints as files: one JSON per stage and quantity, those of a device in a folder.

mod file;
mod folder;

pub(super) use file::FORMAT;
pub use file::{Provenance, file_name};
pub use folder::Fingerprints;
