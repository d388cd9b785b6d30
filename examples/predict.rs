//! What the fingerprints of a folder say about a network: `cargo run --example predict -- NET.onnx FOLDER`.

use perf4sight_base::error::Result;
use perf4sight_cost::fingerprint::DeviceFingerprints;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Stage;
use std::path::Path;

/// One line per quantity and batch size.
pub fn predict(file: &str, folder: &str) -> Result<Vec<String>> {
    let network = onnx::read(file)?.network;
    let mut lines = Vec::new();
    for fingerprint in DeviceFingerprints::load(Path::new(folder), Stage::Training)?.iter() {
        let about = fingerprint.about(&network);
        for batch in [1, 4, 16] {
            let prediction = about.predict(batch);
            let interval = prediction.interval.map(|interval| format!(" ({} to {})", interval.low, interval.high));
            let verdict = about.verdict(batch).map(|verdict| format!(", {}", verdict.call));
            let [interval, verdict] = [interval, verdict].map(Option::unwrap_or_default);
            lines.push(format!("batch size {batch}: {}{interval}{verdict}", prediction.value));
        }
    }
    Ok(lines)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, folder) = match arguments.as_slice() {
        [file, folder] => (file.as_str(), folder.as_str()),
        _ => ("models/imagenet/resnet18.onnx", "fingerprinting/epyc-1-core/imagenet"),
    };
    predict(file, folder)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
