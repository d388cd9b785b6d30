//! Fingerprints: the published accuracy on real measurements, what is left out and said, files that are refused.

use super::fixtures::shared;
use perf4sight_base::error::Result;
use perf4sight_base::units::Milliseconds;
use perf4sight_cost::evaluation::{Evaluation, PredictedRow};
use perf4sight_cost::fingerprint::{
    Fingerprint, FingerprintSubject, FitMethod, FitRecipe, GatheredRows, LevelSelection, MeasuredRow, NetworkFolder,
    Observations, PredictedValue, RowSelection, file_name, gather,
};
use perf4sight_cost::records::{MeasurementOutcome, RowReading, RowRecord, Variant};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Stage, Step, Workload};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The levels that the published accuracy is fitted on.
const FITTED: [u8; 5] = [0, 30, 50, 70, 90];

fn subject(stage: Stage, quantity: Quantity) -> FingerprintSubject {
    FingerprintSubject { device: "tx2".into(), dataset: "imagenet".into(), step: Step::published(stage), quantity }
}

/// Rows of squeezenet, 10 ms and 3 ms per sample.
fn rows(batches: u64) -> Vec<MeasuredRow> {
    let network = Arc::new(zoo::build("squeezenet", Dataset::Imagenet).unwrap());
    let row = |batch| {
        let measured = 10.0 + 3.0 * batch as f64;
        let workload = Workload::published(Stage::Training, batch);
        let reading = RowReading::Latency(Some(Milliseconds(measured)));
        let record = RowRecord::new(Variant::new("squeezenet", 0), workload, MeasurementOutcome::Measured, reading);
        MeasuredRow { record, measured, network: network.clone(), layers: Vec::new() }
    };
    (1..=batches).map(row).collect()
}

fn fit(rows: &[MeasuredRow]) -> Result<Fingerprint> {
    let platform = Platform::for_name("tx2")?;
    let observations = Observations { rows, taught: &[], failed: &[], platform: &platform };
    Fingerprint::fit(
        subject(Stage::Training, Quantity::Latency),
        FitRecipe::new(FitMethod::Perf4sight, 1),
        &observations,
    )
}

/// Mean absolute percentage error of the published method on these data, `tx2/README.md`: memory and latency.
const PUBLISHED: [(&str, f64, f64); 5] = [
    ("resnet18", 7.2, 6.5),
    ("resnet50", 1.8, 3.5),
    ("mobilenetv2", 3.3, 7.7),
    ("squeezenet", 3.7, 5.5),
    ("mnasnet", 2.8, 4.5),
];

#[test]
fn the_published_accuracy_is_reached_on_the_tx2() {
    let Some(folder) = shared("tx2") else { return };
    let platform = Platform::for_name("tx2").unwrap();
    let mut networks = NetworkFolder::new(folder.join("networks"));
    for (name, memory, latency) in PUBLISHED {
        for (quantity, published) in [(Quantity::Memory, memory), (Quantity::Latency, latency)] {
            let mut select = |levels| {
                let selection = RowSelection {
                    folders: &[folder.join("profiling_csvs").join(quantity.name())],
                    networks: &[name.to_owned()],
                    levels,
                    step: Step::published(Stage::Training),
                    quantity,
                };
                gather(&selection, &mut networks).unwrap().rows
            };
            let (fitted, unseen) =
                (select(LevelSelection::Only(FITTED.into())), select(LevelSelection::AllBut(FITTED.into())));
            let errors = (0..5).map(|seed| {
                let subject = subject(Stage::Training, quantity);
                let observations = Observations { rows: &fitted, taught: &[], failed: &[], platform: &platform };
                let fingerprint =
                    Fingerprint::fit(subject, FitRecipe::new(FitMethod::Perf4sight, seed), &observations).unwrap();
                Evaluation::from_rows(&fingerprint, &unseen).scores().unwrap().mape
            });
            let ours = errors.sum::<f64>() / 5.0;
            println!("{name} {quantity}: {ours:.2} %, published {published} %");
            assert!((ours - published).abs() <= 0.7, "{name} {quantity}: {ours:.2} % is not {published} %");
        }
    }
}

fn select<'a>(folders: &'a [PathBuf], networks: &'a [String], stage: Stage) -> RowSelection<'a> {
    RowSelection {
        folders,
        networks,
        levels: LevelSelection::Only([0, 30].into()),
        step: Step::published(stage),
        quantity: Quantity::Latency,
    }
}

