//! The report of a fingerprint: its files, the keys programs rely on, what it says in words, and equal bytes for equal runs.

use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_cost::evaluation::{AccuracyStudy, Evaluation, PlannedFits};
use perf4sight_cost::fingerprint::{
    FailedAttempt, Fingerprint, FingerprintSubject, FitMethod, FitRecipe, GatheredRows, MeasuredRow,
};
use perf4sight_cost::records::{
    ErrorEstimate, MeasurementOutcome, MemoryColumns, ProfileProvenance, ProfileRun, RowReading, RowRecord, Variant,
};
use perf4sight_cost::verbs::fingerprint::report::{Assessment, ReportEvidence};
use perf4sight_machine::Conditions;
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_platform::Platform;
use perf4sight_report::Cell;
use perf4sight_step::workload::{Quantity, Stage, Step, Workload};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

const NETWORKS: [&str; 3] = ["resnet18", "mobilenetv2", "squeezenet"];
const BATCHES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CAPACITY: Bytes = Bytes(4 << 30);

/// Rows of a device whose cost follows from operations and activations, give or take some percent.
fn gathered(quantity: Quantity, levels: &[u8]) -> GatheredRows {
    let mut gathered = GatheredRows::default();
    for name in NETWORKS {
        let network = Arc::new(zoo::build(name, Dataset::Imagenet).unwrap());
        for (level, batch) in levels.iter().flat_map(|level| BATCHES.map(|batch| (*level, batch))) {
            let record = record(&network, Variant::new(name, level), batch, quantity);
            match record.value() {
                Some(measured) => {
                    gathered.rows.push(MeasuredRow { record, measured, network: network.clone(), layers: Vec::new() })
                }
                None => gathered.failed.push(FailedAttempt { record, network: network.clone() }),
            }
        }
    }
    gathered.missing_logs.push("resnet18_95".into());
    gathered
}

fn record(network: &Network, variant: Variant, batch: u64, quantity: Quantity) -> RowRecord {
    let scatter = 1.0 + 0.04 * ((batch * 31 + u64::from(variant.level) * 7) % 11) as f64 / 11.0;
    let used = 150.0 + network.activations() as f64 * batch as f64 * 30.0 / 1e6 * scatter;
    let latency = 2.0 + network.macs() as f64 * batch as f64 / 2e7 * scatter;
    let outcome = match used / CAPACITY.mib() {
        share if share <= 1.0 => MeasurementOutcome::Measured,
        share if share <= 2.0 => MeasurementOutcome::OutOfMemory,
        _ => MeasurementOutcome::Skipped,
    };
    let memory = MemoryColumns { used: Some(Bytes::from_mib(used)), capacity: Some(CAPACITY), ..Default::default() };
    let reading = match quantity {
        Quantity::Latency => RowReading::Latency(outcome.passed().then_some(Milliseconds(latency))),
        Quantity::Memory => RowReading::Memory(memory),
    };
    RowRecord {
        dataset: "imagenet".into(),
        steps: outcome.passed().then_some(5),
        // From 0.1 % at level 0 to 8.1 % at level 80.
        spread: outcome.passed().then_some(0.001 * (1.0 + f64::from(variant.level))),
        ..RowRecord::new(variant, Workload::published(Stage::Training, batch), outcome, reading)
    }
}

/// One quantity, fitted and tested.
struct Part {
    fingerprint: Fingerprint,
    fitted: GatheredRows,
    tested: GatheredRows,
    study: AccuracyStudy,
}

impl Part {
    fn new(quantity: Quantity, method: FitMethod) -> Self {
        Self::of([gathered(quantity, &[0, 30, 60]), gathered(quantity, &[10, 40, 60, 80])], quantity, method)
    }

    fn of([fitted, tested]: [GatheredRows; 2], quantity: Quantity, method: FitMethod) -> Self {
        let subject = FingerprintSubject {
            device: "bench".into(),
            dataset: "imagenet".into(),
            step: Step::published(Stage::Training),
            quantity,
        };
        let platform = Platform::for_name("cpu").unwrap();
        let fingerprint =
            Fingerprint::fit(subject, FitRecipe::new(method, 7), &fitted.observations(&platform)).unwrap();
        let study =
            PlannedFits::new(&fingerprint, fitted.observations(&platform), tested.observations(&platform)).run(|| {});
        Part { fingerprint, fitted, tested, study }
    }

