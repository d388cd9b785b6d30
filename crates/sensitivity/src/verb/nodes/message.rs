//! The messages between the profilers of several nodes, each a line of JSON. No command is sent over the network: each
//! node runs its own.

use crate::verb::points::PointRun;
use crate::verb::runner::RunGoal;
use perf4sight_base::units::Bytes;
use perf4sight_machine::MachineProperties;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Characters of each of a job's last lines that are sent over the network.
const LONGEST: usize = 1000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum NodeReport {
    Hello(Box<HelloMessage>),
    /// It waits for another measurement on its machine.
    Waiting {
        why: String,
    },
    /// It holds the measurement lock, if that was ordered, and its data is loaded.
    Here,
    /// It can enforce these limits, and waits for the start.
    Ready {
        point: u64,
    },
    /// Whether its own rate is known well enough.
    Look {
        point: u64,
        enough: bool,
    },
    /// It has noted that the run is about to end.
    Closing {
        point: u64,
    },
    Ended {
        point: u64,
        run: Box<PointRun>,
    },
    /// It leaves, with the reason.
    Leaving {
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum LeaderOrder {
    Welcome,
    Refused {
        why: String,
    },
    /// All nodes are connected: get ready; with `lock`, take the measurement lock of the machine.
    Begin {
        lock: bool,
    },
    /// The limits of the next run.
    Point {
        point: u64,
        cpus: Option<f64>,
        memory: Option<Bytes>,
        storage: Option<Bytes>,
        goal: RunGoal,
    },
    /// All nodes are ready: start the run.
    Go {
        point: u64,
    },
    /// The run is about to end: from now on, a failure is caused by the end of other nodes.
    Close {
        point: u64,
    },
    /// All nodes have noted that: end the run.
    Stop {
        point: u64,
    },
    /// The measurement has ended: complete, or why not.
    End {
        done: bool,
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct HelloMessage {
    /// Its version of the program.
    pub perf4sight: String,
    /// The number of nodes that it was started for.
    pub nnodes: u32,
    pub node_rank: u32,
    /// The job and the way of measuring, which must be equal on all nodes.
    pub job: MachineProperties,
    pub machine: NodeMachine,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct NodeMachine {
    pub name: String,
    /// The unique id of its boot; none where that is unknown.
    pub boot: Option<String>,
    pub cpus: f64,
    pub memory: Bytes,
    /// The back-ends of limits, by resource; none where nothing can limit it.
    pub limits: BTreeMap<String, Option<String>>,
    /// Bytes a second from its storage and from its memory, where they are known.
    pub bandwidths: [Option<f64>; 2],
    /// Bytes and files of its data; none where none was specified.
    pub data: Option<[u64; 2]>,
    /// Properties that affect measurements.
    pub facts: MachineProperties,
}

pub(super) fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("numbers and text are JSON")
}

/// Parses the message of a line.
///
/// # Errors
/// Text that is no valid message, with the reason.
pub(super) fn message<M: DeserializeOwned + ValidMessage>(line: &str) -> Result<M, String> {
    let message: M = serde_json::from_str(line).map_err(|cause| format!("it sent no valid message: {cause}"))?;
    message.is_valid().then_some(message).ok_or_else(|| "it sent impossible numbers".to_owned())
}

/// A connection that is not a node that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnknownConnection {
    /// One of our nodes that cannot take part, and why.
    Leaving(String),
    /// Another version or another program: why it is not understood.
    Unknown(String),
}

/// Parses the first message of a node; the message of another version is not interpreted.
///
/// # Errors
/// A message that is no introduction, or that of a node that cannot take part.
pub(super) fn hello(line: &str) -> Result<HelloMessage, UnknownConnection> {
    let version = env!("CARGO_PKG_VERSION");
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    if let Some(other) = value["perf4sight"].as_str().filter(|other| *other != version) {
        return Err(UnknownConnection::Unknown(format!("it is perf4sight {other}, and node 0 perf4sight {version}")));
    }
    match message(line).map_err(UnknownConnection::Unknown)? {
        NodeReport::Hello(hello) => Ok(*hello),
        NodeReport::Leaving { why } => Err(UnknownConnection::Leaving(why)),
        NodeReport::Waiting { .. }
        | NodeReport::Here
        | NodeReport::Ready { .. }
        | NodeReport::Look { .. }
        | NodeReport::Closing { .. }
        | NodeReport::Ended { .. } => Err(UnknownConnection::Unknown("it did not identify itself".to_owned())),
    }
}

/// A message whose numbers are checked.
pub(super) trait ValidMessage {
    fn is_valid(&self) -> bool {
        true
    }
}

impl ValidMessage for LeaderOrder {}

impl ValidMessage for NodeReport {
    fn is_valid(&self) -> bool {
        match self {
            NodeReport::Hello(hello) => hello.machine.cpus > 0.0 && hello.machine.memory.0 > 0,
            NodeReport::Ended { run, .. } => {
                let positive = |rate: f64| rate.is_finite() && rate > 0.0;
                run.nodes.is_empty()
                    && run.seconds >= 0.0
                    && run.measured.is_none_or(|measured| {
                        let [low, high] = measured.rate.interval;
                        positive(low) && low <= measured.rate.per_second && measured.rate.per_second <= high
                    })
            }
            NodeReport::Waiting { .. }
            | NodeReport::Here
            | NodeReport::Ready { .. }
            | NodeReport::Look { .. }
            | NodeReport::Closing { .. }
            | NodeReport::Leaving { .. } => true,
        }
    }
}

/// Shortens a job's last lines for the network.
pub(super) fn shortened(lines: &mut [String]) {
    for line in lines {
        if let Some((end, _)) = line.char_indices().nth(LONGEST) {
            line.truncate(end);
        }
    }
}

#[cfg(test)]
mod tests;
