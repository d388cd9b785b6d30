//! `perf4sight inspect`: the layer table of a network, its totals, its coverage.

use crate::fixtures::{Scene, shared};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{BinaryFunction, Linear, NetworkBuilder, Op, Shape, UnknownOperation};
use perf4sight_onnx as onnx;

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
fn modules_hold_the_sums_of_their_layers() {
    let shown = Scene::new().run("inspect resnet18 --tree --json").succeeds().json();
    let modules = shown["modules"].as_array().unwrap();
    let sum = |key: &str| modules.iter().map(|module| module[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("parameters"), sum("forward_macs")), (11_689_512, 1_814_073_344));
    // By hand: four 3x3 convolutions from 64 to 64 channels, each with two numbers of normalisation a channel.
    let layer1 = modules.iter().find(|module| module["module"] == "layer1").unwrap();
    assert_eq!(layer1["parameters"], 4 * (64 * 64 * 9 + 2 * 64));
    let parts: Vec<&str> =
        layer1["parts"].as_array().unwrap().iter().map(|part| part["module"].as_str().unwrap()).collect();
    assert_eq!(parts, ["layer1.0", "layer1.1"]);
    Scene::new().run("inspect resnet18 --tree").succeeds().prints("14 operations").prints("147,968");
    Scene::new().run("inspect resnet18 --tree --memory").fails(2).says("--memory");
}

#[test]
fn layers_are_sorted_by_what_they_cost() {
    let first = |order: &str| {
        let json = Scene::new().run(&format!("inspect alexnet --sort {order} --json")).succeeds().json();
        json["layers"][0]["layer"].as_str().unwrap().to_owned()
    };
    // Krizhevsky 2014 as torchvision lays it out: 9,216 x 4,096 weights in the first layer of the classifier; 192 filters of 5x5x64 at
    // 27x27 places are the most products, 224,000,000; 64 maps of 55x55 are the largest result.
    assert_eq!(first("parameters"), "classifier.1");
    assert_eq!(first("macs"), "features.3");
    assert_eq!(first("memory"), "features.0");
    assert_eq!(first("run"), "input");
    Scene::new().run("inspect alexnet --sort size").fails(2).says("parameters");
}

#[test]
fn unknown_operations_are_named_with_their_parameters() {
    let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
    let unknown = UnknownOperation::new("Frobnicate", Shape::new([3, 8, 8]), 12);
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
    Scene::new().run("inspect resnet18 --bs 18446744073709551615").fails(2).says("from 1 to 1000000");
    Scene::new().run("inspect absent.onnx").fails(6).says("absent.onnx: cannot read the network");
    let scene = Scene::new().file("torn.onnx", [0x3a, 0xff, 0xff, 0xff, 0x7f, 0x00]);
    scene.run("inspect torn.onnx").fails(4).says("torn.onnx: is not an ONNX file, or a damaged one").says("help:");
}

/// By hand: a layer of 6 numbers from 4, of 2 samples, sgd with momentum, gradients kept, four bytes a number. Between steps there are 30
/// weights, 30 gradients, 30 numbers of momentum, 8 of the samples, and 2 labels of 8 bytes: 408 bytes. Forward adds 12 results. The loss
/// makes 12 numbers, its value and a sum of weights, whereupon the results go; on its way back a number to start from and the gradient of
/// the 12, then, without the sum, that of the results: 408 + 4 x (12 + 1 + 1 + 12 + 12). Of these the last, the value and the number to start
/// from are left: 408 + 4 x 14, beside which new gradients of 30 weights are made, which are added to the old ones. Updates borrow as much as the
/// weight and then the bias take, the loss's value being there still.
#[test]
fn memory_over_a_step_is_what_paper_and_pencil_say() {
    let mut builder = NetworkBuilder::new("small", Shape::new([4]));
    let linear = Op::Linear(Linear { out_features: 6, bias: true });
    let output = builder.add("fc", linear, &[builder.input()]).unwrap();
    let scene = Scene::new().file("small.onnx", onnx::to_bytes(&builder.finish(output)));
    let json =
        scene.run("inspect small.onnx --memory --zero-grad keep --bs 2 --json --html page.html").succeeds().json();
    let memory = &json["memory"];
    let operations = memory["operations"].as_array().unwrap();
    let answer: Vec<(&str, u64)> = operations
        .iter()
        .map(|operation| (operation["phase"].as_str().unwrap(), operation["total_bytes"].as_u64().unwrap()))
        .collect();
    let [forward, loss, backward] = [408 + 48, 408 + 4 * 38, 408 + 4 * 44];
    let updates = [("update", 408 + 4 + 96), ("update", 408 + 4 + 24)];
    assert_eq!(answer[..4], [("forward", 408), ("forward", forward), ("loss", loss), ("backward", backward)]);
    assert_eq!(answer[4..], updates);
    assert_eq!((&memory["step"], &memory["peak_bytes"]), (&"later".into(), &backward.into()));
    assert_eq!(operations[3]["bytes"]["gradients"], 2 * 4 * 30);
    // The weight, its momentum, its gradient and the new one: 24 numbers each.
    let largest = memory["largest"].as_array().unwrap();
    assert!(largest[..4].iter().all(|one| one["layer"] == "fc" && one["memory_bytes"] == 96), "{largest:?}");
    assert!(scene.read("page.html").contains("Simulated memory of small.onnx on cpu, batch size 2"));
}

