//! Rows of `profiling_csvs/`: the published files, round trips, crashes mid-write, damage, provenance.

use crate::fixtures::shared;
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_cost::records::{
    ErrorEstimate, MeasurementOutcome, MemoryColumns, ProfileProvenance, ProfileRun, RowAppender, RowLog, RowReading,
    RowRecord, Variant, list, log_file, read,
};
use perf4sight_machine::{Conditions, MachineProperties};
use perf4sight_step::workload::{Quantity, Stage, Workload};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LATENCY: &str = "passed|latency|test_var|bs|dataset|net_name|model";

fn latency_file(text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("resnet18_30-gt.csv");
    fs::write(&file, text).unwrap();
    (folder, file)
}

fn read_latency(text: &str) -> perf4sight_base::error::Result<RowLog> {
    let (_folder, file) = latency_file(text);
    read(&file, Quantity::Latency, Stage::Training)
}

fn row(batch: u64, latency: &str) -> String {
    let passed = if latency == "None" { "False" } else { "True" };
    format!("{passed}|{latency}|latency|{batch}|imagenet|resnet18|/on/the/device/resnet18_30.py\n")
}

#[test]
fn every_published_row_is_read_unchanged() {
    let Some(folder) = shared("tx2/profiling_csvs") else { return };
    let networks = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"];
    let mut rows = 0;
    let mut failed = 0;
    let mut repeats = BTreeMap::new();
    for quantity in Quantity::ALL {
        let files = list(&folder.join(quantity.name()), networks).unwrap();
        assert_eq!(files.len(), 5 * 19);
        for (variant, file) in files {
            let log = read(&file, quantity, Stage::Training).unwrap();
            assert!(log.records.iter().all(|record| record.variant == variant && record.quantity() == quantity));
            assert_eq!(log.torn, None);
            rows += log.records.len();
            failed += log.records.iter().filter(|record| record.value().is_none()).count();
            let more: usize = log.duplicates.iter().map(|duplicate| duplicate.lines.len() - 1).sum();
            *repeats.entry((variant.network, quantity)).or_insert(0) += more;
        }
    }
    // Counted with awk over the same files: lines that begin with True and False; repeated batch sizes per network.
    assert_eq!((rows, failed), (3110 + 1675, 1675));
    assert_eq!(repeats[&("resnet18".into(), Quantity::Memory)], 27);
    assert_eq!(repeats[&("mnasnet".into(), Quantity::Memory)], 190);
    assert_eq!(repeats[&("resnet18".into(), Quantity::Latency)], 7);
    assert_eq!(repeats.values().sum::<usize>(), 27 + 190 + 7);
}

#[test]
fn cells_are_found_by_name_and_foreign_columns_are_ignored() {
    let log = read_latency(
        "colour|model|net_name|bs|latency|passed|test_var|dataset\n\
         red|x/resnet18_30.onnx|resnet18|4|1.5|True|latency|imagenet\n",
    );
    let record = &log.unwrap().records[0];
    assert_eq!(record.variant, Variant::new("resnet18", 30));
    assert_eq!(record.workload, Workload::published(Stage::Training, 4));
    assert_eq!(record.value(), Some(1.5));
}

#[test]
fn a_failed_row_has_no_value_whatever_its_cells_hold() {
    for missing in ["None", "-1"] {
        let log = read_latency(&format!("{LATENCY}\n{}", row(4, "None").replace("None", missing))).unwrap();
        assert_eq!((log.records[0].value(), log.records[0].outcome), (None, MeasurementOutcome::OutOfMemory));
    }
}

