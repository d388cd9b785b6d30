//! Fingerprints as files: one JSON per stage and quantity, those of a device in a folder.

mod file;
mod folder;

pub use file::file_name;
pub use folder::DeviceFingerprints;
