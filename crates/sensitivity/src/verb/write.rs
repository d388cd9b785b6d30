//! Writes the files of a profile.

use super::profile::SensitivityProfile;
use super::published::PublishedHost;
use super::{divided, page, published, store, tables};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder;
use perf4sight_base::{atomic_write, overwrite};
use perf4sight_machine::description::MachineDescription;
use perf4sight_machine::threads;
use std::path::{Path, PathBuf};

/// Disk space for the points and files of any job, in bytes.
const ROOM: usize = 256 << 10;

/// Checks, before measuring, that the results can be stored.
///
/// # Errors
/// A folder that cannot be created, or has no space.
pub(super) fn check_room(out: &Path) -> Result<()> {
    output_folder::make(out)?;
    has_room(out, out)
}

/// The same for a folder that is not created: its nearest existing ancestor must be writable.
pub(super) fn check_writable(out: &Path) -> Result<()> {
    let there = out.ancestors().find(|folder| folder.exists() || folder.as_os_str().is_empty());
    let there = there.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    has_room(there, out)
}

fn has_room(folder: &Path, out: &Path) -> Result<()> {
    atomic_write::try_folder(folder, ROOM).map_err(|cause| {
        Error::io(out, "keep points here", &cause).help("make room or permit writing, or choose another folder (out)")
    })
}

/// All files of a folder: the results, and what they are made of.
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([store::FILE, divided::FILE])
}

/// The names of the results.
pub(super) const NAMES: [&str; 7] =
    ["profile.json", "published.json", "throughput.csv", "curve.csv", "matrix.csv", "storage.csv", "report.html"];

/// Refuses, before measuring, a folder in which one of these files is not ours: with `has_points`, all are ours.
///
/// # Errors
/// A file that is not ours, unless `overwrite`.
pub(super) fn check_files(out: &Path, has_points: bool, overwrite: bool) -> Result<()> {
    overwrite::check_folder(out, NAMES, has_points, overwrite)
}

/// Writes all files, and returns the path of the report.
pub(super) fn files(out: &Path, profile: &SensitivityProfile) -> Result<PathBuf> {
    let here = MachineDescription::here();
    // If the driver lists no GPUs, the machine has at least those of the job.
    let host = PublishedHost { cpus: threads() as f64, memory: here.memory(), gpus: here.gpus().max(profile.job.gpus) };
    let json = serde_json::to_string_pretty(profile).expect("numbers and text are JSON");
    let texts = [
        json + "\n",
        format!("{:#}\n", published::objects(profile)),
        published::throughput(profile, host).to_csv(),
        tables::curve(profile).to_csv(),
        tables::matrix(profile).to_csv(),
        tables::storage_matrix(profile).to_csv(),
        page::build_page(profile).to_html(),
    ];
    NAMES.iter().zip(texts).try_for_each(|(name, text)| atomic_write::save(&out.join(name), text))?;
    Ok(out.join("report.html"))
}
