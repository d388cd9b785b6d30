//! Timelines in Chrome's format as other programs than profilers write them: beginnings and ends in pairs, names of
//! processes with a meaning, arguments of any kind, and often no end of the list, because the job was stopped.

use super::contents;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use perf4sight_traces::intervals::Interval;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct ChromeTimeline {
    /// Events that take time, in the order of their ends in the file.
    pub spans: Vec<ChromeSpan>,
    /// Names of processes, and of their threads, by the numbers that events have.
    pub processes: BTreeMap<String, String>,
    pub threads: BTreeMap<(String, String), String>,
    /// What of it could not be read, in sentences.
    pub warnings: Vec<String>,
}

/// An event that takes time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChromeSpan {
    pub name: String,
    pub process: String,
    pub thread: String,
    /// Nanoseconds.
    pub time: Interval,
    /// The arguments of its beginning and of its end.
    pub args: Map<String, Value>,
}

/// An event as it is written.
#[derive(Deserialize)]
struct ChromeEvent {
    ph: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    #[serde(default)]
    args: Option<Map<String, Value>>,
}

/// Nothing, or why an event is left out.
type Added = std::result::Result<(), &'static str>;

const INCOMPLETE: &str = "without a time, a beginning or an end";
const NEGATIVE: &str = "with a negative duration";

/// The list of events in an object.
const LIST: &[u8] = b"\"traceEvents\"";

impl ChromeTimeline {
    /// Reads a timeline: a list of events, or an object with `traceEvents`. A list without an end is read as far as it
    /// goes.
    ///
    /// # Errors
    /// A file that cannot be read, or that has no list of events.
    pub fn read(file: &Path) -> Result<Self> {
        let contents = contents::read(file)?;
        let bytes = &contents.bytes;
        let from = match bytes.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(at) if bytes[at] == b'{' => bytes.windows(LIST.len()).position(|window| window == LIST),
            at => at,
        };
        let list = from.and_then(|from| Some(from + bytes[from..].iter().position(|byte| *byte == b'[')? + 1));
        let Some(list) = list else {
            return Err(Error::input("has no list of events").file(file).expected("a timeline in Chrome's format"));
        };
        let mut timeline = ChromeTimeline::default();
        let ended = timeline.events(&bytes[list..]);
        let cut = contents.cut.or_else(|| (!ended).then(|| "ends in the middle of the list of events".to_owned()));
        timeline.warnings.extend(cut.map(|cut| format!("{}: {cut}; what is before was read", file.display())));
        Ok(timeline)
    }

    /// Reads the elements of a list; returns whether it has an end.
    fn events(&mut self, bytes: &[u8]) -> bool {
        let mut open: BTreeMap<(String, String), Vec<ChromeSpan>> = BTreeMap::new();
        let (mut at, mut damaged) = (0, BTreeMap::new());
        let ended = loop {
            at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
            match bytes.get(at) {
                None => break false,
                Some(b']') => break true,
                Some(_) => {}
            }
            let mut elements = serde_json::Deserializer::from_slice(&bytes[at..]).into_iter::<Value>();
            match elements.next() {
                Some(Ok(value)) => {
                    at += elements.byte_offset();
                    match ChromeEvent::deserialize(value) {
                        Ok(event) => self.add(event, &mut open),
                        Err(_) => Err(INCOMPLETE),
                    }
                    .unwrap_or_else(|why| *damaged.entry(why).or_default() += 1);
                }
                _ => break false,
            }
        };
        *damaged.entry(INCOMPLETE).or_default() += open.values().map(|spans| spans.len() as u64).sum::<u64>();
        for (why, count) in damaged.into_iter().filter(|(_, count)| *count > 0) {
            let were = if count == 1 { "was" } else { "were" };
            self.warnings.push(format!("{} {were} left out: {why}", count_text(count, "event")));
        }
        ended
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Why it is left out.
    fn add(&mut self, event: ChromeEvent, open: &mut BTreeMap<(String, String), Vec<ChromeSpan>>) -> Added {
        let (process, thread) = (number(&event.pid), number(&event.tid));
        let args = event.args.unwrap_or_default();
        if event.ph == "M" {
            let named = args.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            match event.name.as_deref() {
                Some("process_name") => _ = self.processes.insert(process, named),
                Some("thread_name") => _ = self.threads.insert((process, thread), named),
                _ => {}
            }
            return Ok(());
        }
        let is_span = matches!(event.ph.as_str(), "B" | "E" | "b" | "e" | "X");
        let Some(start) = nanoseconds(&event.ts).filter(|_| is_span) else {
            return if is_span { Err(INCOMPLETE) } else { Ok(()) };
        };
        let name = event.name.unwrap_or_default();
        let mut span = ChromeSpan { name, process, thread, time: (start, start), args };
        let key = (span.process.clone(), span.thread.clone());
        match event.ph.as_str() {
            "X" => {
                span.time.1 = start.saturating_add(nanoseconds(&event.dur).ok_or(INCOMPLETE)?);
                self.push(span)
            }
            "B" | "b" => {
                open.entry(key).or_default().push(span);
                Ok(())
            }
            _ => self.end(span, open.entry(key).or_default()),
        }
    }

    /// Ends the last open event of this name, or the last one if the end has no name.
    fn end(&mut self, end: ChromeSpan, open: &mut Vec<ChromeSpan>) -> Added {
        let place = open.iter().rposition(|begun| end.name.is_empty() || begun.name == end.name);
        let mut span = open.remove(place.ok_or(INCOMPLETE)?);
        span.time.1 = end.time.0;
        span.args.extend(end.args);
        self.push(span)
    }

    fn push(&mut self, span: ChromeSpan) -> Added {
        if span.time.1 < span.time.0 {
            return Err(NEGATIVE);
        }
        self.spans.push(span);
        Ok(())
    }
}

