//! The folder of a profile while it is being written: earlier rows, provenance, one more row at a time.

use super::planned::Planned;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::records::{self, Appender, Provenance, Record, Run, Setting, Variant};
use crate::stages::Context;
use crate::workload::{Quantity, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A profile that rows are added to; no other process can add to it meanwhile.
#[derive(Debug)]
pub struct Journal {
    log_dir: PathBuf,
    appenders: BTreeMap<(Variant, Quantity), Appender>,
    earlier: Vec<Record>,
    provenance: Provenance,
    _lock: File,
}

/// The rows of `planned` that are there, read only.
///
/// # Errors
/// Rows that cannot be read, or that were measured under another setting than `now`.
pub(super) fn look(log_dir: &Path, planned: &[Planned], now: &Setting) -> Result<Vec<Record>> {
    provenance(log_dir, now)?;
    let mut rows = Vec::new();
    for (variant, quantity) in files(planned) {
        let file = records::log_file(log_dir, quantity, &variant);
        if file.exists() {
            rows.extend(records::read(&file, quantity, Stage::Training)?.records);
        }
    }
    Ok(rows)
}

impl Journal {
    /// Opens the folder: everything that could keep a row from being written is found out now.
    ///
    /// # Errors
    /// A folder that cannot be written or that another process writes, rows that cannot be read, rows that were
    /// measured under another setting.
    pub fn open(
        log_dir: &Path,
        planned: &[Planned],
        device: &dyn Device,
        seed: u64,
        context: &mut Context,
    ) -> Result<Self> {
        let quantities: BTreeSet<Quantity> = files(planned).into_iter().map(|(_, quantity)| quantity).collect();
        quantities.iter().try_for_each(|quantity| records::ensure_writable(&log_dir.join(quantity.name())))?;
        let lock = records::lock_folder(log_dir)?;
        let mut provenance = provenance(log_dir, &device.setting())?;
        let date = humantime::format_rfc3339_seconds(context.now()).to_string();
        provenance.runs.push(Run { date, seconds: 0.0, rows: 0, seed, config: context.config.clone() });
        let mut appenders = BTreeMap::new();
        let mut earlier = Vec::new();
        for (variant, quantity) in files(planned) {
            let (appender, log) = Appender::open(log_dir, &variant, quantity, Stage::Training)?;
            appenders.insert((variant, quantity), appender);
            if let Some(log) = log {
                log.warnings().into_iter().for_each(|warning| context.warn(warning));
                earlier.extend(log.records);
            }
        }
        Ok(Journal { log_dir: log_dir.to_owned(), appenders, earlier, provenance, _lock: lock })
    }

    /// The folder.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// The rows that were there when it was opened, of the planned variants and quantities.
    pub fn earlier(&self) -> &[Record] {
        &self.earlier
    }

    /// Adds rows that took so many seconds to measure.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add(&mut self, rows: &[Record], seconds: f64) -> Result<()> {
        if let Some(run) = self.provenance.runs.last_mut() {
            run.rows += rows.len();
            run.seconds += seconds;
        }
        // Provenance first: rows without one could not be continued after a crash.
        self.provenance.save(&self.log_dir)?;
        for row in rows {
            let appender = self.appenders.get(&(row.variant.clone(), row.quantity()));
            let unplanned = || Error::input(format!("{} was not planned", row.identity())).file(&self.log_dir);
            appender.ok_or_else(unplanned)?.append(row)?;
        }
        Ok(())
    }
}

/// The files that the rows of `planned` go to.
pub(super) fn files(planned: &[Planned]) -> BTreeSet<(Variant, Quantity)> {
    planned.iter().flat_map(Planned::identities).map(|identity| (identity.variant, identity.quantity)).collect()
}

/// The provenance to continue: the one there, or a new one where there are no rows.
fn provenance(log_dir: &Path, now: &Setting) -> Result<Provenance> {
    let fresh = Provenance { setting: now.clone(), runs: Vec::new() };
    if !records::any_rows(log_dir) {
        return Ok(fresh);
    }
    let Some(found) = Provenance::load(log_dir)? else {
        return Err(Error::input("there are rows here, but nothing says on which machine they were measured")
            .file(log_dir)
            .expected(records::PROVENANCE_FILE)
            .help(format!("start anew with another device_name or log_dir, or move {} away", log_dir.display())));
    };
    found.check_continues(now, log_dir)?;
    Ok(found)
}
