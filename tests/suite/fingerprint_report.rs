//! The report of a fingerprint: its files, the keys programs rely on, what it says in words, and equal bytes for equal runs.

use perf4sight::evaluation::Evaluation;
use perf4sight::fingerprint::{Attempt, Fingerprint, Gathered, Method, Row, Subject};
use perf4sight::network::Network;
use perf4sight::network::zoo::{self, Dataset};
use perf4sight::records::{MemoryColumns, Outcome, Provenance, Reading, Record, Run, Variant};
use perf4sight::report::Cell;
use perf4sight::stages::fingerprint::report::{Assessment, Evidence};
use perf4sight::target::Target;
use perf4sight::units::{Bytes, Milliseconds};
use perf4sight::workload::{Quantity, Stage, Workload};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const NETWORKS: [&str; 3] = ["resnet18", "mobilenetv2", "squeezenet"];
const BATCHES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CAPACITY: Bytes = Bytes(4 << 30);

/// Rows of a device whose cost follows from operations and activations, give or take some percent.
fn gathered(quantity: Quantity, levels: &[u8]) -> Gathered {
    let mut gathered = Gathered::default();
    for name in NETWORKS {
        let network = Arc::new(zoo::build(name, Dataset::Imagenet).unwrap());
        for (level, batch) in levels.iter().flat_map(|level| BATCHES.map(|batch| (*level, batch))) {
            let record = record(&network, Variant::new(name, level), batch, quantity);
            match record.value() {
                Some(measured) => gathered.rows.push(Row { record, measured, network: network.clone() }),
                None => gathered.failed.push(Attempt { record, network: network.clone() }),
            }
        }
    }
    gathered.missing_logs.push("resnet18_95".into());
    gathered
}

fn record(network: &Network, variant: Variant, batch: u64, quantity: Quantity) -> Record {
    let scatter = 1.0 + 0.04 * ((batch * 31 + u64::from(variant.level) * 7) % 11) as f64 / 11.0;
    let used = 150.0 + network.activations() as f64 * batch as f64 * 30.0 / 1e6 * scatter;
    let latency = 2.0 + network.macs() as f64 * batch as f64 / 2e7 * scatter;
    let outcome = match used / CAPACITY.mib() {
        share if share <= 1.0 => Outcome::Measured,
        share if share <= 2.0 => Outcome::OutOfMemory,
        _ => Outcome::Skipped,
    };
    let memory = MemoryColumns { used: Some(Bytes::from_mib(used)), capacity: Some(CAPACITY), ..Default::default() };
    Record {
        file: format!("{variant}.onnx").into(),
        variant,
        workload: Workload { stage: Stage::Training, batch },
        dataset: "imagenet".into(),
        outcome,
        reading: match quantity {
            Quantity::Latency => Reading::Latency(outcome.passed().then_some(Milliseconds(latency))),
            Quantity::Memory => Reading::Memory(memory),
        },
        steps: outcome.passed().then_some(5),
        spread: None,
    }
}

/// One quantity, fitted and tested.
struct Part {
    fingerprint: Fingerprint,
    fitted: Gathered,
    tested: Gathered,
    evaluation: Evaluation,
}

impl Part {
    fn new(quantity: Quantity) -> Self {
        let (fitted, tested) = (gathered(quantity, &[0, 30, 60]), gathered(quantity, &[10, 40, 60, 80]));
        let subject = Subject { device: "bench".into(), dataset: "imagenet".into(), stage: Stage::Training, quantity };
        let target = Target::named("cpu").unwrap();
        let fingerprint = Fingerprint::fit(subject, Method::Perf4sight, 7, &fitted.observations(&target)).unwrap();
        let evaluation = Evaluation::of(&fingerprint, &tested.rows);
        Part { fingerprint, fitted, tested, evaluation }
    }

    fn assessment(&self) -> Assessment<'_> {
        let Part { fingerprint, fitted, tested, evaluation } = self;
        Assessment { fingerprint, fitted: Some(fitted), tested, evaluation }
    }
}

