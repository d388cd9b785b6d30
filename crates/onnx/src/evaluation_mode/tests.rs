//! Files that may lack the random operations of training.

use crate::schema::StringStringEntryProto;
use crate::tests::*;

/// The end of a token network, whose projection is called `weight`; in evaluation mode PyTorch's older exporter writes no random
/// operation, which is `drawn`.
fn normalised(weight: &str, drawn: bool) -> Vec<String> {
    let draft = Draft::new().weight("norm.weight", [8]).weight("norm.bias", [8]).weight(weight, [8, 8]);
    let draft = draft.node("LayerNormalization", &["x", "norm.weight", "norm.bias"], "normed", vec![]);
    let draft = draft.node("MatMul", &["normed", weight], "projected", vec![]);
    let last = if drawn { "Dropout" } else { "Relu" };
    draft.node(last, &["projected"], "y", vec![]).output("y").load().warnings
}

#[test]
fn a_module_lacks_nothing_that_its_file_lacks() {
    // Residual sums of convolutions without a normalisation, and tokens without dropout.
    let mut draft = Draft::new().weight("onnx::Conv_1", [3, 3, 1, 1]).weight("onnx::MatMul_41", [8, 8]);
    let note = |key: &str| StringStringEntryProto { key: Some(key.into()), value: Some("training".into()) };
    draft.0.metadata_props.push(note("perf4sight.module"));
    let draft = draft.node("Conv", &["x", "onnx::Conv_1"], "c", vec![]).node("Add", &["c", "x"], "s", vec![]);
    let loaded = draft.node("MatMul", &["s", "onnx::MatMul_41"], "y", vec![]).output("y").load();
    assert!(!loaded.network.is_folded());
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn dropout_that_may_be_missing_is_told_of() {
    let answer =
        |warnings: Vec<String>| warnings.iter().any(|warning| warning.starts_with("draws nothing in training"));
    assert!(answer(normalised("onnx::MatMul_41", false)));
    assert!(!answer(normalised("onnx::MatMul_41", true)));
    assert!(!answer(normalised("head.weight", false)), "as the exporter writes it in training mode");
}

/// `conv(x) * scale + x`, as other frameworks write a normalisation whose statistics are fixed: nothing was folded into the convolution.
#[test]
fn learned_factors_are_in_place_of_a_normalisation() {
    let conv = || Draft::new().weight("filters", [3, 3, 1, 1]).node("Conv", &["x", "filters"], "c", vec![]);
    let residual = |draft: Draft, read: &str| draft.node("Add", &[read, "x"], "y", vec![]).output("y").load();
    let scaled = conv().weight("scale", [3, 1, 1]).node("Mul", &["c", "scale"], "m", vec![]);
    let scaled = residual(scaled, "m");
    assert!(!scaled.network.is_folded() && scaled.warnings.is_empty(), "{:?}", scaled.warnings);
    assert!(residual(conv(), "c").network.is_folded());
}
