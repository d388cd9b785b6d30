//! Dumps of PyTorch's flight recorder: the last collective operations that a rank enqueued, written when a job hangs or on
//! request, as a pickle or as JSON.

mod events;
mod pickle;

pub(super) use events::traces;

use super::contents;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The dump of a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct FlightDump {
    /// The rank: the number at the end of the file's name.
    pub rank: u32,
    /// Its file.
    pub file: PathBuf,
    /// The version of its format: `2.10`.
    pub version: String,
    /// The operations, in the order in which they were enqueued.
    pub entries: Vec<FlightEntry>,
    /// The ranks of each process group by its name, if the dump contains them.
    pub groups: BTreeMap<String, BTreeSet<u32>>,
    /// Entries that could not be read.
    pub damaged: u64,
}

/// A collective operation, or a send or receive, as torch/csrc/distributed/c10d/FlightRecorderDetail.hpp writes it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct FlightEntry {
    /// Its number among all that the recorder noted.
    #[serde(default, deserialize_with = "or_default")]
    pub record_id: u64,
    /// Name and description of the process group.
    #[serde(default, deserialize_with = "group")]
    pub process_group: (String, String),
    /// Its number among the collective operations of the group; `seq_id` before version 2.
    #[serde(default, alias = "seq_id", deserialize_with = "or_default")]
    pub collective_seq_id: u64,
    /// The same among sends and receives.
    #[serde(default, deserialize_with = "or_default")]
    pub p2p_seq_id: u64,
    /// The library and the operation: `nccl:all_reduce`, `nccl:send 1->2`.
    #[serde(default, deserialize_with = "or_default")]
    pub profiling_name: String,
    /// Nanoseconds since 1970 at which it was enqueued.
    #[serde(default, deserialize_with = "or_default")]
    pub time_created_ns: i64,
    /// When the recorder noticed that it had started; 0 if it did not.
    #[serde(default, deserialize_with = "or_default")]
    pub time_discovered_started_ns: i64,
    /// When the recorder noticed that it had ended; 0 if it did not.
    #[serde(default, deserialize_with = "or_default")]
    pub time_discovered_completed_ns: i64,
    /// How long it took, if timing was enabled.
    #[serde(default, deserialize_with = "or_default")]
    pub duration_ms: Option<f64>,
    /// `scheduled`, `started` or `completed`.
    #[serde(default, deserialize_with = "or_default")]
    pub state: String,
    /// Whether the library is done with it.
    #[serde(default, deserialize_with = "or_default")]
    pub retired: bool,
    /// Whether it is a send or receive.
    #[serde(default, deserialize_with = "or_default")]
    pub is_p2p: bool,
    /// The sizes of each input.
    #[serde(default, deserialize_with = "or_default")]
    pub input_sizes: Vec<Vec<u64>>,
    /// The types of the inputs: `Float`.
    #[serde(default, deserialize_with = "or_default")]
    pub input_dtypes: Vec<String>,
    /// The sizes of each output.
    #[serde(default, deserialize_with = "or_default")]
    pub output_sizes: Vec<Vec<u64>>,
    /// Where it was enqueued, the innermost call first.
    #[serde(default, deserialize_with = "or_default")]
    pub frames: Vec<PythonFrame>,
}

/// A line of Python.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PythonFrame {
    /// The function.
    #[serde(default)]
    pub name: String,
    /// The file.
    #[serde(default)]
    pub filename: String,
    /// The line in it.
    #[serde(default)]
    pub line: u64,
}

/// A value that may be null.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> std::result::Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// A process group: name and description, or a name alone in old dumps.
fn group<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<(String, String), D::Error> {
    let value = Value::deserialize(value)?;
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    Ok(match &value {
        Value::Array(parts) => (text(parts.first()), text(parts.get(1))),
        other => (text(Some(other)), String::new()),
    })
}

/// Whether the beginning of a file is that of a pickle.
pub(super) fn is_pickle(beginning: &[u8]) -> bool {
    // Protocols 2 to 5; protocol 1 and 0 begin with an empty dictionary and its place in the memo.
    matches!(beginning, [pickle::PROTOCOL, 2..=5, ..] | [b'}', b'q', ..] | [b'(', b'd', b'p', ..])
}