    fn evaluation(&self) -> &Evaluation {
        &self.study.own.whole.evaluation
    }

    fn assessment(&self) -> Assessment<'_> {
        let Part { fingerprint, fitted, tested, study } = self;
        Assessment { fingerprint, fitted: Some(fitted), tested, study }
    }
}

fn evidence<'a>(parts: &'a [Part], date: &str) -> ReportEvidence<'a> {
    let run = ProfileRun {
        date: date.into(),
        seconds: 83.0,
        measuring: 70.0,
        waiting: 0.0,
        rows: 168,
        learned: Vec::new(),
        visits: None,
        networks: BTreeMap::new(),
        seed: 7,
        conditions: Conditions::default(),
        config: String::new(),
    };
    ReportEvidence {
        device: "bench",
        dataset: "imagenet",
        step: Step::published(Stage::Training),
        assessments: parts.iter().map(Part::assessment).collect(),
        profiles: vec![ProfileProvenance { setting: setting(), runs: vec![run] }],
        date: date.into(),
        config: "",
    }
}

fn setting() -> BTreeMap<String, String> {
    let answer = [("processor", "Abacus 9000"), ("threads", "3"), ("mem_limit", "1234 MiB")];
    answer.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The page of some parts, or the part of it that a reader sees first.
fn html(parts: &[Part], config: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let written =
        ReportEvidence { config, ..evidence(parts, "2026-01-01T00:00:00Z") }.write(folder.path(), false).unwrap();
    fs::read_to_string(written.html).unwrap()
}

fn first_screen(html: &str) -> &str {
    html.split("<h2>").nth(1).unwrap()
}

fn fresh_parts() -> Vec<Part> {
    Quantity::ALL.map(|quantity| Part::new(quantity, FitMethod::Hybrid)).into()
}

/// Studied once for all tests.
fn parts() -> &'static [Part] {
    static PARTS: LazyLock<Vec<Part>> = LazyLock::new(fresh_parts);
    &PARTS
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn three_files_agree_with_the_evaluation() {
    let (parts, folder) = (parts(), tempfile::tempdir().unwrap());
    let written = evidence(parts, "2026-01-01T00:00:00Z").write(&folder.path().join("new"), false).unwrap();
    let report = json(&written.json);
    for (part, quantity) in parts.iter().zip(["latency", "memory"]) {
        let scores = part.evaluation().scores().unwrap();
        assert_eq!(report[quantity]["mape"], scores.mape, "{quantity}");
        assert_eq!(report[quantity]["rows"], part.tested.rows.len());
        let network = &report[quantity]["networks"]["squeezenet"];
        for of in [&report[quantity], network, &network["levels"]["40"]] {
            for key in ["rows", "mape", "median", "p90", "within_5", "within_10", "rmspe", "spearman", "bias"] {
                assert!(of[key].is_number(), "{quantity}: {key} is {}", of[key]);
            }
        }
    }
    let csv = fs::read_to_string(&written.predictions).unwrap();
    assert_eq!(csv.lines().count(), 1 + parts.iter().map(|part| part.evaluation().cases.len()).sum::<usize>());
    assert!(
        csv.starts_with(
            "quantity,variant,network,level,bs,unit,measured,predicted,error_percent,fitted,low_90,high_90,"
        )
    );
    let left: Vec<_> = fs::read_dir(folder.path().join("new")).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing unfinished stays behind");
}

#[test]
fn equal_runs_differ_only_in_provenance() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["2026-01-01T00:00:00Z", "2027-12-31T00:00:00Z"].map(|date| {
        let written = evidence(&fresh_parts(), date).write(&folder.path().join(date), false).unwrap();
        let mut report = json(&written.json);
        report.as_object_mut().unwrap().remove("provenance").unwrap();
        let html = fs::read_to_string(&written.html).unwrap().replace(date, "").replace(&date[..10], "");
        (report, html, fs::read_to_string(&written.predictions).unwrap())
    });
    assert!(first == second, "the same rows and seed must give the same report");
}

