//! Generates the ONNX message types from ONNX's own schema (`proto/onnx.proto`, as the `onnx` 1.23 wheel ships it), without a
//! `protoc` binary.

use prost_build::Config;

/// Fields of what files hold by the ten thousand that nothing here reads: each would make all of them larger, and slower to read.
const UNREAD: [(&str, &[&str]); 4] = [
    ("AttributeProto", &["doc_string", "sparse_tensor", "tp", "tensors", "sparse_tensors", "type_protos"]),
    ("NodeProto", &["doc_string", "device_configurations"]),
    ("TensorProto", &["segment", "string_data", "doc_string", "metadata_props"]),
    ("ValueInfoProto", &["doc_string", "metadata_props"]),
];

fn main() {
    const SCHEMA: &str = "proto/onnx.proto";
    println!("cargo::rerun-if-changed={SCHEMA}");
    let mut schema = protox::compile([SCHEMA], ["proto"]).expect("the schema is ONNX's own and compiles");
    for message in schema.file.iter_mut().flat_map(|file| &mut file.message_type) {
        if let Some((_, unread)) = UNREAD.iter().find(|(name, _)| *name == message.name()) {
            message.field.retain(|field| !unread.contains(&field.name()));
        }
    }
    Config::new()
        // The schema's indented examples would run as doctests.
        .disable_comments(["."])
        .enum_attribute(".", "#[allow(clippy::enum_variant_names)]")
        // Few attributes have these, which are large.
        .boxed(".onnx.AttributeProto.t")
        .boxed(".onnx.AttributeProto.g")
        .compile_fds(schema)
        .expect("OUT_DIR is writable");
}
