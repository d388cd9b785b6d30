//! Network files: ONNX, read in every form people have, written without weights.
