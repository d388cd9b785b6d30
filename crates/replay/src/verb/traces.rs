//! What the verbs that read traces have in common.

use perf4sight_base::error::Result;
use perf4sight_verb::config::Missing::Required;
use perf4sight_verb::config::{Setting, Values, path};
use perf4sight_verb::{KeyedPath, Outline};
use std::path::{Path, PathBuf};

/// The declaration of the key `traces`.
pub(super) const TRACES: Setting = path("traces")
    .many()
    .or("{record.out}")
    .or_on_command_line(Required)
    .positional("PATH")
    .help("Traces of one job, one of each rank, or a folder of them.");

/// The key `traces`; at least one file or folder.
///
/// # Errors
/// An empty list.
pub(super) fn traces(values: &Values<'_>) -> Result<Vec<PathBuf>> {
    let traces: Vec<PathBuf> = values.get::<Option<_>>("traces")?.unwrap_or_default();
    match traces.is_empty() {
        true => Err(values.error("traces", "there are none").expected("files or folders")),
        false => Ok(traces),
    }
}

/// The outline of a section that reads traces and writes one file or folder.
pub(super) fn outline(doing: &str, traces: &[PathBuf], out: &Path) -> Outline {
    let named: Vec<String> = traces.iter().map(|path| path.display().to_string()).collect();
    Outline {
        steps: vec![format!("{doing} {}", named.join(", "))],
        reads: traces.iter().map(|path| KeyedPath { key: "traces", path: path.clone() }).collect(),
        writes: vec![KeyedPath { key: "out", path: out.to_owned() }],
        ..Outline::default()
    }
}
