//! Recognises the format of a file by its beginning.

use super::{chakra, contents, flight};
use std::path::Path;

/// A format of files, beside those of profilers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InputFormat {
    /// A folder of dPRO's recorders.
    Published,
    /// A timeline of Horovod.
    Horovod,
    /// A dump of PyTorch's flight recorder.
    FlightRecorder,
    /// An execution trace in Chakra's protobuf, or in its JSON.
    Chakra,
    /// What PyTorch's `ExecutionTraceObserver` writes.
    ExecutionTrace,
}

/// So much of a file is looked at.
const BEGINNING: u64 = 65_536;
/// What Horovod calls negotiations, with which each of its timelines begins, and the processes of dPRO's one.
const OF_HOROVOD: [&str; 2] = ["\"NEGOTIATE_", "\"horovod_"];

/// The format of a file; none if it is that of a profiler, or not known.
pub(super) fn recognise(file: &Path) -> Option<InputFormat> {
    if file.extension().is_some_and(|extension| extension == "et") {
        return Some(InputFormat::Chakra);
    }
    let beginning = contents::beginning(file, BEGINNING).ok()?.bytes;
    if flight::is_pickle(&beginning) {
        return Some(InputFormat::FlightRecorder);
    }
    let text = String::from_utf8_lossy(&beginning);
    match text.trim_start().chars().next() {
        Some('{') => keys(&text).find_map(|key| match key {
            "traceEvents" => Some(None),
            chakra::KEY => Some(Some(InputFormat::Chakra)),
            "nodes" | "schema" => Some(Some(InputFormat::ExecutionTrace)),
            "entries" | "pg_config" | "comm_lib_version" | "nccl_comm_state" => Some(Some(InputFormat::FlightRecorder)),
            _ => None,
        })?,
        Some('[') if OF_HOROVOD.iter().any(|word| text.contains(word)) => Some(InputFormat::Horovod),
        _ => None,
    }
}

/// Whether a file in a folder is the trace of a profiler, by its name and its beginning.
pub(super) fn is_profiler(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if [".sqlite", ".nvprof", ".nvvp"].iter().any(|ending| name.ends_with(ending)) {
        return true;
    }
    let beginning = contents::beginning(file, BEGINNING).map(|contents| contents.bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&beginning);
    let is_json = name.ends_with(".json") || name.ends_with(".json.gz");
    is_json && (text.trim_start().starts_with('[') || keys(&text).any(|key| key == "traceEvents"))
}

/// Whether PyTorch's profiler wrote a file, or one in a folder: its traces begin with the version of their schema.
pub(super) fn is_of_pytorch(path: &Path) -> bool {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        return entries.filter(|entry| entry.is_file()).any(|file| is_of_pytorch(&file));
    }
    let beginning = contents::beginning(path, BEGINNING).map(|contents| contents.bytes).unwrap_or_default();
    keys(&String::from_utf8_lossy(&beginning)).any(|key| key == "schemaVersion")
}

/// The keys of the outermost object of a text that may be cut off.
fn keys(text: &str) -> impl Iterator<Item = &str> {
    let (mut rest, mut depth) = (text, 0);
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(['"', '{', '[', '}', ']'])?;
            let found = rest.as_bytes()[at];
            rest = &rest[at + 1..];
            match found {
                b'"' => {
                    let end = end_of_string(rest)?;
                    let word = &rest[..end];
                    rest = &rest[end + 1..];
                    if depth == 1 && rest.trim_start().starts_with(':') {
                        return Some(word);
                    }
                }
                b'{' | b'[' => depth += 1,
                _ => depth -= 1,
            }
        }
    })
}

/// The place of the quote that ends a string.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_beginnings() {
        let folder = tempfile::tempdir().unwrap();
        let format = |name: &str, text: &[u8]| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            recognise(&file)
        };
        assert_eq!(format("a", br#"{"schemaVersion": 1, "a": {"entries": []}, "traceEvents": ["#), None);
        assert_eq!(format("b", br#"{"x": "\"entries\":", "entries": ["#), Some(InputFormat::FlightRecorder));
        assert_eq!(format("c", b"\x80\x02}q\x00"), Some(InputFormat::FlightRecorder));
        assert_eq!(format("d", br#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1"#), Some(InputFormat::ExecutionTrace));
        assert_eq!(format("e", b"[\n{\"name\": \"NEGOTIATE_ALLREDUCE\""), Some(InputFormat::Horovod));
        assert_eq!(format("f.et", b""), Some(InputFormat::Chakra));
        assert_eq!(format("h.json", br#"{"workload_graph": ["#), Some(InputFormat::Chakra));
        assert_eq!(format("g", b"[{\"ph\": \"X\"}]"), None);
        assert_eq!(recognise(&folder.path().join("none")), None);
    }
}
