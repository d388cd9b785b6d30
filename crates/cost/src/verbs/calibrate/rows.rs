//! Measured rows of the network, from files in the dialect of profiles.

use super::CalibratedNetwork;
use crate::fingerprint::{FailedAttempt, MeasuredRow};
use crate::records::{self, MeasurementOutcome, RowRecord, Variant};
use crate::verbs::named::is_file;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_step::workload::Quantity;
use perf4sight_verb::Context;
use std::path::{Path, PathBuf};

/// The variant that a word on the command line names: `NAME@LEVEL`, `NAME`, or a file with one of these names or
/// `NAME_LEVEL`.
pub(super) fn variant(word: &str) -> Variant {
    let stem = match is_file(word) {
        true => Path::new(word).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        false => word.replace('@', "_"),
    };
    let parsed = stem.rsplit_once('_').and_then(|(network, _)| Variant::parse(&stem, [network]).ok());
    parsed.unwrap_or_else(|| Variant::new(stem, 0))
}

#[derive(Default)]
pub(super) struct CalibrationRows {
    pub rows: Vec<MeasuredRow>,
    /// Steps that did not fit.
    pub failed: Vec<FailedAttempt>,
    /// The files of rows that were measured now.
    pub files: Vec<PathBuf>,
}

impl CalibrationRows {
    pub fn quantities(&self) -> impl Iterator<Item = Quantity> {
        let rows = self.rows.iter().map(|row| row.record.quantity());
        rows.chain(self.failed.iter().map(|attempt| attempt.record.quantity()))
    }

    /// Leaves out times that are marked as doubtful.
    ///
    /// # Errors
    /// When no other times are left: a time that is several times too long would otherwise count as the network's.
    pub fn leave_out_doubtful(&mut self, context: &mut Context) -> Result<()> {
        let times = |rows: &[MeasuredRow]| rows.iter().filter(|row| row.record.quantity() == Quantity::Latency).count();
        let all = times(&self.rows);
        let (doubtful, rows): (Vec<MeasuredRow>, Vec<MeasuredRow>) =
            std::mem::take(&mut self.rows).into_iter().partition(|row| row.record.outcome.doubtful());
        self.rows = rows;
        if all > 0 && times(&self.rows) == 0 {
            return Err(Error::device("all measured times are marked as disturbed, throttled or unexpected")
                .expected("one that is not")
                .help("measure again when nothing else runs, or add --force to use them all the same"));
        }
        let named = |row: &MeasuredRow| format!("{} is left out: {}", row.record.identity(), row.record.outcome);
        doubtful.iter().for_each(|row| context.warn(named(row)));
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.rows.len() + self.failed.len()
    }
}

impl CalibratedNetwork<'_> {
    /// Reads the steps that passed, and those that did not fit, from these files.
    pub(super) fn read(&self, files: &[PathBuf], context: &mut Context) -> Result<CalibrationRows> {
        let mut measured = CalibrationRows::default();
        for file in files {
            let log = records::read(file, quantity(file)?, self.step.stage)?;
            log.warnings().iter().for_each(|warning| context.warn(warning));
            for record in log.records.into_iter().filter(|record| record.workload.step == self.step) {
                self.check(&record).map_err(|error| error.file(file))?;
                self.sort(record, &mut measured, context);
            }
        }
        match measured.count() {
            0 => Err(Error::input(format!("no usable {} rows in {} files", self.step, files.len()))
                .expected("1 to 4 rows of each quantity")
                .help("perf4sight calibrate without --rows shows which rows to measure")),
            _ => Ok(measured),
        }
    }

    /// Sorts a row by its outcome, passed or out of memory; other outcomes are not used.
    pub(super) fn sort(&self, record: RowRecord, measured: &mut CalibrationRows, context: &mut Context) {
        let network = self.network.clone();
        match (record.value(), record.outcome, record.quantity()) {
            (Some(value), ..) => {
                measured.rows.push(MeasuredRow { record, measured: value, network, layers: Vec::new() });
            }
            (None, MeasurementOutcome::OutOfMemory, Quantity::Memory) => {
                measured.failed.push(FailedAttempt { record, network })
            }
            (None, outcome, _) => context.warn(format!("{} is left out: {outcome}", record.identity())),
        }
    }

    /// Refuses rows of another network or dataset, and of a quantity without a fingerprint.
    fn check(&self, record: &RowRecord) -> Result<()> {
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
        match self.refitted().any(|one| one.subject().quantity == record.quantity()) {
            true => Ok(()),
            false => {
                Err(Error::input(format!("{identity}: no fingerprint of {} learns from such rows", record.quantity()))
                    .help("fit one, or leave these rows out; memory at another precision is simulated, not calibrated"))
            }
        }
    }
}

fn quantity(file: &Path) -> Result<Quantity> {
    let text = input_file::text(file, "read the rows")?;
    let header = text.lines().next().unwrap_or_default();
    Ok(if header.split('|').any(|column| column == "mem_used") { Quantity::Memory } else { Quantity::Latency })
}
