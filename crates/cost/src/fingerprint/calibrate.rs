//! Calibration: a fingerprint with a few measured rows of a new network.

use super::rows::{FailedAttempt, MeasuredRow};
use super::{Fingerprint, count};
use perf4sight_base::error::{Error, Result};
use perf4sight_step::workload::Quantity;
use std::collections::BTreeMap;

/// More rows than this are a profile, which needs a new fit.
pub const MOST_ROWS: usize = 4;

/// A measurement this many times above or below the prediction contradicts the fingerprint.
const CONTRADICTION: f64 = 10.0;

impl Fingerprint {
    /// The same fingerprint with additional rows of a new network. Memory is fitted again, and the new network weighs
    /// as much as every other. For latency the rows give the effect of this network at the measured level and, as far
    /// as levels of a network are alike, at its others. Latency rows at another precision give the device's speed at
    /// that precision, for any network. Steps that did not fit change the memory limit; latency does not use them.
    ///
    /// # Errors
    /// No rows, or more than [`MOST_ROWS`]; a row that contradicts the fingerprint tenfold; a step that cannot
    /// calibrate it; a method that stores no rows for a refit.
    pub fn calibrate(&self, rows: &[MeasuredRow], failed: &[FailedAttempt]) -> Result<Fingerprint> {
        self.check_count(rows.len() + failed.len())?;
        rows.iter().try_for_each(|row| self.fitted.check_teaches(&self.subject, row.record.workload.step))?;
        rows.iter().try_for_each(|row| self.check_plausible(row))?;
        failed.iter().try_for_each(|attempt| self.check_failed(attempt))?;
        // Rows at another precision describe the device, not the effects of their networks.
        let own: Vec<MeasuredRow> =
            rows.iter().filter(|row| row.record.workload.step == self.subject.step).cloned().collect();
        let mut profiled = self.profiled.clone();
        profiled.calibrate(&own);
        let fitted_on = self.fitted_on.iter().cloned().chain(count(&own)).collect();
        let fitted = self.fitted.calibrate(&self.subject, rows, failed)?;
        Ok(Fingerprint { profiled, fitted_on, fitted, scores: None, left_out: BTreeMap::new(), ..self.clone() })
    }

    fn check_count(&self, rows: usize) -> Result<()> {
        match rows {
            1..=MOST_ROWS => Ok(()),
            count => Err(Error::input(format!("{count} {} rows to calibrate with", self.subject.quantity))
                .expected(format!("1 to {MOST_ROWS} rows of the new network"))
                .help("with more rows fit a new fingerprint: [fingerprint] with the network in train_nets")),
        }
    }

    fn check_failed(&self, attempt: &FailedAttempt) -> Result<()> {
        let batch = attempt.record.workload.batch;
        match self.about(&attempt.network).max_batch() {
            Some(most) if most.likely as f64 > CONTRADICTION * batch as f64 => {
                let (step, likely) = (attempt.record.identity(), most.likely);
                Err(Error::input(format!("{step}: did not fit, but this fingerprint predicts that {likely} samples do"))
                    .expected(format!("a batch size that failed within a factor of {CONTRADICTION} of that"))
                    .help("check that the row is of this device, stage and network; if it is right, profile the network and fit again"))
            }
            _ => Ok(()),
        }
    }

    fn check_plausible(&self, row: &MeasuredRow) -> Result<()> {
        let predicted = self.predict(&row.network, row.record.workload.batch);
        let ratio = row.measured / predicted.value();
        if (1.0 / CONTRADICTION..=CONTRADICTION).contains(&ratio) {
            return Ok(());
        }
        let unit = match self.subject.quantity {
            Quantity::Latency => "ms",
            Quantity::Memory => "MiB",
        };
        let problem = format!(
            "{}: measured {:.1} {unit}, but this fingerprint of {} predicts {predicted}",
            row.record.identity(),
            row.measured,
            self.subject.device
        );
        Err(Error::input(problem)
            .expected(format!("a row within a factor of {CONTRADICTION} of the prediction"))
            .help("check that the row is of this device, stage and network, and in milliseconds or MiB; if it is right, profile the network and fit again"))
    }
}
