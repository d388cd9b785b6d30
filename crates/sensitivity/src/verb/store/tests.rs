//! Tests of `store`.

use super::super::points::tests::run;
use super::super::points::{PointOutcome, PointRun};
use super::*;
use crate::IterationRate;
use tempfile::TempDir;

/// Of a point that was disturbed twice, and whose third run was interrupted, two runs are restored; finished, it is a
/// point.
#[test]
fn runs_of_a_point_that_is_not_finished_are_kept() {
    let folder = TempDir::new().unwrap();
    let configuration = ResourceConfiguration { cpus: 0.5, memory: None, storage: None };
    let disturbed = PointRun { outcome: PointOutcome::Disturbed { how: "others".to_owned() }, ..run(10.0, 4.0) };
    let point = MeasuredPoint { configuration, runs: vec![disturbed.clone(), disturbed] };
    let open = || PointStore::open(folder.path(), "job", false).unwrap();
    open().begin(&point).unwrap();
    let mut store = open();
    assert_eq!((store.points.len(), store.unfinished_point(configuration)), (0, point.clone()));
    assert!(store.unfinished_point(ResourceConfiguration { cpus: 1.0, ..configuration }).runs.is_empty());
    store.add(point.clone()).unwrap();
    let found = open();
    assert_eq!((found.points.len(), found.unfinished_point(configuration).runs.len()), (1, 2));
}

/// 1 CPU was disturbed every time, and 0.25 CPUs are unfinished: runs at 1 CPU do not affect them, nor does a new start
/// there. Older files have a single unfinished point.
#[test]
fn what_is_run_elsewhere_leaves_an_unfinished_point_as_it_is() {
    let folder = TempDir::new().unwrap();
    let disturbed = PointRun { outcome: PointOutcome::Disturbed { how: "others".to_owned() }, ..run(10.0, 4.0) };
    let at = |cpus: f64, runs: usize| MeasuredPoint {
        configuration: ResourceConfiguration { cpus, memory: None, storage: None },
        runs: vec![disturbed.clone(); runs],
    };
    let open = || PointStore::open(folder.path(), "job", false).unwrap();
    let mut store = open();
    store.add(at(1.0, 3)).unwrap();
    store.begin(&at(0.25, 1)).unwrap();
    let mut store = open();
    store.begin(&at(1.0, 4)).unwrap();
    assert_eq!(open().unfinished_point(at(0.25, 0).configuration), at(0.25, 1));
    assert_eq!(open().unfinished_point(at(1.0, 0).configuration), at(1.0, 4));
    store.add(at(1.0, 4)).unwrap();
    assert_eq!(open().unfinished_point(at(0.25, 0).configuration), at(0.25, 1));
    assert!(open().has_begun());
    let file = folder.path().join(FILE);
    let mut contents: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    contents["unfinished"] = contents["unfinished"][0].clone();
    std::fs::write(&file, contents.to_string()).unwrap();
    assert_eq!(open().unfinished_point(at(0.25, 0).configuration), at(0.25, 1));
}

/// Disturbed runs at 10 and 11 a second, which waited for others at most a fifth of the time.
#[test]
fn a_disturbed_point_is_as_uncertain_as_its_runs_and_due_once_more_when_it_is_found() {
    let folder = TempDir::new().unwrap();
    let disturbed = |rate: f64| PointRun {
        outcome: PointOutcome::Disturbed { how: "others".to_owned() },
        cpu_seconds: Some(5.0),
        waited: Some(0.2),
        ..run(rate, 10.0)
    };
    let configuration = ResourceConfiguration { cpus: 1.0, memory: None, storage: None };
    let point = MeasuredPoint { configuration, runs: vec![disturbed(10.0), disturbed(11.0)] };
    let rate = point.rate().unwrap();
    // 11 + (11 - 10), and 11 / (1 - 0.2).
    assert!((rate.per_second, rate.interval[0]) == (11.0, 10.0) && (rate.interval[1] - 13.75).abs() < 1e-9, "{rate:?}");
    let [least, most] = point.epoch_between(110.0).unwrap();
    // 100 iterations took 10 s including stalls: an epoch takes 11 s, with the bounds 11 s times 11 / 13.75 and 11 /
    // 10.
    assert!((least - 8.8).abs() < 1e-9 && (most - 12.1).abs() < 1e-9, "{least} {most}");
    let open = || PointStore::open(folder.path(), "job", false).unwrap();
    let mut store = open();
    store.add(point.clone()).unwrap();
    assert!(!store.is_due(configuration), "it was run again just now");
    let mut store = open();
    assert!(store.is_due(configuration));
    let mut runs = store.unfinished_point(configuration).runs;
    runs.push(run(12.0, 10.0));
    store.add(MeasuredPoint { configuration, runs }).unwrap();
    assert!(!store.is_due(configuration));
    let found = open();
    assert!(!found.is_due(configuration) && found.points.len() == 1 && found.points[0].runs.len() == 3);
    assert_eq!(found.points[0].rate().unwrap(), IterationRate::exactly(12.0), "a sound run counts");
}

/// A crash and a lack of iterations may be gone the next time; a lack of memory is a result.
#[test]
fn a_point_that_failed_is_due_once_more_and_starts_anew() {
    let folder = TempDir::new().unwrap();
    let open = || PointStore::open(folder.path(), "job", false).unwrap();
    let at = |cpus: f64| ResourceConfiguration { cpus, memory: None, storage: None };
    let (how, last_lines) = ("exit code 1".to_owned(), Vec::new());
    let outcomes = [
        PointOutcome::Crashed { how: how.clone(), last_lines: Vec::new() },
        PointOutcome::NoRate { how, reported: 0, last_lines },
        PointOutcome::OutOfMemory,
    ];
    for (cpus, outcome) in [1.0, 2.0, 3.0].into_iter().zip(outcomes) {
        let runs = vec![PointRun { outcome, measured: None, ..run(1.0, 1.0) }];
        open().add(MeasuredPoint { configuration: at(cpus), runs }).unwrap();
    }
    let store = open();
    assert_eq!([1.0, 2.0, 3.0].map(|cpus| store.is_due(at(cpus))), [true, true, false]);
    assert_eq!([1.0, 2.0, 3.0].map(|cpus| store.unfinished_point(at(cpus)).runs.len()), [0, 0, 1]);
}

/// The job of an older file has a blank behind it, where no pattern was given.
#[test]
fn what_is_stored_of_another_job_is_told() {
    let folder = TempDir::new().unwrap();
    let configuration = ResourceConfiguration { cpus: 1.0, memory: None, storage: None };
    PointStore::open(folder.path(), "python3 one.py after 5 iterations ", false)
        .unwrap()
        .add(MeasuredPoint { configuration, runs: vec![run(1.0, 1.0)] })
        .unwrap();
    assert!(PointStore::open(folder.path(), "python3 one.py after 5 iterations", false).is_ok());
    let error = PointStore::open(folder.path(), "python3 two.py after 5 iterations", false).err().unwrap().to_string();
    assert!(error.contains("one.py") && error.contains("two.py after 5 iterations\n"), "{error}");
}
