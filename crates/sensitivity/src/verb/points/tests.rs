//! Tests of `points`.

use super::super::profile::{FORMAT, JobFacts, SensitivityProfile};
use super::*;
use perf4sight_machine::MachineProperties;

/// A profile of a job without data, from these points, with this most of CPUs.
pub fn profile_of(points: Vec<MeasuredPoint>, most_cpus: f64) -> SensitivityProfile {
    let job = JobFacts { name: "job".to_owned(), most_cpus, cpu_step: Some(0.25), ..JobFacts::default() };
    SensitivityProfile {
        format: FORMAT,
        job,
        hosts: vec![MachineProperties::new()],
        points,
        ..SensitivityProfile::default()
    }
}

/// A run with this rate and duration.
pub fn run(per_second: f64, seconds: f64) -> PointRun {
    let rate = IterationRate::exactly(per_second);
    PointRun {
        outcome: PointOutcome::Sound,
        way: None,
        measured: Some(MeasuredRate { rate, iterations: 100, seconds, blocks: 12, waiting: None, changed: None }),
        seconds,
        cpu_seconds: None,
        throttled_seconds: None,
        peak_memory: Some(Bytes(seconds as u64)),
        own_memory: None,
        rise: None,
        doubts: Vec::new(),
        bytes_read: None,
        pressure: None,
        waited: None,
        node: None,
        nodes: Vec::new(),
    }
}

/// Two nodes of 2 CPUs, which both wait for the slower one. Node 0 made 10.0 iterations a second undisturbed; node 1
/// made 10.1 and waited for others half of the time. Without them both may be twice as fast, and node 0's own data does
/// not show that.
#[test]
fn of_several_nodes_the_one_that_others_held_back_tells_how_far_a_rate_may_be_off() {
    let used = |waited: f64, per_second: f64| PointRun {
        cpu_seconds: Some(5.0),
        waited: Some(waited),
        ..run(per_second, 10.0)
    };
    let outcome = PointOutcome::Disturbed { how: "others on node 1".to_owned() };
    let all = PointRun { outcome, nodes: vec![used(0.0, 10.0), used(0.5, 10.1)], ..used(0.0, 10.0) };
    let point = MeasuredPoint {
        configuration: ResourceConfiguration { cpus: 2.0, memory: None, storage: None },
        runs: vec![all],
    };
    let rate = point.rate().unwrap();
    assert!((rate.interval[1] - 20.0).abs() < 1e-9, "{rate:?}");
}
