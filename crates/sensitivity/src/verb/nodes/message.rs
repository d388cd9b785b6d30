//! What the profilers of several nodes say to each other: a line of JSON for each message. No command ever goes over the network: each
//! runs its own.

use crate::verb::run::Goal;
use crate::verb::store::Run;
use perf4sight_base::units::Bytes;
use perf4sight_machine::Setting;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What of a job's last lines goes over the network, in characters of each.
const LONGEST: usize = 1000;

/// What a node that follows says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Report {
    /// Who it is.
    Hello(Box<Hello>),
    /// It waits until another measurement on its machine is over.
    Waiting { why: String },
    /// It is alone on its machine, and its data is where it is to be.
    Here,
    /// It can hold these limits, and waits for the start.
    Ready { point: u64 },
    /// Whether its own rate is known well enough.
    Look { point: u64, enough: bool },
    /// It knows that the run is about to end.
    Closing { point: u64 },
    /// What came of its run.
    Ended { point: u64, run: Box<Run> },
    /// It ends, and why.
    Leaving { why: String },
}

/// What the node that leads says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Order {
    /// It takes part.
    Welcome,
    /// It does not.
    Refused { why: String },
    /// All nodes are there: get ready; with `turn`, wait until nobody else measures on its machine.
    Begin { turn: bool },
    /// What the next run is held to.
    Point { point: u64, cpus: Option<f64>, memory: Option<Bytes>, storage: Option<Bytes>, goal: Goal },
    /// All are ready.
    Go { point: u64 },
    /// The run is about to end: what fails from now on fails because others end.
    Close { point: u64 },
    /// All know that; the run ends.
    Stop { point: u64 },
    /// Nothing more is wanted: all is measured, or why not.
    End { done: bool, why: String },
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Its version of the program.
    pub perf4sight: String,
    /// How many nodes it was told of.
    pub nnodes: u32,
    /// Which of them it is.
    pub node_rank: u32,
    /// What it runs and how that is measured: the same everywhere.
    pub job: Setting,
    /// Where it runs.
    pub machine: Machine,
}

/// The machine of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct Machine {
    /// What it calls itself.
    pub name: String,
    /// What no other machine has; none where that is unknown.
    pub boot: Option<String>,
    /// CPUs there are for us.
    pub cpus: f64,
    /// Memory there is for us.
    pub memory: Bytes,
    /// What holds limits, by axis; none where nothing does.
    pub limits: BTreeMap<String, Option<String>>,
    /// Bytes a second from its storage and from its memory, where they are known.
    pub bandwidths: [Option<f64>; 2],
    /// Bytes and files of its data; none where none was named.
    pub data: Option<[u64; 2]>,
    /// What measurements depend on.
    pub facts: Setting,
}

/// The line of a message.
pub(super) fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("numbers and text are JSON")
}

/// The message of a line.
///
/// # Errors
/// What is none, in words.
pub(super) fn message<M: DeserializeOwned + Sane>(line: &str) -> Result<M, String> {
    let message: M = serde_json::from_str(line).map_err(|cause| format!("it said what is no message: {cause}"))?;
    message.sane().then_some(message).ok_or_else(|| "it said numbers that cannot be".to_owned())
}

/// Whoever comes and is no node that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stranger {
    /// One of ours that cannot, and why.
    Leaving(String),
    /// Another version, or whatever else: why it is not understood.
    Unknown(String),
}

/// The first message of a node: of another version the rest may mean anything.
///
/// # Errors
/// Whatever is none, and the message of a node that cannot take part.
pub(super) fn hello(line: &str) -> Result<Hello, Stranger> {
    let version = env!("CARGO_PKG_VERSION");
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    if let Some(other) = value["perf4sight"].as_str().filter(|other| *other != version) {
        return Err(Stranger::Unknown(format!("it is perf4sight {other}, and node 0 perf4sight {version}")));
    }
    match message(line).map_err(Stranger::Unknown)? {
        Report::Hello(hello) => Ok(*hello),
        Report::Leaving { why } => Err(Stranger::Leaving(why)),
        Report::Waiting { .. }
        | Report::Here
        | Report::Ready { .. }
        | Report::Look { .. }
        | Report::Closing { .. }
        | Report::Ended { .. } => Err(Stranger::Unknown("it did not say who it is".to_owned())),
    }
}

