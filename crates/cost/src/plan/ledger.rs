//! What has been measured already, and what that says about the rest.

use super::sweep::Configuration;
use crate::records::{Identity, Outcome, Record, Variant};
use perf4sight_step::workload::{Step, Variable, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The outcomes so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// How often each row was measured.
    done: BTreeMap<Identity, u32>,
    /// What has a row that says why it is not run.
    skipped: BTreeSet<Identity>,
    /// What broke in this run, for another reason than memory.
    broken: BTreeSet<(Variant, Workload)>,
    /// What is being measured now.
    under_way: BTreeSet<(Variant, Step)>,
    /// The smallest batch size that ran out of memory.
    ran_out: BTreeMap<(Variant, Step), u64>,
    rows: Vec<Record>,
    /// How often each row, by its place, was visited again in this run.
    visited: BTreeMap<usize, u32>,
}

/// What to do about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Every row of it is there, or this run has tried in vain.
    Done,
    /// Measure these variables of it.
    Measure(Vec<Variable>),
    /// Ask again later: the variant is being measured at this stage, and how that ends may decide.
    UnderWay,
    /// Do not run it, because this smaller batch ran out of memory; these variables have no row yet.
    Skip {
        /// The batch size that did not fit.
        ran_out: u64,
        /// What would get a row that says so.
        missing: Vec<Variable>,
    },
}

