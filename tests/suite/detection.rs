//! `perf4sight detection`: sweeps with a scripted worker, and the real one where Python has torchvision.

use crate::conformance::python;
use crate::fixtures::{Outcome, Scene};
use crate::remote::Sshd;
use std::process::Command;

/// Stands for Python: answers by the batch it is asked for, as `crates/detection/worker/detection_worker.py` would.
const SCRIPTED: &str = r#"#!/bin/sh
case "$2" in --about)
    echo '{"protocol":2,"software":{"torch":"2.11.0"},"places":{"cpu":{}},"tasks":["detection"],"layers":false}'
    exit ;;
esac
read -r line
echo "$line" >> asked
part() { echo "{\"wait\":$1,\"copy\":0,\"forward\":0.2,\"backward\":0.2,\"optimizer\":0.1,\"other\":0}"; }
steps() { echo "{\"seconds\":$2,\"parts\":[$(part "$1"),$(part "$1"),$(part "$1")],\"disturbed\":${3:-0}}"; }
memory='{"resident":2000000000,"used":1000000000,"heap":1100000000,"loaders":0}'
measured() {
    echo '{"step":2,"of":22,"epoch":1}' >&2
    echo "{\"outcome\":\"measured\",\"images\":10,\"damaged\":$3,\"first\":$(steps 1 4.5),\"plain\":$(steps "$1" "$2" "$5"),\"exact\":$(steps "$1" "$2"),
        \"losses\":[1.5,$4],\"memory\":$memory,\"epoch_starts\":[0.5],\"seconds\":9,
        \"batches\":[{\"height\":192,\"width\":192,\"proposals\":512}],\"largest\":[192,192]}" | tr -d '\n'
}
case $line in
*'"batch":2,'*) measured 0.5 3.0 '{"pet_7":"no pet in its trimap"}' 1.0 ;;
*'"batch":4,'*) measured 0.0 1.5 '{}' 1.0 ;;
*'"batch":5,'*) measured 0.0 1.5 '{}' 900.0 ;;
*'"batch":6,'*) measured 0.0 1.5 '{}' 1.0 3 ;;
*'"batch":8,'*) echo "{\"outcome\":\"out_of_memory\",\"memory\":$memory}" ;;
*'"batch":9,'*) echo '{"outcome":"failed","reason":"a batch of 9 images of a data set of 8"}' ;;
*) echo "no module named torch" >&2; exit 1 ;;
esac
"#;

pub(crate) fn scene() -> Scene {
    let scene = Scene::new()
        .file("python.sh", SCRIPTED)
        .file("pets/images/a.jpg", "")
        .file("pets/annotations/trainval.txt", "a 1 1 1\n".repeat(16));
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
    let answer = sweep("2,4,9,8,16").succeeds();
    let json = answer.json();
    let settings = json["settings"].as_array().unwrap_or_else(|| panic!("{json}"));
    let outcomes: Vec<&str> = settings.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ran", "ran", "failed", "does not fit", "not tried: less did not fit"]);
    // Two images in a second, of which half waits for data; four in half a second.
    assert_eq!(settings[0]["images_per_second"], 2.0);
    assert_eq!(settings[0]["waiting_percent"], 50.0);
    assert_eq!(settings[0]["exact_longer_percent"], 0.0);
    assert_eq!(settings[1]["images_per_second"], 8.0);
    // Ten images are two whole batches of four, of half a second each, and half a second to begin.
    assert_eq!(settings[1]["epoch_ms"], 1500.0);
    assert_eq!(settings[1]["training_ms"], 15_000.0);
    assert_eq!(settings[3]["resident_bytes"], 2_000_000_000_u64);
    let best =
        serde_json::json!({"batch": 4, "num_workers": 0, "prefetch_factor": 2, "verified": true, "others_as_fast": 0});
    assert_eq!(json["best"], best);
    let parts = json["parts"].as_array().unwrap();
    assert_eq!((parts[2]["part"].as_str(), parts[2]["percent"].as_f64()), (Some("forward"), Some(40.0)));
    answer
        .says("1 damaged sample left out; the first: pet_7: no pet in its trimap")
        .says("a batch of 9 images of a data set of 8");
}

#[test]
fn people_are_told_what_a_step_waits_for() {
    let run = |batch: &str| {
        scene().run(&format!("detection --data pets --python ./python.sh --num-workers 0 --batch-size {batch}"))
    };
    run("2").succeeds().prints("it waits for data 50.0 % of a step: 1 loading process would keep up");
    run("4").succeeds().prints("the device is what takes the time");
}