/// Reads the dump of a rank; none of the name of whose file ends in a number is rank `place`.
///
/// # Errors
/// A file that is no dump, a pickle that would run code.
pub(super) fn read(file: &Path, place: u32) -> Result<FlightDump> {
    let contents = contents::read(file)?;
    let value = match is_pickle(&contents.bytes) {
        true => pickle::read(&contents.bytes).map_err(|error| error.file(file))?,
        false => serde_json::from_slice(&contents.bytes)
            .map_err(|cause| Error::input(format!("is not complete JSON: {cause}")).file(file))?,
    };
    dump(file, super::last_number(file).unwrap_or(place), value)
}

fn dump(file: &Path, rank: u32, value: Value) -> Result<FlightDump> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    // The first versions are the list of entries alone.
    let list = value.get("entries").or(Some(&value)).and_then(Value::as_array);
    let is_dump = value.get("entries").is_some() || value.get("pg_config").is_some() || list.is_some();
    if !is_dump {
        return Err(Error::input("is not a dump of PyTorch's flight recorder: it has no entries").file(file));
    }
    let entries: Vec<Option<FlightEntry>> =
        list.into_iter().flatten().map(|entry| FlightEntry::deserialize(entry).ok()).collect();
    let damaged = entries.iter().filter(|entry| entry.is_none()).count() as u64;
    let configured = value.get("pg_config").and_then(Value::as_object).into_iter().flatten();
    let groups = configured.filter_map(|(name, group)| Some((name.clone(), ranks(group.get("ranks")?))));
    let groups = groups.filter(|(_, ranks)| !ranks.is_empty()).collect();
    Ok(FlightDump {
        rank,
        file: file.to_owned(),
        version: text("version"),
        entries: entries.into_iter().flatten().collect(),
        groups,
        damaged,
    })
}

/// Ranks in a text such as `[0, 1]`, or in a list.
fn ranks(value: &Value) -> BTreeSet<u32> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

impl FlightDump {
    /// Warnings about what could not be read.
    pub fn warnings(&self) -> Vec<String> {
        let entries = count_text(self.damaged, "entry").replace("entrys", "entries");
        (self.damaged > 0)
            .then(|| format!("rank {}: {entries} of its dump could not be read", self.rank))
            .into_iter()
            .collect()
    }

    /// Whether operations before the first one were forgotten: the recorder keeps only the last ones.
    pub fn is_incomplete(&self) -> bool {
        self.entries.iter().map(|entry| entry.record_id).min().is_some_and(|first| first > 0)
    }

    /// Whether an operation is done. Libraries whose operations the recorder does not follow, such as gloo, only retire
    /// them.
    pub fn is_done(&self, entry: &FlightEntry) -> bool {
        let follows =
            self.entries.iter().any(|entry| entry.time_discovered_completed_ns > 0 || entry.state == "completed");
        entry.state == "completed" || entry.time_discovered_completed_ns > 0 || (!follows && entry.retired)
    }
}

impl FlightEntry {
    /// The operation without its library: `all_reduce`, `send 1->2`.
    pub fn operation(&self) -> &str {
        self.profiling_name.split_once(':').map_or(self.profiling_name.as_str(), |(_, operation)| operation)
    }

    /// Sender and receiver of a send or receive by their numbers in its group: names are `send 1->2` and `recv 2<-1`.
    pub fn peers(&self) -> Option<[u32; 2]> {
        let number = |text: &str| super::last_number(text.as_ref());
        match (self.operation().split_once("->"), self.operation().split_once("<-")) {
            (Some((source, destination)), _) | (None, Some((destination, source))) => {
                Some([number(source)?, number(destination)?])
            }
            (None, None) => None,
        }
    }

    /// Whether it is a send.
    pub fn is_send(&self) -> bool {
        self.operation().contains("->")
    }

    /// Elements of all inputs and of all outputs.
    pub fn elements(&self) -> Option<[u64; 2]> {
        let sum = |sizes: &[Vec<u64>]| {
            sizes.iter().try_fold(0u64, |sum, size| {
                sum.checked_add(size.iter().try_fold(1u64, |product, one| product.checked_mul(*one))?)
            })
        };
        (!self.input_sizes.is_empty()).then(|| Some([sum(&self.input_sizes)?, sum(&self.output_sizes)?]))?
    }

    /// The line of the script that enqueued it: the innermost one that is not PyTorch's.
    pub fn script_line(&self) -> Option<String> {
        let own = |frame: &&PythonFrame| !frame.filename.contains("/torch/") && !frame.filename.is_empty();
        let frame = self.frames.iter().find(own).or_else(|| self.frames.first())?;
        Some(format!("{}:{} ({})", frame.filename, frame.line, frame.name))
    }
}
