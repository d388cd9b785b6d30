//! `teach = True`: the networks that teach operations are measured like others, fitted on, and scored nowhere.

use super::profile::{LOGS, profile, rows, scene};
use perf4sight_network::zoo::calibration;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Quantity;

const LATENCY: &str = "profile_variables = ['latency']\nteach = True";

#[test]
fn what_teaches_is_measured_beside_what_was_asked_for_and_only_once() {
    let scene = scene(&["squeezenet"], &format!("bs = [2]\nstage = ['training', 'inference']\n{LATENCY}"));
    scene
        .run("--config-file config.ini --check")
        .succeeds()
        .prints("[profile] 26 runs")
        .prints("writes 6 calibration networks to nets");
    assert!(!scene.path("nets/teach-attention_0.onnx").exists());
    profile(&scene).succeeds();
    for network in calibration::all().unwrap() {
        let variant = format!("{}_0", network.name());
        let measured: Vec<u64> =
            rows(&scene, Quantity::Latency, &variant).iter().map(|row| row.workload.batch).collect();
        assert_eq!((measured.len(), measured.iter().filter(|batch| **batch == 4).count()), (4, 2), "{variant}");
        let written = onnx::read(scene.path(&format!("nets/{variant}.onnx"))).unwrap().network;
        assert_eq!(written.macs(), network.macs());
    }
    assert!(!scene.path(LOGS).join("memory").exists(), "memory is simulated");
    profile(&scene).succeeds().says("skipping 26 of 26 configurations");
    scene.run("--config-file config.ini --check").succeeds().prints("[profile] no runs on a device");
}

/// What teaches is small and whole: it has no `layer4`, and single samples go through it in one pass. Fits of such steps take it all the same.
#[test]
fn what_teaches_is_measured_whole_whatever_part_of_a_step_is_asked_for() {
    let more = "[fingerprint]\ntrain_nets = ['squeezenet', 'resnet18', 'mobilenetv2']\ntrain_logs = [0]\neval_logs = [0]\n\
                memory_model = False\ntarget = cpu\n";
    let part = "optimizer = adamw\ntrainable = classifier*,fc\naccumulate = 4\n";
    let networks = ["squeezenet", "resnet18", "mobilenetv2"];
    let scene = scene(&networks, &format!("bs = [4,8,12,16]\n{part}{LATENCY}\n{more}pruned_models_storedir = nets"));
    profile(&scene).succeeds();
    for name in calibration::names() {
        let rows = rows(&scene, Quantity::Latency, &format!("{name}_0"));
        let steps: Vec<String> = rows.iter().map(|row| row.workload.step.cell()).collect();
        assert_eq!(steps, ["optimizer=adamw; zero_grad=free"; 2], "{name}");
    }
    let asked = rows(&scene, Quantity::Latency, "resnet18_0");
    assert!(asked.iter().all(|row| row.workload.step.cell().contains("trainable=classifier*,fc; accumulate=4")));
    let store = "fingerprinting/simulated/imagenet";
    let fitted: serde_json::Value =
        serde_json::from_str(&scene.read(&format!("{store}/training_stage_latency.json"))).unwrap();
    assert_eq!(fitted["taught_by"].as_array().unwrap().len(), calibration::names().count());
    let absent = scene.run("--config-file config.ini --set profile.trainable=layer9.* --check").fails(4);
    assert!(absent.stderr().contains("trainable = layer9.* leaves nothing of"), "{}", absent.stderr());
}

#[test]
fn a_plan_that_chooses_measures_all_that_teaches() {
    let scene = scene(
        &["squeezenet", "resnet18"],
        &format!("bs = [1,2,3,4,5,6,7,8,9,10,11,12,13]\nplan = adaptive\n{LATENCY}"),
    );
    profile(&scene).succeeds();
    for name in calibration::names() {
        assert_eq!(rows(&scene, Quantity::Latency, &format!("{name}_0")).len(), 2, "{name}");
    }
    let chosen: usize =
        ["squeezenet_0", "resnet18_0"].map(|name| rows(&scene, Quantity::Latency, name).len()).iter().sum();
    assert!((20..=24).contains(&chosen), "12 rows of each network at most, two of them measured twice: {chosen}");
}

