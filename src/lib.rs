//! perf4sight tells what training or running a neural network will cost on a device, before it runs there.
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod cli;
pub mod config;
pub mod device;
pub mod error;
pub mod evaluation;
pub mod features;
pub mod fingerprint;
pub mod memory;
pub mod network;
pub mod pipeline;
pub mod plan;
pub mod pruning;
pub mod records;
pub mod report;
pub mod stages;
pub mod stats;
pub mod target;
pub mod trees;
pub mod units;
pub mod whole_file;
pub mod workload;
