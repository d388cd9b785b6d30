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
    /// How often each row, by its place, was repeated in this run.
    repeated: BTreeMap<usize, u32>,
}

/// Where a configuration stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
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

    /// Takes note that a row was repeated.
    pub fn repeat(&mut self, place: usize) {
        let repeated = self.repeated.entry(place).or_default();
        *repeated = repeated.saturating_add(1);
    }

    /// Takes note that repeating a row comes to nothing in this run.
    pub fn give_up(&mut self, place: usize) {
        self.repeated.insert(place, u32::MAX);
    }

    /// Puts what a row has become in its place.
    pub fn revise(&mut self, place: usize, row: Record) {
        self.rows[place] = row;
    }

    /// How often the row at a place was repeated in this run.
    pub fn repeated(&self, place: usize) -> u32 {
        self.repeated.get(&place).copied().unwrap_or_default()
    }

    /// How often a configuration was run for its rows.
    pub fn runs(&self, configuration: &Configuration) -> u32 {
        let Configuration { variant, workload, .. } = configuration;
        let own = self.rows.iter().filter(|row| (&row.variant, row.workload) == (variant, *workload));
        own.map(|row| row.visits.len() as u32).sum()
    }

    /// Whether something is being measured that repeating this row would meet.
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
    pub fn status(&self, configuration: &Configuration) -> Status {
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
            _ if missing.is_empty() || self.broken.contains(&(variant.clone(), *workload)) => Status::Done,
            _ if self.under_way.contains(&(variant.clone(), workload.step)) => Status::UnderWay,
            // What does not fit the first time does not the second time.
            (Some(ran_out), _) if ran_out <= workload.batch && *round > 1 => Status::Done,
            (_, Some(ran_out)) => Status::Skip { ran_out, missing },
            _ => Status::Measure(missing),
        }
    }
}