/// A message whose numbers may be impossible.
pub(super) trait Sane {
    /// Whether they are not.
    fn sane(&self) -> bool {
        true
    }
}

impl Sane for Order {}

impl Sane for Report {
    fn sane(&self) -> bool {
        match self {
            Report::Hello(hello) => hello.machine.cpus > 0.0 && hello.machine.memory.0 > 0,
            Report::Ended { run, .. } => {
                let positive = |rate: f64| rate.is_finite() && rate > 0.0;
                run.nodes.is_empty()
                    && run.seconds >= 0.0
                    && run.measured.is_none_or(|measured| {
                        let [low, high] = measured.rate.interval;
                        positive(low) && low <= measured.rate.per_second && measured.rate.per_second <= high
                    })
            }
            Report::Waiting { .. }
            | Report::Here
            | Report::Ready { .. }
            | Report::Look { .. }
            | Report::Closing { .. }
            | Report::Leaving { .. } => true,
        }
    }
}

/// A job's last lines, short enough for the network.
pub(super) fn shortened(lines: &mut [String]) {
    for line in lines {
        if let Some((end, _)) = line.char_indices().nth(LONGEST) {
            line.truncate(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::store::tests::run;
    use serde_json::json;

    fn said() -> Hello {
        let machine = Machine {
            name: "b".to_owned(),
            boot: None,
            cpus: 2.0,
            memory: Bytes(1),
            limits: BTreeMap::new(),
            bandwidths: [None, Some(1e9)],
            data: None,
            facts: Setting::new(),
        };
        let job = Setting::from([("command".to_owned(), "sh job.sh".to_owned())]);
        Hello { perf4sight: env!("CARGO_PKG_VERSION").to_owned(), nnodes: 2, node_rank: 1, job, machine }
    }

    #[test]
    fn messages_are_lines_and_come_back_as_they_were() {
        let report = Report::Ended { point: 3, run: Box::new(run(20.0, 10.0)) };
        let line = line(&report);
        assert!(!line.contains('\n'));
        assert_eq!(message::<Report>(&line), Ok(report));
        let hello = Report::Hello(Box::new(said()));
        assert_eq!(super::hello(&super::line(&hello)), Ok(said()));
    }

    #[test]
    fn another_version_is_told_though_nothing_else_is_understood() {
        let unknown = |line: &str| match hello(line) {
            Err(Stranger::Unknown(why)) => why,
            other => panic!("{other:?}"),
        };
        let told = |value: Value| unknown(&value.to_string());
        assert!(told(json!({"what": "greeting", "perf4sight": "9.9"})).contains("it is perf4sight 9.9, and node 0"));
        assert!(told(json!({"what": "hello"})).contains("no message"));
        assert!(told(json!({"what": "here"})).contains("did not say who"));
        assert!(unknown("GET / HTTP/1.1").contains("no message"));
        let leaving = json!({"what": "leaving", "why": "there is no data"}).to_string();
        assert_eq!(hello(&leaving), Err(Stranger::Leaving("there is no data".to_owned())));
    }

    #[test]
    fn what_cannot_be_is_no_message() {
        let ended = |rate: f64| {
            let mut run = run(20.0, 10.0);
            run.measured = run.measured.map(|mut measured| {
                measured.rate.interval[0] = rate;
                measured
            });
            message::<Report>(&line(&Report::Ended { point: 1, run: Box::new(run) }))
        };
        assert!(ended(19.0).is_ok());
        for wrong in [0.0, -1.0, 21.0, f64::NAN] {
            assert!(ended(wrong).is_err(), "{wrong}");
        }
        assert!(message::<Order>("{\"what\": \"run\", \"command\": \"rm\"}").is_err());
        assert!(message::<Order>("{\"what\": \"go\"}").is_err());
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let mut lines = ["ä".repeat(2000), "short".to_owned()];
        shortened(&mut lines);
        assert_eq!((lines[0].chars().count(), lines[1].as_str()), (1000, "short"));
    }
}
