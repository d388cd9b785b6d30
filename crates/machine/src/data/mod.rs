//! Data in files and folders: how much of it there is, and how fast it can be read.

mod bandwidth;
mod count;

pub use bandwidth::{Bandwidth, storage_bandwidth};
pub use count::{DataSize, count};
