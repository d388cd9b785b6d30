//! What the verbs that read traces have in common.

use crate::inputs;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_verb::config::DefaultValue::Required;
use perf4sight_verb::config::{Setting, SettingValues, path};
use perf4sight_verb::{KeyedPath, Outline};
use std::path::{Path, PathBuf};

/// The declaration of the key `traces`.
pub(super) const TRACES: Setting = path("traces")
    .many_values()
    .or_default("{record.out}")
    .or_on_command_line(Required)
    .positional("PATH")
    .help("Traces of one job, one of each rank, or a folder of them.");

/// The key `traces`; at least one file or folder.
///
/// # Errors
/// An empty list.
pub(super) fn traces(values: &SettingValues<'_>) -> Result<Vec<PathBuf>> {
    let traces: Vec<PathBuf> = values.get::<Option<_>>("traces")?.unwrap_or_default();
    match traces.is_empty() {
        true => Err(values.error("traces", "there are none").expected("files or folders")),
        false => Ok(traces),
    }
}

/// The outline of a section that writes a file about traces; `doing` says what it does with them, `check` refuses to replace files of others.
pub(super) fn outline<'a>(
    doing: &str,
    traces: &'a [PathBuf],
    out: &Path,
    check: impl Fn() -> Result<()> + 'a,
) -> Outline<'a> {
    Outline { writes: vec![KeyedPath::new("out", out)], ..Outline::of_traces(doing, traces) }
        .check_value("out", check)
        .check("traces", traces, |_| inputs::check(traces))
}

/// Refuses to replace a file that may be one of the traces, which `overwrite` does not allow either: a named one, or any
/// in their folders that is not the result of an earlier run. `check` refuses what is not.
///
/// # Errors
/// Such a file, and what `check` refuses.
pub(super) fn check_out(traces: &[PathBuf], out: &Path, check: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_below = |folder: &PathBuf| {
        out.canonicalize().is_ok_and(|out| folder.canonicalize().is_ok_and(|folder| out.starts_with(folder)))
    };
    overwrite::check_inputs(out, traces.iter().map(PathBuf::as_path))?;
    match traces.iter().any(is_below) {
        true => check().map_err(|_| {
            Error::usage("a file among the traces would be replaced, which may be one of them")
                .file(out)
                .help("choose another file (out)")
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn inputs_are_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir(place("traces")).unwrap();
        fs::write(place("traces/rank0.json"), "{}").unwrap();
        fs::write(place("notes"), "own").unwrap();
        let check = |traces: &str, out: &str| {
            let out = place(out);
            check_out(&[place(traces)], &out, || overwrite::check(&out, false, |_| false))
        };
        for traces in ["traces", "traces/rank0.json"] {
            let error = check(traces, "traces/rank0.json").unwrap_err();
            assert!(error.remedy() == Some("choose another file (out)"), "{error}");
            assert!(check(traces, "notes").is_ok() && check(traces, "traces/all.json").is_ok());
        }
    }
}
