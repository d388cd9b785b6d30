//! `perf4sight prune`: what is left of every layer is what the smaller network is made of.

use crate::fixtures::Scene;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

/// How many positions are left of a layer's inputs or outputs, and how many there were.
fn left(layer: &Value, side: &str) -> Option<(usize, usize)> {
    let side = layer[side].as_object()?;
    Some((side["kept"].as_array().unwrap().len(), side["of"].as_u64().unwrap() as usize))
}

#[test]
fn the_slices_of_vgg_are_those_of_the_network_that_is_written() {
    let scene = Scene::new();
    let answer = scene.run("prune vgg11 --level 50 --out small.onnx --json").succeeds().json();
    assert!((answer["percent"].as_f64().unwrap() - 50.0).abs() <= 2.0, "{}", answer["percent"]);
    let shown = scene.run("inspect small.onnx --json").succeeds().json();
    assert_eq!(shown["totals"]["parameters"], answer["parameters"]["after"]);
    let layers = answer["layers"].as_array().unwrap();
    for layer in layers.iter().filter(|layer| layer["operation"] == "conv") {
        // Parameters of a convolution with a bias: inputs x outputs x 3 x 3 and one for each output (Simonyan and Zisserman 2015).
        let name = &layer["layer"];
        let inputs = left(layer, "inputs").map_or(3, |(kept, _)| kept);
        let (outputs, _) = left(layer, "outputs").unwrap();
        let small = shown["layers"].as_array().unwrap().iter().find(|small| small["layer"] == *name).unwrap();
        assert_eq!(small["parameters"], inputs * outputs * 9 + outputs, "{name}");
    }
    // The classifier reads a map of 7 x 7 of every channel of the last convolution.
    let last = layers.iter().rfind(|layer| layer["operation"] == "conv").unwrap();
    let first = layers.iter().find(|layer| layer["operation"] == "linear").unwrap();
    let [(kept, of), (channels, all)] = [left(first, "inputs").unwrap(), left(last, "outputs").unwrap()];
    assert_eq!((kept, of), (channels * 49, all * 49));
    assert!(left(first, "outputs").is_none(), "classifiers of CNNs are left alone");
}

#[test]
fn layers_that_are_kept_are_not_among_the_smaller_ones() {
    let answer = Scene::new().run("prune resnet18 --level 30 --keep layer3.* --keep conv1 --json").succeeds().json();
    let names: Vec<&str> =
        answer["layers"].as_array().unwrap().iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| !name.starts_with("layer3.")), "{names:?}");
    assert!(!names.contains(&"conv1") && names.contains(&"layer1.0.conv1"), "{names:?}");
}

#[test]
fn what_cannot_be_pruned_so_is_refused() {
    let scene = Scene::new();
    scene.run("prune resnet18 --level 30 --keep layer9.*").fails(2).says("no layer is called \"layer9.*\"");
    scene.run("prune resnet18 --level 30 --keep *").fails(4).says("no filter can go");
    scene.run("prune resnet18 --level 100").fails(2).says("from 0 to below 100");
    scene.run("prune resnet18 --level 30 --mode l1").fails(4).says("needs the weights");
    scene.run("prune resnet18 --level 30 --mode l2").fails(2).says("random_weighted");
    scene.run("prune absent.onnx --level 30").fails(6).says("absent.onnx");
}

#[test]
fn a_network_of_other_images_and_classes_is_pruned() {
    let scene = Scene::new();
    scene.run("prune resnet18 --level 50 --input 3x64x64 --classes 7 --out small.onnx").succeeds();
    let shown = scene.run("inspect small.onnx --json").succeeds().json();
    assert_eq!((&shown["input"], &shown["classes"]), (&serde_json::json!([3, 64, 64]), &serde_json::json!(7)));
    // A file is read for other images and classes, too.
    let other = "small.onnx --level 20 --input 3x96x96 --classes 5";
    scene.run(&format!("prune {other} --mode l1 --out smaller.onnx")).fails(4).says("holds no weights");
    scene.run(&format!("prune {other} --out smaller.onnx")).succeeds();
    let shown = scene.run("inspect smaller.onnx --json").succeeds().json();
    assert_eq!((&shown["input"], &shown["classes"]), (&serde_json::json!([3, 96, 96]), &serde_json::json!(5)));
}

/// A network that another program wrote: the name of the program in the file is another.
fn of_another_program() -> Vec<u8> {
    let mut bytes = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/models/imagenet/squeezenet.onnx")).unwrap();
    let at = bytes.windows(10).position(|word| word == b"perf4sight").unwrap();
    bytes[at..at + 10].copy_from_slice(b"pytorch2.9");
    bytes
}

