//! Reads the files of a profile into the rows to fit or evaluate on, and reports the rows left out.

use super::contradictory::remove_contradictory;
use super::networks::NetworkFolder;
use super::{FailedAttempt, LevelSelection, MeasuredRow, Observations, RowSelection};
use crate::records::layers::{self, LayerRecord};
use crate::records::{self, NetworkSize, ProfileProvenance, RowRecord, Variant};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::grouped_digits;
use perf4sight_network::Network;
use perf4sight_network::zoo::{ImageDataset, calibration};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Workload};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

/// The rows of a selection, and a list of missing data.
#[derive(Debug, Clone, Default)]
pub struct GatheredRows {
    /// Rows to fit or evaluate on, by network, level, repeat and then as in their files.
    pub rows: Vec<MeasuredRow>,
    /// Rows of calibration networks: of whole steps, whatever networks are selected. None for memory, which is
    /// simulated.
    pub taught: Vec<MeasuredRow>,
    /// Rows of failed measurements: out of memory, skipped, crashed.
    pub failed: Vec<FailedAttempt>,
    /// Variants without a file, as `network_level`, and folders that do not exist.
    pub missing_logs: Vec<String>,
    /// Rows whose network file is missing, by its stem.
    pub missing_networks: BTreeMap<String, Vec<RowRecord>>,
    /// Warnings of the readers: torn last lines, repeated rows.
    pub warnings: Vec<String>,
    /// The number of rows of other steps in the same files, by step.
    pub of_other_steps: BTreeMap<String, usize>,
}

/// Reads the selected rows and their networks.
///
/// # Errors
/// A file exists but cannot be parsed. Missing files are counted in the result.
pub fn gather(selection: &RowSelection, networks: &mut NetworkFolder) -> Result<GatheredRows> {
    let mut gathered = GatheredRows::default();
    let records = thin_rows(read_logs(selection, &mut gathered)?, &mut gathered.warnings);
    let mut layers = read_layers(selection, &records, &mut gathered.warnings)?;
    gathered.warnings.extend(networks.fetch(records.iter().filter_map(RowRecord::stem))?);
    check_networks(selection, records.iter().filter_map(RowRecord::stem).collect(), networks)?;
    let mut others = BTreeSet::new();
    for record in records {
        let stem = record.stem().unwrap_or_default().to_owned();
        let is_taught = calibration::is_reserved(&record.variant.network);
        let network =
            networks.get(&stem).filter(|network| is_taught || reads_dataset(network, &record.dataset)).cloned();
        if network.is_none() && networks.get(&stem).is_some() {
            let folder = networks.folder().display();
            others.insert(format!(
                "{stem}.onnx in {folder} does not read the images of {}: its rows are left out",
                record.dataset
            ));
        }
        match (network, record.value()) {
            (None, _) => gathered.missing_networks.entry(stem).or_default().push(record),
            (Some(network), Some(measured)) => {
                let timed = layers.get_mut(&(record.variant.clone(), record.workload));
                let layers = timed.and_then(VecDeque::pop_front).unwrap_or_default();
                let rows = if is_taught { &mut gathered.taught } else { &mut gathered.rows };
                rows.push(MeasuredRow { record, measured, network, layers });
            }
            // A failed row of a calibration network has no use.
            (Some(_), None) if is_taught => {}
            (Some(network), None) => gathered.failed.push(FailedAttempt { record, network }),
        }
    }
    gathered.warnings.extend(others);
    let contradictory = remove_contradictory(&mut gathered.rows);
    gathered.warnings.extend(contradictory);
    Ok(gathered)
}

/// Whether a network reads the images of its rows' dataset, where the dataset gives their size.
fn reads_dataset(network: &Network, dataset: &str) -> bool {
    let images = ImageDataset::from_word(dataset).ok().filter(ImageDataset::is_sized);
    images.is_none_or(|images| images.input() == network.input_shape())
}

