//! Which operations run in half precision: settings, also by the published variables of the environment.

use crate::changes::AutocastLists;
use perf4sight_base::error::Result;
use perf4sight_base::input_file;
use perf4sight_verb::config::{Setting, SettingValues, flag, path, text};
use std::path::PathBuf;

/// The settings, of `optimize` and of the published call.
pub const SETTINGS: &[Setting] = &[
    text("amp_operations")
        .many_values()
        .commas()
        .or_default("[]")
        .value("NAMES")
        .environment("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_PRIORLIST_ADD")
        .help("Operations that run in half precision beyond those that PyTorch's autocast lists."),
    path("amp_operations_file")
        .value("FILE")
        .environment("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_PRIORLIST_FILE")
        .help("More of them, one a line."),
    flag("amp_only").help("Only these operations run in half precision."),
    flag("amp_force")
        .environment("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_FORCE")
        .help("Operations that PyTorch's autocast keeps in single precision run in the precision of the operations before them, without casts."),
];

/// The operations.
///
/// # Errors
/// A file that cannot be read.
pub fn autocast(values: &SettingValues<'_>) -> Result<AutocastLists> {
    let mut also: Vec<String> = values.get("amp_operations")?;
    if let Some(file) = values.get::<Option<PathBuf>>("amp_operations_file")? {
        let text = input_file::text(&file, "read the operations in half precision")
            .map_err(|error| values.refused("amp_operations_file", error))?;
        also.extend(text.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
    }
    Ok(AutocastLists { also, only: values.get("amp_only")?, force: values.get("amp_force")? })
}