#[test]
fn damage_is_told_with_file_line_column_and_remedy() {
    let cases = [
        ("passed,latency\nTrue,3\n".to_owned(), "-gt.csv:1: the header lacks passed, latency, test_var"),
        (format!("{LATENCY}\n{}{}", row(4, "fast"), row(8, "2.0")), "-gt.csv:2: latency holds \"fast\""),
        (format!("{LATENCY}\n{}", row(4, "fast")), "-gt.csv:2: latency holds \"fast\""),
        (format!("{LATENCY}\n{}", row(4, "-3.0")), "expected: a number above 0"),
        (format!("{LATENCY}\n{}", row(0, "3.0")), "-gt.csv:2: bs holds \"0\""),
        (format!("{LATENCY}\nTrue|None|latency|4|imagenet|resnet18|a/resnet18_30.py\n"), "passed = True"),
        (format!("{LATENCY}\nTrue|1.0\n{}", row(8, "2.0")), "-gt.csv:2: the row has 2 cells, the header 7"),
        (format!("{LATENCY}\n{}", row(4, "1").replace("True", "yes")), "expected: True or False"),
        (format!("{LATENCY}\n{}", row(4, "1").replace("_30.py", ".py")), "names no variant"),
        (format!("{LATENCY}\n{}", row(4, "1").replace(".py", "")), "expected: the path of a .onnx or .py file"),
        (format!("{LATENCY}\n{}", row(4, "1").replace("|latency|", "|memory|")), "a memory row among latency rows"),
    ];
    for (text, message) in cases {
        let error = read_latency(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}\nlacks {message}\nfor {text}");
    }
    let (_folder, file) = latency_file("");
    fs::write(&file, b"\xff\xfe\n\x00\n").unwrap();
    let error = read(&file, Quantity::Latency, Stage::Training).unwrap_err().to_string();
    assert!(error.contains("no text"), "{error}");
}

/// Cut after every byte, the file reads as its whole rows; nothing is invented and nothing else is lost.
#[test]
fn a_row_cut_off_anywhere_is_left_out_and_mended() {
    let records: Vec<RowRecord> = [4, 8].map(|batch| latency_record(batch, Some(0.1 * batch as f64))).to_vec();
    let folder = TempDir::new().unwrap();
    let file = written(folder.path(), &records);
    let whole = fs::read(&file).unwrap();
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    for cut in 0..whole.len() {
        fs::write(&file, &whole[..cut]).unwrap();
        // A row is whole with its last cell, its line break may be missing.
        let rows = ends[1..].iter().filter(|&&end| cut >= end).count();
        let log = read(&file, Quantity::Latency, Stage::Training).unwrap();
        assert_eq!(log.records, records[..rows], "cut at {cut}");
        let torn = log.torn.is_some();
        // Nothing of an empty file was cut off.
        let whole = cut == 0 || ends[1..].contains(&cut) || ends.iter().any(|end| cut == end + 1);
        assert_eq!(torn, !whole, "cut at {cut}");
        assert_eq!(!log.warnings().is_empty(), torn);

        let more = latency_record(16, Some(2.5));
        open(folder.path()).append(&more).unwrap();
        let mended = read(&file, Quantity::Latency, Stage::Training).unwrap();
        assert_eq!(mended.torn, None);
        assert_eq!(mended.records, [&records[..rows], &[more]].concat(), "cut at {cut}");
    }
}

#[test]
fn duplicates_are_kept_counted_and_named() {
    let log = read_latency(&format!("{LATENCY}\n{}{}{}", row(4, "1.0"), row(8, "2.0"), row(4, "1.1"))).unwrap();
    assert_eq!(log.records.len(), 3);
    assert_eq!(log.duplicates.len(), 1);
    assert_eq!(log.duplicates[0].lines, [2, 4]);
    let warning = &log.warnings()[0];
    assert!(
        warning.contains("1 rows") && warning.contains("resnet18_30 training bs 4 latency on lines 2, 4"),
        "{warning}"
    );
}

#[test]
fn a_file_of_the_version_before_visits_is_continued() {
    let folder = TempDir::new().unwrap();
    let file = written(folder.path(), &[latency_record(4, Some(1.5)), latency_record(8, Some(2.5))]);
    let now = fs::read_to_string(&file).unwrap();
    let before = now.replace("|visits|", "|").replace("|None|published|measured", "|published|measured");
    assert!(before.len() < now.len());
    fs::write(&file, before).unwrap();
    assert_eq!(read(&file, Quantity::Latency, Stage::Training).unwrap().records[0], latency_record(4, Some(1.5)));
    let appender = open(folder.path());
    assert_eq!(fs::read_to_string(&file).unwrap(), now);
    let visited = RowRecord { visits: vec![2.5, 2.4], ..latency_record(8, Some(2.4)) };
    appender.replace(&latency_record(8, Some(2.5)), &visited).unwrap();
    let rows = read(&file, Quantity::Latency, Stage::Training).unwrap().records;
    assert_eq!(rows, [latency_record(4, Some(1.5)), visited]);
    assert!(appender.replace(&latency_record(8, Some(2.5)), &rows[0]).unwrap_err().to_string().contains("has gone"));
}