impl Ledger {
    /// The ledger of a profile measured earlier. What broke then is tried again.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut ledger = Ledger::default();
        for record in records.into_iter().filter(|record| !record.outcome.broken()) {
            ledger.enter(record);
        }
        ledger
    }

    /// Takes note of one row of this run.
    pub fn enter(&mut self, record: &Record) {
        let Workload { step, batch } = record.workload;
        match record.outcome {
            Outcome::Skipped => drop(self.skipped.insert(record.identity())),
            Outcome::Failed | Outcome::Crashed | Outcome::TimedOut | Outcome::Garbled => {
                self.broken.insert((record.variant.clone(), record.workload));
            }
            Outcome::Measured
            | Outcome::Disturbed
            | Outcome::Throttled
            | Outcome::Unexpected
            | Outcome::OutOfMemory => {
                self.count(record.identity());
                if record.outcome == Outcome::OutOfMemory {
                    let smallest = self.ran_out.entry((record.variant.clone(), step)).or_insert(batch);
                    *smallest = batch.min(*smallest);
                }
            }
        }
        self.rows.push(record.clone());
    }

    /// All rows of whole steps, as they came.
    pub fn rows(&self) -> &[Record] {
        &self.rows
    }

    /// Takes note that a row was visited again.
    pub fn visit(&mut self, place: usize) {
        let visited = self.visited.entry(place).or_default();
        *visited = visited.saturating_add(1);
    }

    /// Takes note that visits to a row come to nothing in this run.
    pub fn give_up(&mut self, place: usize) {
        self.visited.insert(place, u32::MAX);
    }

    /// Puts what a row has become in its place.
    pub fn revise(&mut self, place: usize, row: Record) {
        self.rows[place] = row;
    }

    /// How often the row at a place was visited again in this run.
    pub fn visited(&self, place: usize) -> u32 {
        self.visited.get(&place).copied().unwrap_or_default()
    }

    /// How often a configuration was run for its rows.
    pub fn runs(&self, configuration: &Configuration) -> u32 {
        let Configuration { variant, workload, .. } = configuration;
        let own = self.rows.iter().filter(|row| (&row.variant, row.workload) == (variant, *workload));
        own.map(|row| row.visits.len() as u32).sum()
    }

    /// Whether something is being measured that another visit to this row would meet.
    pub fn is_busy(&self, row: &Record) -> bool {
        self.under_way.contains(&(row.variant.clone(), row.workload.step))
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
        self.under_way.insert((configuration.variant.clone(), configuration.workload.step));
    }

    /// Takes note that it is not any more.
    pub fn end(&mut self, configuration: &Configuration) {
        self.under_way.remove(&(configuration.variant.clone(), configuration.workload.step));
    }

    /// Whether anything is being measured.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// What to do about a configuration, given what is known.
    ///
    /// Larger batches than one that ran out of memory are not run. (On a real TX2 three variants of 95 passed at a larger batch
    /// than one they had failed at; running out of memory hundreds of times costs more than they are worth.) What ran out has no
    /// layers either. Any other failure says nothing of other batches, and is left to the next run.
    pub fn decide(&self, configuration: &Configuration) -> Decision {
        let Configuration { variant, workload, variables, round } = configuration;
        let ran_out = self.ran_out.get(&(variant.clone(), workload.step)).copied();
        let beyond = ran_out.filter(|ran_out| *ran_out < workload.batch);
        let row = |variable| Identity { variant: variant.clone(), workload: *workload, variable };
        let measured = |variable| self.done.get(&row(variable)).is_some_and(|times| times >= round);
        let told = |variable| beyond.is_some() && self.skipped.contains(&row(variable));
        let without =
            |variable| variable == Variable::Layers && ran_out.is_some_and(|ran_out| ran_out <= workload.batch);
        let settled = |variable| measured(variable) || told(variable) || without(variable);
        let missing: Vec<Variable> = variables.iter().copied().filter(|&variable| !settled(variable)).collect();
        match (ran_out, beyond) {
            _ if missing.is_empty() || self.broken.contains(&(variant.clone(), *workload)) => Decision::Done,
            _ if self.under_way.contains(&(variant.clone(), workload.step)) => Decision::UnderWay,
            // What does not fit the first time does not the second time.
            (Some(ran_out), _) if ran_out <= workload.batch && *round > 1 => Decision::Done,
            (_, Some(ran_out)) => Decision::Skip { ran_out, missing },
            _ => Decision::Measure(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Reading;
    use perf4sight_step::workload::Stage;

    const BOTH: [Variable; 2] = [Variable::Latency, Variable::Memory];

    fn configuration(batch: u64) -> Configuration {
        let workload = Workload::published(Stage::Training, batch);
        Configuration { variant: Variant::new("net", 30), workload, variables: BOTH.to_vec(), round: 1 }
    }

    fn row(batch: u64, outcome: Outcome) -> Record {
        let Configuration { variant, workload, .. } = configuration(batch);
        Record::new(variant, workload, outcome, Reading::Latency(None))
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
    fn larger_batches_than_one_that_ran_out_of_memory_are_skipped_and_no_others() {
        let ran_out = Outcome::OutOfMemory;
        let ledger = Ledger::of(&[row(16, ran_out), row(8, ran_out), row(32, Outcome::Skipped)]);
        assert_eq!(ledger.decide(&configuration(4)), Decision::Measure(BOTH.to_vec()));
        assert_eq!(ledger.decide(&configuration(8)), Decision::Measure(vec![Variable::Memory]));
        assert_eq!(ledger.decide(&configuration(64)), Decision::Skip { ran_out: 8, missing: BOTH.to_vec() });
        let told = Configuration { variables: vec![Variable::Latency], ..configuration(32) };
        assert_eq!(ledger.decide(&told), Decision::Done);
        let other_stage = Workload::published(Stage::Inference, 64);
        let inference = Configuration { workload: other_stage, ..configuration(64) };
        assert!(matches!(ledger.decide(&inference), Decision::Measure(_)));
        let again = Configuration { round: 2, ..configuration(8) };
        assert_eq!(ledger.decide(&again), Decision::Done, "what did not fit is not repeated");
    }

    #[test]
    fn any_other_failure_is_tried_again_by_the_next_run_and_says_nothing_of_larger_batches() {
        for outcome in [Outcome::Crashed, Outcome::TimedOut, Outcome::Garbled, Outcome::Failed] {
            let mut ledger = Ledger::default();
            ledger.enter(&row(8, outcome));
            assert_eq!(ledger.decide(&configuration(8)), Decision::Done, "once a run");
            assert_eq!(ledger.decide(&configuration(16)), Decision::Measure(BOTH.to_vec()));
            let next = Ledger::of(ledger.rows());
            assert_eq!(next.decide(&configuration(8)), Decision::Measure(BOTH.to_vec()), "{outcome}");
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
        assert_eq!(ledger.decide(&layers(32)), Decision::Skip { ran_out: 16, missing: BOTH.to_vec() });
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
        assert_eq!(ledger.decide(&configuration(8)), Decision::Measure(BOTH.to_vec()), "nothing smaller ran out");
        assert!(matches!(ledger.decide(&configuration(16)), Decision::Measure(_)));
    }
}
