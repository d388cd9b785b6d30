//! Measured rows of the network, from files in the dialect of profiles.

use super::Subject;
use crate::error::{Error, Result};
use crate::fingerprint::Row;
use crate::records::{self, Record, Variant};
use crate::stages::Context;
use crate::stages::named::is_file;
use crate::workload::Quantity;
use std::fs;
use std::path::{Path, PathBuf};

/// The variant that a word on the command line names: `NAME@LEVEL`, `NAME`, or a file called either or `NAME_LEVEL`.
pub(super) fn variant(word: &str) -> Variant {
    let stem = match is_file(word) {
        true => Path::new(word).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        false => word.replace('@', "_"),
    };
    let parsed = stem.rsplit_once('_').and_then(|(network, _)| Variant::parse(&stem, [network]).ok());
    parsed.unwrap_or_else(|| Variant::new(stem, 0))
}

impl Subject<'_> {
    /// The rows of these files that passed.
    pub(super) fn read(&self, files: &[PathBuf], context: &mut Context) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for file in files {
            let log = records::read(file, quantity(file)?, self.stage)?;
            log.warnings().iter().for_each(|warning| context.warn(warning));
            for record in log.records.into_iter().filter(|record| record.workload.stage == self.stage) {
                rows.extend(self.row(record, file, context)?);
            }
        }
        match rows.is_empty() {
            true => Err(Error::input(format!("no passed {} rows in {} files", self.stage, files.len()))
                .expected("1 to 4 rows of each quantity")
                .help("perf4sight calibrate without --rows says what to measure")),
            false => Ok(rows),
        }
    }

    /// One row with its network; none where the measurement failed.
    fn row(&self, record: Record, file: &Path, context: &mut Context) -> Result<Option<Row>> {
        self.check(&record).map_err(|error| error.file(file))?;
        let Some(measured) = record.value() else {
            context.warn(format!("{}: {} is left out: {}", file.display(), record.identity(), record.outcome));
            return Ok(None);
        };
        Ok(Some(Row { record, measured, network: self.network.clone(), layers: Vec::new() }))
    }

    /// Refuses rows of another network or dataset, and of a quantity without a fingerprint.
    fn check(&self, record: &Record) -> Result<()> {
        let (identity, dataset) = (record.identity(), &self.fingerprints.subject().dataset);
        if !self.is_of(&record.file) {
            return Err(Error::input(format!("{identity}: this row is of another network"))
                .expected(format!("rows of {}", self.variant))
                .help("name the network that was measured, or take rows of this one"));
        }
        if record.dataset != *dataset {
            return Err(Error::input(format!("{identity}: this row is of the dataset {}", record.dataset))
                .expected(format!("rows of {dataset}, as the fingerprint is")));
        }
        match self.fingerprints.iter().any(|one| one.subject().quantity == record.quantity()) {
            true => Ok(()),
            false => Err(Error::input(format!("{identity}: there is no fingerprint of {}", record.quantity()))
                .help("fit one, or leave these rows out")),
        }
    }
}

/// What the rows of a file measure, told by its header.
fn quantity(file: &Path) -> Result<Quantity> {
    let text = fs::read_to_string(file).map_err(|cause| Error::io(file, "read the rows", &cause))?;
    let header = text.lines().next().unwrap_or_default();
    Ok(if header.split('|').any(|column| column == "mem_used") { Quantity::Memory } else { Quantity::Latency })
}
