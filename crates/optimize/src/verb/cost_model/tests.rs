//! The models of steps that are written, and their predictions.

use super::trained::page_of;
use super::{PredictPlans, TrainModel};
use crate::model_file;
use crate::staged::NetworkShape;
use perf4sight_base::error::Error;
use perf4sight_report::{Console, ConsoleSettings as Output, OutputMode};
use perf4sight_verb::{Context, Verb};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

fn train(out: PathBuf) -> TrainModel {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vtrain/plans.csv");
    TrainModel { plans, allreduce: Vec::new(), layers: Vec::new(), links: None, shape: None, out, overwrite: false }
}

fn context(is_cancelled: bool) -> Context {
    let output = Output { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
    let console = Console::writing_to(output, std::io::sink(), std::io::sink());
    let cancel = Arc::new(AtomicBool::new(is_cancelled));
    Context::new(console, || SystemTime::UNIX_EPOCH, cancel, PathBuf::new(), String::new())
}

#[test]
fn a_fit_writes_a_model_and_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let tests = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let staged = TrainModel {
        plans: tests("sailor/plans.json"),
        layers: vec![tests("sailor/layers_OPT-350_GH-96.json")],
        links: Some(tests("sailor/network_coefficients.json")),
        shape: Some(NetworkShape { hidden: 1024, heads: 16, sequence: 2048, vocabulary: 50_272 }),
        ..train(folder.path().join("staged.json"))
    };
    for (train, part) in [(train(folder.path().join("model.json")), "tensor parallel 4"), (staged, "N32_D16")] {
        let summary = train.run(&mut context(false)).unwrap();
        let files: Vec<&Path> = summary.files.iter().map(|(_, file)| file.as_path()).collect();
        assert_eq!(files, [train.out.clone(), page_of(&train.out)]);
        let page = fs::read_to_string(files[1]).unwrap();
        assert!(page.contains(part) && page.contains("Measured against predicted"), "{part}");
        assert!(model_file::load(files[0]).is_ok() && !summary.json["left_out"].is_null());
        // Ours are replaced.
        train.run(&mut context(false)).unwrap();
    }
}

/// Measured plans, models and tables that the program did not write stay; an input stays in any case.
#[test]
fn predictions_replace_predictions_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [model, plans, measured, out] =
        ["model.json", "plans.csv", "measured.csv", "out.csv"].map(|name| folder.path().join(name));
    for copy in [&plans, &measured] {
        fs::copy(train(model.clone()).plans, copy).unwrap();
    }
    train(model.clone()).run(&mut context(false)).unwrap();
    let predict = |out: &Path, overwrite| {
        let (plans, out) = (Some(plans.clone()), Some(out.to_owned()));
        PredictPlans { model: model.clone(), plans, operations: None, gpu: None, out, overwrite }
            .run(&mut context(false))
    };
    let refusal = |out: &Path, overwrite| {
        let before = fs::read(out).unwrap();
        let message = predict(out, overwrite).unwrap_err().to_string();
        assert_eq!(fs::read(out).unwrap(), before);
        message
    };
    assert!(refusal(&measured, false).contains("did not write"));
    assert!([&plans, &model].into_iter().all(|input| refusal(input, true).contains("an input would be replaced")));
    assert!(predict(&out, false).is_ok() && predict(&out, false).is_ok());
    // What was said at the fit is said to whoever uses the model.
    let warnings = predict(&out, false).unwrap().json["warnings"].to_string();
    assert!(warnings.contains("NVLink is assumed"), "{warnings}");
    let own = TrainModel { plans: measured.clone(), overwrite: true, ..train(measured.clone()) };
    assert!(own.run(&mut context(false)).unwrap_err().to_string().contains("an input would be replaced"));
}

