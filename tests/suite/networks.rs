//! Networks: files of every form, shapes and costs.

use crate::fixtures::shared;
use perf4sight_network::{Network, zoo};
use perf4sight_onnx as onnx;
use std::path::PathBuf;

/// Every ONNX file in a folder of the development-only data.
fn files(folder: &str) -> Vec<PathBuf> {
    let Some(folder) = shared(folder) else { return Vec::new() };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "onnx")).collect();
    files.sort();
    files
}

fn exported(name: &str) -> Option<onnx::LoadedOnnx> {
    shared(&format!("onnx/{name}.onnx")).map(|path| onnx::read(path).unwrap())
}

fn assert_survives_writing(network: &Network) {
    let again = onnx::from_bytes(network.name(), &onnx::to_bytes(network)).unwrap();
    assert_eq!(again.network.as_written(), network.as_written());
}

#[test]
fn the_published_networks_are_read_whole_and_survive_writing() {
    let files = files("tx2/networks");
    assert!(files.is_empty() || files.len() == 72);
    for file in files {
        let loaded = onnx::read(&file).unwrap();
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{}", file.display());
        assert!(loaded.network.coverage().is_full());
        assert_eq!((loaded.network.input_shape().dims(), loaded.network.classes()), ([3, 224, 224].as_slice(), 1000));
        assert_survives_writing(&loaded.network);
    }
}

#[test]
fn the_published_networks_have_the_published_parameters() {
    // torchvision's documentation; mobilenetv2 with the expand convolution its publishers kept.
    let published = [
        ("alexnet", 61_100_840),
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("mobilenetv2", 3_505_960),
        ("squeezenet", 1_248_424),
        ("mnasnet", 4_383_312),
    ];
    for (name, parameters) in published {
        let Some(path) = shared(&format!("tx2/networks/{name}_0.onnx")) else { return };
        assert_eq!(onnx::read(path).unwrap().network.parameters(), parameters, "{name}");
    }
}

#[test]
fn real_exports_are_covered_with_exact_parameters() {
    let published = [("densenet121", 7_978_856), ("mobilenet_v3_small", 2_542_856), ("resnext50_32x4d", 25_028_904)];
    for (name, parameters) in published {
        let Some(loaded) = exported(name) else { return };
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{name}");
        assert!(loaded.network.coverage().is_full(), "{name}");
        assert_eq!(loaded.network.parameters(), parameters, "{name}");
        assert_survives_writing(&loaded.network);
    }
}

#[test]
fn known_networks_are_those_that_torchvision_exports() {
    for name in ["densenet121", "mobilenet_v3_small", "resnext50_32x4d"] {
        let Some(loaded) = exported(name) else { return };
        let known = zoo::build(name, zoo::Dataset::Imagenet).unwrap();
        assert_eq!(
            (known.macs(), known.activations()),
            (loaded.network.macs(), loaded.network.activations()),
            "{name}"
        );
        let convolutions = |network: &Network| -> Vec<(String, u64)> {
            let nodes = network.nodes().iter().filter(|node| node.op.kind() == "conv");
            nodes.map(|node| (node.shape.to_string(), network.macs_of(node))).collect()
        };
        assert_eq!(convolutions(&known), convolutions(&loaded.network), "{name}");
        assert_survives_writing(&known);
    }
}

#[test]
fn exports_without_batch_norm_are_counted_exactly_and_warn() {
    // torchvision's count minus scale and shift of every batch-norm, plus a bias for each convolution it went into.
    // resnet18 normalises 64 + 4 x 64 + 5 x 128 + 5 x 256 + 5 x 512 = 4,800 channels; its exporter dropped the biases, all zero.
    // mobilenet_v3_small normalises 16 + 32 + 168 + 200 + 232 + 520 + 520 + 288 + 336 + 672 + 1248 + 1248 + 576 = 6,056
    // (stem, eleven blocks, last convolution).
    let folded = [
        ("resnet18_eval_dynamo", 11_689_512 - 2 * 4_800),
        ("mobilenet_v3_small_eval_empty", 2_542_856 - 2 * 6_056 + 6_056),
    ];
    for (name, parameters) in folded {
        let Some(loaded) = exported(name) else { return };
        assert_eq!(loaded.network.parameters(), parameters, "{name}");
        assert!(loaded.network.coverage().is_full(), "{name}");
        assert_eq!(loaded.network.input_shape().dims(), [3, 224, 224], "its fixed batch is left open");
        let [warning] = loaded.warnings.as_slice() else { panic!("{name}: {:?}", loaded.warnings) };
        assert!(
            warning.contains("cannot be trusted") && warning.contains("torch.onnx.export(model.train()"),
            "{warning}"
        );
        assert_survives_writing(&loaded.network);
    }
}

#[test]
fn published_sizes_at_level_0_and_pruned() {
    // Convolution MACs and output elements of golden/random_pruning.csv are those of the level-0 files at level 0.
    let Some(path) = shared("tx2/networks/resnet50_0.onnx") else { return };
    let network = onnx::read(path).unwrap().network;
    // 4.09 G: torchvision's documented GFLOPS (multiply-adds) of resnet50 at 224 x 224.
    assert_eq!(format!("{:.2}", network.macs() as f64 / 1e9), "4.09");
}
