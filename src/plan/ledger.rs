//! What has been measured already, and what that says about the rest.

use super::sweep::Configuration;
use crate::records::{Identity, Outcome, Record, Variant};
use crate::workload::{Stage, Variable, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The outcomes so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// How often each row was measured.
    done: BTreeMap<Identity, u32>,
    /// What is being measured now.
    under_way: BTreeSet<(Variant, Stage)>,
    /// The smallest batch size that failed.
    failed: BTreeMap<(Variant, Stage), u64>,
    rows: Vec<Record>,
}

/// What to do about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Every row of it is there.
    Done,
    /// Measure these variables of it.
    Measure(Vec<Variable>),
    /// Ask again later: the variant is being measured at this stage, and how that ends may decide.
    UnderWay,
    /// Do not run it, because this smaller batch failed; these variables have no row yet.
    Skip {
        /// The batch size that failed.
        failed: u64,
        /// What would get a row that says so.
        missing: Vec<Variable>,
    },
}

impl Ledger {
    /// The ledger of a profile measured earlier.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut ledger = Ledger::default();
        for record in records {
            ledger.enter(record);
        }
        ledger
    }

    /// Takes note of one row.
    pub fn enter(&mut self, record: &Record) {
        self.count(record.identity());
        let Workload { stage, batch } = record.workload;
        if !record.outcome.passed() && record.outcome != Outcome::Skipped {
            let smallest = self.failed.entry((record.variant.clone(), stage)).or_insert(batch);
            *smallest = batch.min(*smallest);
        }
        self.rows.push(record.clone());
    }

    /// All rows of whole steps, as they came.
    pub fn rows(&self) -> &[Record] {
        &self.rows
    }

    /// Takes note of layers that were timed.
    pub fn enter_layers(&mut self, variant: &Variant, workload: Workload) {
        self.count(Identity { variant: variant.clone(), workload, variable: Variable::Layers });
    }

    fn count(&mut self, row: Identity) {
        *self.done.entry(row).or_default() += 1;
    }

    /// Takes note that a configuration is being measured.
    pub fn begin(&mut self, configuration: &Configuration) {
        self.under_way.insert((configuration.variant.clone(), configuration.workload.stage));
    }

    /// Takes note that it is not any more.
    pub fn end(&mut self, configuration: &Configuration) {
        self.under_way.remove(&(configuration.variant.clone(), configuration.workload.stage));
    }

    /// Whether anything is being measured.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// What to do about a configuration, given what is known.
    ///
    /// Larger batches than one that failed are not run. (On a real TX2 three variants of 95 passed at a larger batch
    /// than one they had failed at; running out of memory hundreds of times costs more than they are worth.) What failed
    /// has no layers either.
    pub fn decide(&self, configuration: &Configuration) -> Decision {
        let Configuration { variant, workload, variables, round } = configuration;
        let row = |variable| Identity { variant: variant.clone(), workload: *workload, variable };
        let done = |variable| self.done.get(&row(variable)).is_some_and(|times| times >= round);
        let failed = self.failed.get(&(variant.clone(), workload.stage)).copied();
        let without = |variable| variable == Variable::Layers && failed.is_some_and(|failed| failed <= workload.batch);
        let missing: Vec<Variable> =
            variables.iter().copied().filter(|&variable| !done(variable) && !without(variable)).collect();
        match failed {
            _ if missing.is_empty() => Decision::Done,
            _ if self.under_way.contains(&(variant.clone(), workload.stage)) => Decision::UnderWay,
            // What does not fit the first time does not the second time.
            Some(failed) if failed <= workload.batch && *round > 1 => Decision::Done,
            Some(failed) if failed < workload.batch => Decision::Skip { failed, missing },
            _ => Decision::Measure(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Reading;

    const BOTH: [Variable; 2] = [Variable::Latency, Variable::Memory];

    fn configuration(batch: u64) -> Configuration {
        let workload = Workload { stage: Stage::Training, batch };
        Configuration { variant: Variant::new("net", 30), workload, variables: BOTH.to_vec(), round: 1 }
    }

    fn row(batch: u64, outcome: Outcome) -> Record {
        let Configuration { variant, workload, .. } = configuration(batch);
        let (dataset, file) = ("imagenet".into(), "net_30.onnx".into());
        let reading = Reading::Latency(None);
        Record { variant, workload, dataset, file, outcome, reading, steps: None, spread: None }
    }

    #[test]
    fn what_has_a_row_is_not_measured_again() {
        let ledger = Ledger::of(&[row(8, Outcome::Measured)]);
        assert_eq!(ledger.decide(&configuration(8)), Decision::Measure(vec![Variable::Memory]));
        assert_eq!(ledger.decide(&configuration(16)), Decision::Measure(BOTH.to_vec()));
        let again = Configuration { round: 2, ..configuration(8) };
        assert_eq!(ledger.decide(&again), Decision::Measure(BOTH.to_vec()), "a second time");
        let latency_only = Configuration { variables: vec![Variable::Latency], ..configuration(8) };
        assert_eq!(ledger.decide(&latency_only), Decision::Done);
    }

    #[test]
    fn larger_batches_than_a_failed_one_are_skipped_and_no_others() {
        for outcome in [Outcome::OutOfMemory, Outcome::Crashed, Outcome::TimedOut, Outcome::Garbled, Outcome::Failed] {
            let ledger = Ledger::of(&[row(16, outcome), row(8, outcome), row(32, Outcome::Skipped)]);
            assert_eq!(ledger.decide(&configuration(4)), Decision::Measure(BOTH.to_vec()));
            assert_eq!(ledger.decide(&configuration(8)), Decision::Measure(vec![Variable::Memory]));
            let missing = BOTH.to_vec();
            assert_eq!(ledger.decide(&configuration(64)), Decision::Skip { failed: 8, missing });
            let other_stage = Workload { stage: Stage::Inference, batch: 64 };
            let inference = Configuration { workload: other_stage, ..configuration(64) };
            assert!(matches!(ledger.decide(&inference), Decision::Measure(_)));
            let again = Configuration { round: 2, ..configuration(8) };
            assert_eq!(ledger.decide(&again), Decision::Done, "failures are not repeated");
        }
    }

    #[test]
    fn layers_are_timed_once_and_never_of_what_failed() {
        let layers = |batch| Configuration { variables: Variable::ALL.to_vec(), ..configuration(batch) };
        let mut ledger = Ledger::of(&[row(4, Outcome::Measured), row(16, Outcome::OutOfMemory)]);
        let rest = [Variable::Memory, Variable::Layers].to_vec();
        assert_eq!(ledger.decide(&layers(4)), Decision::Measure(rest));
        ledger.enter_layers(&configuration(4).variant, configuration(4).workload);
        assert_eq!(ledger.decide(&layers(4)), Decision::Measure(vec![Variable::Memory]));
        assert_eq!(ledger.decide(&layers(16)), Decision::Measure(vec![Variable::Memory]));
        assert_eq!(ledger.decide(&layers(32)), Decision::Skip { failed: 16, missing: BOTH.to_vec() });
    }

    #[test]
    fn what_is_under_way_may_decide_about_other_batches_of_its_variant() {
        let mut ledger = Ledger::of(&[row(4, Outcome::Measured)]);
        ledger.begin(&configuration(8));
        assert_eq!(ledger.decide(&configuration(16)), Decision::UnderWay);
        assert_eq!(ledger.decide(&configuration(8)), Decision::UnderWay);
        let other = Configuration { variant: Variant::new("net", 50), ..configuration(16) };
        assert_eq!(ledger.decide(&other), Decision::Measure(BOTH.to_vec()));
        ledger.end(&configuration(8));
        assert_eq!(ledger.decide(&configuration(16)), Decision::Measure(BOTH.to_vec()));
        assert!(!ledger.is_under_way());
    }

    #[test]
    fn a_skipped_row_is_no_failure_of_its_own() {
        let ledger = Ledger::of(&[row(8, Outcome::Skipped)]);
        assert!(matches!(ledger.decide(&configuration(16)), Decision::Measure(_)));
    }
}
