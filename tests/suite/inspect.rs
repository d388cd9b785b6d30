//! `perf4sight inspect`: the layer table of a network, its totals, its coverage.

use crate::fixtures::{Scene, shared};
use perf4sight::network::{NetworkBuilder, Op, Shape, Unknown, onnx};

#[test]
fn a_known_network_is_shown_layer_by_layer() {
    let shown = Scene::new().run("inspect resnet18 --bs 8 --stage training").succeeds();
    let shown = shown.prints("resnet18 (training, batch size 8)").prints("layer1.0.conv1").prints("8x64x56x56");
    shown.prints("11,689,512").prints("69 of 69 operations are known");
}

#[test]
fn totals_are_those_of_paper_and_pencil() {
    let json = Scene::new().run("inspect resnet18 --bs 8 --stage training --json").succeeds().json();
    // 1.814 G multiply-accumulates a sample (torchvision: 1.81 GFLOPS). Backward does them twice, but for the input gradient of
    // the first convolution: 64 filters of 7x7x3 at 112x112 places.
    let forward = 1_814_073_344u64;
    let first = 64 * 7 * 7 * 3 * 112 * 112;
    assert_eq!(json["totals"]["forward_macs"], 8 * forward);
    assert_eq!(json["totals"]["backward_macs"], 8 * (2 * forward - first));
    assert_eq!((&json["batch"], &json["classes"], &json["coverage"]["known"]), (&8.into(), &1000.into(), &69.into()));
    let conv1 = &json["layers"][1];
    assert_eq!((&conv1["layer"], &conv1["output"]), (&"conv1".into(), &"8x64x112x112".into()));
    // Reads 8 images and its filters, four bytes an element; writes 8 x 64 maps.
    assert_eq!(conv1["bytes_in"], 4 * (8 * 3 * 224 * 224 + 64 * 3 * 49));
    assert_eq!(conv1["bytes_out"], 4 * 8 * 64 * 112 * 112);
    assert!(json["layers"][1].get("backward_macs").is_some());
    let inference = Scene::new().run("inspect resnet18 --json").succeeds().json();
    assert_eq!((&inference["batch"], inference["layers"][1].get("backward_macs")), (&1.into(), None));
}

#[test]
fn unknown_operations_are_named_with_their_parameters() {
    let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
    let unknown = Unknown::new("Frobnicate", Shape::new([3, 8, 8]), 12);
    let odd = builder.add("odd", Op::Unknown(unknown), &[builder.input()]).unwrap();
    let scene = Scene::new().file("odd.onnx", onnx::to_bytes(&builder.finish(odd)));
    scene.run("inspect odd.onnx").succeeds().prints("0 of 1 operations are known").says("Frobnicate x1");
    let json = scene.run("inspect odd.onnx --json").succeeds().json();
    assert_eq!(json["coverage"]["unknown"]["Frobnicate"]["parameters"], 12);
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn a_folded_export_is_shown_with_the_export_call() {
    let Some(path) = shared("onnx/resnet18_eval_dynamo.onnx") else { return };
    let shown = Scene::new().run(&format!("inspect {} --bs 8", path.display())).succeeds();
    shown.says("cannot be trusted").says("torch.onnx.export(model.train()").prints("49 of 49 operations are known");
}

#[test]
fn levels_datasets_and_mistakes() {
    let pruned = Scene::new().run("inspect squeezenet@50 --dataset cifar100 --json").succeeds().json();
    assert_eq!((&pruned["classes"], &pruned["input"]), (&100.into(), &serde_json::json!([3, 32, 32])));
    Scene::new().run("inspect resnet81").fails(3).says("did you mean \"resnet18\"?");
    // 2^64 - 1: more bytes than can be counted.
    Scene::new().run("inspect resnet18 --bs 18446744073709551615").fails(2).says("1..=1000000");
    Scene::new().run("inspect absent.onnx").fails(6).says("absent.onnx: cannot read the network");
    let scene = Scene::new().file("torn.onnx", [0x3a, 0xff, 0xff, 0xff, 0x7f, 0x00]);
    scene.run("inspect torn.onnx").fails(4).says("torn.onnx: is no ONNX file, or a damaged one").says("help:");
}
