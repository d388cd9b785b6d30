//! `[fingerprint]`: fits, stores and judges the performance model of a device.

pub mod report;