/// A profile of two networks whose level 30 is missing for one and whose network file is missing for the other.
fn partial_profile(folder: &Path) {
    let header = "passed|latency|test_var|bs|dataset|net_name|model|stage\n";
    let row = |passed, latency, batch, file: &str, stage| {
        let network = file.split('_').next().unwrap();
        format!("{passed}|{latency}|latency|{batch}|imagenet|{network}|/home/nvidia/{file}|{stage}\n")
    };
    let write = |name: &str, rows: &[String]| fs::write(folder.join(name), header.to_owned() + &rows.concat()).unwrap();
    write(
        "squeezenet_0-gt.csv",
        &[
            row("True", "5.5", 1, "squeezenet_0.py", "training"),
            row("True", "9.5", 2, "squeezenet_0.py", "training"),
            row("True", "2.5", 2, "squeezenet_0.py", "inference"),
            row("False", "None", 4, "squeezenet_0.py", "training"),
        ],
    );
    write("squeezenet_0_2-gt.csv", &[row("True", "5.7", 1, "squeezenet_0_2.py", "training")]);
    write("mnasnet_0-gt.csv", &[row("True", "5.5", 1, "mnasnet_0.py", "training")]);
    write("mnasnet_30-gt.csv", &[row("True", "5.5", 1, "mnasnet_30.py", "training")]);
    write("mnasnet_50-gt.csv", &[row("True", "5.5", 1, "mnasnet_50.py", "training")]);
}

#[test]
fn what_is_missing_is_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    partial_profile(folder.path());
    let squeezenet = zoo::build("squeezenet", Dataset::Imagenet).unwrap();
    for stem in ["squeezenet_0", "squeezenet_0_2"] {
        onnx::write(&squeezenet, folder.path().join(format!("{stem}.onnx"))).unwrap();
    }

    let folders = [folder.path().to_owned(), folder.path().join("absent")];
    let names = ["squeezenet".to_owned(), "mnasnet".to_owned()];
    let selection = select(&folders, &names, Stage::Training);
    let gathered = gather(&selection, &mut NetworkFolder::new(folder.path())).unwrap();

    let read: Vec<(u64, f64)> = gathered.rows.iter().map(|row| (row.record.workload.batch, row.measured)).collect();
    // The second repeat of level 0 belongs to the level.
    assert_eq!(read, [(1, 5.5), (2, 9.5), (1, 5.7)]);
    assert_eq!(gathered.failed.len(), 1);
    assert_eq!(gathered.missing_logs, [folders[1].display().to_string(), "squeezenet_30".into()]);
    let missing: Vec<(&str, usize)> =
        gathered.missing_networks.iter().map(|(stem, rows)| (stem.as_str(), rows.len())).collect();
    assert_eq!(missing, [("mnasnet_0", 1), ("mnasnet_30", 1)]);
    let sentence = gathered.to_string();
    for part in ["1 rows of failed", "squeezenet_30", "2 rows without their network file (mnasnet_0, mnasnet_30)"] {
        assert!(sentence.contains(part), "{part} is not in {sentence}");
    }
}

#[test]
fn nothing_left_is_an_error_that_says_what_was_missing() {
    let folder = tempfile::tempdir().unwrap();
    partial_profile(folder.path());
    let (folders, names) = ([folder.path().to_owned()], ["mnasnet".to_owned()]);
    let selection = select(&folders, &names, Stage::Training);
    let nothing =
        gather(&selection, &mut NetworkFolder::new(folder.path())).and_then(|found| found.check_any(&selection));
    let message = nothing.unwrap_err().to_string();
    assert!(message.contains("no passed training latency rows") && message.contains("mnasnet_30"), "{message}");
    assert!(GatheredRows { rows: rows(1), ..GatheredRows::default() }.check_any(&selection).is_ok());
}

#[test]
fn too_few_rows_are_refused() {
    let message = fit(&rows(9)).unwrap_err().to_string();
    assert!(message.contains("9 training latency rows of tx2 that passed are too few"), "{message}");
    assert!(fit(&rows(10)).is_ok());
}

#[test]
fn a_saved_fingerprint_predicts_the_same_and_equal_fits_give_equal_files() {
    let (folder, rows) = (tempfile::tempdir().unwrap(), rows(12));
    let fingerprint = fit(&rows).unwrap();
    let file = fingerprint.save(folder.path()).unwrap();
    assert_eq!(file, folder.path().join("training_stage_latency.json"));
    let loaded = Fingerprint::load(folder.path(), Stage::Training, Quantity::Latency).unwrap().unwrap();
    assert_eq!(loaded, fingerprint);
    let first = fs::read(&file).unwrap();
    fit(&rows).unwrap().save(folder.path()).unwrap();
    assert_eq!(fs::read(&file).unwrap(), first);
    // Single-row leaves: what was measured once is answered exactly.
    assert_eq!(loaded.predict(&rows[3].network, 4), PredictedValue::Latency(Milliseconds(22.0)));
    assert_eq!((loaded.fitted_on()[0].variant.to_string(), loaded.fitted_on()[0].rows), ("squeezenet_0".into(), 12));
    assert!(loaded.knows("squeezenet", 0) && !loaded.knows("squeezenet", 30));
    let evaluation = Evaluation::from_rows(&loaded, &rows[..3]);
    assert_eq!(evaluation.scores().map(|scores| (scores.rows, scores.mape)), Some((3, 0.0)));
    assert!(evaluation.unseen_cases().cases.is_empty());
    assert!(Fingerprint::load(folder.path(), Stage::Inference, Quantity::Latency).unwrap().is_none());
}

