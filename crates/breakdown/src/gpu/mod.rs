//! The activity of accelerators, and the causes of idle time.

pub(crate) mod device;
pub(crate) mod idle;
