//! Layer rows: written, read back, torn, refused.

use perf4sight_base::units::Milliseconds;
use perf4sight_cost::records::layers;
use perf4sight_cost::records::layers::{LayerAppender, LayerOperation, LayerRecord, StepPart};
use perf4sight_cost::records::{MeasurementOutcome, RowReading, RowRecord, Variant};
use perf4sight_step::workload::{Stage, Workload};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn row(batch: u64, operation: Option<LayerOperation>, pass: StepPart, milliseconds: f64) -> LayerRecord {
    let workload = Workload::published(Stage::Training, batch);
    let outcome = if batch == 4 { MeasurementOutcome::Disturbed } else { MeasurementOutcome::Measured };
    let reading = RowReading::Latency(Some(Milliseconds(milliseconds)));
    let record = RowRecord {
        dataset: "imagenet".into(),
        file: "nets/resnet18_30.onnx".into(),
        steps: Some(5),
        spread: Some(0.0125),
        ..RowRecord::new(Variant::new("resnet18", 30), workload, outcome, reading)
    };
    LayerRecord { record, operation, pass }
}

/// One configuration: a sum of two tensors in both passes, a token, the rest of the step, the plain step.
fn configuration(batch: u64) -> Vec<LayerRecord> {
    let image = || vec![64, 56, 56];
    let sum = LayerOperation {
        node: "layer1.0.add".into(),
        op: "add".into(),
        inputs: vec![image(), image()],
        output: image(),
        parameters: 0,
    };
    let token = LayerOperation {
        node: "token".into(),
        op: "parameter".into(),
        inputs: vec![],
        output: vec![1, 8],
        parameters: 8,
    };
    vec![
        row(batch, Some(token), StepPart::Forward, 0.001),
        row(batch, Some(sum.clone()), StepPart::Forward, 0.25),
        row(batch, Some(sum), StepPart::Backward, 0.5),
        row(batch, None, StepPart::Loss, 0.0625),
        row(batch, None, StepPart::ZeroGrad, 0.75),
        row(batch, None, StepPart::Optimizer, 1.5),
        row(batch, None, StepPart::Step, 3.1),
    ]
}

fn open(log_dir: &Path) -> (LayerAppender, Vec<LayerRecord>) {
    let (appender, log) = LayerAppender::open(log_dir, &Variant::new("resnet18", 30)).unwrap();
    (appender, log.map_or(Vec::new(), |log| log.records))
}

/// A folder with the layers of two configurations, and their file.
fn written() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("layers")).unwrap();
    for batch in [2, 4] {
        open(folder.path()).0.append(&configuration(batch)).unwrap();
    }
    let file = layers::file(folder.path(), &Variant::new("resnet18", 30));
    (folder, file)
}

#[test]
fn layer_rows_are_read_back_as_they_were_written() {
    let (folder, file) = written();
    assert!(file.ends_with("layers/resnet18_30-gt.csv"));
    let log = layers::read(&file).unwrap();
    assert_eq!((log.records, log.torn), ([configuration(2), configuration(4)].concat(), None));
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The published columns and their order first.
    assert!(lines[0].starts_with("passed|latency|test_var|bs|dataset|net_name|model|stage|"), "{}", lines[0]);
    let sum = "|layer1.0.add|add|forward|64x56x56+64x56x56|64x56x56|0|published|measured";
    let start = "True|0.25|layers|2|imagenet|resnet18|nets/resnet18_30.onnx|training|5|0.0125";
    assert_eq!(lines[2], format!("{start}{sum}"));
    assert_eq!(open(folder.path()).1.len(), 14);
}

#[test]
fn a_configuration_cut_off_anywhere_is_left_out_and_measured_again() {
    let (folder, file) = written();
    let whole = fs::read(&file).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    // The row of the first configuration's whole step, behind the columns' names.
    let first = text.match_indices("|step|").find(|(at, _)| text[..*at].contains('\n')).unwrap().0;
    let first = first + text[first..].find('\n').unwrap() + 1;
    for cut in first + 1..whole.len() - 1 {
        fs::write(&file, &whole[..cut]).unwrap();
        let log = layers::read(&file).unwrap();
        assert_eq!((log.records.len(), log.torn.is_some()), (7, true), "cut at {cut}");
        assert!(log.warning(&file).unwrap().contains("cut off by a crash"));
    }
    let (appender, rows) = open(folder.path());
    assert_eq!(rows, configuration(2));
    appender.append(&configuration(4)).unwrap();
    assert_eq!(fs::read(&file).unwrap(), whole);
    // Without its last line break only, nothing is missing.
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(open(folder.path()).1.len(), 14);
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[test]
fn what_is_no_layer_row_is_refused_with_its_place() {
    let (folder, file) = written();
    let text = fs::read_to_string(&file).unwrap();
    for (from, to, message) in [
        ("|pass|", "|part|", "the header lacks pass"),
        ("|forward|", "|foward|", "did you mean \"forward\"?"),
        ("64x56x56+", "64x56xn+", "inputs holds \"64x56xn+64x56x56\""),
        ("|layers|", "|latency|", "a latency row among layers rows"),
        ("True|0.25", "True|-0.25", "latency holds \"-0.25\""),
    ] {
        fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let error = layers::read(&file).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("resnet18_30-gt.csv:"), "{error}");
    }
    // Rows of other columns are not continued, though they could be read.
    fs::write(&file, text.lines().map(|line| format!("{line}|more\n")).collect::<String>()).unwrap();
    assert_eq!(layers::read(&file).unwrap().records.len(), 14);
    let error = LayerAppender::open(folder.path(), &Variant::new("resnet18", 30)).unwrap_err().to_string();
    assert!(error.contains("other columns"), "{error}");
}
