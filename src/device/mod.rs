//! Devices: what can run a network and say what it cost.

pub mod protocol;
#[cfg(feature = "torch")]
pub mod torch;
