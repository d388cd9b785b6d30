//! Tests of `message`.

use super::*;
use crate::verb::points::tests::run;
use serde_json::json;

fn sample_hello() -> HelloMessage {
    let machine = NodeMachine {
        name: "b".to_owned(),
        boot: None,
        cpus: 2.0,
        memory: Bytes(1),
        limits: BTreeMap::new(),
        bandwidths: [None, Some(1e9)],
        data: None,
        facts: MachineProperties::new(),
    };
    let job = MachineProperties::from([("command".to_owned(), "sh job.sh".to_owned())]);
    HelloMessage { perf4sight: env!("CARGO_PKG_VERSION").to_owned(), nnodes: 2, node_rank: 1, job, machine }
}

#[test]
fn messages_are_lines_and_come_back_as_they_were() {
    let report = NodeReport::Ended { point: 3, run: Box::new(run(20.0, 10.0)) };
    let line = line(&report);
    assert!(!line.contains('\n'));
    assert_eq!(message::<NodeReport>(&line), Ok(report));
    let hello = NodeReport::Hello(Box::new(sample_hello()));
    assert_eq!(super::hello(&super::line(&hello)), Ok(sample_hello()));
}

#[test]
fn another_version_is_told_though_nothing_else_is_understood() {
    let unknown = |line: &str| {
        let Err(UnknownConnection::Unknown(why)) = hello(line) else { panic!("it was understood") };
        why
    };
    let refused = |value: Value| unknown(&value.to_string());
    assert!(refused(json!({"what": "greeting", "perf4sight": "9.9"})).contains("it is perf4sight 9.9, and node 0"));
    assert!(refused(json!({"what": "hello"})).contains("no valid message"));
    assert!(refused(json!({"what": "here"})).contains("did not identify itself"));
    assert!(unknown("GET / HTTP/1.1").contains("no valid message"));
    let leaving = json!({"what": "leaving", "why": "there is no data"}).to_string();
    assert_eq!(hello(&leaving), Err(UnknownConnection::Leaving("there is no data".to_owned())));
}

#[test]
fn what_cannot_be_is_no_message() {
    let ended = |rate: f64| {
        let mut run = run(20.0, 10.0);
        run.measured = run.measured.map(|mut measured| {
            measured.rate.interval[0] = rate;
            measured
        });
        message::<NodeReport>(&line(&NodeReport::Ended { point: 1, run: Box::new(run) }))
    };
    assert!(ended(19.0).is_ok());
    for wrong in [0.0, -1.0, 21.0, f64::NAN] {
        assert!(ended(wrong).is_err(), "{wrong}");
    }
    assert!(message::<LeaderOrder>("{\"what\": \"run\", \"command\": \"rm\"}").is_err());
    assert!(message::<LeaderOrder>("{\"what\": \"go\"}").is_err());
}

#[test]
fn long_lines_are_cut_between_characters() {
    let mut lines = ["ä".repeat(2000), "short".to_owned()];
    shortened(&mut lines);
    assert_eq!((lines[0].chars().count(), lines[1].as_str()), (1000, "short"));
}
