//! A step of a network: the network as a graph, read from and written to ONNX, what the step does with it, and how a worker is asked
//! to run one and answers.
#![warn(missing_docs)]

pub mod detection;
pub mod protocol;
pub mod sampling;
pub mod workload;