/// What is written today, cell by cell.
#[test]
fn rows_are_written_as_ever() {
    let folder = TempDir::new().unwrap();
    let latency = RowRecord { visits: vec![1.5, 1.625], ..latency_record(4, Some(1.5)) };
    let latency = fs::read_to_string(written(folder.path(), &[latency])).unwrap();
    assert_eq!(
        latency,
        format!("{LATENCY}|stage|steps|spread|visits|step|outcome\n")
            + "True|1.5|latency|4|imagenet|resnet18|resnet18_30.onnx|training|3|0.0125|1.5 1.625|published|measured\n"
    );
    let memory = fs::read_to_string(written(folder.path(), &[memory_record(4)])).unwrap();
    assert_eq!(
        memory,
        "passed|mem_alloc|mem_reserved|mem_used|mem_avail|free|capacity|test_var|bs|dataset|net_name|model|stage|steps|spread|mem_heap|step|outcome\n\
         True|1|2|3.5|9|None|8192|memory|4|imagenet|resnet18|resnet18_30.onnx|training|3|0.0125|None|published|measured\n"
    );
}

/// Whatever of our columns a file lacks, and however it ends its lines, its cells stay as they are and say what they said.
#[test]
fn a_file_of_fewer_columns_is_continued() {
    let whole = "passed|latency|test_var|bs|dataset|net_name|model|stage|steps|spread|visits|step|outcome\n\
                 True|1.50|latency|4|imagenet|resnet18|a/resnet18_30.py|inference|3|0.0125|1.50 1.6|published|measured\n\
                 False|-1|latency|8|imagenet|resnet18|a/resnet18_30.py|inference|None|None|None|published|crashed\n";
    let (folder, variant) = (TempDir::new().unwrap(), Variant::new("resnet18", 30));
    let file = log_file(folder.path(), Quantity::Latency, &variant);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let opened = |text: String| {
        fs::write(&file, text).unwrap();
        let (_, log) = RowAppender::open(folder.path(), &variant, Quantity::Latency, Stage::Training).unwrap();
        (log.unwrap().records, fs::read_to_string(&file).unwrap())
    };
    // Without the columns at these places; their cells become `None`.
    for lacking in [&[8][..], &[9], &[10], &[11], &[8, 9, 10, 11]] {
        let kept = |line: &str, fill: Option<&str>| {
            let cell = |(place, cell)| if lacking.contains(&place) { fill } else { Some(cell) };
            line.split('|').enumerate().filter_map(cell).collect::<Vec<_>>().join("|") + "\n"
        };
        let older: String = whole.lines().map(|line| kept(line, None)).collect();
        let (header, rows) = whole.split_once('\n').unwrap();
        let mended: String = rows.lines().map(|line| kept(line, Some("None"))).collect();
        let (records, text) = opened(older);
        assert_eq!(text, format!("{header}\n{mended}"));
        assert_eq!(read(&file, Quantity::Latency, Stage::Training).unwrap().records, records);
    }
    let (records, _) = opened(whole.to_owned());
    for same in [whole.replace('\n', "\r\n"), whole.replace('\n', "\n\n")] {
        assert_eq!(opened(same), (records.clone(), whole.to_owned()));
        // The row that is meant is the one replaced.
        open(folder.path()).replace(&records[1], &records[0]).unwrap();
        let replaced = read(&file, Quantity::Latency, Stage::Training).unwrap().records;
        assert_eq!(replaced, [records[0].clone(), records[0].clone()]);
    }
}

#[test]
fn a_last_number_without_the_end_of_its_line_may_have_been_a_longer_one() {
    let log = read_latency(
        "passed|test_var|bs|dataset|net_name|model|stage|outcome|latency\n\
                            True|latency|4|imagenet|resnet18|resnet18_30.py|training|measured|12.5\n\
                            True|latency|8|imagenet|resnet18|resnet18_30.py|training|measured|2",
    );
    let log = log.unwrap();
    assert_eq!((log.records.len(), log.torn), (1, Some(3)));
}

