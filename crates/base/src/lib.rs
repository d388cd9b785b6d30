//! Shared by every crate: errors, units, statistics, caches, and reading, writing and removing files and folders.
#![warn(missing_docs)]

pub mod atomic_write;
pub mod cache;
pub mod checksum;
pub mod error;
pub mod input_file;
pub mod output_folder;
pub mod overwrite;
pub mod path_name;
pub mod result_files;
pub mod shell;
pub mod stats;
pub mod summary;
pub mod temporary_folder;
pub mod units;
pub mod unzipped;
pub mod words;
