//! What every crate uses: errors, units, statistics, caches, and how files and folders are read, written and removed.
#![warn(missing_docs)]

pub mod checksum;
pub mod error;
pub mod held_folder;
pub mod input_file;
pub mod overwrite;
pub mod private_folder;
pub mod remembered;
pub mod stats;
pub mod summary;
pub mod units;
pub mod whole_file;
