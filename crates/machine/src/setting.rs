//! The properties of a machine that affect measurements, by name.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, input_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Properties that must be the same for measurements to be comparable, by name: `processor`, `threads`, `libtorch`, ...
pub type MachineProperties = BTreeMap<String, String>;

/// The differences between two settings, each as "name was this, is that".
pub fn differences(before: &MachineProperties, now: &MachineProperties) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let shown =
        |setting: &MachineProperties, name: &str| setting.get(name).map_or("unknown", String::as_str).to_owned();
    let different = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    different.map(|name| format!("{name} was {}, is {}", shown(before, name), shown(now, name))).collect()
}

/// The setting of the first machine that wrote this file: of several machines that share a folder, one is first, and the
/// others compare theirs with it.
///
/// # Errors
/// A file that cannot be written or read.
pub fn claim(file: &Path, now: &MachineProperties) -> Result<MachineProperties> {
    let text = serde_json::to_string_pretty(now)
        .map_err(|cause| Error::device(format!("the setting cannot be written: {cause}")))?;
    atomic_write::save_new(file, text + "\n")?;
    let text = input_file::text(file, "read the setting of the other machines")?;
    serde_json::from_str(&text)
        .map_err(|cause| Error::input(format!("the setting cannot be understood: {cause}")).file(file))
}

/// Refuses a machine of another kind than that of earlier results.
///
/// # Errors
/// What differs.
pub fn check_kind(before: &MachineProperties, now: &MachineProperties) -> Result<()> {
    let different = differences(before, now);
    if different.is_empty() {
        return Ok(());
    }
    let problem =
        format!("this node is another kind of machine than that of the other results: {}", different.join("; "));
    Err(Error::other_kind(problem).help(
        "let extra of [slurm] choose nodes of one kind, as by --constraint=NAME, and keep the results of others in a folder of their own",
    ))
}