/// The most rows that a fit and a report process within a minute and a gigabyte; more rows of the same steps add
/// nothing.
pub const MOST_FITTED: usize = 4000;

/// At most [`MOST_FITTED`] of some rows: equally many of every step, the first ones. If there are more steps than
/// that, steps are spread evenly over variants and batch sizes.
fn thin_rows(records: Vec<RowRecord>, warnings: &mut Vec<String>) -> Vec<RowRecord> {
    if records.len() <= MOST_FITTED {
        return records;
    }
    let mut steps: BTreeMap<(&Variant, Workload), Vec<usize>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        steps.entry((&record.variant, record.workload)).or_default().push(index);
    }
    let (each, stride) = ((MOST_FITTED / steps.len()).max(1), steps.len().div_ceil(MOST_FITTED));
    let kept: BTreeSet<usize> =
        steps.values().step_by(stride).flat_map(|rows| rows.iter().take(each).copied()).collect();
    let spread = if stride > 1 { format!("one step in {stride}") } else { "every step".to_owned() };
    // Before the warnings of the readers: only the first warning is shown outside the report.
    let thinned = format!(
        "{} rows are more than the {} taken at most: {} of them are, of {spread} up to {each}",
        grouped_digits(records.len() as u64),
        grouped_digits(MOST_FITTED as u64),
        grouped_digits(kept.len() as u64),
    );
    warnings.insert(0, thinned);
    records.into_iter().enumerate().filter(|(index, _)| kept.contains(index)).map(|(_, record)| record).collect()
}

/// Refuses files that hold other networks than those whose rows are there.
fn check_networks(selection: &RowSelection, stems: BTreeSet<&str>, networks: &NetworkFolder) -> Result<()> {
    let profiles: BTreeSet<&Path> = selection.folders.iter().filter_map(|folder| folder.parent()).collect();
    for profile in profiles {
        let Some(provenance) = ProfileProvenance::load(profile)? else { continue };
        let sizes = stems.iter().filter_map(|stem| Some((*stem, NetworkSize::from(&**networks.get(stem)?))));
        sizes.into_iter().try_for_each(|(stem, size)| provenance.check_network(stem, size, profile))?;
    }
    Ok(())
}

fn read_logs(selection: &RowSelection, gathered: &mut GatheredRows) -> Result<Vec<RowRecord>> {
    let files = find_logs(selection, gathered)?;
    let mut records = Vec::new();
    for file in files.into_values().flatten() {
        let log = records::read(&file, selection.quantity, selection.step.stage)?;
        gathered.warnings.extend(log.warnings());
        let rows = log.settled_rows();
        if rows.is_empty() {
            gathered.warnings.push(format!("{} holds no rows", file.display()));
        }
        let asked = |record: &RowRecord| match calibration::is_reserved(&record.variant.network) {
            true => selection.step.of_whole_network(),
            false => selection.step,
        };
        let (own, others): (Vec<RowRecord>, Vec<RowRecord>) =
            rows.into_iter().partition(|record| record.workload.step == asked(record));
        // Other steps of calibration networks are not counted: they are not the user's.
        for record in others.iter().filter(|record| !calibration::is_reserved(&record.variant.network)) {
            *gathered.of_other_steps.entry(record.workload.step.to_string()).or_default() += 1;
        }
        records.extend(own);
    }
    Ok(records)
}

/// The operation times in the folder `layers` next to that of the latency rows, for the steps that were timed
/// operation by operation.
fn read_layers(selection: &RowSelection, records: &[RowRecord], warnings: &mut Vec<String>) -> Result<LayerRows> {
    let mut steps = LayerRows::new();
    let variants: BTreeSet<&Variant> = records.iter().map(|record| &record.variant).collect();
    let folders = selection.folders.iter().filter(|_| selection.quantity == Quantity::Latency);
    for log_dir in folders.filter_map(|folder| folder.parent()) {
        let files = variants.iter().map(|variant| layers::file(log_dir, variant));
        for file in files.filter(|file| file.exists()) {
            let log = layers::read(&file)?;
            warnings.extend(log.warning(&file));
            // A step that was measured again was also timed again.
            for step in log.records.chunk_by(|layer, _| layer.pass != layers::StepPart::Step) {
                if step.iter().all(|layer| layer.record.outcome.passed()) {
                    let of = &step[0].record;
                    steps.entry((of.variant.clone(), of.workload)).or_default().push_back(step.to_vec());
                }
            }
        }
    }
    Ok(steps)
}

