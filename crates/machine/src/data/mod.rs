//! Data in files and folders: how much of it there is, and how fast it can be read.

mod bandwidth;
mod count;
mod files;

pub use bandwidth::{ReadBandwidth, storage_bandwidth};
pub use count::{DataSize, count};
pub use files::files;