#[test]
fn a_profile_that_grew_by_estimates_shows_them() {
    let (parts, folder) = (parts(), tempfile::tempdir().unwrap());
    let page = |name: &str, learned: Vec<ErrorEstimate>| {
        let mut evidence = evidence(parts, "");
        evidence.profiles[0].runs[0].learned = learned;
        let written = evidence.write(&folder.path().join(name), false).unwrap();
        fs::read_to_string(written.html).unwrap()
    };
    let at =
        |measured, seconds, stage, error| ErrorEstimate { measured, seconds, stage, quantity: Quantity::Memory, error };
    let (training, inference) = (Stage::Training, Stage::Inference);
    let grown = vec![at(24, 30.0, training, 9.5), at(31, 41.0, training, 6.25), at(24, 30.0, inference, 55.5)];
    let html = page("adaptive", grown);
    for words in ["As the profile grew", "configurations measured", "41.0 s", "6.2 %"] {
        assert!(html.contains(words), "no {words}");
    }
    assert!(!html.contains("55.5 %"), "the other stage has a report of its own");
    assert!(!page("grid", Vec::new()).contains("As the profile grew"));
}

#[test]
fn levels_fitted_on_do_not_flatter_the_summary() {
    let parts = parts();
    let evidence = evidence(parts, "");
    let unseen: Vec<f64> =
        parts[0].evaluation().cases.iter().filter(|case| !case.fitted).map(|case| case.error()).collect();
    let own = parts[0].evaluation().cases.iter().filter(|case| !case.fitted && case.variant.network == "resnet18");
    let errors: Vec<f64> = own.map(|case| case.error().abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let finding = evidence.findings().into_iter().find(|finding| finding.about == "resnet18").unwrap();
    assert!(unseen.len() < parts[0].evaluation().cases.len(), "level 60 is in both");
    let Cell::Percent(shown) = finding.cell else { panic!("{finding:?}") };
    assert!((shown.0 - mean).abs() < 1e-9, "{shown:?} is not {mean}");
    let table = evidence.summary();
    let row: Vec<String> = table.rows[2].iter().map(Cell::to_string).collect();
    let fitted = |part: &Part| part.fitted.rows.iter().filter(|row| row.record.variant.network == "squeezenet").count();
    assert_eq!(row[..2], ["squeezenet".to_string(), (fitted(&parts[0]) + fitted(&parts[1])).to_string()]);
}

#[test]
fn the_page_answers_in_words_and_names_what_is_missing() {
    let (parts, folder) = (parts(), tempfile::tempdir().unwrap());
    let written = evidence(parts, "2026-01-01T00:00:00Z").write(folder.path(), false).unwrap();
    let html = fs::read_to_string(written.html).unwrap();
    for words in [
        "Latency predictions are",
        "Memory predictions are",
        "networks it has never seen",
        "at levels it was not fitted on",
        "Whether a step fits is predicted correctly",
        "resnet18_95",
    ] {
        assert!(html.contains(words), "{words}");
    }
    for section in [
        "Can I trust it?",
        "Does it fit?",
        "Would more rows help?",
        "Predicted against measured",
        "Worst rows",
        "What fits into memory",
        "What the profile cost",
        "Provenance",
    ] {
        assert!(html.contains(&format!("<h2>{section}</h2>")), "{section}");
    }
    assert_eq!(html.matches("batch 128: out of memory</title>").count() % 5, 0, "one cell per level");
}

#[test]
fn a_report_without_a_single_tested_row_says_so() {
    let mut part = Part::new(Quantity::Latency, FitMethod::Hybrid);
    part.tested = GatheredRows::default();
    part.study = AccuracyStudy::without_fits(&part.fingerprint, &part.tested, "nothing to test on");
    let parts = [part];
    let evidence = evidence(&parts, "");
    assert!(evidence.json()["latency"].is_null());
    let folder = tempfile::tempdir().unwrap();
    let html = fs::read_to_string(evidence.write(folder.path(), false).unwrap().html).unwrap();
    assert!(html.contains("there was no row to test it on"));
}

/// The mean error on the rows of a network, of a fit on the rows of the others.
fn error_without(name: &str, part: &Part, method: FitMethod) -> f64 {
    let mut others = part.fitted.clone();
    others.rows.retain(|row| row.record.variant.network != name);
    others.failed.retain(|attempt| attempt.record.variant.network != name);
    let (platform, subject) = (Platform::for_name("cpu").unwrap(), part.fingerprint.subject().clone());
    let fingerprint = Fingerprint::fit(subject, FitRecipe::new(method, 7), &others.observations(&platform)).unwrap();
    // Level 60 is fitted on and tested on; it counts once.
    let new = part.fitted.rows.iter().filter(|row| row.record.variant.level != 60).chain(&part.tested.rows);
    let errors = new.filter(|row| row.record.variant.network == name).map(|row| {
        let predicted = fingerprint.predict(&row.network, row.record.workload.batch).value();
        100.0 * (predicted / row.measured - 1.0).abs()
    });
    let errors: Vec<f64> = errors.collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

#[test]
fn networks_left_out_are_answered_by_fits_that_never_saw_them() {
    let parts = parts();
    let report = evidence(parts, "").json();
    for (part, quantity) in parts.iter().zip(["latency", "memory"]) {
        let (own, published) = (&report[quantity]["left_out"], &report[quantity]["published"]["left_out"]);
        for name in NETWORKS {
            for (scores, method) in [(own, FitMethod::Hybrid), (published, FitMethod::Perf4sight)] {
                let (answer, expected) = (&scores["networks"][name]["mape"], error_without(name, part, method));
                assert!(
                    (answer.as_f64().unwrap() - expected).abs() < 1e-6,
                    "{quantity} {name} {method}: {answer}, {expected}"
                );
            }
        }
        let networks = own["networks"].as_object().unwrap().values().map(|scores| scores["mape"].as_f64().unwrap());
        let mean = networks.sum::<f64>() / NETWORKS.len() as f64;
        assert!((own["mape"].as_f64().unwrap() - mean).abs() < 1e-9, "{quantity}: every network weighs the same");
        let keys = |scores: &Value| scores.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let mut wanted = keys(&report[quantity]);
        wanted.retain(|key| {
            !["left_out", "published", "noise_floor", "learning_curve", "intervals", "missing"].contains(&key.as_str())
        });
        assert_eq!(keys(own), wanted, "the same keys as one level up");
        // All levels: those tested and those fitted on; level 0 and 30 are only in the latter.
        assert_eq!(own["networks"]["squeezenet"]["levels"].as_object().unwrap().len(), 6);
        assert_eq!(own["level_0"]["rows"], part.fitted.rows.iter().filter(|row| row.record.variant.level == 0).count());
        assert_eq!(report[quantity]["published"]["rows"], report[quantity]["rows"]);
    }
}

#[test]
fn coverage_is_counted_from_the_intervals_of_the_table() {
    let parts = parts();
    let (evidence, folder) = (evidence(parts, ""), tempfile::tempdir().unwrap());
    let written = evidence.write(folder.path(), false).unwrap();
    let mut inside: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut reader = csv::Reader::from_path(written.predictions).unwrap();
    for row in reader.deserialize::<BTreeMap<String, String>>() {
        let row = row.unwrap();
        if row["quantity"] == "memory" {
            let number = |column: &str| row[column].parse::<f64>().unwrap();
            let holds = number("low_90") <= number("measured") && number("measured") <= number("high_90");
            inside.entry(row["network"].clone()).or_default().push(if holds { 100.0 } else { 0.0 });
            assert!(number("left_out_low_90") < number("left_out") && number("published_left_out") > 0.0);
        }
    }
    let shares = inside.values().map(|held| held.iter().sum::<f64>() / held.len() as f64);
    let expected = shares.sum::<f64>() / NETWORKS.len() as f64;
    let answer = json(&written.json)["memory"]["coverage_90"].as_f64().unwrap();
    assert!((answer - expected).abs() < 1e-9, "{answer}, {expected}");
    assert!(
        json(&written.json)["memory"]["intervals"].as_str().unwrap().contains("estimated"),
        "three networks are fewer than ten"
    );
    assert!(json(&written.json)["memory"]["published"]["coverage_90"].is_null());
}

#[test]
fn verdicts_are_judged_by_steps_that_were_tried() {
    let parts = parts();
    let (report, memory) = (evidence(parts, "").json(), &parts[1]);
    let ran_out = |gathered: &GatheredRows| {
        gathered.failed.iter().filter(|attempt| attempt.record.outcome == MeasurementOutcome::OutOfMemory).count()
    };
    let verdict = &report["memory"]["verdict"];
    let count = |of: &Value, keys: [&str; 2]| keys.map(|key| of[key].as_u64().unwrap() as usize).iter().sum::<usize>();
    assert_eq!(count(verdict, ["found", "missed"]), ran_out(&memory.tested));
    assert_eq!(count(verdict, ["cleared", "false_alarms"]), memory.tested.rows.len());
    let right =
        count(verdict, ["found", "cleared"]) as f64 / (ran_out(&memory.tested) + memory.tested.rows.len()) as f64;
    assert!((verdict["accuracy"].as_f64().unwrap() - 100.0 * right).abs() < 1e-9);
    for key in ["mape", "unsafe", "used"] {
        assert!(report["memory"]["left_out"]["max_batch"][key].is_number(), "{key}");
    }
    assert!(report["latency"].get("verdict").is_none());
}

#[test]
fn learning_curves_end_with_all_rows() {
    let parts = parts();
    let report = evidence(parts, "").json();
    for (part, quantity) in parts.iter().zip(["latency", "memory"]) {
        for method in ["hybrid", "perf4sight"] {
            let curve = report[quantity]["learning_curve"][method].as_array().unwrap();
            let rows: Vec<usize> = curve.iter().map(|point| point["rows"].as_u64().unwrap() as usize).collect();
            assert!(rows.len() >= 3 && rows.is_sorted(), "{quantity} {method}: {rows:?}");
            assert_eq!(rows.last(), Some(&part.fitted.rows.len()));
        }
        let last = report[quantity]["learning_curve"]["hybrid"].as_array().unwrap().last().unwrap()["mape"].as_f64();
        let unseen = part.evaluation().unseen_cases().mean_over_networks();
        assert!((last.unwrap() - unseen.unwrap()).abs() < 1e-9);
    }
}

#[test]
fn repeats_tell_how_much_the_device_differs_from_itself() {
    assert!(evidence(parts(), "").json()["latency"]["noise_floor"].is_null());
    let mut part = Part::new(Quantity::Latency, FitMethod::Hybrid);
    let mut again = part.fitted.rows[0].clone();
    again.measured *= 1.02;
    part.fitted.rows.push(again);
    let platform = Platform::for_name("cpu").unwrap();
    part.study =
        PlannedFits::new(&part.fingerprint, part.fitted.observations(&platform), part.tested.observations(&platform))
            .run(|| {});
    let parts = [part];
    let noise = evidence(&parts, "").json()["latency"]["noise_floor"].clone();
    // 1 and 1.02: 1 % off their mean of 1.01, times the root of 2.
    let expected = 100.0 * 0.01 / 1.01 * 2f64.sqrt();
    assert!((noise["mape"].as_f64().unwrap() - expected).abs() < 1e-9, "{noise}");
    assert_eq!(noise["repeated"], 1);
}

/// A memory profile of which just two steps did not fit, one of those fitted on and one of those tested.
fn hardly_failing() -> Part {
    let few = [gathered(Quantity::Memory, &[0, 30, 60]), gathered(Quantity::Memory, &[10, 40])].map(|mut gathered| {
        gathered.failed.retain(|attempt| attempt.record.outcome == MeasurementOutcome::OutOfMemory);
        gathered.failed.truncate(1);
        gathered
    });
    Part::of(few, Quantity::Memory, FitMethod::Hybrid)
}

#[test]
fn verdicts_that_saw_few_failures_are_not_called_good() {
    let parts = [hardly_failing()];
    let [fitted, tested] = [&parts[0].fitted, &parts[0].tested];
    let html = html(&parts, "");
    let verdict = first_screen(&html).lines().find(|line| line.contains("Whether a step fits")).unwrap();
    assert!(verdict.contains("class=\"verdict caution\"") || verdict.contains("class=\"verdict bad\""), "{verdict}");
    // Every network left out at all levels: the rows of both, and both failures.
    let rows = (fitted.rows.len() + tested.rows.len()) as f64;
    let always = 100.0 * rows / (rows + 2.0);
    assert!(verdict.contains(&format!("always saying &quot;fits&quot; would be right for {always:.1} %")), "{verdict}");
    for failed in [&fitted.failed[0].record, &tested.failed[0].record] {
        let name = format!("{} at batch {}", failed.variant, failed.workload.batch);
        assert!(verdict.contains(&name), "{name} is not in {verdict}");
    }
    let answer = evidence(&parts, "").json()["memory"]["left_out"]["verdict"]["always_fits"].as_f64().unwrap();
    assert!((answer - always).abs() < 1e-9, "{answer}");
}

#[test]
fn the_first_screen_says_what_it_rests_on() {
    let html = html(parts(), "");
    let screen = first_screen(&html);
    for words in ["Abacus 9000", "<dd>3</dd>", "1234 MiB", "2026-01-01", "3: mobilenetv2, resnet18, squeezenet"] {
        assert!(screen.contains(words), "{words} is not in {screen}");
    }
    let report = evidence(parts(), "").json();
    for quantity in ["latency", "memory"] {
        let networks = report[quantity]["left_out"]["networks"].as_object().unwrap();
        let error = |of: &Value| of["mape"].as_f64().unwrap();
        let (name, worst) = networks.iter().max_by(|a, b| error(a.1).total_cmp(&error(b.1))).unwrap();
        let held = worst["coverage_90"].as_f64().unwrap();
        let words =
            format!("Worst is {name}, {:.1} % off; its 90 % intervals hold {held:.1} % of its rows.", error(worst));
        assert!(screen.contains(&words), "{words} is not in {screen}");
    }
    // Levels 0, 10, 30, 40, 60 and 80, as many rows of each: 0.1, 1.1, 3.1, 4.1, 6.1, 8.1 %; a tenth and more are at 80.
    assert!(screen.contains("3.6 %, a tenth of the rows by more than 8.1 %"), "{screen}");
}

#[test]
fn what_is_left_of_the_error_is_the_machines_where_it_is() {
    let mut part = Part::new(Quantity::Latency, FitMethod::Hybrid);
    let page = |part: &mut Part, factor: f64| {
        let mut fitted = part.fitted.clone();
        let again = fitted
            .rows
            .iter()
            .map(|row| perf4sight_cost::fingerprint::MeasuredRow { measured: row.measured * factor, ..row.clone() });
        let again: Vec<MeasuredRow> = again.collect();
        fitted.rows.extend(again);
        let platform = Platform::for_name("cpu").unwrap();
        part.study =
            PlannedFits::new(&part.fingerprint, fitted.observations(&platform), part.tested.observations(&platform))
                .run(|| {});
        let parts = std::slice::from_ref(part);
        first_screen(&html(parts, "")).to_owned()
    };
    assert!(page(&mut part, 1.5).contains("most is the machine"), "half as long again is worse than any error here");
    assert!(page(&mut part, 1.0001).contains("are left to the fit"));
}

#[test]
fn levels_that_were_fitted_on_are_not_called_new() {
    let rows = || gathered(Quantity::Memory, &[0, 30, 60]);
    let parts = [Part::of([rows(), rows()], Quantity::Memory, FitMethod::Hybrid)];
    let evidence = evidence(&parts, "");
    let console = evidence.protocols().to_text(None);
    assert!(!console.contains("new levels") && console.contains("levels fitted on"), "{console}");
    let html = html(&parts, "");
    assert!(!html.contains("new levels") && first_screen(&html).contains("memory: levels fitted on"));
}

#[test]
fn where_nothing_was_tested_the_method_is_not_blamed() {
    let mut part = hardly_failing();
    part.tested = GatheredRows { missing_logs: vec!["resnet18_77".into()], ..GatheredRows::default() };
    part.study = AccuracyStudy::without_fits(&part.fingerprint, &part.tested, "nothing to test on");
    let html = html(&[part], "");
    let screen = first_screen(&html);
    assert!(screen.contains("nothing to judge by") && screen.contains("resnet18_77"), "{screen}");
    assert!(!html.contains("gives no verdicts"));
}

#[test]
fn the_configuration_that_was_run_is_in_the_page() {
    let html = html(parts(), "[fingerprint]\ntrain_nets = ['<odd>']\n");
    assert!(html.contains("Configuration of this report") && html.contains("train_nets = ['&lt;odd&gt;']"));
}

#[test]
fn a_colour_means_one_thing() {
    let html = html(parts(), "");
    let names = |sign: &str| -> BTreeSet<String> {
        let entries =
            html.split("<li><svg").skip(1).filter(|entry| entry.split("</svg>").next().unwrap().contains(sign));
        entries
            .map(|entry| entry.split("</svg>").nth(1).unwrap().split("</li>").next().unwrap().trim().to_owned())
            .collect()
    };
    for series in 0..NETWORKS.len() {
        assert_eq!(
            names(&format!("var(--series-{series})")).len(),
            1,
            "{:?}",
            names(&format!("var(--series-{series})"))
        );
    }
    assert_eq!(names("var(--rival)"), BTreeSet::from(["published method".to_owned()]));
    assert!(names("var(--subject)").iter().all(|name| name.starts_with("hybrid")), "{:?}", names("var(--subject)"));
}
