//! `perf4sight detection`: sweeps with a scripted worker, and the real one where Python has torchvision.

use crate::conformance::python;
use crate::fixtures::{Outcome, Scene};
use std::process::Command;

/// Stands for Python: answers by the batch it is asked for, as `workers/detection_worker.py` would.
const SCRIPTED: &str = r#"#!/bin/sh
read -r line
part() { echo "{\"wait\":$1,\"copy\":0,\"forward\":0.2,\"backward\":0.2,\"optimizer\":0.1,\"other\":0}"; }
steps() { echo "{\"seconds\":$2,\"parts\":[$(part "$1"),$(part "$1"),$(part "$1")]}"; }
memory='{"resident":2000000000,"used":1000000000,"loaders":0}'
measured() {
    echo "{\"outcome\":\"measured\",\"images\":10,\"damaged\":$3,\"first\":$(steps 1 4.5),\"plain\":$(steps "$1" "$2"),\"exact\":$(steps "$1" "$2"),
        \"losses\":[1.5,$4],\"memory\":$memory,\"epoch_starts\":[0.5],\"seconds\":9}" | tr -d '\n'
}
case $line in
*'"batch":2,'*) measured 0.5 3.0 '{"pet_7":"no pet in its trimap"}' 1.0 ;;
*'"batch":4,'*) measured 0.0 1.5 '{}' 1.0 ;;
*'"batch":5,'*) measured 0.0 1.5 '{}' 900.0 ;;
*'"batch":8,'*) echo "{\"outcome\":\"out_of_memory\",\"memory\":$memory}" ;;
*'"batch":9,'*) echo '{"outcome":"failed","reason":"a batch of 9 images of a data set of 8"}' ;;
*) echo "no module named torch" >&2; exit 1 ;;
esac
"#;

fn scene() -> Scene {
    let scene = Scene::new()
        .file("python.sh", SCRIPTED)
        .file("pets/images/a.jpg", "")
        .file("pets/annotations/trainval.txt", "a 1 1 1\n");
    let made = Command::new("chmod").arg("+x").arg(scene.path("python.sh")).status().unwrap();
    assert!(made.success());
    scene
}

/// Asks the scripted worker for batches of these sizes.
fn sweep(batches: &str) -> Outcome {
    scene().run(&format!("detection --data pets --python ./python.sh --num-workers 0 --batch-size {batches} --json"))
}

#[test]
fn a_sweep_tells_the_best_setting_and_what_became_of_each() {
    let told = sweep("2,4,8,9").succeeds();
    let json = told.json();
    let settings = json["settings"].as_array().unwrap_or_else(|| panic!("{json}"));
    let outcomes: Vec<&str> = settings.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ran", "ran", "does not fit", "failed"]);
    // Two images in a second, of which half waits for data; four in half a second.
    assert_eq!(settings[0]["images_per_second"], 2.0);
    assert_eq!(settings[0]["waiting_percent"], 50.0);
    assert_eq!(settings[1]["images_per_second"], 8.0);
    // Ten images are two whole batches of four, of half a second each, and half a second to begin.
    assert_eq!(settings[1]["epoch_ms"], 1500.0);
    assert_eq!(settings[2]["resident_bytes"], 2_000_000_000_u64);
    let parts = json["parts"].as_array().unwrap();
    assert_eq!((parts[2]["part"].as_str(), parts[2]["percent"].as_f64()), (Some("forward"), Some(40.0)));
    told.says("1 damaged sample left out; the first: pet_7: no pet in its trimap")
        .says("a batch of 9 images of a data set of 8");
}

#[test]
fn people_are_told_what_a_step_waits_for() {
    let run = |batch: &str| {
        scene().run(&format!("detection --data pets --python ./python.sh --num-workers 0 --batch-size {batch}"))
    };
    run("2").succeeds().prints("it waits for data 50.0 % of a step: let other processes load them (--num-workers)");
    run("4").succeeds().prints("the device is what takes the time");
}

#[test]
fn a_training_that_diverges_is_doubtful() {
    let told = sweep("5").succeeds();
    assert_eq!(told.json()["settings"][0]["outcome"], "doubtful");
    // Fast as it is, it is not called the best.
    let beside = scene().run("detection --data pets --python ./python.sh --num-workers 0 --batch-size 2,5");
    beside.succeeds().prints("batch 2, no workers is the fastest");
    told.says("the loss rose from 1.500 to 900.000: training diverges");
}

#[test]
fn where_nothing_ran_it_is_an_error() {
    sweep("8").fails(5).says("no setting of 1 fits into memory");
    sweep("9").fails(5).says("the first failed: a batch of 9 images");
    sweep("3").fails(5).says("no module named torch");
    let scene = scene();
    scene.run("detection --data nowhere --python ./python.sh").fails(4).says("the layout of Oxford-IIIT Pet");
    scene.run("detection --data pets --python ./nowhere").fails(5).says("nowhere");
    for wrong in [
        "--batch-size 0",
        "--num-workers -1",
        "--prefetch-factor 0",
        "--steps 1",
        "--precision int8",
        "--clip 0",
        "--threads 0",
    ] {
        scene.run(&format!("detection --data pets {wrong}")).fails(2);
    }
}

#[test]
fn the_real_worker_is_asked_as_it_understands() {
    let Some(python) = python() else { return };
    let has = Command::new(python).args(["-c", "import torchvision"]).output().unwrap();
    if !has.status.success() {
        eprintln!("detection was not run: {python} has no torchvision");
        return;
    }
    let scene = Scene::new();
    let make =
        format!("import sys; sys.path.insert(0, '{}/tests/python'); import pets; pets.make('pets', 4)", crate::ROOT);
    assert!(Command::new(python).args(["-c", &make]).current_dir(scene.folder()).status().unwrap().success());
    let network = "fasterrcnn_mobilenet_v3_large_320_fpn";
    let told = scene
        .run(&format!("detection --data pets --python {python} --network {network} --size 192 --batch-size 1 --num-workers 0 --threads 1 --steps 3 --json"))
        .succeeds();
    let json = told.json();
    let step = &json["settings"][0];
    assert_eq!(step["outcome"], "ran", "{json}");
    let parts: f64 = json["parts"].as_array().unwrap()[..6].iter().map(|part| part["mean_ms"].as_f64().unwrap()).sum();
    let exact = step["exact_step_ms"].as_f64().unwrap();
    assert!((parts / exact - 1.0).abs() < 0.02, "{parts} of {exact}");
}
