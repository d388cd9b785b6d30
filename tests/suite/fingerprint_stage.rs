//! `[fingerprint]` and `predict` through the real program: fit, reuse, overwrite, evaluate, report, predict.

use super::fixtures::{Scene, shared};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Quantity;
use serde_json::Value;

/// squeezenet at levels 0, 10 and 30, all of them the same network, batches 1 to 8: level 10 takes a tenth more than the
/// others. Fitted on 0 and 30 a tree answers what those measured, so level 10 is off by 1 / 1.1 - 1 = -9.09 %.
fn profile() -> Scene {
    let scene = Scene::new().file("networks/none", "").file("config.ini", config("", ""));
    let squeezenet = zoo::build("squeezenet", Dataset::Imagenet).unwrap();
    [0, 10, 30].into_iter().fold(scene, |scene, level| {
        onnx::write(&squeezenet, scene.path(&format!("networks/squeezenet_{level}.onnx"))).unwrap();
        let slow = if level == 10 { 1.1 } else { 1.0 };
        let rows = |quantity| {
            let rows = (1..=8).map(|batch| row(quantity, level, batch, slow * (20.0 + 7.0 * f64::from(batch))));
            header(quantity).to_owned() + &rows.collect::<String>()
        };
        scene
            .file(&format!("logs/latency/squeezenet_{level}-gt.csv"), rows(Quantity::Latency))
            .file(&format!("logs/memory/squeezenet_{level}-gt.csv"), rows(Quantity::Memory))
    })
}

fn header(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Latency => "passed|latency|test_var|bs|dataset|net_name|model\n",
        Quantity::Memory => {
            "passed|mem_alloc|mem_reserved|mem_used|mem_avail|free|capacity|test_var|bs|dataset|net_name|model\n"
        }
    }
}

fn row(quantity: Quantity, level: u32, batch: u32, value: f64) -> String {
    let values = match quantity {
        Quantity::Latency => value.to_string(),
        Quantity::Memory => format!("{value}|{value}|{value}|7000|5000|7859"),
    };
    format!("True|{values}|{quantity}|{batch}|imagenet|squeezenet|/home/nvidia/squeezenet_{level}.py\n")
}

/// The section as published, with the folders of this test.
fn config(networks: &str, more: &str) -> String {
    let networks = if networks.is_empty() { "['squeezenet']" } else { networks };
    format!(
        "[fingerprint]
#{{{{{{
stage= training
memory_model= True
latency_model= True
train_nets= {networks}
train_logs= [0,30]
eval_nets= {networks}
eval_logs= []
memory_logs= ['logs/memory']
eval_memory_logs= []
latency_logs= ['logs/latency']
eval_latency_logs= []
model_storedir= store
pruned_models_storedir= networks
dataset= imagenet
device_name= tx2
method= perf4sight
{more}
#}}}}}}
"
    )
}

const RUN: &str = "--config-file config.ini";

fn json(scene: &Scene, file: &str) -> Value {
    serde_json::from_str(&scene.read(file)).unwrap()
}

#[test]
fn a_profile_becomes_fingerprints_and_a_report() {
    let scene = profile();
    scene.run(RUN).succeeds().prints("squeezenet").prints("report.html");
    let report = json(&scene, "store/report.json");
    for quantity in ["latency", "memory"] {
        let scores = &report[quantity]["networks"]["squeezenet"]["levels"]["10"];
        assert_eq!((&scores["rows"], &report[quantity]["rows"]), (&8.into(), &8.into()));
        assert!((scores["mape"].as_f64().unwrap() - 100.0 / 11.0).abs() < 1e-6, "{quantity}: {scores}");
        assert!((scores["bias"].as_f64().unwrap() + 100.0 / 11.0).abs() < 1e-6);
        assert_eq!((&scores["within_5"], &scores["within_10"]), (&0.0.into(), &100.0.into()));
    }
    let fingerprint = json(&scene, "store/training_stage_mem_used.json");
    assert_eq!(fingerprint["subject"]["device"], "tx2");
    assert_eq!(
        fingerprint["fitted_on"][1],
        serde_json::json!({"network": "squeezenet", "level": 30, "repeat": null, "rows": 8, "largest_batch": 8})
    );
    assert!((fingerprint["scores"]["mape"].as_f64().unwrap() - 100.0 / 11.0).abs() < 1e-6);
    assert!(fingerprint["provenance"]["date"].as_str().unwrap().ends_with('Z'));
    assert_eq!(scene.read("store/predictions.csv").lines().count(), 1 + 2 * 8);
}

