//! The ONNX messages, generated from `proto/onnx.proto`, and the numbers of the fields that are read before decoding.

include!(concat!(env!("OUT_DIR"), "/onnx.rs"));

/// Numbers of the fields that are read, and of those on the way to the weights, from `proto/onnx.proto`.
pub(super) mod field {
    /// `ModelProto.producer_name`
    pub const PRODUCER_NAME: u64 = 2;
    /// `ModelProto.opset_import`
    pub const OPSET_IMPORT: u64 = 8;
    /// `ModelProto.metadata_props`
    pub const METADATA_PROPS: u64 = 14;
    /// `ModelProto.functions`
    pub const FUNCTIONS: u64 = 25;
    /// `GraphProto.input`, `.output`, `.value_info`, `.sparse_initializer`, `.metadata_props`
    pub const KEPT_OF_GRAPH: [u64; 5] = [11, 12, 13, 15, 16];
    /// `GraphProto.node`
    pub const NODE: u64 = 1;
    /// `NodeProto.input`
    pub const NODE_INPUT: u32 = 1;
    /// `NodeProto.output`
    pub const NODE_OUTPUT: u32 = 2;
    /// `NodeProto.attribute`
    pub const NODE_ATTRIBUTE: u32 = 5;
    /// `NodeProto.metadata_props`
    pub const NODE_METADATA_PROPS: u32 = 9;
    /// `StringStringEntryProto.key`
    pub const KEY: u32 = 1;
    /// `ModelProto.graph`
    pub const GRAPH: u64 = 7;
    /// `GraphProto.initializer`
    pub const INITIALIZER: u64 = 5;
    /// `TensorProto.raw_data`
    pub const RAW_DATA: u64 = 9;
    /// `TensorProto.float_data`, packed: the same bytes as raw data
    pub const FLOAT_DATA: u64 = 4;
}
