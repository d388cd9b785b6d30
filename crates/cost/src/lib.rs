//! What a network costs on a device, before it runs there: networks are pruned into a dataset, the dataset is profiled on the device, and
//! the device's *fingerprint* is fitted to the rows. A stored fingerprint then answers for networks nobody has run there:
//!
//! ```
//! use perf4sight_cost::fingerprint::DeviceFingerprints;
//! use perf4sight_onnx as onnx;
//! use perf4sight_step::workload::Stage;
//! use std::path::Path;
//!
//! # std::env::set_current_dir("../..").unwrap(); // examples run in the folder of their crate
//! let network = onnx::read("models/imagenet/resnet50.onnx")?.network;
//! let folder = Path::new("fingerprinting/epyc-1-core/imagenet");
//! for fingerprint in DeviceFingerprints::load(folder, Stage::Training)?.iter() {
//!     let about = fingerprint.about(&network);
//!     let prediction = about.predict(8);
//!     let interval = prediction.interval.expect("a fingerprint of the hybrid method has seen networks left out");
//!     println!("{}: {}, 90 %: {} to {}", fingerprint.subject().quantity, prediction.value, interval.low, interval.high);
//!     prediction.out_of_distribution.iter().for_each(|reason| println!("but {reason}"));
//!     if let (Some(verdict), Some(max_batch)) = (about.verdict(8), about.max_batch()) {
//!         println!("a batch of 8 {}; {} surely does", verdict.call, max_batch.safe);
//!     }
//! }
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```
//!
//! `examples/predict.rs` is the same as a program.
#![warn(missing_docs)]

pub mod device;
pub mod evaluation;
pub mod features;
pub mod fingerprint;
pub mod plan;
pub mod pruning;
pub mod records;
pub mod trees;
pub mod verbs;
