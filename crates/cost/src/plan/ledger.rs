//! Records the measurements so far, and derives from them which configurations still need to run.

use super::sweep::Configuration;
use crate::records::{MeasurementIdentity, MeasurementOutcome, RowRecord, Variant};
use perf4sight_step::workload::{Step, Variable, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The outcomes so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MeasurementLedger {
    /// How often each row was measured.
    done: BTreeMap<MeasurementIdentity, u32>,
    /// Configurations with a row that explains why they are not run.
    skipped: BTreeSet<MeasurementIdentity>,
    /// Configurations that failed in this run for a reason other than memory.
    broken: BTreeSet<(Variant, Workload)>,
    /// Configurations that are being measured.
    under_way: BTreeSet<(Variant, Step)>,
    /// The smallest batch size that ran out of memory.
    ran_out: BTreeMap<(Variant, Step), u64>,
    rows: Vec<RowRecord>,
    /// How often each row, by its index, was repeated in this run.
    repeated: BTreeMap<usize, u32>,
}

/// What is to be done with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigurationStatus {
    /// It has all its rows, or it failed in this run.
    Done,
    /// It lacks rows of these variables.
    Measure(Vec<Variable>),
    /// Check again later: the variant is being measured at this stage, and the outcome may decide.
    UnderWay,
    /// Do not run it, because this smaller batch ran out of memory; these variables have no row yet.
    Skip {
        /// The batch size that did not fit.
        ran_out: u64,
        /// The variables that get a row with outcome `Skipped`.
        missing: Vec<Variable>,
    },
}

impl MeasurementLedger {
    /// The ledger of an earlier profile. Configurations that failed then are tried again.
    pub fn from_records<'a>(records: impl IntoIterator<Item = &'a RowRecord>) -> Self {
        let mut ledger = MeasurementLedger::default();
        for record in records.into_iter().filter(|record| !record.outcome.broken()) {
            ledger.record(record);
        }
        ledger
    }

    /// Records one row of this run.
    pub fn record(&mut self, record: &RowRecord) {
        let Workload { step, batch } = record.workload;
        match record.outcome {
            MeasurementOutcome::Skipped => drop(self.skipped.insert(record.identity())),
            MeasurementOutcome::Failed
            | MeasurementOutcome::Crashed
            | MeasurementOutcome::TimedOut
            | MeasurementOutcome::Garbled => {
                self.broken.insert((record.variant.clone(), record.workload));
            }
            MeasurementOutcome::Measured
            | MeasurementOutcome::Disturbed
            | MeasurementOutcome::Throttled
            | MeasurementOutcome::Unexpected
            | MeasurementOutcome::OutOfMemory => {
                self.count(record.identity());
                if record.outcome == MeasurementOutcome::OutOfMemory {
                    let smallest = self.ran_out.entry((record.variant.clone(), step)).or_insert(batch);
                    *smallest = batch.min(*smallest);
                }
            }
        }
        self.rows.push(record.clone());
    }

    /// All rows of whole steps, in the order they were measured.
    pub fn rows(&self) -> &[RowRecord] {
        &self.rows
    }

    /// Records that a row was repeated.
    pub fn repeat(&mut self, place: usize) {
        let repeated = self.repeated.entry(place).or_default();
        *repeated = repeated.saturating_add(1);
    }

    /// Records that repeating a row fails in this run.
    pub fn give_up(&mut self, place: usize) {
        self.repeated.insert(place, u32::MAX);
    }

    /// Replaces the row at an index by that of another repetition.
    pub fn revise(&mut self, place: usize, row: RowRecord) {
        self.rows[place] = row;
    }

    /// How often the row at an index was repeated in this run.
    pub fn repetition_count(&self, place: usize) -> u32 {
        self.repeated.get(&place).copied().unwrap_or_default()
    }

    /// How often a configuration was run for its rows.
    pub fn runs(&self, configuration: &Configuration) -> u32 {
        let Configuration { variant, workload, .. } = configuration;
        let own = self.rows.iter().filter(|row| (&row.variant, row.workload) == (variant, *workload));
        own.map(|row| row.visits.len() as u32).sum()
    }

    /// Whether the variant and step of this row are being measured, so that a repetition would collide.
    pub fn is_busy(&self, row: &RowRecord) -> bool {
        self.under_way.contains(&(row.variant.clone(), row.workload.step))
    }

    /// Counts measurements whose rows are elsewhere.
    pub fn assume(&mut self, row: MeasurementIdentity, times: u32) {
        *self.done.entry(row).or_default() += times;
    }

    /// Records that layers were timed.
    pub fn enter_layers(&mut self, variant: &Variant, workload: Workload) {
        self.count(MeasurementIdentity { variant: variant.clone(), workload, variable: Variable::Layers });
    }

    fn count(&mut self, row: MeasurementIdentity) {
        self.assume(row, 1);
    }

    /// Records that the measurement of a configuration begins.
    pub fn begin(&mut self, configuration: &Configuration) {
        self.under_way.insert((configuration.variant.clone(), configuration.workload.step));
    }

    /// Notes that a configuration is no longer being measured.
    pub fn end(&mut self, configuration: &Configuration) {
        self.under_way.remove(&(configuration.variant.clone(), configuration.workload.step));
    }

    /// Whether anything is being measured.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The status of a configuration, given the measurements so far.
    ///
    /// Batches larger than one that ran out of memory are not run. (On a real TX2 three variants of 95 passed at a
    /// larger batch than one they had failed at; running out of memory hundreds of times costs more than they are
    /// worth.) A configuration that ran out of memory has no layers either. Any other failure does not affect other
    /// batches, and is left to the next run.
    pub fn status(&self, configuration: &Configuration) -> ConfigurationStatus {
        let Configuration { variant, workload, variables, round } = configuration;
        let ran_out = self.ran_out.get(&(variant.clone(), workload.step)).copied();
        let beyond = ran_out.filter(|ran_out| *ran_out < workload.batch);
        let row = |variable| MeasurementIdentity { variant: variant.clone(), workload: *workload, variable };
        let measured = |variable| self.done.get(&row(variable)).is_some_and(|times| times >= round);
        let skipped = |variable| beyond.is_some() && self.skipped.contains(&row(variable));
        let without =
            |variable| variable == Variable::Layers && ran_out.is_some_and(|ran_out| ran_out <= workload.batch);
        let settled = |variable| measured(variable) || skipped(variable) || without(variable);
        let missing: Vec<Variable> = variables.iter().copied().filter(|&variable| !settled(variable)).collect();
        match (ran_out, beyond) {
            _ if missing.is_empty() || self.broken.contains(&(variant.clone(), *workload)) => ConfigurationStatus::Done,
            _ if self.under_way.contains(&(variant.clone(), workload.step)) => ConfigurationStatus::UnderWay,
            // A configuration that did not fit the first time will not fit when repeated.
            (Some(ran_out), _) if ran_out <= workload.batch && *round > 1 => ConfigurationStatus::Done,
            (_, Some(ran_out)) => ConfigurationStatus::Skip { ran_out, missing },
            _ => ConfigurationStatus::Measure(missing),
        }
    }
}
