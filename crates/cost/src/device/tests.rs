//! Tests of workers' replies, of the choice of the worker and its files on other machines, and of the rows of a
//! measurement.

use super::program::{WORKER, is_own, own_words};
use super::protocol::{LatencyReading, MemoryReading};
use super::shipping::{Destination, worker};
use super::{LONGEST_REASON, Measurement, MeasurementJob, RunAllowance, one_line};
use crate::records::{MeasurementOutcome, RowRecord, Variant};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_machine::remote::{CommandBundle, SshHost};
use perf4sight_machine::{Conditions, MachineState};
use perf4sight_step::workload::{Stage, Workload};
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

#[test]
fn words_of_a_worker_stay_one_short_line() {
    assert_eq!(one_line(" a \"name\"\nerror: forged\r\u{202e} "), "a \"name\"\\nerror: forged\\r\\u{202e}");
    assert_eq!(one_line("damaged\n  expected: a file\n  help: none"), "damaged; expected: a file; help: none");
    assert_eq!(one_line(&"é".repeat(1 << 20)).chars().count(), LONGEST_REASON);
}

#[test]
fn where_there_is_no_libtorch_the_python_beside_the_program_measures() {
    let folder = TempDir::new().unwrap();
    let [program, python, worker] = ["perf4sight", "python3", WORKER].map(|name| folder.path().join(name));
    let missing = own_words(&program).unwrap_err().to_string();
    assert!(missing.contains("python3 -m perf4sight.torch_worker"), "{missing}");
    fs::write(&python, "").unwrap();
    let words = own_words(&program).unwrap();
    assert_eq!(words, [python.to_str().unwrap(), "-m", "perf4sight.torch_worker"]);
    assert!(!is_own(&words));
    fs::write(&worker, "").unwrap();
    assert_eq!(own_words(&program).unwrap(), [worker.to_str().unwrap()]);
}

fn shipped(words: &[&str], executable: &Path, architecture: &str) -> Result<CommandBundle> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let host = SshHost::parse("board").unwrap();
    worker(&words, executable, &Destination { host: &host, architecture, store: "/home/me/.cache/perf4sight" })
}

#[test]
fn words_that_are_no_lines_are_refused() {
    for words in [&["sh", "a\nb"][..], &["sh", ""]] {
        let refusal = shipped(words, Path::new(""), "aarch64").unwrap_err().to_string();
        assert!(refusal.contains("cannot be a word"), "{refusal}");
    }
}

#[test]
fn the_program_goes_along_if_it_runs_there_or_was_compiled_for_it() {
    let target = TempDir::new().unwrap();
    let executable = target.path().join("release/perf4sight");
    fs::create_dir(target.path().join("release")).unwrap();
    let missing = shipped(&[], &executable, ARCH).unwrap_err().to_string();
    assert!(missing.contains("release/perf4sight-worker is missing"), "{missing}");
    fs::write(target.path().join("release/perf4sight-worker"), "worker").unwrap();
    let own = shipped(&[], &executable, ARCH).unwrap();
    assert_eq!((own.files(), own.command.len()), (1, 1));
    assert!(is_own(&own.command), "{:?}", own.command);

    let error = shipped(&[], &executable, "riscv64").unwrap_err().to_string();
    assert!(error.contains("riscv64 processor") && error.contains("./main cross riscv64-unknown"), "{error}");
    let folder = target.path().join("perf4sight-riscv64-unknown-linux-gnu");
    fs::create_dir_all(&folder).unwrap();
    let error = shipped(&[folder.to_str().unwrap()], &executable, ARCH).unwrap_err().to_string();
    assert!(error.contains("without perf4sight"), "{error}");
    fs::write(folder.join("perf4sight"), "launcher").unwrap();
    let compiled = shipped(&[], &executable, "riscv64").unwrap();
    assert!(compiled.command[0].ends_with("/perf4sight") && is_own(&compiled.command), "{:?}", compiled.command);
    assert_eq!(shipped(&[folder.to_str().unwrap()], &executable, ARCH).unwrap(), compiled);
}

#[test]
fn only_the_time_suffers_from_others_and_from_heat() {
    let job = MeasurementJob {
        variant: Variant::new("net", 0),
        file: "net_0.onnx".into(),
        workload: Workload::published(Stage::Training, 4),
        latency: true,
        memory: true,
        layers: false,
        round: 1,
        allowance: RunAllowance::default(),
    };
    let latency = LatencyReading { median: 2.5, spread: 0.3, steps: 4, discarded: 9, disturbed: true };
    let memory = MemoryReading {
        allocated: 1 << 20,
        reserved: 2 << 20,
        used: 3 << 20,
        available: 9,
        free: 8,
        ..MemoryReading::default()
    };
    let measured_under = |latency: LatencyReading, conditions| {
        let (latency, memory, conditions) = (Some(latency), Some(memory), Box::new(conditions));
        let measurement = Measurement::Measured { latency, memory, layers: None, seconds: 0.0, conditions };
        measurement.rows(&job, "imagenet", Some(Bytes(1 << 30)))
    };
    let outcomes = |rows: &[RowRecord]| rows.iter().map(|row| row.outcome).collect::<Vec<_>>();
    let rows = measured_under(latency.clone(), Conditions::default());
    assert_eq!(outcomes(&rows), [MeasurementOutcome::Disturbed, MeasurementOutcome::Measured]);
    assert_eq!(rows.iter().map(|row| row.steps).collect::<Vec<_>>(), [Some(4), None]);
    assert_eq!(rows.iter().map(RowRecord::value).collect::<Vec<_>>(), [Some(2.5), Some(3.0)]);

    let held = MachineState { held_by: vec!["cpufreq-cpu0".to_owned()], ..MachineState::default() };
    let hot = Conditions { end: held, ..Conditions::default() };
    let rows = measured_under(LatencyReading { disturbed: false, ..latency }, hot);
    assert_eq!(outcomes(&rows), [MeasurementOutcome::Throttled, MeasurementOutcome::Measured]);
}
