//! Repetitions: every step is timed at least twice, apart in time; what is doubtful is visited again, and marked where that does not help.

use crate::device::script_worker;
use crate::fixtures::{Sink, context};
use perf4sight_base::units::Bytes;
use perf4sight_cost::device::Device;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::protocol::StepRule;
use perf4sight_cost::plan::{Configuration, GridPlan, Repetitions};
use perf4sight_cost::records;
use perf4sight_cost::records::{CONDITIONS_FILE, ProfileProvenance, RowRecord, Variant};
use perf4sight_cost::verbs::profile::{MeasurementRun, PlannedMeasurement, ProfileCounts, ProfileLog};
use perf4sight_machine::LocalMachine;
use perf4sight_report::OutputMode;
use perf4sight_step::workload::{Quantity, Stage, Variable, Workload};
use serde_json::Value;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A worker's answer: the time of a step, whether others disturbed it, how fast the processor was and what it promises.
fn answer(milliseconds: f64, disturbed: bool, megahertz: f64) -> String {
    format!(
        r#"{{"outcome":"measured","latency":{{"median":{milliseconds},"spread":0.01,"steps":9,"discarded":0,"disturbed":{disturbed}}},
           "memory":null,"seconds":0.5,"conditions":{{
           "start":{{"clocks":{{"cpu":800}},"temperatures":{{"pkg":40}}}},
           "end":{{"clocks":{{"cpu":{megahertz}}},"promised":{{"cpu":2000}},"temperatures":{{"pkg":71.5}}}}}}}}"#
    )
    .replace('\n', " ")
}

/// What became of one configuration whose worker gives these answers, one after the other.
struct Profiled {
    folder: TempDir,
    counts: ProfileCounts,
    warnings: String,
}

impl Profiled {
    fn with(answers: &[String]) -> Self {
        let folder = TempDir::new().unwrap();
        for (number, answer) in answers.iter().enumerate() {
            fs::write(folder.path().join(number.to_string()), answer).unwrap();
        }
        let at = folder.path().display();
        let script = format!(
            "read request; count=$(ls {at}/asked* 2>/dev/null | wc -l); touch {at}/asked$count; cat {at}/$count"
        );
        let device = Hardware {
            kind: DeviceKind::Cpu,
            machine: Arc::new(LocalMachine),
            gpu: Default::default(),
            worker: script_worker(script),
            threads: 1,
            mem_limit: Some(Bytes(1 << 30)),
            timeout: Duration::from_secs(20),
            seed: 0,
            steps: StepRule::default(),
        };
        let variant = Variant::new("net", 0);
        let workload = Workload::published(Stage::Training, 4);
        let configuration = Configuration { variant, workload, variables: vec![Variable::Latency], round: 1 };
        let planned = [PlannedMeasurement { configuration, file: "net_0.onnx".into(), dataset: "imagenet".into() }];
        let (out, err) = (Sink::default(), Sink::default());
        let mut context = context(OutputMode::Normal, &out, &err);
        let log_dir = folder.path().join("logs");
        let log = ProfileLog::open(&log_dir, &planned, (&device.setting(), 0), Duration::ZERO, &mut context).unwrap();
        let run = MeasurementRun { devices: &[&device], planned: &planned, till_first_fail: false };
        let all = [planned[0].configuration.clone()];
        let mut plan = Repetitions::new(Box::new(GridPlan::new(all.to_vec())), &all, 2, None);
        let counts = run.run(&mut plan, Some(log), &mut context).unwrap();
        Profiled { folder, counts, warnings: context.warnings().join("\n") }
    }

    fn asked(&self) -> usize {
        let files = fs::read_dir(self.folder.path()).unwrap();
        files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("asked")).count()
    }

    /// Outcome and value of the row.
    fn row(&self) -> (String, Option<f64>) {
        let row = self.record();
        (row.outcome.to_string(), row.value())
    }

    fn record(&self) -> RowRecord {
        let file = records::log_file(&self.folder.path().join("logs"), Quantity::Latency, &Variant::new("net", 0));
        let rows: Vec<RowRecord> = records::read(&file, Quantity::Latency, Stage::Training).unwrap().records;
        let [row] = rows.as_slice() else { panic!("{} rows", rows.len()) };
        row.clone()
    }

    /// Outcome, time and whether it was kept, of every run of the worker.
    fn runs(&self) -> Vec<(String, f64, bool)> {
        let text = fs::read_to_string(self.folder.path().join("logs").join(CONDITIONS_FILE)).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| {
                assert_eq!((&line["network"], &line["batch"]), (&"net".into(), &4.into()));
                assert_eq!(line["end"]["temperatures"]["pkg"], 71.5);
                (line["outcome"].as_str().unwrap().into(), line["milliseconds"].as_f64().unwrap(), line["kept"] == true)
            })
            .collect()
    }
}