fn evidence<'a>(parts: &'a [Part], date: &str) -> Evidence<'a> {
    let run = Run { date: date.into(), seconds: 83.0, measuring: 70.0, rows: 168, seed: 7, config: String::new() };
    Evidence {
        device: "bench",
        dataset: "imagenet",
        stage: Stage::Training,
        assessments: parts.iter().map(Part::assessment).collect(),
        profiles: vec![Provenance { setting: BTreeMap::new(), runs: vec![run] }],
        date: date.into(),
    }
}

fn parts() -> Vec<Part> {
    Quantity::ALL.map(Part::new).into()
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn three_files_agree_with_the_evaluation() {
    let (parts, folder) = (parts(), tempfile::tempdir().unwrap());
    let written = evidence(&parts, "2026-01-01T00:00:00Z").write(&folder.path().join("new")).unwrap();
    let report = json(&written.json);
    for (part, quantity) in parts.iter().zip(["latency", "memory"]) {
        let scores = part.evaluation.scores().unwrap();
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
    assert_eq!(csv.lines().count(), 1 + parts.iter().map(|part| part.evaluation.cases.len()).sum::<usize>());
    assert!(csv.starts_with("quantity,variant,network,level,bs,unit,measured,predicted,error_percent,fitted\n"));
    let left: Vec<_> = fs::read_dir(folder.path().join("new")).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing unfinished stays behind");
}

#[test]
fn equal_runs_differ_only_in_provenance() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["2026-01-01T00:00:00Z", "2027-12-31T00:00:00Z"].map(|date| {
        let written = evidence(&parts(), date).write(&folder.path().join(date)).unwrap();
        let mut report = json(&written.json);
        report.as_object_mut().unwrap().remove("provenance").unwrap();
        let html = fs::read_to_string(&written.html).unwrap().replace(date, "");
        (report, html, fs::read_to_string(&written.predictions).unwrap())
    });
    assert!(first == second, "the same rows and seed must give the same report");
}

#[test]
fn levels_fitted_on_do_not_flatter_the_summary() {
    let parts = parts();
    let evidence = evidence(&parts, "");
    let unseen: Vec<f64> =
        parts[0].evaluation.cases.iter().filter(|case| !case.fitted).map(|case| case.error()).collect();
    let own = parts[0].evaluation.cases.iter().filter(|case| !case.fitted && case.variant.network == "resnet18");
    let errors: Vec<f64> = own.map(|case| case.error().abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let finding = evidence.findings().into_iter().find(|finding| finding.network == "resnet18").unwrap();
    assert!(unseen.len() < parts[0].evaluation.cases.len(), "level 60 is in both");
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
    let written = evidence(&parts, "2026-01-01T00:00:00Z").write(folder.path()).unwrap();
    let html = fs::read_to_string(written.html).unwrap();
    for words in ["Latency predictions are", "Memory predictions are", "at levels it was not fitted on", "resnet18_95"]
    {
        assert!(html.contains(words), "{words}");
    }
    for section in
        ["Predicted against measured", "Worst rows", "What fits into memory", "What the profile cost", "Provenance"]
    {
        assert!(html.contains(&format!("<h2>{section}</h2>")), "{section}");
    }
    assert_eq!(html.matches("batch 128: out of memory</title>").count() % 5, 0, "one cell per level");
}

#[test]
fn a_report_without_a_single_tested_row_says_so() {
    let mut part = Part::new(Quantity::Latency);
    part.evaluation.cases.clear();
    part.tested = Gathered::default();
    let parts = [part];
    let evidence = evidence(&parts, "");
    assert!(evidence.json()["latency"].is_null());
    let folder = tempfile::tempdir().unwrap();
    let html = fs::read_to_string(evidence.write(folder.path()).unwrap().html).unwrap();
    assert!(html.contains("there was no row to test it on"));
}
