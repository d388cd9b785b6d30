//! Recognises what this program wrote, perhaps next to the traces that it read: none of it is the trace of a rank.

use perf4sight_base::input_file;
use perf4sight_base::overwrite::PROGRAM;
use perf4sight_base::unzipped::unzipped;
use serde::Deserialize;
use std::io::{BufReader, Read};
use std::path::Path;

/// The beginning of every timeline that this program writes.
pub const TIMELINE: &[u8] = br#"{"generator": "perf4sight", "displayTimeUnit": "ms", "traceEvents": ["#;
/// The names of results in JSON, whose field `generator` names this program.
const RESULTS: [&str; 2] = ["replay.json", "optimize.json"];

/// The field of a result that names the program.
#[derive(Deserialize)]
struct GeneratedBy {
    generator: Option<String>,
}

/// Whether this program wrote a file of a folder of traces, by its content.
pub fn is_own(file: &Path) -> bool {
    let Ok(opened) = input_file::open(file, "read this file") else { return false };
    let is_result = file.file_name().is_some_and(|name| RESULTS.iter().any(|result| name == *result));
    match is_result {
        true => serde_json::from_reader(BufReader::new(opened))
            .is_ok_and(|GeneratedBy { generator }| generator.as_deref() == Some(PROGRAM)),
        false => is_own_timeline(opened),
    }
}

/// Whether this program wrote a timeline, gzipped or not.
pub fn is_own_timeline(file: impl Read) -> bool {
    let Ok(contents) = unzipped(BufReader::new(file)) else { return false };
    let mut head = Vec::new();
    let read = contents.take(TIMELINE.len() as u64).read_to_end(&mut head);
    read.is_ok() && head == TIMELINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_ranks;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    const RANK: &str = r#"{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}"#;

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(text).unwrap();
        file.finish().unwrap()
    }

    /// A trace, and what replay and collect write next to it, under these and other names.
    #[test]
    fn a_folder_is_read_without_what_this_program_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let own = [TIMELINE, RANK.as_bytes()].concat();
        let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        write("timeline.json.gz", &zipped(&own));
        write("everything.json", &own);
        write("replay.json", br#"{"answer": "none", "generator": "perf4sight"}"#);
        let error = read_ranks(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("perf4sight wrote"), "{error}");
        write("rank0.json", format!("{{\"traceEvents\": [{RANK}").as_bytes());
        let ranks = read_ranks(&[folder.path().to_owned()]).unwrap();
        assert_eq!(ranks.len(), 1);
        assert!(ranks[0].trace.damage.warnings().is_empty(), "{:?}", ranks[0].trace.damage);
        // Of others with such a name it is said that it was passed over.
        write("replay.json", br#"{"generator": "something else"}"#);
        let ranks = read_ranks(&[folder.path().to_owned()]).unwrap();
        assert!(ranks[0].trace.damage.warnings()[0].contains("replay.json"));
        // All ranks in one are not read as one of them.
        for name in ["everything.json", "timeline.json.gz"] {
            let error = read_ranks(&[folder.path().join(name)]).unwrap_err().to_string();
            assert!(error.contains("about all ranks") && error.contains(name), "{error}");
        }
    }
}