#[test]
fn a_fit_takes_what_teaches_and_scores_it_nowhere() {
    let more = "[fingerprint]\ntrain_nets = ['squeezenet', 'resnet18', 'mobilenetv2']\ntrain_logs = [0]\neval_logs = [0]\n\
                memory_model = False\ntarget = cpu\n";
    let networks = ["squeezenet", "resnet18", "mobilenetv2"];
    let scene = scene(&networks, &format!("bs = [1,2,4,8]\n{LATENCY}\n{more}pruned_models_storedir = nets"));
    profile(&scene).succeeds();
    let store = "fingerprinting/simulated/imagenet";
    let report: serde_json::Value = serde_json::from_str(&scene.read(&format!("{store}/report.json"))).unwrap();
    let names = |key: &str| -> Vec<String> {
        let listed = report["provenance"]["fits"].as_array().into_iter().flatten().flat_map(|fit| fit[key].as_array());
        listed.flatten().map(|part| part["network"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let fitted: serde_json::Value =
        serde_json::from_str(&scene.read(&format!("{store}/training_stage_latency.json"))).unwrap();
    assert_eq!(fitted["taught_by"].as_array().unwrap().len(), calibration::names().count());
    assert_eq!(fitted["fitted_on"].as_array().unwrap().len(), networks.len());
    assert!(fitted["left_out"].as_object().unwrap().keys().all(|name| !calibration::is_reserved(name)));
    assert!(!scene.read(&format!("{store}/predictions.csv")).contains("teach-"));
    assert!(scene.read(&format!("{store}/report.html")).contains("in no score of this report"));
    assert!(names("fitted_on").iter().all(|name| !calibration::is_reserved(name)));
    // What no CNN has was measured all the same.
    let asked = "predict nets/teach-attention_0.onnx --bs 4 --fingerprint fingerprinting/simulated/imagenet";
    let answer = scene.run(asked).succeeds();
    assert!(!answer.stdout().contains("no profiled network has matmul"), "{}", answer.stdout());
    assert!(!answer.stdout().contains("teach = True"), "{}", answer.stdout());
}

#[test]
fn what_was_not_taught_is_asked_for() {
    let more = "[fingerprint]\ntrain_nets = ['squeezenet', 'resnet18', 'mobilenetv2']\ntrain_logs = [0]\neval_logs = [0]\n\
                memory_model = False\ntarget = cpu\n";
    let latency = "profile_variables = ['latency']";
    let networks = ["squeezenet", "resnet18", "mobilenetv2"];
    let scene = scene(&networks, &format!("bs = [1,2,4,8]\n{latency}\n{more}pruned_models_storedir = nets"));
    profile(&scene).succeeds();
    let attention = calibration::all().unwrap().swap_remove(0);
    std::fs::write(scene.path("nets/attention.onnx"), onnx::to_bytes(&attention)).unwrap();
    let asked =
        |network: &str| format!("predict nets/{network}.onnx --bs 4 --fingerprint fingerprinting/simulated/imagenet");
    let answer = scene.run(&asked("attention")).succeeds();
    answer.prints("for narrower latency intervals profile with teach = True in [profile], which measures ");
    let known = scene.run(&asked("squeezenet_0")).succeeds();
    assert!(!known.stdout().contains("teach = True"), "{}", known.stdout());
}

#[test]
fn names_of_what_teaches_are_nobody_elses() {
    let scene = scene(&["squeezenet"], "bs = [2]");
    let refused = scene.run("--config-file config.ini --set profile.network=['teach-mine']").fails(3);
    assert!(refused.stderr().contains("\"teach-mine\" is the name of a calibration network"), "{}", refused.stderr());
    let refused = scene
        .run("--config-file config.ini --set profile.teach=True --set profile.profile_variables=['memory']")
        .fails(3);
    assert!(refused.stderr().contains("no latency is measured"), "{}", refused.stderr());
}
