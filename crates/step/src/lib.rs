//! A step of a network: the network as a graph, read from and written to ONNX, the settings of the step, and the
//! protocol between the profiler and its workers.
#![warn(missing_docs)]

pub mod detection;
pub mod protocol;
pub mod sampling;
pub mod workload;
