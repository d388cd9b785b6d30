//! The messages between the profilers of several nodes: a line of JSON each. No command ever goes over the network: each
//! runs its own.

use crate::verb::points::Run;
use crate::verb::runner::Goal;
use perf4sight_base::units::Bytes;
use perf4sight_machine::Setting;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What of a job's last lines goes over the network, in characters of each.
const LONGEST: usize = 1000;

/// A message of a node that follows.
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

/// A message of the node that leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Order {
    /// It takes part.
    Welcome,
    /// It does not.
    Refused { why: String },
    /// All nodes are there: get ready; with `lock`, wait until nobody else measures on its machine.
    Begin { lock: bool },
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
    /// How many nodes it was started for.
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
pub(super) fn message<M: DeserializeOwned + Valid>(line: &str) -> Result<M, String> {
    let message: M = serde_json::from_str(line).map_err(|cause| format!("it said what is no message: {cause}"))?;
    message.is_valid().then_some(message).ok_or_else(|| "it said numbers that cannot be".to_owned())
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

/// A message whose numbers are checked.
pub(super) trait Valid {
    /// Whether its numbers are possible.
    fn is_valid(&self) -> bool {
        true
    }
}

impl Valid for Order {}

impl Valid for Report {
    fn is_valid(&self) -> bool {
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
mod tests;