#[test]
fn what_a_profile_cannot_tell_is_said() {
    let scene = profile();
    scene.run(RUN).succeeds();
    let report = json(&scene, "store/report.json");
    assert!(report["latency"]["left_out"].is_null() && report["memory"]["verdict"].is_null());
    assert!(report["latency"]["missing"][0].as_str().unwrap().contains("at least 3 networks"));
    let page = scene.read("store/report.html");
    for words in ["leaving a network out takes at least 3 networks", "Nothing in this profile ran out of memory"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn stored_fingerprints_are_fitted_again_without_a_network_where_their_rows_are_there() {
    let scene = profile();
    scene.run(RUN).succeeds();
    let first = json(&scene, "store/report.json");
    scene.run(&format!("{RUN} --set fingerprint.evaluate=True")).succeeds();
    let again = json(&scene, "store/report.json");
    assert_eq!(again["latency"], first["latency"]);
    scene
        .run(&format!(
            "{RUN} --set fingerprint.evaluate=True --set fingerprint.train_logs=[0] --set fingerprint.eval_logs=[10]"
        ))
        .succeeds()
        .says("latency: other fits are not compared: the stored fingerprint was fitted on other rows");
    let other = json(&scene, "store/report.json");
    assert!(other["latency"]["missing"][0].as_str().unwrap().contains("fitted on other rows"));
    assert_eq!(other["latency"]["mape"], first["latency"]["mape"]);
}

#[test]
fn a_fingerprint_says_what_its_profile_was_measured_with() {
    let provenance = r#"{"setting": {"processor": "Denver 2", "threads": "6"}, "runs": []}"#;
    let scene = profile().file("logs/provenance.json", provenance);
    scene.run(RUN).succeeds();
    let settings = &json(&scene, "store/training_stage_latency.json")["settings"];
    assert_eq!(*settings, serde_json::json!([{"processor": "Denver 2", "threads": "6"}]));
}

#[test]
fn equal_runs_differ_in_their_provenance_only() {
    let scene = profile();
    let stripped = || {
        let mut fingerprint = json(&scene, "store/training_stage_latency.json");
        fingerprint.as_object_mut().unwrap().remove("provenance");
        let mut report = json(&scene, "store/report.json");
        report.as_object_mut().unwrap().remove("provenance");
        (fingerprint, report, scene.read("store/predictions.csv"))
    };
    scene.run(RUN).succeeds();
    let first = stripped();
    scene.run(&format!("{RUN} --set fingerprint.overwrite=True")).succeeds();
    assert_eq!(stripped(), first);
}

#[test]
fn stored_fingerprints_are_used_unless_overwritten() {
    let scene = profile();
    scene.run(RUN).succeeds();
    let before = scene.read("store/training_stage_latency.json");
    scene.run(&format!("{RUN} --set fingerprint.seed=5")).succeeds().says("is used as it is; overwrite = True");
    assert_eq!(scene.read("store/training_stage_latency.json"), before);
    scene.run(&format!("{RUN} --set fingerprint.seed=5 --set fingerprint.overwrite=True")).succeeds();
    assert_eq!(json(&scene, "store/training_stage_latency.json")["seed"], 5);
}

#[test]
fn evaluating_fits_nothing() {
    let scene = profile();
    let evaluate = format!("{RUN} --set fingerprint.evaluate=True");
    scene.run(&evaluate).fails(3).says("config.ini").says("store/training_stage_latency.json does not exist");
    scene.run(RUN).succeeds();
    let before = scene.read("store/training_stage_latency.json");
    scene.run(&format!("{evaluate} --set fingerprint.overwrite=True --set fingerprint.eval_logs=[0]")).succeeds();
    assert_eq!(scene.read("store/training_stage_latency.json"), before);
    assert_eq!(json(&scene, "store/report.json")["latency"]["networks"]["squeezenet"]["levels"]["0"]["mape"], 0.0);
    scene.run(&format!("{evaluate} --set fingerprint.eval_logs=[40]")).fails(4).says("squeezenet_40");
}

#[test]
fn what_is_missing_is_named_and_the_rest_goes_on() {
    let scene = profile().file("config.ini", config("['squeezenet', 'mnasnet']", ""));
    std::fs::remove_file(scene.path("networks/squeezenet_10.onnx")).unwrap();
    scene
        .run(RUN)
        .succeeds()
        .says("missing logs (mnasnet_0, mnasnet_30)")
        .says("nothing to test on")
        .says("squeezenet_10");
    let scene = profile().file("config.ini", config("['mnasnet']", ""));
    scene.run(RUN).fails(4).says("no passed training latency rows in logs/latency").says("mnasnet_0");
}

#[test]
fn inference_rows_are_not_training_rows() {
    let scene = profile();
    let inference = format!("{RUN} --set fingerprint.stage=inference");
    // Rows without a stage belong to the stage that is asked for.
    scene.run(&inference).succeeds();
    assert!(
        scene.path("store/inference_stage_latency.json").exists() && scene.path("store/inference/report.html").exists()
    );
    let tagged = |text: String| text.replace("model\n", "model|stage\n").replace(".py\n", ".py|training\n");
    let scene = ["0", "10", "30"].into_iter().fold(profile(), |scene, level| {
        let name = format!("logs/latency/squeezenet_{level}-gt.csv");
        let text = tagged(scene.read(&name));
        scene.file(&name, text)
    });
    scene.run(&inference).fails(4).says("no passed inference latency rows");
}

#[test]
fn wrong_values_are_refused_before_anything_is_fitted() {
    let refused = |set: &str| {
        let scene = profile();
        let outcome = scene.run(&format!("{RUN} --set fingerprint.{set}")).fails(3);
        assert!(!scene.path("store").exists());
        outcome
    };
    refused("train_logs=[0,100]").says("0 to 99");
    refused("stage=trainin").says("did you mean training?");
    refused("method=perfsight").says("perf4sight");
    refused("latency_logs=['absent']").says("absent does not exist");
    refused("pruned_models_storedir=absent").says("absent does not exist");
    refused("device_name=a/b").says("cannot name a folder");
    let both = format!("{RUN} --set fingerprint.latency_model=False --set fingerprint.memory_model=False");
    profile().run(&both).fails(3).says("neither latency_model nor memory_model");
}

#[test]
fn the_tx2_is_read_unchanged() {
    let Some(tx2) = shared("tx2") else { return };
    let logs = |quantity| tx2.join("profiling_csvs").join(quantity);
    let text = config("['resnet50']", "seed= 3")
        .replace("[0,30]", "[0,30,50,70,90]")
        .replace("logs/memory", logs("memory").to_str().unwrap())
        .replace("logs/latency", logs("latency").to_str().unwrap())
        .replace("_storedir= networks", &format!("_storedir= {}", tx2.join("networks").display()));
    let scene = Scene::new().file("config.ini", text);
    scene.run(RUN).succeeds();
    let report = json(&scene, "store/report.json");
    // The published figures, tx2/README.md.
    for (quantity, published) in [("memory", 1.8), ("latency", 3.5)] {
        let mape = report[quantity]["mape"].as_f64().unwrap();
        assert!((mape - published).abs() < 0.7, "{quantity}: {mape}");
        // The published pickle of this fit takes 1.7 MB.
        let file = if quantity == "memory" { "mem_used" } else { quantity };
        let size = scene.read(&format!("store/training_stage_{file}.json")).len();
        assert!(size < 850_000, "{size} bytes");
    }
}

#[test]
fn stored_fingerprints_answer_for_files_names_and_levels() {
    let scene = profile();
    scene.run(RUN).succeeds();
    let ask = |network: &str, more: &str| scene.run(&format!("predict {network} --fingerprint store --bs 1,8 {more}"));
    let answer = |network: &str| ask(network, "--json").succeeds().json();
    let predictions = |network: &str| answer(network)["networks"][0]["predictions"].clone();
    // What was measured once or equally often is answered exactly by the published method: 20 + 7 x batch; MiB in bytes.
    let known = predictions("squeezenet");
    for (row, expected) in [(0, 27), (1, 76)] {
        let (latency, memory) = (&known[row]["latency_ms"], &known[row]["memory_bytes"]);
        assert_eq!(
            (latency.as_f64(), memory.as_u64()),
            (Some(f64::from(expected)), Some(expected as u64).map(|mib| mib << 20))
        );
    }
    let whole = answer("squeezenet");
    assert_eq!((&whole["device"], &whole["fingerprints"]["memory"]["scores"]["rows"]), (&"tx2".into(), &8.into()));
    assert_eq!(predictions("networks/squeezenet_30.onnx"), known);
    // Half the network at batch 1 costs no more than the cheapest row, and nothing less can be known.
    assert_eq!(predictions("squeezenet@50")[0]["latency_ms"], 27.0);

    ask("squeezenet", "").succeeds().prints("batch size").prints("27.0 ms").prints("76.0 MiB").prints("off by 9.1 %");
    ask("squeezenet@50", "").succeeds().says("of the parameters are gone");
    scene
        .run("predict squeezenet --fingerprint store --bs 512")
        .succeeds()
        .prints("batch size 512 is beyond the 8 profiled");
    std::fs::remove_file(scene.path("store/training_stage_latency.json")).unwrap();
    assert!(predictions("squeezenet")[0].get("latency_ms").is_none());
}

#[test]
fn predictions_that_cannot_be_made_say_why() {
    let scene = profile();
    scene.run("predict squeezenet --fingerprint store").fails(6).says("store: cannot look for").says("does not exist");
    std::fs::create_dir(scene.path("empty")).unwrap();
    scene
        .run("predict squeezenet --fingerprint empty")
        .fails(4)
        .says("empty: there is no fingerprint of training here");
    scene.run(RUN).succeeds();
    let ask = |network: &str, more: &str| scene.run(&format!("predict {network} --fingerprint store {more}"));
    ask("squeezenet", "--stage inference").fails(4).says("inference_stage_latency.json");
    ask("squeezenet", "--stage infer").fails(2).says("inference");
    ask("squeezenet", "--bs 0").fails(2);
    ask("squeezenet@100", "").fails(2).says("0 to 99");
    let unknown = ask("squeezent", "");
    unknown.says("squeezenet");
    ask("absent.onnx", "").fails(6).says("absent.onnx");
}

/// The TX2's own counters under the name of a device that nothing else tells of.
#[test]
fn whose_rules_are_assumed_is_said_and_whose_fit_better() {
    let Some(folder) = shared("tx2") else { return };
    let scene = Scene::new().file("config.ini", config("['squeezenet','mobilenetv2']", ""));
    let more = format!(
        "--set fingerprint.memory_logs=['{0}/profiling_csvs/memory'] --set fingerprint.pruned_models_storedir={0}/networks \
         --set fingerprint.method=hybrid --set fingerprint.train_logs=[0,50] --set fingerprint.eval_logs=[30] --set fingerprint.latency_model=False",
        folder.display()
    );
    scene.run(&format!("{RUN} {more} --set fingerprint.device_name=cpu")).succeeds().says("set target = tx2");
    let named = scene.run(&format!("{RUN} {more} --set fingerprint.model_storedir=other")).succeeds();
    named.says("taken for tx2");
}

#[test]
fn more_rows_than_a_fit_takes_are_thinned_and_it_is_said() {
    let scene = profile();
    let rows = |level: u32| {
        let rows =
            (0..50_000).map(|index| row(Quantity::Memory, level, 1 + index % 100, 800.0 + f64::from(index % 100)));
        header(Quantity::Memory).to_owned() + &rows.collect::<String>()
    };
    let scene = [0, 30]
        .into_iter()
        .fold(scene, |scene, level| scene.file(&format!("logs/memory/squeezenet_{level}-gt.csv"), rows(level)));
    let run = scene.run(&format!("{RUN} --set fingerprint.latency_model=False")).succeeds();
    run.says("100,000 rows are more than the 4,000");
    // 200 steps, so twenty rows of each.
    assert_eq!(json(&scene, "store/training_stage_mem_used.json")["fitted_on"][0]["rows"], 2000);
}
