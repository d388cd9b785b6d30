//! A fingerprint refitted with a few measured rows of a new network.

use super::rows::Row;
use super::{Fingerprint, count};
use crate::error::{Error, Result};
use crate::workload::Quantity;

/// More rows than this are a profile, to be fitted anew.
pub const MOST_ROWS: usize = 4;

/// A measurement this many times above or below the prediction contradicts everything the fingerprint knows.
const CONTRADICTION: f64 = 10.0;

impl Fingerprint {
    /// The same fingerprint, fitted once more with rows of a new network beside those it was fitted on; the new network weighs as
    /// much as every other. Scaling its predictions instead would let one level speak for all and makes them worse.
    ///
    /// # Errors
    /// No rows or more than [`MOST_ROWS`]; a row that contradicts the fingerprint tenfold; a method that keeps nothing to refit with.
    pub fn calibrate(&self, rows: &[Row]) -> Result<Fingerprint> {
        self.check_count(rows)?;
        rows.iter().try_for_each(|row| self.check_plausible(row))?;
        let mut profiled = self.profiled.clone();
        profiled.extend(rows);
        let fitted_on = self.fitted_on.iter().cloned().chain(count(rows)).collect();
        let fitted = self.fitted.calibrate(&self.subject, rows)?;
        Ok(Fingerprint { profiled, fitted_on, fitted, scores: None, ..self.clone() })
    }

    fn check_count(&self, rows: &[Row]) -> Result<()> {
        match rows.len() {
            1..=MOST_ROWS => Ok(()),
            count => Err(Error::input(format!("{count} {} rows to calibrate with", self.subject.quantity))
                .expected(format!("1 to {MOST_ROWS} rows of the new network"))
                .help("with more rows fit a new fingerprint: [fingerprint] with the network in train_nets")),
        }
    }

    fn check_plausible(&self, row: &Row) -> Result<()> {
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
            .expected(format!("a row within {CONTRADICTION} times of the prediction, below or above"))
            .help("check that the row is of this device, stage and network, and in milliseconds or MiB; if it is right, profile the network and fit anew"))
    }
}
