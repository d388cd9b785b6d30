//! What accelerators do, and why they are idle.

pub(crate) mod device;
pub(crate) mod idle;
