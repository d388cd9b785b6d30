//! Measures every row in repetitions that are far apart in time, within a budget: first every configuration once, then
//! all of them again.
//!
//! A shared machine is slow for seconds at a time. Steps timed in one go agree with one another and may all be wrong;
//! two repetitions half a profile apart are rarely both slow. Rows whose repetitions disagree, and rows far from the
//! prediction of the other rows of their network, are repeated further. Repetitions start only when there are as many
//! rows as a fit needs.

use super::decision::{MeasurementPace, Plan, PlanDecision, PlanEnding};
use super::expected::unexpected_rows;
use super::ledger::MeasurementLedger;
use super::sweep::Configuration;
use crate::records::{ErrorEstimate, MeasurementOutcome, RowReading, RowRecord, Variant};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Variable, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// Further repetitions of a doubtful row.
const MORE: u32 = 2;

/// Repetitions disagree if their spread, to either side of their middle, exceeds this.
const AGREED: f64 = 0.05;

/// The share of the budget that is reserved for further repetitions.
const KEPT: f64 = 0.1;

/// Time is short if a measurement takes this many times what the budget leaves for each. Half of a measurement is
/// timed steps, which shrink automatically; beyond this factor only fewer steps help.
const SHORT: f64 = 2.0;

/// The reason not to trust a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowDoubt {
    /// Its repetitions disagree: by this share to either side.
    Repetitions(f64),
    /// It takes this many times as long as the other rows of its network predict.
    Unexpected(f64),
}

/// The doubtful rows of whole steps, by index, each with its strongest reason.
pub fn doubts(rows: &[RowRecord]) -> BTreeMap<usize, RowDoubt> {
    let mut doubts: BTreeMap<usize, RowDoubt> =
        unexpected_rows(rows).into_iter().map(|(place, factor)| (place, RowDoubt::Unexpected(factor))).collect();
    for (place, row) in rows.iter().enumerate() {
        if let Some(spread) = row.spread.filter(|spread| row.visits.len() > 1 && *spread > AGREED) {
            doubts.insert(place, RowDoubt::Repetitions(spread));
        }
    }
    doubts
}

/// A plan whose rows are measured several times, and that ends when its budget is spent.
pub struct Repetitions {
    plan: Box<dyn Plan>,
    repetitions: u32,
    budget: Option<f64>,
    least: usize,
    /// Repetitions follow the order of the first measurements, so that a whole profile separates two measurements of a
    /// row.
    order: BTreeMap<(Variant, Workload), usize>,
    ended: Option<PlanEnding>,
}

impl Repetitions {
    /// Measures the choices of `plan` from `all`, each this often, within this many seconds.
    pub fn new(plan: Box<dyn Plan>, all: &[Configuration], repetitions: u32, budget: Option<f64>) -> Self {
        let key = |one: &Configuration| (one.variant.clone(), one.workload);
        let order = all.iter().map(key).zip(0..).collect();
        Repetitions { plan, repetitions, budget, least: 0, order, ended: None }
    }

    /// The same, but measures this many configurations before repeating any, however short the time.
    #[must_use]
    pub fn repeating_after(self, least: usize) -> Self {
        Repetitions { least, ..self }
    }

    /// Rows that still need repetitions.
    fn due<'a>(&self, ledger: &'a MeasurementLedger) -> impl Iterator<Item = (usize, &'a RowRecord)> {
        let rows = ledger.rows().iter().enumerate();
        let wanted = self.repetitions;
        rows.filter(move |(place, row)| {
            (1..wanted).contains(&(row.visits.len() as u32)) && ledger.repetition_count(*place) < wanted
        })
    }

    /// The row to repeat next, if its variant and step are not being measured.
    fn next_row(&self, ledger: &MeasurementLedger) -> Option<usize> {
        let free = |(_, row): &(usize, &RowRecord)| !ledger.is_busy(row);
        let first = |(place, row): &(usize, &RowRecord)| {
            (ledger.repetition_count(*place), self.order.get(&(row.variant.clone(), row.workload)).copied(), *place)
        };
        if let Some((place, _)) = self.due(ledger).filter(free).min_by_key(first) {
            return Some(place);
        }
        if self.due(ledger).next().is_some() {
            return None;
        }
        let most = self.repetitions + MORE;
        let doubts = doubts(ledger.rows());
        let rows = doubts.keys().map(|&place| (place, &ledger.rows()[place]));
        let open = |(place, row): &(usize, &RowRecord)| {
            (1..most).contains(&(row.visits.len() as u32)) && ledger.repetition_count(*place) < most - 1
        };
        rows.filter(open).filter(free).min_by_key(first).map(|(place, _)| place)
    }

    /// Whether to measure no further configuration, because the rest of the budget is needed to repeat the existing
    /// rows.
    fn must_return(&self, ledger: &MeasurementLedger, seconds: f64) -> bool {
        let Some(budget) = self.budget else { return false };
        let owed = self.due(ledger).count();
        measured_count(ledger) >= self.least && seconds + average(ledger, seconds) * owed as f64 >= budget
    }

    fn budget_ending(&self, ledger: &MeasurementLedger, budget: f64) -> PlanEnding {
        // A plan that has ended leaves nothing to measure.
        let unmeasured = if self.ended.is_none() { self.plan.remaining(ledger) } else { 0 };
        PlanEnding::Budget { seconds: budget, unmeasured }
    }
}