/// A number of a process or thread as text.
fn number(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Nanoseconds of a number of microseconds.
pub(super) fn nanoseconds(value: &Value) -> Option<i64> {
    match value.as_i64() {
        Some(microseconds) => microseconds.checked_mul(1000),
        None => value
            .as_f64()
            .map(|microseconds| microseconds * 1e3)
            .filter(|time| time.abs() < 9e18)
            .map(|time| time.round() as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ChromeTimeline {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ChromeTimeline::read(file.path()).unwrap()
    }

    /// Horovod writes its list without an end, and ends without names (horovod/common/timeline.cc).
    #[test]
    fn a_list_without_an_end_is_read_in_pairs() {
        let timeline = read(
            r#"[
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad"}},
{"ph": "B", "name": "ALLREDUCE", "ts": 10, "pid": 1},
{"ph": "B", "name": "NCCL_ALLREDUCE", "ts": 11.5, "pid": 1},
{"ph": "E", "ts": 12, "pid": 1},
{"ph": "E", "ts": 13, "pid": 1, "args": {"dtype": "float32"}},
{"ph": "B", "name": "ALLREDUCE", "ts": 20, "pi"#,
        );
        let spans: Vec<(&str, Interval)> = timeline.spans.iter().map(|span| (span.name.as_str(), span.time)).collect();
        assert_eq!(spans, [("NCCL_ALLREDUCE", (11_500, 12_000)), ("ALLREDUCE", (10_000, 13_000))]);
        assert_eq!(timeline.spans[1].args["dtype"], "float32");
        assert_eq!(timeline.processes["1"], "grad");
        assert!(timeline.warnings[0].contains("in the middle"), "{:?}", timeline.warnings);
    }

    /// Of one range the duration is negative, another one ends before it begins.
    #[test]
    fn negative_durations_are_left_out_and_counted() {
        let timeline = read(
            r#"[{"ph": "X", "ts": 5, "dur": -1}, {"ph": "B", "ts": 9}, {"ph": "E", "ts": 8}, {"ph": "X", "ts": 5, "dur": 0}]"#,
        );
        assert_eq!(timeline.spans.len(), 1);
        assert_eq!(timeline.warnings, ["2 events were left out: with a negative duration"]);
    }

    #[test]
    fn what_is_no_pair_is_counted() {
        let timeline =
            read(r#"{"traceEvents": [{"ph": "E", "ts": 1}, {"ph": "B", "ts": 2}, {"ph": "X", "ts": 1}, 3]}"#);
        assert!(timeline.spans.is_empty());
        assert!(timeline.warnings[0].starts_with("4 events were left out"), "{:?}", timeline.warnings);
    }
}