/// Debian installs its PyTorch with a BLAS that takes ten times as long as others.
#[test]
fn a_slow_library_is_told_of() {
    let answer = sweep("4").succeeds();
    assert!(!answer.stderr().contains("BLAS"), "{}", answer.stderr());
    let slow = SCRIPTED.replace(r#""cpu":{}"#, r#""cpu":{"blas":"reference"}"#);
    let answer = scene()
        .file("python.sh", slow)
        .run("detection --data pets --python ./python.sh --num-workers 0 --batch-size 4");
    assert!(answer.succeeds().stderr().contains("apt-get install libopenblas0"));
}

#[test]
fn a_training_that_diverges_is_doubtful() {
    let answer = sweep("5").succeeds();
    assert_eq!(answer.json()["settings"][0]["outcome"], "doubtful");
    // Fast as it is, it is not called the best.
    let beside = scene().run("detection --data pets --python ./python.sh --num-workers 0 --batch-size 2,5");
    beside.succeeds().prints("batch 2, no workers is the fastest");
    answer.says("the loss rose from 1.500 to 900.000: training diverges");
}

/// Four and six images in half a second, of which other programs disturbed all three steps of the latter. Equal steps leave no doubt of chance.
#[test]
fn a_best_setting_of_disturbed_ones_is_not_verified() {
    let answer = sweep("4,6").succeeds();
    let json = answer.json();
    assert_eq!((&json["best"]["batch"], &json["best"]["verified"]), (&6.into(), &false.into()), "{json}");
    let said = json["answer"].as_str().unwrap();
    assert!(said.contains("not verified: 1 of 2 settings were disturbed, this one too: other programs"), "{said}");
    let json = sweep("2,4").succeeds().json();
    assert_eq!((&json["best"]["verified"], &json["best"]["others_as_fast"]), (&true.into(), &0.into()), "{json}");
    assert!(json["answer"].as_str().unwrap().contains("is the fastest"), "{json}");
    // Both make eight images in a second.
    let scene =
        scene().file("python.sh", SCRIPTED.replace("measured 0.5 3.0 '{\"pet_7", "measured 0.0 0.75 '{\"pet_7"));
    let equal = scene.run("detection --data pets --python ./python.sh --num-workers 0 --batch-size 2,4");
    let said = equal.succeeds();
    assert!(said.stdout().contains("is among the fastest"), "{}", said.stdout());
}

/// Python is not started, and no other measurement is waited for.
#[test]
fn what_cannot_be_is_refused_before_python_starts() {
    let scene = scene().file("empty/images/a.jpg", "").file("empty/annotations/trainval.txt", "# none\n");
    let refused = |options: &str, code: i32, words: &str| {
        scene.run(&format!("detection --python ./nowhere {options}")).fails(code).says(words);
    };
    refused("--data pets --network fasterrcnn_resnet50", 2, "did you mean \"fasterrcnn_resnet50_fpn\"?");
    refused("--data pets --device tpu", 2, "\"tpu\" is no device");
    refused("--data pets --network ssdlite320_mobilenet_v3_large --size 200", 2, "320 pixels, not 200");
    refused("--data pets --batch-size 4,17", 2, "a batch of 17 images of a data set of 16 images");
    refused("--data empty", 4, "lists no image");
    let checked = |line: &str| {
        let config = format!("[detection]\ndata = pets\npython = ./python.sh\n{line}\n");
        Scene::run(&scene_with(&config), "--config-file config.ini --check")
    };
    for line in ["network = nonet", "device = tpu", "network = ssd300_vgg16\nsize = 200", "batch_size = [17]"] {
        checked(line).fails(3);
    }
    checked("batch_size = [16]").succeeds();
}

fn scene_with(config: &str) -> Scene {
    scene().file("config.ini", config)
}

#[test]
fn where_nothing_ran_it_is_an_error() {
    sweep("8").fails(5).says("no setting of 1 fits into memory");
    sweep("9").fails(5).says("the first that failed: a batch of 9 images");
    sweep("3").fails(5).says("no module named torch");
    let scene = scene();
    scene.run("detection --data nowhere --python ./python.sh").fails(4).says("the layout of Oxford-IIIT Pet");
    scene.run("detection --data pets --python ./nowhere").fails(5).says("nowhere");
    scene
        .run("detection --data pets --python ./python.sh --device cuda:0")
        .fails(5)
        .says("cannot run networks on cuda:0");
    scene.run("detection --python ./python.sh").fails(2).says("--make-dataset");
    for wrong in [
        "--warm-up 1",
        "--epochs 0",
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

/// How many settings the scripted worker was asked about.
fn asked(scene: &Scene) -> usize {
    scene.read("asked").lines().count()
}

#[test]
fn what_was_measured_is_kept_and_not_measured_again() {
    let scene = scene();
    let run = |more: &str| {
        scene.run(&format!("detection --data pets --python ./python.sh --num-workers 0 --out kept --batch-size {more}"))
    };
    run("2,9").succeeds().prints("2 measured, 0 found in kept");
    // What failed is tried again, and a new setting.
    run("2,9,4").succeeds().prints("2 measured, 1 found in kept");
    assert_eq!(asked(&scene), 4);
    run("2 --overwrite").succeeds();
    assert_eq!(asked(&scene), 5);
    // Other images are another question.
    run("2 --size 320").succeeds().prints("1 measured, 0 found");
    assert!(scene.read("kept/settings.csv").starts_with("batch,num_workers,"));
    let page = scene.read("kept/report.html");
    assert!(page.contains("Where a step") && page.contains("batch 2, no workers"), "{page}");
    let damaged = scene.read("kept/measurements.json").replace("\"format\":1", "\"format\":7");
    std::fs::write(scene.path("kept/measurements.json"), damaged).unwrap();
    run("2").fails(4).says("format 7 instead of 1");
}

#[test]
fn disturbed_settings_are_measured_once_more() {
    let scene = scene();
    let run = || scene.run("detection --data pets --python ./python.sh --num-workers 0 --batch-size 6 --json");
    let answer = run().succeeds();
    assert_eq!(answer.json()["settings"][0]["outcome"], "disturbed");
    answer.says("other programs had processors that it waited for in 3 of 3 free steps");
    assert_eq!(asked(&scene), 2);
    run().succeeds();
    assert_eq!(asked(&scene), 2, "not a third time");
}

#[test]
fn the_published_configuration_works() {
    let train = "[training]\nnum_epochs = 2\nbatch_size = 2\nprefetch_factor = 2\nnum_workers = 1\ndevice = \"cpu\"\n";
    let scene = scene().file("train.toml", train).file("wrong.toml", "[training]\nbatch_sise = 2\n");
    let answer =
        scene.run("detection --config train.toml --data pets --python ./python.sh --batch-size 4 --json").succeeds();
    let settings = &answer.json()["settings"];
    // What the command line says goes before the file.
    assert_eq!((&settings[0]["batch"], &settings[0]["num_workers"]), (&4.into(), &1.into()));
    assert_eq!(settings[0]["training_ms"], 3000.0);
    scene
        .run("detection --config wrong.toml --data pets")
        .fails(3)
        .says("wrong.toml:2: [training] batch_sise")
        .says("batch_size");
    scene.run("detection --config nowhere.toml --data pets").fails(6).says("nowhere.toml");
}

#[test]
fn a_section_of_a_configuration_does_the_same() {
    let config = "[detection]\ndata= pets\npython= ./python.sh\nbatch_size= [2, 4]\nnum_workers= 0\nout= found\n";
    let scene = scene().file("config.ini", config).file("none.ini", "[detection]\nbatch_size= 2\n");
    scene
        .run("--config-file config.ini --check")
        .succeeds()
        .prints("trains with 2 settings of fasterrcnn_resnet50_fpn");
    scene.run("--config-file config.ini").succeeds().prints("batch 4, no workers").prints("found/report.html");
    scene.run("--config-file none.ini").fails(3).says("there are no data");
}

#[test]
fn data_are_made_up_alike_for_a_seed() {
    let scene = Scene::new();
    let make = |folder: &str, more: &str| scene.run(&format!("detection --make-dataset {folder} --images 3 {more}"));
    make("one", "--seed 5").succeeds().prints("3 images");
    make("two", "--seed 5").succeeds();
    make("three", "--seed 6").succeeds();
    let bytes = |folder: &str, file: &str| std::fs::read(scene.path(folder).join(file)).unwrap();
    for file in
        ["images/pet_2.jpg", "annotations/trimaps/pet_2.png", "annotations/xmls/pet_2.xml", "annotations/trainval.txt"]
    {
        assert_eq!(bytes("one", file), bytes("two", file), "{file}");
    }
    assert_ne!(bytes("one", "images/pet_2.jpg"), bytes("three", "images/pet_2.jpg"));
    assert_eq!(scene.read("one/annotations/trainval.txt").lines().count(), 3);
    make("one", "").fails(2).says("holds something already");
    make("four", "--batch-size 2").fails(2);
}

/// What can be said of the container file where no daemon builds it: the toolchain is the project's, and what is copied is what is built.
#[test]
fn the_container_is_built_with_the_projects_toolchain() {
    let read = |name: &str| std::fs::read_to_string(format!("{}/{name}", crate::ROOT)).unwrap();
    let (container, manifest) = (read("Containerfile"), read("Cargo.toml"));
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"')).unwrap();
    assert!(container.contains(&format!("FROM rust:{version}-")), "{container}");
    assert!(
        container.contains("cargo build --release --locked") && container.contains("/src/target/release/perf4sight ")
    );
    let libtorch = read("scripts/prepare");
    let torch = libtorch.lines().find_map(|line| line.strip_prefix("version=")).unwrap();
    assert!(container.contains(&format!("torch=={torch} ")), "{container}");
}

#[test]
fn predicting_needs_something_measured() {
    let fingerprint = format!("{}/fingerprinting/epyc-1-core/imagenet", crate::ROOT);
    let scene = scene();
    scene
        .run(&format!("detection --data pets --python ./python.sh --predict {fingerprint}"))
        .fails(4)
        .says("was not measured here");
}

/// What is not used, what is believed less, and what differs, each in words.
#[test]
fn predictions_say_what_they_rest_on() {
    let predict = |measured: &str, more: &str| {
        let scene = scene();
        let common = "detection --data pets --python ./python.sh --num-workers 0 --threads 1";
        scene.run(&format!("{common} --batch-size {measured}"));
        let fingerprint = format!("{}/fingerprinting/epyc-1-core/imagenet", crate::ROOT);
        scene.run(&format!("{common} --batch-size 16 --predict {fingerprint} {more}"))
    };
    predict("5", "")
        .fails(4)
        .says("no training of this detector that changes its weights was measured")
        .says("batch 5, no workers: the loss rose");
    predict("4", "--clip 1").fails(4).says("made with clip none, not 1.0");
    predict("4,6", "").fails(5).says("batch 6, no workers: disturbed: other programs").says("believe its times less");
}

/// The worker goes there and its steps are heard of here; the data are those of the board.
#[test]
fn a_board_trains_as_this_machine_does() {
    let scene = scene();
    let Some(_sshd) = Sshd::start(&scene) else { return };
    let there = scene.folder().canonicalize().unwrap();
    let sweep = |data: &str| {
        let (python, data) = (there.join("python.sh"), there.join(data));
        scene.run(&format!(
            "detection --host board --ssh-config ssh_config --data {} --python {} --num-workers 0 --batch-size 2,8 --json",
            data.display(),
            python.display()
        ))
    };
    let answer = sweep("pets").succeeds();
    let json = answer.json();
    assert_eq!(json["settings"][0]["images_per_second"], 2.0, "{json}");
    assert_eq!(json["settings"][1]["outcome"], "does not fit");
    assert_eq!(json["circumstances"]["host"], "board");
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
    scene.run("detection --make-dataset pets --images 8").succeeds();
    let network = "fasterrcnn_mobilenet_v3_large_320_fpn";
    let answer = scene
        .run(&format!("detection --data pets --python {python} --network {network} --size 192 --batch-size 1 --num-workers 0 --threads 1 --steps 3 --json"))
        .succeeds();
    let json = answer.json();
    let step = &json["settings"][0];
    // Other tests run at the same time.
    assert!(matches!(step["outcome"].as_str(), Some("ran" | "disturbed")), "{json}");
    let parts: f64 = json["parts"].as_array().unwrap()[..6].iter().map(|part| part["mean_ms"].as_f64().unwrap()).sum();
    let exact = step["exact_step_ms"].as_f64().unwrap();
    assert!((parts / exact - 1.0).abs() < 0.02, "{parts} of {exact}");
    // Four images cost more than one, and less than four times as much: the weights change once.
    let fingerprint = format!("{}/fingerprinting/epyc-1-core/imagenet", crate::ROOT);
    let predicted = scene
        .run(&format!("detection --data pets --python {python} --network {network} --size 192 --batch-size 4 --num-workers 0 --threads 1 --steps 3 --predict {fingerprint} --json"))
        .succeeds()
        .json();
    let answer = &predicted["settings"][0];
    let ratio = answer["step_ms"].as_f64().unwrap() / step["step_ms"].as_f64().unwrap();
    assert!((2.0..5.0).contains(&ratio), "{predicted}");
    let used = answer["used_bytes"].as_f64().unwrap() / step["used_bytes"].as_f64().unwrap();
    assert!((1.1..4.0).contains(&used), "{predicted}");
}
