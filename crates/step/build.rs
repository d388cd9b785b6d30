//! Generates the ONNX message types from ONNX's own schema (`proto/onnx.proto`, as the `onnx` 1.23 wheel ships it), without a
//! `protoc` binary.

fn main() {
    const SCHEMA: &str = "proto/onnx.proto";
    println!("cargo::rerun-if-changed={SCHEMA}");
    let schema = protox::compile([SCHEMA], ["proto"]).expect("the schema is ONNX's own and compiles");
    prost_build::Config::new()
        // The schema's indented examples would run as doctests.
        .disable_comments(["."])
        .enum_attribute(".", "#[allow(clippy::enum_variant_names)]")
        // Few attributes have these, and all are as large as what they may have: 1.5 kB each otherwise.
        .boxed(".onnx.AttributeProto.t")
        .boxed(".onnx.AttributeProto.g")
        .boxed(".onnx.AttributeProto.sparse_tensor")
        .compile_fds(schema)
        .expect("OUT_DIR is writable");
}