#[test]
fn a_file_with_other_columns_is_not_continued() {
    let folder = TempDir::new().unwrap();
    let variant = Variant::new("resnet18", 30);
    let file = log_file(folder.path(), Quantity::Latency, &variant);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("{LATENCY}\n{}", row(4, "1.0"))).unwrap();
    let error = RowAppender::open(folder.path(), &variant, Quantity::Latency, Stage::Training).unwrap_err().to_string();
    assert!(error.contains("other columns") && error.contains("log_dir"), "{error}");
}

#[test]
fn the_published_columns_come_first() {
    let header = |file: &Path| fs::read_to_string(file).unwrap().lines().next().unwrap().to_owned();
    let folder = TempDir::new().unwrap();
    let latency = written(folder.path(), &[latency_record(4, Some(1.5))]);
    assert_eq!(header(&latency), format!("{LATENCY}|stage|steps|spread|visits|step|outcome"));
    let Some(published) = shared("tx2/profiling_csvs/memory/resnet18_0-gt.csv") else { return };
    let memory = written(folder.path(), &[memory_record(4)]);
    assert!(header(&memory).starts_with(&header(&published)));
}

/// Bytes where MiB belong, as in a file of another program: 3.5 MiB are 3,670,016 of them.
#[test]
fn a_step_that_used_more_than_its_device_has_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = written(folder.path(), &[memory_record(1)]);
    assert!(read(&file, Quantity::Memory, Stage::Training).is_ok());
    let rows = fs::read_to_string(&file).unwrap();
    assert!(rows.contains("|3.5|"), "{rows}");
    fs::write(&file, rows.replace("|3.5|", "|3670016|")).unwrap();
    let error = read(&file, Quantity::Memory, Stage::Training).unwrap_err().to_string();
    assert!(error.contains("a step used 3584.00 GiB of a device that has 8.00 GiB"), "{error}");
    assert!(error.contains("mem_used and capacity in MiB"), "{error}");
}

#[test]
fn provenance_says_what_differs_and_how_to_start_anew() {
    let folder = TempDir::new().unwrap();
    let setting = |threads: &str, kernel: Option<&str>| -> MachineProperties {
        let kernel = kernel.map(|kernel| ("kernel".to_owned(), kernel.to_owned()));
        [("threads".to_owned(), threads.to_owned())].into_iter().chain(kernel).collect()
    };
    let learned =
        ErrorEstimate { measured: 2, seconds: 1.0, stage: Stage::Training, quantity: Quantity::Latency, error: 7.5 };
    let run = ProfileRun {
        date: "2021-05-04T00:00:00Z".into(),
        seconds: 1.5,
        measuring: 1.2,
        waiting: 0.0,
        rows: 3,
        learned: vec![learned],
        visits: None,
        networks: BTreeMap::new(),
        seed: 7,
        conditions: Conditions::default(),
        config: String::new(),
    };
    let provenance = ProfileProvenance { setting: setting("2", None), runs: vec![run] };
    assert_eq!(ProfileProvenance::load(folder.path()).unwrap(), None);
    provenance.save(folder.path()).unwrap();
    assert_eq!(ProfileProvenance::load(folder.path()).unwrap(), Some(provenance.clone()));
    assert!(provenance.check_continues(&setting("2", None), folder.path()).is_ok());
    let error = provenance.check_continues(&setting("4", Some("6.1")), folder.path()).unwrap_err().to_string();
    assert!(error.contains("threads was 2, is 4") && error.contains("kernel was unknown, is 6.1"), "{error}");
    assert!(error.contains("help: start again"), "{error}");
    let older = r#"{"setting":{"threads":"2"},"runs":[{"date":"2021-05-04T00:00:00Z","seconds":1.5,"rows":3,"seed":7,"config":""}]}"#;
    fs::write(folder.path().join("provenance.json"), older).unwrap();
    let older = ProfileProvenance::load(folder.path()).unwrap().unwrap();
    assert_eq!((older.runs[0].measuring, older.setting.get("target")), (0.0, None), "before these were kept");
    fs::write(folder.path().join("provenance.json"), "{\"setting\":").unwrap();
    assert!(ProfileProvenance::load(folder.path()).unwrap_err().to_string().contains("provenance.json:1:"));
}