#[test]
fn a_step_is_timed_in_two_visits_whose_disagreement_is_its_spread() {
    let profiled = Profiled::with(&[answer(10.4, false, 3000.0), answer(10.0, false, 3000.0)]);
    assert_eq!((profiled.asked(), profiled.row()), (2, ("measured".into(), Some(10.0))));
    let row = profiled.record();
    assert_eq!((row.visits, row.steps), (vec![10.4, 10.0], Some(18)));
    // Half of 0.4 relative to the quicker one.
    assert!((row.spread.unwrap() - 0.02).abs() < 1e-9);
    assert_eq!(profiled.runs(), [("measured".into(), 10.4, true), ("measured".into(), 10.0, true)]);
    assert_eq!(profiled.warnings, "");
    let reply = profiled.counts.repeatability.unwrap();
    assert_eq!((reply.rows, reply.single, reply.more, reply.marked), (1, 0, 0, 0));
    assert!((reply.median - 0.02).abs() < 1e-9);
    let provenance = ProfileProvenance::load(&profiled.folder.path().join("logs")).unwrap().unwrap();
    assert_eq!(provenance.runs[0].visits, Some(reply));
}

#[test]
fn visits_that_disagree_are_followed_by_more() {
    let slow = [355.0, 252.0, 254.0].map(|time| answer(time, false, 3000.0));
    let profiled = Profiled::with(&slow);
    assert_eq!((profiled.asked(), profiled.row()), (3, ("measured".into(), Some(252.0))));
    let never = [355.0, 252.0, 300.0, 400.0].map(|time| answer(time, false, 3000.0));
    let profiled = Profiled::with(&never);
    assert_eq!((profiled.asked(), profiled.row().0.as_str()), (4, "disturbed"), "as far as it goes, and then marked");
    assert_eq!(profiled.counts.repeatability.unwrap().marked, 1);
}

#[test]
fn a_doubtful_visit_gives_way_to_clean_ones() {
    for (doubtful, word) in [(answer(15.0, true, 3000.0), "disturbed"), (answer(15.0, false, 1200.0), "throttled")] {
        let profiled = Profiled::with(&[doubtful, answer(10.0, false, 3000.0), answer(10.1, false, 3000.0)]);
        assert_eq!((profiled.asked(), profiled.row()), (3, ("measured".into(), Some(10.0))));
        assert_eq!(profiled.record().visits, [10.0, 10.1]);
        let runs = [(word.into(), 15.0, true), ("measured".into(), 10.0, true), ("measured".into(), 10.1, true)];
        assert_eq!(profiled.runs(), runs);
    }
}

#[test]
fn what_stays_doubtful_is_marked() {
    let profiled = Profiled::with(&[answer(15.0, false, 1200.0), answer(16.0, true, 3000.0)]);
    assert_eq!((profiled.asked(), profiled.row()), (2, ("throttled".into(), Some(15.0))));
    assert_eq!(profiled.runs(), [("throttled".into(), 15.0, true), ("disturbed".into(), 16.0, true)]);
    let after = Profiled::with(&[answer(15.0, false, 3000.0), answer(30.0, true, 3000.0), answer(15.1, false, 3000.0)]);
    assert_eq!(after.record().visits, [15.0, 15.1], "a doubtful visit adds nothing to a clean one");
}

#[test]
fn a_second_visit_that_fails_changes_nothing_and_is_told() {
    let profiled = Profiled::with(&[answer(15.0, true, 3000.0), "rubbish".into()]);
    assert_eq!((profiled.asked(), profiled.row()), (2, ("disturbed".into(), Some(15.0))));
    assert_eq!(profiled.counts.failures.count(), 1);
}

#[test]
fn provenance_holds_the_conditions_at_both_ends_of_a_run() {
    let profiled = Profiled::with(&[answer(10.1, false, 1900.0), answer(10.0, false, 3000.0)]);
    let provenance = ProfileProvenance::load(&profiled.folder.path().join("logs")).unwrap().unwrap();
    let conditions = &provenance.runs[0].conditions;
    assert_eq!((conditions.start.clocks["cpu"], conditions.end.clocks["cpu"]), (800.0, 3000.0));
    assert_eq!((conditions.start.temperatures["pkg"], conditions.end.temperatures["pkg"]), (40.0, 71.5));
    // Half a second of steps each.
    assert_eq!(provenance.runs[0].measuring, 1.0);
}