/// The highest place is what `predict` calls the tensors of a step, and what lies there sums up to it.
#[test]
fn memory_over_a_step_is_highest_where_predictions_are() {
    for (network, options) in [
        ("resnet18", "--bs 4"),
        ("mobilenetv2", "--bs 2 --optimizer adamw"),
        ("squeezenet", "--bs 4 --optimizer rmsprop --accumulate 2"),
        ("alexnet", "--bs 8 --optimizer adamw --trainable classifier"),
    ] {
        let scene = Scene::new();
        let memory =
            scene.run(&format!("inspect {network} --memory {options} --json")).succeeds().json()["memory"].take();
        let answer = scene.run(&format!("predict {network} --target cpu {options} --json")).succeeds().json();
        let peak = answer["networks"][0]["predictions"][0]["tensors_bytes"].as_u64();
        assert_eq!(memory["peak_bytes"].as_u64(), peak, "{network}");
        let operations = memory["operations"].as_array().unwrap();
        let highest = operations.iter().map(|operation| operation["total_bytes"].as_u64().unwrap()).max();
        assert_eq!(highest, peak, "{network}");
        let at = &operations[memory["peak"].as_u64().unwrap() as usize];
        let parts: u64 = at["bytes"].as_object().unwrap().values().map(|part| part.as_u64().unwrap()).sum();
        assert_eq!(Some(parts), peak, "{network}");
    }
}

#[test]
fn a_network_is_shown_for_another_input() {
    let scene = Scene::new().file("mine.onnx", onnx::to_bytes(&zoo::build("resnet18", Dataset::Imagenet).unwrap()));
    for network in ["resnet18", "mine.onnx"] {
        let json = scene.run(&format!("inspect {network} --input 3x320x320 --json")).succeeds().json();
        assert_eq!(json["input"], serde_json::json!([3, 320, 320]));
    }
    for network in ["resnet18@30", "mine.onnx"] {
        assert_eq!(scene.run(&format!("inspect {network} --classes 7 --json")).succeeds().json()["classes"], 7);
    }
    let mut builder = NetworkBuilder::new("sum", Shape::new([8]));
    let input = builder.input();
    let fc = builder.add("fc", Op::Linear(Linear { out_features: 8, bias: true }), &[input]).unwrap();
    let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[fc, input]).unwrap();
    let scene = scene.file("sum.onnx", onnx::to_bytes(&builder.finish(sum)));
    let refused = scene.run("inspect sum.onnx --classes 7").fails(4);
    refused.says("cannot have 7 classes: its result comes from \"sum\"").says("export the network with so many");
    scene.run("inspect resnet18 --input 320").fails(2).says("such as 3x320x320");
    scene.run("inspect alexnet --input 3x32x32").fails(4).says("63x63 or more");
}

#[test]
fn steps_that_say_nothing_or_cannot_be_are_refused() {
    let refused = |step: &str| Scene::new().run(&format!("inspect resnet18 --memory {step}"));
    refused("--trainable *").fails(4).says("matches every layer of resnet18").says("write trainable = all");
    refused("--trainable head.*").fails(4).says("leaves nothing of resnet18 to train").says("such as those of fc");
    refused("--target cpu_avx2 --precision amp_bf16").fails(4).says("precision = amp_bf16 takes on cpu_avx2");
}
