//! perf4sight tells what training or running a neural network will cost on a device, before it runs there.
//!
//! The program runs the sections of a configuration ([`pipeline`]): it prunes networks into a dataset, profiles the dataset on a
//! device, fits the device's *fingerprint* to the rows and reports how far to trust it. A stored fingerprint then answers for
//! networks nobody has run there:
//!
//! ```
//! use perf4sight::fingerprint::Fingerprints;
//! use perf4sight::network::onnx;
//! use perf4sight::workload::Stage;
//! use std::path::Path;
//!
//! let network = onnx::read("models/imagenet/resnet50.onnx")?.network;
//! let folder = Path::new("fingerprinting/epyc-1-core/imagenet");
//! for fingerprint in Fingerprints::load(folder, Stage::Training)?.iter() {
//!     let about = fingerprint.about(&network);
//!     let prediction = about.at(8);
//!     let interval = prediction.interval.expect("a fingerprint of the hybrid method has seen networks left out");
//!     println!("{}: {}, 90 %: {} to {}", fingerprint.subject().quantity, prediction.value, interval.low, interval.high);
//!     prediction.unlike.iter().for_each(|reason| println!("but {reason}"));
//!     if let (Some(verdict), Some(max_batch)) = (about.verdict(8), about.max_batch()) {
//!         println!("a batch of 8 {}; {} surely does", verdict.call, max_batch.safe);
//!     }
//! }
//! # Ok::<(), perf4sight::error::Error>(())
//! ```
//!
//! `examples/predict.rs` is the same as a program.
#![warn(missing_docs)]

pub mod cli;
pub mod config;
pub mod device;
pub mod evaluation;
pub mod features;
pub mod fingerprint;
pub mod frame;
pub mod memory;
pub mod pipeline;
pub mod plan;
pub mod platform;
pub mod pruning;
pub mod records;
pub mod sections;
pub mod trees;

// What lies below, in crates of its own, under the names that it has here.
pub use perf4sight_breakdown as breakdown;
pub use perf4sight_conventions::{
    checksum, error, held_folder, input_file, private_folder, remembered, stats, units, whole_file,
};
pub use perf4sight_machine as machine;
pub use perf4sight_report as report;
pub use perf4sight_sensitivity as sensitivity;
pub use perf4sight_step::{network, workload};
pub use perf4sight_traces as traces;
