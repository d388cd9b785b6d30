//! `perf4sight calibrate` through the real program: what to measure, rows from files and from a device, and what is refused.

use crate::fixtures::{Outcome, Scene, simulated_fingerprint};
use perf4sight_cost::fingerprint::DeviceFingerprints;
use perf4sight_step::workload::Stage;
use serde_json::Value;
use std::fs;

const LATENCY: &str = "passed|latency|test_var|bs|dataset|net_name|model\n";

/// Rows of mnasnet, which no fingerprint here has seen: batch size and milliseconds.
fn latency(rows: &[(u32, f64)]) -> String {
    let row = |(batch, value): &(u32, f64)| format!("True|{value}|latency|{batch}|imagenet|mnasnet|mnasnet_0.onnx\n");
    LATENCY.to_owned() + &rows.iter().map(row).collect::<String>()
}

fn calibrate(scene: &Scene, arguments: &str) -> Outcome {
    scene.run(&format!("calibrate mnasnet --fingerprint {} {arguments}", simulated_fingerprint().display()))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// What is predicted now, in milliseconds.
fn predicted(scene: &Scene, batch: u32) -> f64 {
    let folder = simulated_fingerprint();
    let run = scene.run(&format!("predict mnasnet --fingerprint {} --bs {batch} --json", folder.display()));
    number(&run.succeeds().json()["networks"][0]["predictions"][0]["latency_ms"])
}

#[test]
fn without_rows_it_says_what_to_measure() {
    let scene = Scene::new();
    let advice =
        calibrate(&scene, "").succeeds().prints("Measure training of mnasnet on simulated at batch size 2 and");
    advice.prints("--rows FILE.csv").prints("predicted");
    // The larger one was profiled, and is sure to fit.
    let reply = calibrate(&scene, "--json").succeeds().json();
    let larger = number(&reply["measure"][1]);
    assert_eq!(reply["predictions"]["latency"][1]["bs"], reply["measure"][1], "{reply}");
    let safe = scene.run(&format!("predict mnasnet --fingerprint {} --json", simulated_fingerprint().display()));
    assert_eq!(larger, number(&safe.json()["networks"][0]["max_batch"]["safe"]).min(8.0));
}

/// A precision that the device does not compute with is not sent to be measured.
#[test]
fn what_cannot_be_measured_is_not_asked_for() {
    for precision in ["amp_bf16", "amp_fp16"] {
        let reply = calibrate(&Scene::new(), &format!("--precision {precision}")).fails(4);
        reply.says(&format!("precision = {precision} takes on cpu_avx2"));
    }
}

#[test]
fn rows_pull_the_predictions_towards_them_and_the_original_stays() {
    let scene = Scene::new();
    let before = [2, 8].map(|batch| predicted(&scene, batch));
    let rows = latency(&[(2, 1.5 * before[0]), (8, 1.5 * before[1])]);
    let scene = scene.file("rows.csv", rows);
    let run = calibrate(&scene, "--rows rows.csv --save mine --json").succeeds();
    for (row, before) in run.json()["before_and_after"]["latency"].as_array().unwrap().iter().zip(before) {
        assert_eq!(number(&row["before_ms"]), before);
        // At least nine tenths of the way.
        assert!(number(&row["after_ms"]) > 1.45 * before, "{row}");
        assert!(number(&row["after_ms"]) < 1.55 * before, "{row}");
    }
    // What was stored answers as shown, and the original as before.
    let stored = scene.run("predict mnasnet --fingerprint mine --bs 8 --json").succeeds().json();
    let latency = number(&stored["networks"][0]["predictions"][0]["latency_ms"]);
    assert_eq!(latency, number(&run.json()["before_and_after"]["latency"][1]["after_ms"]));
    assert_eq!(predicted(&scene, 8), before[1]);
    // Nobody left rows out of it since, and the intervals say what they rest on.
    let stored = scene.run("predict mnasnet --fingerprint mine --bs 8").succeeds();
    stored.prints("latency: not tested on rows besides those that it was calibrated with, which the intervals rest on");
    calibrate(&scene, "--rows rows.csv").succeeds().prints("nothing is stored");
    calibrate(&scene, "--rows rows.csv --save mine")
        .fails(2)
        .says("there is a fingerprint already")
        .says("--overwrite");
    calibrate(&scene, "--rows rows.csv --save mine --overwrite").succeeds();
}

/// Milliseconds of a step in bfloat16 under autocast, by a fingerprint; none where it has no answer.
fn autocast(scene: &Scene, fingerprint: &str, network: &str, batch: u32) -> Option<f64> {
    let arguments = format!("predict {network} --fingerprint {fingerprint} --precision amp_bf16 --bs {batch} --json");
    scene.run(&arguments).succeeds().json()["networks"][0]["predictions"][0]["latency_ms"].as_f64()
}

#[test]
fn rows_of_another_precision_tell_how_long_such_steps_of_any_network_take() {
    // Of a processor that multiplies in bfloat16, which the simulated device is not taken to do.
    let folder = format!("{}/fingerprinting/epyc-1-core/imagenet", crate::ROOT);
    let plain = |scene: &Scene, fingerprint: &str, network: &str, batch: u32| {
        let run = scene.run(&format!("predict {network} --fingerprint {fingerprint} --bs {batch} --json")).succeeds();
        number(&run.json()["networks"][0]["predictions"][0]["latency_ms"])
    };
    let scene = Scene::new();
    let before = [2, 8].map(|batch| plain(&scene, &folder, "mnasnet", batch));
    assert_eq!(autocast(&scene, &folder, "resnet18", 8), None, "nothing was measured yet");
    // A device that takes 0.6 times as long in bfloat16, at both batch sizes.
    let text = latency(&[(2, 0.6 * before[0]), (8, 0.6 * before[1])]);
    let cell =
        |(index, line): (usize, &str)| format!("{line}|{}\n", if index == 0 { "step" } else { "precision=amp_bf16" });
    let scene = scene.file("rows.csv", text.lines().enumerate().map(cell).collect::<String>());
    let calibrate = |more: &str| scene.run(&format!("calibrate mnasnet --fingerprint {folder} --rows rows.csv {more}"));
    calibrate("").fails(4).says("no usable training rows");
    calibrate("--precision amp_bf16 --save mine")
        .succeeds()
        .prints("training (precision = amp_bf16) latency of mnasnet");
    for (batch, before) in [2, 8].into_iter().zip(before) {
        let after = autocast(&scene, "mine", "mnasnet", batch).unwrap();
        assert!((after / before / 0.6 - 1.0).abs() < 0.1, "{after} of {before}");
    }
    // It answers for other networks too; those of the profile's precision stay what they were.
    let other = autocast(&scene, "mine", "resnet18", 8).unwrap();
    assert_eq!(plain(&scene, "mine", "resnet18", 8), plain(&scene, &folder, "resnet18", 8));
    assert!(other < 0.9 * plain(&scene, "mine", "resnet18", 8), "{other}");
    // Nothing was said of weights in bfloat16 too.
    let held = scene.run("predict mnasnet --fingerprint mine --precision bf16 --bs 8 --json").succeeds();
    held.says("how long a step takes with precision = bf16 is not known here").says("--precision bf16");
}

#[test]
fn the_device_at_hand_measures_them_itself() {
    let scene = Scene::new();
    let run = calibrate(&scene, "--measure=simulated --bs 2,4 --json").succeeds();
    let memory = run.json()["before_and_after"]["memory"].clone();
    assert!(memory.as_array().unwrap().iter().all(|row| number(&row["measured_bytes"]) > 0.0), "{memory}");
    calibrate(&scene, "--measure=simulated --bs 1,2,3,4,5").fails(2).says("1 to 4");
    calibrate(&scene, "--measure=tx2").fails(5);
}

#[test]
fn only_what_was_measured_is_shown() {
    let scene = Scene::new();
    let rows = latency(&[(2, 1.1 * predicted(&scene, 2))]);
    let run = calibrate(&scene.file("rows.csv", rows), "--rows rows.csv --json").succeeds().json();
    let quantities: Vec<&String> = run["before_and_after"].as_object().unwrap().keys().collect();
    assert_eq!(quantities, ["latency"]);
}

#[test]
fn rows_that_stay_outside_the_interval_are_told() {
    let scene = Scene::new();
    // The same step far below and far above what is predicted: no fit can hold both.
    let [low, high] = [0.3, 3.0].map(|factor| (2, factor * predicted(&scene, 2)));
    let run = calibrate(&scene.file("rows.csv", latency(&[low, high])), "--rows rows.csv").succeeds();
    run.says("batch size 2: measured").says("still predicted");
}

#[test]
fn a_device_that_is_not_the_fingerprints_is_refused_before_it_measures() {
    let scene = Scene::new();
    for fingerprint in DeviceFingerprints::load(&simulated_fingerprint(), Stage::Training).unwrap().iter() {
        let mut elsewhere = fingerprint.clone();
        elsewhere.settings[0].insert("device".to_owned(), "cpu".to_owned());
        elsewhere.save(&scene.path("store")).unwrap();
    }
    let measure =
        |more: &str| scene.run(&format!("calibrate mnasnet --fingerprint store --measure=simulated --bs 2 {more}"));
    measure("").fails(5).says("device is simulated here and was cpu where the fingerprint comes from").says("--force");
    assert!(!scene.path("calibration").exists());
    measure("--force").succeeds().says("device is simulated here");
}

#[test]
fn measured_rows_are_kept_with_their_spread_even_where_they_are_refused() {
    let scene = Scene::new();
    let run = calibrate(&scene, "--measure=simulated --bs 2,4").succeeds().says("rows: calibration/mnasnet_0-");
    run.prints("spread").prints("measured");
    let kept = fs::read_dir(scene.path("calibration")).unwrap().next().unwrap().unwrap().path();
    let kept = kept.join("latency/mnasnet_0-gt.csv");
    assert_eq!(fs::read_to_string(&kept).unwrap().lines().count(), 3);
    calibrate(&scene, &format!("--rows {}", kept.display())).succeeds();
}

#[test]
fn disturbed_times_are_believed_only_when_told_to() {
    let scene = Scene::new();
    calibrate(&scene, "--measure=simulated --bs 2,4").succeeds();
    let kept = fs::read_dir(scene.path("calibration")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(kept.join("latency/mnasnet_0-gt.csv")).unwrap();
    let scene = scene.file("all.csv", text.replace("|measured\n", "|disturbed\n"));
    let scene = scene.file("one.csv", text.replacen("|measured\n", "|disturbed\n", 1));
    calibrate(&scene, "--rows all.csv --save mine").fails(5).says("marked as disturbed").says("--force");
    assert!(!scene.path("mine").exists());
    calibrate(&scene, "--rows all.csv --force").succeeds();
    let run = calibrate(&scene, "--rows one.csv --json").succeeds().says("is left out: disturbed");
    assert_eq!(run.json()["before_and_after"]["latency"].as_array().unwrap().len(), 1);
}

#[test]
fn rows_that_cannot_be_meant_are_refused() {
    let scene = Scene::new();
    let tenfold = 11.0 * predicted(&scene, 2);
    let refused = |rows: &str, says: &str| {
        let scene = Scene::new().file("rows.csv", rows);
        calibrate(&scene, "--rows rows.csv --save mine").fails(4).says(says);
        assert!(!scene.path("mine").exists());
    };
    refused(&latency(&[(2, tenfold)]), "mnasnet_0 training bs 2 latency: measured");
    refused(&latency(&[(2, tenfold)]), "within a factor of 10 of the prediction");
    refused(&latency(&[(1, 50.0), (2, 50.0), (4, 50.0), (6, 50.0), (8, 50.0)]), "5 latency rows to calibrate with");
    refused(&latency(&[(2, 50.0)]).replace("mnasnet", "resnet50"), "this row is of another network");
    refused(&latency(&[(2, 50.0)]).replace("imagenet", "cifar10"), "this row is of the dataset cifar10");
    refused(&latency(&[(2, 50.0)]).replace("True|50", "False|None"), "no usable training rows");
    refused(&latency(&[(2, 50.0)]).replace("|2|", "|two|"), "rows.csv:2: bs holds \"two\"");
    refused("", "no usable training rows");
    calibrate(&scene, "--rows absent.csv").fails(6).says("absent.csv");
}