fn measured_count(ledger: &MeasurementLedger) -> usize {
    let ran = ledger.rows().iter().filter(|row| row.outcome != MeasurementOutcome::Skipped && !row.outcome.broken());
    ran.map(|row| (&row.variant, row.workload)).collect::<BTreeSet<_>>().len()
}

fn average(ledger: &MeasurementLedger, seconds: f64) -> f64 {
    let made: usize = ledger.rows().iter().map(|row| row.visits.len()).sum();
    seconds / made.max(1) as f64
}

impl Plan for Repetitions {
    fn next(&mut self, ledger: &MeasurementLedger, seconds: f64) -> Result<PlanDecision> {
        if let Some(budget) = self.budget.filter(|budget| seconds >= *budget) {
            return Ok(PlanDecision::Stop(self.budget_ending(ledger, budget)));
        }
        // A device that was lost leaves its work to the others, so a complete plan may become incomplete again.
        let open = self.ended.is_none_or(|ended| ended == PlanEnding::Complete);
        if open && !self.must_return(ledger, seconds) {
            match self.plan.next(ledger, seconds)? {
                PlanDecision::Stop(ending) => self.ended = Some(ending),
                decision @ (PlanDecision::Measure(_)
                | PlanDecision::Repeat { .. }
                | PlanDecision::Skip(_)
                | PlanDecision::Wait) => {
                    return Ok(decision);
                }
            }
        }
        if let Some(place) = self.next_row(ledger) {
            return Ok(PlanDecision::Repeat { configuration: repeated_configuration(ledger.rows(), place), place });
        }
        Ok(match (ledger.is_under_way(), self.ended, self.budget) {
            (true, ..) => PlanDecision::Wait,
            (false, None, Some(budget)) => PlanDecision::Stop(self.budget_ending(ledger, budget)),
            (false, ended, _) => PlanDecision::Stop(ended.unwrap_or(PlanEnding::Complete)),
        })
    }

    fn pace(&self, ledger: &MeasurementLedger, seconds: f64) -> Option<MeasurementPace> {
        let left = self.budget.map(|budget| (budget - seconds).max(0.0));
        let each = left.map(|left| [(1.0 - KEPT) * left / self.remaining(ledger).max(1) as f64, left]);
        let short = each.is_some_and(|[each, _]| average(ledger, seconds) > SHORT * each);
        let disturbed =
            |row: &RowRecord| matches!(row.outcome, MeasurementOutcome::Disturbed | MeasurementOutcome::TimedOut);
        let disturbed = ledger.rows().iter().any(disturbed);
        Some(MeasurementPace { repetitions: self.repetitions, seconds: each, short, disturbed })
    }

    fn remaining(&self, ledger: &MeasurementLedger) -> usize {
        self.plan.remaining(ledger) * self.repetitions as usize + self.due(ledger).count()
    }

    fn error_estimates(&self) -> &[ErrorEstimate] {
        self.plan.error_estimates()
    }
}

fn repeated_configuration(rows: &[RowRecord], place: usize) -> Configuration {
    let row = &rows[place];
    let same = |other: &&RowRecord| {
        matches!(other.reading, RowReading::Latency(_))
            && (&other.variant, other.workload) == (&row.variant, row.workload)
    };
    let round = 1 + rows[..place].iter().filter(same).count() as u32;
    Configuration { variant: row.variant.clone(), workload: row.workload, variables: vec![Variable::Latency], round }
}
