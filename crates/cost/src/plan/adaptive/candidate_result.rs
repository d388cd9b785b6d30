//! The results of each candidate so far.

use super::candidate::PlanCandidate;
use crate::fingerprint::MeasuredRow;
use crate::plan::MeasurementLedger;
use crate::records::{MeasurementOutcome, RowRecord, Variant};
use perf4sight_step::workload::{Quantity, Step, Workload};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CandidateResult {
    /// How often it was measured.
    pub times: u32,
    /// Whether it did not fit.
    pub ran_out: bool,
}

#[derive(Debug, Clone)]
pub(super) struct CandidateIndex(BTreeMap<(Variant, Workload), usize>);

/// Rows that passed, by step and quantity, in an order that does not depend on when they were measured.
pub(super) type PassedRows = BTreeMap<(Step, Quantity), Vec<MeasuredRow>>;

impl CandidateIndex {
    pub fn new(candidates: &[PlanCandidate]) -> Self {
        let key = |one: &PlanCandidate| (one.configuration.variant.clone(), one.configuration.workload);
        CandidateIndex(candidates.iter().enumerate().map(|(at, one)| (key(one), at)).collect())
    }

    /// The rows of candidates that ran or did not fit, in the order they were measured; other failures are left out.
    fn measured<'a>(&'a self, ledger: &'a MeasurementLedger) -> impl Iterator<Item = (usize, &'a RowRecord)> {
        let ran = ledger
            .rows()
            .iter()
            .filter(|record| record.outcome != MeasurementOutcome::Skipped && !record.outcome.broken());
        ran.filter_map(|record| Some((*self.0.get(&(record.variant.clone(), record.workload))?, record)))
    }

    /// The result of each candidate.
    pub fn results(&self, ledger: &MeasurementLedger) -> Vec<CandidateResult> {
        let mut seen = vec![CandidateResult::default(); self.0.len()];
        let mut times: BTreeMap<(usize, Quantity), u32> = BTreeMap::new();
        for (at, record) in self.measured(ledger) {
            let rows = times.entry((at, record.quantity())).or_default();
            *rows += 1;
            let one = &mut seen[at];
            one.times = one.times.max(*rows);
            one.ran_out |= record.outcome == MeasurementOutcome::OutOfMemory;
        }
        seen
    }

    /// The number of measured rows of a quantity.
    pub fn count(&self, ledger: &MeasurementLedger, quantity: Quantity) -> usize {
        self.measured(ledger).filter(|(_, record)| record.quantity() == quantity).count()
    }

    pub fn rows(&self, candidates: &[PlanCandidate], ledger: &MeasurementLedger) -> PassedRows {
        let mut rows = PassedRows::new();
        for (at, record) in self.measured(ledger) {
            let Some(measured) = record.value() else { continue };
            let (network, record) = (candidates[at].graph.clone(), record.clone());
            let of = rows.entry((record.workload.step, record.quantity())).or_default();
            of.push(MeasuredRow { record, measured, network, layers: Vec::new() });
        }
        let place = |row: &MeasuredRow| (row.record.variant.clone(), row.record.workload);
        rows.values_mut().for_each(|rows| rows.sort_by_key(place));
        rows
    }
}