#[test]
fn files_of_others_are_replaced_only_where_that_is_asked_for() {
    let theirs = of_another_program();
    let scene = Scene::new().file("in.onnx", &theirs).file("notes.onnx", "no network");
    symlink("in.onnx", scene.path("link.onnx")).unwrap();
    for out in ["in.onnx", "notes.onnx", "link.onnx"] {
        let refused = scene.run(&format!("prune in.onnx --level 30 --out {out}")).fails(2);
        refused.says("this command did not write").says("--overwrite");
    }
    assert!(fs::read(scene.path("in.onnx")).unwrap() == theirs);
    assert_eq!(scene.read("notes.onnx"), "no network");
    scene.run("prune in.onnx --level 30 --out link.onnx").fails(2).says("link.onnx -> in.onnx");
    scene.run("prune in.onnx --level 30 --out in.onnx --overwrite").succeeds();
    assert!(fs::read(scene.path("in.onnx")).unwrap() != theirs);
    // What is there now is the program's own, as is what a link leads to.
    scene.run("prune resnet18 --level 30 --out link.onnx").succeeds().prints("pruned network: link.onnx -> in.onnx");
    assert!(scene.path("link.onnx").is_symlink());
    assert_eq!(scene.run("inspect in.onnx --json").succeeds().json()["classes"], 1000);
}

#[test]
fn a_network_is_not_replaced_by_what_is_left_of_it() {
    let scene = Scene::new();
    scene.run("prune squeezenet --level 30 --out own.onnx").succeeds();
    let own = fs::read(scene.path("own.onnx")).unwrap();
    symlink("own.onnx", scene.path("link.onnx")).unwrap();
    for out in ["own.onnx", "./own.onnx", "link.onnx"] {
        let refused = scene.run(&format!("prune own.onnx --level 30 --out {out}")).fails(2);
        refused.says("the pruned network would replace").says("--overwrite");
        assert!(fs::read(scene.path("own.onnx")).unwrap() == own);
    }
    scene.run("prune own.onnx --level 30 --out own.onnx --overwrite").succeeds();
    assert!(fs::read(scene.path("own.onnx")).unwrap() != own);
}

#[test]
fn weights_are_those_of_a_file_that_has_them() {
    let scene = Scene::new();
    scene.run("prune squeezenet --level 30 --out a.onnx --weights").fails(2).says("has no weights");
    scene.run("prune squeezenet --level 30 --out a.onnx").succeeds();
    let empty = scene.run("prune a.onnx --level 30 --out b.onnx --weights").fails(4);
    empty.says("a.onnx");
    assert!(!scene.path("b.onnx").exists());
    scene.run("prune a.onnx --level 30 --weights").fails(2).says("--out");
    scene.run("prune a.onnx --level 30 --weights --out b.onnx --classes 7").fails(2);
}

#[test]
fn the_file_is_said_to_hold_no_weights() {
    let scene = Scene::new();
    scene
        .run("prune squeezenet --level 30 --out small.onnx")
        .succeeds()
        .prints("no weights")
        .prints("perf4sight.prune");
    let shown = scene.run("prune squeezenet --level 30").succeeds();
    assert!(!shown.stdout().contains("no weights"), "{shown}");
}

#[test]
fn pages_and_networks_of_others_stay() {
    let page = "<!DOCTYPE html><title>thesis</title>";
    let scene = Scene::new().file("page.html", page).file("m/resnet18.onnx", of_another_program()).file("new.html", "");
    for ask in [
        "inspect squeezenet",
        "predict squeezenet --target orin",
        "advise squeezenet --target orin --batch 8 --mem-limit 8GiB",
    ] {
        scene.run(&format!("{ask} --html page.html")).fails(2).says("page.html");
        assert_eq!(scene.read("page.html"), page);
        // An empty file is nobody's work; a page of the program's own may be any.
        scene.run(&format!("{ask} --html new.html")).succeeds();
    }
    scene.run("inspect squeezenet --html page.html --overwrite").succeeds();
    assert!(scene.read("page.html").contains("squeezenet"));
    scene.run("networks --export m").fails(2).says("m/resnet18.onnx");
    assert!(fs::read(scene.path("m/resnet18.onnx")).unwrap() == of_another_program());
    assert_eq!(fs::read_dir(scene.path("m")).unwrap().count(), 1);
    scene.run("networks --export m --overwrite").succeeds();
    scene.run("networks --export m").succeeds();
}

/// An operator that nobody knows, so that the shape of what it gives is guessed: what follows it does not fit together.
#[test]
fn what_could_not_be_read_again_is_not_written() {
    let mut damaged = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/models/imagenet/alexnet.onnx")).unwrap();
    let at = damaged.windows(7).position(|word| word == b"MaxPool").unwrap();
    damaged[at + 4] = b'b';
    let scene = Scene::new().file("alexnet.onnx", damaged);
    scene.run("inspect alexnet.onnx").succeeds().says("MaxPbol");
    let refused = scene.run("prune alexnet.onnx --level 0 --out small.onnx").fails(4).says("was not written");
    assert!(!scene.path("small.onnx").exists(), "{refused}");
}
