//! Networks as PyTorch exports them, against what PyTorch counts of them: opt-in, for the exports of `scripts/export_networks.py`.

use perf4sight::network::onnx;
use perf4sight::pruning::{Goal, Pruner, Ranking, generator};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The exports in `target/exports`, in order of their names.
fn exports() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/exports");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("{}: see scripts/export_networks.py", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut exports: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "onnx")).collect();
    exports.sort();
    exports
}

/// One line of the table, and whether the file is read and written again without loss and parameters and multiply-accumulates are PyTorch's, or warned of.
fn line(path: &Path) -> (String, bool) {
    let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
    let name = stem.rsplit_once('.').unwrap().0;
    let counts = std::fs::read_to_string(path.with_file_name(format!("{name}.json"))).unwrap();
    let counts: Value = serde_json::from_str(&counts).unwrap();
    let onnx::Loaded { network, warnings } = match onnx::read(path) {
        Ok(loaded) => loaded,
        Err(error) => return (format!("{stem:40} {error}"), false),
    };
    let missing = network.parameters() as i64 - counts["parameters"].as_i64().unwrap();
    let macs = network.macs() as f64 / counts["macs"].as_f64().unwrap();
    let pruner = Pruner::new(&network);
    let ranking = Ranking::random(&pruner, &mut generator(0, name, 50, 0));
    let pruned = pruner.prune(&ranking, Goal::percent(&network, 50.0)).unwrap();
    let again = onnx::from_bytes(network.name(), &onnx::to_bytes(&pruned.network))
        .map(|loaded| loaded.network.nodes() == pruned.network.nodes());
    let coverage = network.coverage();
    let unknown: Vec<&str> = coverage.unknown.keys().map(String::as_str).collect();
    let folded = if network.is_folded() { "folded" } else { "" };
    let (known, all, percent) = (coverage.known(), coverage.operations, pruned.percent);
    let line = format!(
        "{stem:40} {known:4}/{all:4} {missing:+9} {macs:.4} {percent:5.1} % {again:?} {folded} {}",
        unknown.join(" ")
    );
    let warned = warnings.iter().any(|warning| warning.contains("its parameters are not the network's"));
    let right = (missing == 0 || warned) && (macs - 1.0).abs() < 0.005 && again == Ok(true);
    (line, right)
}

#[test]
#[ignore = "needs exports, see scripts/export_networks.py; run with: cargo test --test suite foreign_exports -- --ignored --nocapture"]
fn foreign_exports_count_as_pytorch_does() {
    println!(
        "export, operations known, parameters too many, MACs to PyTorch's, pruned to 50 %, read again as written, batch-norm, unknown operations"
    );
    let lines: Vec<(String, bool)> = exports().iter().map(|path| line(path)).collect();
    lines.iter().for_each(|(line, right)| println!("{} {line}", if *right { ' ' } else { '!' }));
    let right = lines.iter().filter(|(_, right)| *right).count();
    println!("{right} of {}", lines.len());
    // Transposed convolutions and fused attention are the arithmetic that is still missing.
    assert!(right * 10 >= lines.len() * 9, "{right} of {}", lines.len());
}
