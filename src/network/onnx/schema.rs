//! The ONNX messages, generated from `proto/onnx.proto`, and the numbers of the fields that are read without them.

include!(concat!(env!("OUT_DIR"), "/onnx.rs"));

/// Field numbers on the way to the weights, from `proto/onnx.proto`.
pub(super) mod field {
    /// `ModelProto.graph`
    pub const GRAPH: u64 = 7;
    /// `GraphProto.initializer`
    pub const INITIALIZER: u64 = 5;
    /// `TensorProto.raw_data`
    pub const RAW_DATA: u64 = 9;
    /// `TensorProto.float_data`, packed: the same bytes as raw data
    pub const FLOAT_DATA: u64 = 4;
}
