//! Devices: what can run a network and say what it cost.

pub mod protocol;
