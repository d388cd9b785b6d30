//! The example of the repository on the fingerprint of the repository.

#[path = "../../examples/predict.rs"]
#[allow(dead_code)] // its `main` reads arguments
mod predict;

#[test]
fn the_example_predicts_from_the_committed_fingerprint() {
    let lines = predict::predict("models/imagenet/resnet18.onnx", "fingerprinting/epyc-1-core/imagenet").unwrap();
    assert_eq!(lines.len(), 6);
    // Latency first, memory after it; a step of sixteen samples needs more than one of four.
    assert!(lines[..3].iter().all(|line| line.contains("ms") || line.ends_with(" s)")), "{lines:?}");
    assert!(lines[3..].iter().all(|line| line.contains("iB (")), "{lines:?}");
}