#[test]
fn files_that_do_not_fit_are_refused_with_file_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = fit(&rows(12)).unwrap().save(folder.path()).unwrap();
    let good = fs::read_to_string(&file).unwrap();
    let refusal = |text: &str| {
        fs::write(&file, text).unwrap();
        let message = Fingerprint::load(folder.path(), Stage::Training, Quantity::Latency).unwrap_err().to_string();
        assert!(message.contains("training_stage_latency.json") && message.contains("overwrite = True"), "{message}");
        message
    };
    let edited = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        refusal(&good.replace(from, to))
    };
    assert!(edited("\"format\": 3", "\"format\": 4").contains("format version 4"));
    assert!(edited("\"version\": 1", "\"version\": 9").contains("perf4sight-training version 9"));
    assert!(edited("\"stage\": \"training\"", "\"stage\": \"inference\"").contains("is of inference latency"));
    assert!(edited("\"quantity\": \"latency\"", "\"quantity\": \"memory\"").contains("is of training memory"));
    assert!(edited("\"perf4sight\": {", "\"oracle\": {").contains("damaged"));
    assert!(edited("\"trees\": 300", "\"trees\": 299").contains("do not fit together"));
    // The last digit of the seed.
    assert!(edited("\"seed\": 1", "\"seed\": 2").contains("was edited"));
    for share in [0, 1, 2, 3] {
        assert!(refusal(&good[..good.len() * share / 4]).contains("damaged"));
    }
    for other in ["no json", "{\"predictions\": []}"] {
        assert!(refusal(other).contains("not a fingerprint"), "{}", refusal(other));
    }
}

#[test]
fn every_quantity_and_stage_has_a_file_of_its_own() {
    let names = Stage::ALL.map(|stage| Quantity::ALL.map(|quantity| file_name(stage, quantity)));
    assert_eq!(names[0], ["training_stage_latency.json", "training_stage_mem_used.json"]);
    assert_eq!(names[1], ["inference_stage_latency.json", "inference_stage_mem_used.json"]);
}

fn case(name: &str, level: u8, batch: u64, measured: f64, predicted: f64) -> PredictedRow {
    let predicted = PredictedValue::Latency(Milliseconds(predicted));
    PredictedRow { variant: Variant::new(name, level), batch, measured, predicted, interval: None, fitted: false }
}

#[test]
fn an_evaluation_is_scored_as_a_whole_and_in_parts() {
    // Errors: +10 %, -20 %, +5 %, 0 %.
    let evaluation = Evaluation {
        cases: vec![
            case("a", 10, 1, 100.0, 110.0),
            case("a", 10, 2, 200.0, 160.0),
            case("a", 20, 1, 100.0, 105.0),
            case("b", 10, 1, 300.0, 300.0),
        ],
    };
    let json = serde_json::to_value(evaluation.accuracy().unwrap()).unwrap();
    assert_eq!(json["rows"], 4);
    assert_eq!(json["mape"], 8.75);
    assert_eq!(json["median"], 7.5);
    // Sorted 0, 5, 10, 20; position 0.9 x 3 = 2.7.
    assert_eq!(json["p90"], 17.0);
    assert_eq!((&json["within_5"], &json["within_10"]), (&50.0.into(), &75.0.into()));
    // sqrt((100 + 400 + 25 + 0) / 4)
    assert!((json["rmspe"].as_f64().unwrap() - 131.25f64.sqrt()).abs() < 1e-12);
    assert_eq!(json["bias"], -1.25);
    // Ranks 0.5 2 0.5 3 against 1 2 0 3: deviations (-1, .5, -1, 1.5) . (-.5, .5, -1.5, 1.5) = 4.5 over sqrt(4.5 x 5).
    assert!((json["spearman"].as_f64().unwrap() - 4.5 / 22.5f64.sqrt()).abs() < 1e-12);
    let a = &json["networks"]["a"];
    assert_eq!(
        (&a["rows"], &a["levels"]["10"]["rows"], &a["levels"]["10"]["mape"]),
        (&3.into(), &2.into(), &15.0.into())
    );
    assert_eq!(json["networks"]["b"]["spearman"], serde_json::Value::Null);
    let keys: Vec<&String> = a["levels"]["20"].as_object().unwrap().keys().collect();
    let mut expected = ["rows", "mape", "median", "p90", "within_5", "within_10", "rmspe", "spearman", "bias"];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(evaluation.by(|case| case.batch)[&2].mape, 20.0);
    let worst: Vec<f64> = evaluation.worst(2).into_iter().map(PredictedRow::error).collect();
    assert_eq!(worst, [-20.0, 10.0]);
    assert!(Evaluation::default().accuracy().is_none());
}