/// The model predicts the plans that it was fitted on: none of them is scored. Of a file in which one has another global batch, one is.
#[test]
fn plans_of_the_fit_are_not_scored() {
    let folder = tempfile::tempdir().unwrap();
    let [model, other, out] = ["model.json", "other.csv", "out.csv"].map(|name| folder.path().join(name));
    let train = train(model.clone());
    train.run(&mut context(false)).unwrap();
    let answer = |plans: &Path| {
        let (plans, out) = (Some(plans.to_owned()), Some(out.clone()));
        let predict = PredictPlans { model: model.clone(), plans, operations: None, gpu: None, out, overwrite: false };
        predict.run(&mut context(false)).unwrap().answer
    };
    let text = fs::read_to_string(&train.plans).unwrap();
    let count = text.lines().count() - 1;
    assert_eq!(answer(&train.plans), format!("{count} measured plans were fitted, and say nothing of others."));
    let rows = fs::read_to_string(&out).unwrap();
    assert_eq!(rows.lines().filter(|row| row.ends_with(",yes")).count(), count);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let place = lines[0].split(',').position(|name| name == "global_batch").unwrap();
    let mut cells: Vec<String> = lines[1].split(',').map(str::to_owned).collect();
    cells[place] = (64 * cells[place].parse::<u64>().unwrap()).to_string();
    lines[1] = cells.join(",");
    fs::write(&other, lines.join("\n")).unwrap();
    let answer = answer(&other);
    assert!(answer.starts_with("Predictions of 1 measured plan that was not fitted are"), "{answer}");
    assert!(answer.ends_with(&format!("{} measured plans were fitted, and say nothing of others.", count - 1)));
}

/// A row of vTrain's plans twenty times is one plan; so many times beside nine others it changes nothing. Five of its rows as of a GPU that is 2.2 times as fast: rows that agree. Of 250 rows all are compared; one of 25 that is ten times as long is
/// in another unit. The same plan in 289 and 376 ms, 1.3 times as long, is named by its lines.
#[test]
fn rows_contradict_others_only_where_others_say_something() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(train(PathBuf::new()).plans).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let times = |row: &str, factor: f64| {
        let (plan, step) = row.rsplit_once(',').unwrap();
        format!("{plan},{}\n", factor * step.parse::<f64>().unwrap())
    };
    let model = folder.path().join("model.json");
    let fit = |rows: String| {
        let plans = folder.path().join("plans.csv");
        fs::write(&plans, format!("{header}\n{rows}")).unwrap();
        let mut context = context(false);
        TrainModel { plans, ..train(model.clone()) }.run(&mut context)?;
        let said = context.warnings().iter().filter(|warning| !warning.contains("all-reduces"));
        Ok::<_, Error>(said.cloned().collect::<Vec<String>>())
    };
    let warnings = |rows: String| fit(rows).unwrap();
    assert_eq!(header.rsplit(',').next(), Some("step_ms"));
    let first = rows.lines().next().unwrap();
    let equal = fit(times(first, 1.0).repeat(20)).unwrap_err().to_string();
    assert!(equal.contains("1 measured plan to fit"), "{equal}");
    let ten: String = rows.lines().step_by(25).map(|row| times(row, 1.0)).collect();
    warnings(ten.clone());
    let once = fs::read(&model).unwrap();
    let many = warnings(ten + &times(first, 1.0).repeat(19));
    assert!(many[0].starts_with("29 measurements of 10 plans are fitted"), "{many:?}");
    assert!(once == fs::read(&model).unwrap());
    let faster = warnings(rows.lines().step_by(50).map(|row| times(row, 0.45)).collect());
    assert!(faster.len() == 1 && faster[0].contains("too few plans differ"), "{faster:?}");
    assert_eq!(warnings(rows.to_owned()), Vec::<String>::new());
    let in_other_unit = rows.lines().step_by(10).enumerate();
    let in_other_unit = in_other_unit.map(|(place, row)| times(row, if place == 3 { 10.0 } else { 1.0 }));
    let contradicts = warnings(in_other_unit.collect());
    assert!(contradicts.len() == 1 && contradicts[0].starts_with("some rows contradict others: "), "{contradicts:?}");
    let twice = warnings(format!("{rows}{}", times(first, 1.3)));
    let last = format!("in line {} (1.30 times)", rows.lines().count() + 2);
    assert!(twice.len() == 2 && twice[1].contains("ms in line 2 and") && twice[1].contains(&last), "{twice:?}");
}

#[test]
fn an_interrupted_fit_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let summary = train(folder.path().join("model.json")).run(&mut context(true)).unwrap();
    assert_eq!(summary.headline, "interrupted; nothing was written");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A page that others wrote stays, and no model is written without one.
#[test]
fn a_page_of_others_stays() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.html"), "<html>mine</html>").unwrap();
    let error = train(folder.path().join("model.json")).run(&mut context(false)).unwrap_err();
    assert!(error.to_string().contains("model.html"), "{error}");
    assert!(!folder.path().join("model.json").exists());
    let error = train(folder.path().join("model.html")).run(&mut context(false)).unwrap_err();
    assert!(error.to_string().contains("replaced by its page"), "{error}");
}
