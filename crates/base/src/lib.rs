//! What every crate uses: errors, units, statistics, caches, and how files and folders are read, written and removed.
#![warn(missing_docs)]

pub mod atomic_write;
pub mod cache;
pub mod checksum;
pub mod error;
pub mod input_file;
pub mod output_folder;
pub mod overwrite;
pub mod stats;
pub mod summary;
pub mod temporary_folder;
pub mod units;