fn latency_record(batch: u64, latency: Option<f64>) -> RowRecord {
    let workload = Workload::published(Stage::Training, batch);
    let outcome = if latency.is_some() { MeasurementOutcome::Measured } else { MeasurementOutcome::OutOfMemory };
    let reading = RowReading::Latency(latency.map(Milliseconds));
    let record = RowRecord::new(Variant::new("resnet18", 30), workload, outcome, reading);
    RowRecord { dataset: "imagenet".into(), steps: Some(3), spread: Some(0.0125), ..record }
}

fn memory_record(batch: u64) -> RowRecord {
    let mib = |mib| Some(Bytes::from_mib(mib));
    let memory = MemoryColumns {
        allocated: mib(1.0),
        reserved: mib(2.0),
        used: mib(3.5),
        available: mib(9.0),
        capacity: mib(8192.0),
        ..MemoryColumns::default()
    };
    RowRecord { reading: RowReading::Memory(memory), ..latency_record(batch, Some(1.0)) }
}

fn open(log_dir: &Path) -> RowAppender {
    RowAppender::open(log_dir, &Variant::new("resnet18", 30), Quantity::Latency, Stage::Training).unwrap().0
}

/// The file that holds `records`, all of one variant and quantity.
fn written(log_dir: &Path, records: &[RowRecord]) -> PathBuf {
    let (variant, quantity) = (&records[0].variant, records[0].quantity());
    fs::create_dir_all(log_dir.join(quantity.name())).unwrap();
    for record in records {
        let (appender, _) = RowAppender::open(log_dir, variant, quantity, Stage::Inference).unwrap();
        appender.append(record).unwrap();
    }
    log_file(log_dir, quantity, variant)
}

fn any_reading(quantity: Quantity) -> BoxedStrategy<RowReading> {
    let bytes = || prop::option::of((1..1u64 << 50).prop_map(Bytes));
    match quantity {
        Quantity::Latency => (1e-6..1e9f64).prop_map(|ms| RowReading::Latency(Some(Milliseconds(ms)))).boxed(),
        Quantity::Memory => prop::array::uniform7(bytes())
            .prop_map(|[allocated, reserved, used, available, free, capacity, heap]| {
                let used = used.map(|used| capacity.map_or(used, |capacity| used.min(capacity)));
                RowReading::Memory(MemoryColumns { allocated, reserved, used, available, free, capacity, heap })
            })
            .boxed(),
    }
}

/// Records of one variant and quantity, as a profile has them: what passed has all its values.
fn any_records() -> impl Strategy<Value = Vec<RowRecord>> {
    let quantity = prop::sample::select(Quantity::ALL.to_vec());
    let one = |quantity| {
        let workload = (prop::sample::select(Stage::ALL.to_vec()), 1..100_000u64);
        let visits = prop::collection::vec(1e-6..1e9f64, 0..4);
        let sampling = (prop::option::of(1..1000usize), prop::option::of(0.0..1.0f64), visits);
        (workload, any_reading(quantity), sampling, prop::sample::select(MeasurementOutcome::ALL.to_vec()))
    };
    quantity.prop_flat_map(move |quantity| prop::collection::vec(one(quantity), 1..12)).prop_map(|rows| {
        rows.into_iter()
            .map(|((stage, batch), reading, (steps, spread, visits), outcome)| {
                let complete = match reading {
                    RowReading::Latency(latency) => latency.is_some(),
                    RowReading::Memory(m) => {
                        [m.allocated, m.reserved, m.used, m.available, m.capacity].iter().all(Option::is_some)
                    }
                };
                let outcome = if complete { outcome } else { MeasurementOutcome::OutOfMemory };
                let workload = Workload::published(stage, batch);
                // Memory is read once.
                let visits = if matches!(reading, RowReading::Latency(_)) { visits } else { Vec::new() };
                RowRecord { workload, outcome, reading, steps, spread, visits, ..latency_record(1, None) }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(records in any_records()) {
        let folder = TempDir::new().unwrap();
        let file = written(folder.path(), &records);
        let log = read(&file, records[0].quantity(), Stage::Training).unwrap();
        prop_assert_eq!(log.records, records);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[|0-9a-zA-Z._\n\r\"-]{0,200}") {
        let _ = read_latency(&text);
        let _ = read_latency(&format!("{LATENCY}\n{text}"));
    }
}