/// The operation times of every timing of a step, in the order of the rows.
type LayerRows = BTreeMap<(Variant, Workload), VecDeque<Vec<LayerRecord>>>;

/// Files by variant, over all folders; records folders and variants that are missing.
fn find_logs(selection: &RowSelection, gathered: &mut GatheredRows) -> Result<BTreeMap<Variant, Vec<PathBuf>>> {
    let mut files: BTreeMap<Variant, Vec<PathBuf>> = BTreeMap::new();
    let mut known: Vec<&str> = selection.networks.iter().map(String::as_str).collect();
    if selection.quantity == Quantity::Latency {
        calibration::names().for_each(|name| known.push(name));
    }
    for folder in selection.folders {
        if !folder.is_dir() {
            gathered.missing_logs.push(folder.display().to_string());
            continue;
        }
        for (variant, file) in records::list(folder, known.iter().copied())? {
            if selection.levels.contain(variant.level) || calibration::is_reserved(&variant.network) {
                files.entry(variant).or_default().push(file);
            }
        }
    }
    if let LevelSelection::Only(levels) = &selection.levels {
        let wanted = selection.networks.iter().flat_map(|name| levels.iter().map(move |&level| (name, level)));
        let found =
            |(name, level): &(&String, u8)| files.keys().any(|file| file.network == **name && file.level == *level);
        let missing = wanted.filter(|wanted| !found(wanted));
        gathered.missing_logs.extend(missing.map(|(name, level)| Variant::new(name, level).to_string()));
    }
    Ok(files)
}

impl GatheredRows {
    /// These rows with the facts of their device.
    pub fn observations<'a>(&'a self, platform: &'a Platform) -> Observations<'a> {
        Observations { rows: &self.rows, taught: &self.taught, failed: &self.failed, platform }
    }

    /// Whether files that the selection needs are missing.
    pub fn is_incomplete(&self) -> bool {
        !self.missing_logs.is_empty() || !self.missing_networks.is_empty()
    }

    /// Refuses a selection without rows.
    ///
    /// # Errors
    /// There are no rows; the message lists what was missing.
    pub fn check_any(&self, selection: &RowSelection) -> Result<()> {
        if !self.rows.is_empty() {
            return Ok(());
        }
        let folders: Vec<String> = selection.folders.iter().map(|folder| folder.display().to_string()).collect();
        let problem = format!("no passed {} {} rows in {}", selection.step, selection.quantity, folders.join(", "));
        Err(Error::input(format!("{problem}: {self}"))
            .expected("rows of the selected networks and levels whose network files are there")
            .help("check the names of networks and levels, the log folders and pruned_models_storedir"))
    }
}

/// Lists the rows left out, as one sentence for users.
impl fmt::Display for GatheredRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |count: usize, what: &str, names: Vec<&str>| {
            let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            parts.extend((count > 0).then(|| format!("{count} {what}{names}")));
        };
        part(self.failed.len(), "rows of failed measurements", Vec::new());
        part(self.missing_logs.len(), "missing logs", self.missing_logs.iter().map(String::as_str).collect());
        let stems = self.missing_networks.keys().map(String::as_str).collect();
        part(self.missing_networks.values().map(Vec::len).sum(), "rows without their network file", stems);
        f.write_str(if parts.is_empty() { "nothing left out" } else { "left out: " })?;
        f.write_str(&parts.join("; "))
    }
}
