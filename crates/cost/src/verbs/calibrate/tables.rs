//! Predictions before and after the refit, next to the measured values.

use super::CalibratedNetwork;
use super::rows::CalibrationRows;
use crate::fingerprint::{
    DeviceFingerprints, Fingerprint, IntervalBasis, MeasuredRow, PredictedValue, PredictionInterval, PreparedStep,
};
use perf4sight_base::units::Percent;
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_step::workload::Quantity;

/// The factor from which a row of a profiled network is worth a warning.
const FAR: f64 = 1.3;

/// "batch size 4: measured 508 ms".
fn measured_text(row: &MeasuredRow) -> String {
    let measured = PredictedValue::new(row.record.quantity(), row.measured);
    format!("batch size {}: measured {measured}", row.record.workload.batch)
}

impl CalibratedNetwork<'_> {
    /// A table for each measured quantity, with the batch sizes measured and requested.
    pub(super) fn before_and_after(
        &self,
        refitted: &DeviceFingerprints,
        measured: &CalibrationRows,
        batches: &[u64],
    ) -> Vec<(Quantity, Table)> {
        let pairs = self.fingerprints.iter().zip(refitted.iter());
        let pairs = pairs.map(|(before, after)| (before.subject().quantity, [before, after]));
        let taught = pairs.filter(|(quantity, _)| measured.quantities().any(|one| one == *quantity));
        taught.map(|(quantity, pair)| (quantity, self.comparison_table(pair, measured, batches))).collect()
    }

    pub(super) fn misses(&self, refitted: &DeviceFingerprints, measured: &CalibrationRows) -> Vec<String> {
        let miss = |row: &MeasuredRow| {
            let (value, PredictionInterval { low, high, .. }) = self.missed(refitted, row)?;
            Some(format!(
                "{}, and still predicted {value} ({low} to {high}): this network differs from the profiled ones in a way that so few rows do not show; profile it and fit again",
                measured_text(row)
            ))
        };
        measured.rows.iter().filter_map(miss).collect()
    }

    /// Rows of a network that was profiled, far from what its own levels let expect.
    pub(super) fn contradictions(&self, measured: &CalibrationRows) -> Vec<String> {
        let far = |row: &MeasuredRow| {
            let (value, PredictionInterval { low, high, basis }) = self.missed(self.fingerprints, row)?;
            let ratio = row.measured / value.value();
            (basis == IntervalBasis::Levels && ratio.max(ratio.recip()) > FAR).then(|| {
                format!(
                    "{}, though this network was profiled and {value} ({low} to {high}) are predicted: the machine is another one, or busier; \
                     profile it, since what this fingerprint says of other networks may be as far off",
                    measured_text(row)
                )
            })
        };
        measured.rows.iter().filter_map(far).collect()
    }

    /// What is predicted for a row that is outside of its interval, and that interval.
    fn missed(
        &self,
        fingerprints: &DeviceFingerprints,
        row: &MeasuredRow,
    ) -> Option<(PredictedValue, PredictionInterval)> {
        let of = fingerprints.iter().find(|one| one.subject().quantity == row.record.quantity())?;
        let prediction = self.prepare_step(of)?.predict(row.record.workload.batch);
        Some((prediction.value, prediction.interval.filter(|interval| !interval.contains(row.measured))?))
    }

    fn comparison_table(
        &self,
        [before, after]: [&Fingerprint; 2],
        measured: &CalibrationRows,
        batches: &[u64],
    ) -> Table {
        let quantity = before.subject().quantity;
        let own: Vec<&MeasuredRow> = measured.rows.iter().filter(|row| row.record.quantity() == quantity).collect();
        let failed = measured.failed.iter().map(|attempt| &attempt.record).filter(|one| one.quantity() == quantity);
        let failed: Vec<u64> = failed.map(|record| record.workload.batch).collect();
        let passed = own.iter().map(|row| row.record.workload.batch);
        let mut sizes: Vec<u64> = passed.chain(failed.iter().copied()).chain(batches.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut table = self.table(quantity, &["measured", "before", "after"]);
        let steady = quantity == Quantity::Latency && own.iter().any(|row| row.record.spread.is_some());
        if steady {
            table
                .columns
                .extend([TableColumn::number("spread_percent", "spread"), TableColumn::text("outcome", "outcome")]);
        }
        let [before, after] = [before, after].map(|one| self.prepare_step(one));
        for batch in sizes {
            let row = own.iter().find(|row| row.record.workload.batch == batch);
            let measured = match row {
                Some(row) => PredictedValue::new(quantity, row.measured).into(),
                None if failed.contains(&batch) => "did not fit".into(),
                None => Cell::Missing,
            };
            let values = [
                batch.into(),
                measured,
                prediction_cell(before.as_ref(), batch),
                prediction_cell(after.as_ref(), batch),
            ];
            let spread =
                [row.and_then(|row| row.record.spread).map(|spread| Percent(100.0 * spread)).into(), outcome(row)];
            table.row(values.into_iter().chain(spread.into_iter().filter(|_| steady)));
        }
        table
    }

    pub(super) fn predictions(&self, batches: &[u64]) -> Vec<(Quantity, Table)> {
        let tables = self.fingerprints.iter().map(|fingerprint| {
            let quantity = fingerprint.subject().quantity;
            let mut table = self.table(quantity, &["predicted"]);
            let about = self.prepare_step(fingerprint);
            batches.iter().for_each(|&batch| table.row([batch.into(), prediction_cell(about.as_ref(), batch)]));
            (quantity, table)
        });
        tables.collect()
    }

    /// The fingerprint's predictions for the measured steps; none if it cannot predict them yet.
    fn prepare_step<'a>(&'a self, fingerprint: &'a Fingerprint) -> Option<PreparedStep<'a>> {
        fingerprint.about_step(&self.network, self.step, None).ok()
    }

    fn table(&self, quantity: Quantity, columns: &[&str]) -> Table {
        let unit = match quantity {
            Quantity::Latency => "ms",
            Quantity::Memory => "bytes",
        };
        let title = format!("{} {quantity} of {} on {}", self.step, self.variant, self.fingerprints.subject().device);
        let values = columns.iter().map(|column| TableColumn::number(format!("{column}_{unit}"), *column));
        Table::new(title, [TableColumn::number("bs", "batch size")].into_iter().chain(values))
    }
}

/// The outcome of a row, which shows whether its time can be trusted.
fn outcome(row: Option<&&MeasuredRow>) -> Cell {
    row.map(|row| row.record.outcome.to_string()).into()
}

/// Empty if the fingerprint cannot predict the step.
fn prediction_cell(about: Option<&PreparedStep>, batch: u64) -> Cell {
    about.map(|about| about.predict(batch).value).into()
}
