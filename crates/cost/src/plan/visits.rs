//! Times every step in visits that lie apart, within a budget: whatever another plan chooses, all of it once, then all of it again.
//!
//! A machine that others share is slow for seconds at a time. Steps timed in one go agree with one another and are all wrong; visits
//! that lie half a profile apart are rarely slow both. Rows whose visits disagree, and rows far from what the others of their network
//! let expect, are visited further times.

use super::expected::far;
use super::ledger::Ledger;
use super::sweep::Configuration;
use super::turn::{Ending, Pace, Plan, Turn};
use crate::records::{Learned, Reading, Record, Variant};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Variable, Workload};
use std::collections::BTreeMap;

/// Visits beyond the others to a row that is doubtful.
const MORE: u32 = 2;

/// Visits that lie this much to either side of their middle do not agree.
const AGREED: f64 = 0.05;

/// The share of a budget that is kept for such visits.
const KEPT: f64 = 0.1;

/// Why a row is not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubt {
    /// Its visits disagree: by this share to either side.
    Visits(f64),
    /// It takes this many times as long as the others of its network let expect.
    Unexpected(f64),
}

/// The doubtful ones among the rows of whole steps, by their places; of each what speaks against it most.
pub fn doubts(rows: &[Record]) -> BTreeMap<usize, Doubt> {
    let mut doubts: BTreeMap<usize, Doubt> =
        far(rows).into_iter().map(|(place, factor)| (place, Doubt::Unexpected(factor))).collect();
    for (place, row) in rows.iter().enumerate() {
        if let Some(spread) = row.spread.filter(|spread| row.visits.len() > 1 && *spread > AGREED) {
            doubts.insert(place, Doubt::Visits(spread));
        }
    }
    doubts
}

/// A plan whose rows are timed in several visits, and that ends when its time is over.
pub struct Visits {
    plan: Box<dyn Plan>,
    visits: u32,
    budget: Option<f64>,
    /// The order of the visits: as of the first ones, so that all of a profile lies between two.
    order: BTreeMap<(Variant, Workload), usize>,
    /// How the plan ended.
    ended: Option<Ending>,
}

impl Visits {
    /// What `plan` chooses from `all`, in so many visits to each, in so many seconds.
    pub fn new(plan: Box<dyn Plan>, all: &[Configuration], visits: u32, budget: Option<f64>) -> Self {
        let key = |one: &Configuration| (one.variant.clone(), one.workload);
        Visits { plan, visits, budget, order: all.iter().map(key).zip(0..).collect(), ended: None }
    }

    /// Visits that are due to rows there are.
    fn due<'a>(&self, ledger: &'a Ledger) -> impl Iterator<Item = (usize, &'a Record)> {
        let rows = ledger.rows().iter().enumerate();
        let wanted = self.visits;
        rows.filter(move |(place, row)| {
            let visits = row.visits.len() as u32;
            (1..wanted).contains(&visits) && ledger.visited(*place) < wanted
        })
    }

    /// The row to visit next, if any is free.
    fn next_visit(&self, ledger: &Ledger) -> Option<usize> {
        let free = |(_, row): &(usize, &Record)| !ledger.is_busy(row);
        let first = |(place, row): &(usize, &Record)| {
            (ledger.visited(*place), self.order.get(&(row.variant.clone(), row.workload)).copied(), *place)
        };
        if let Some((place, _)) = self.due(ledger).filter(free).min_by_key(first) {
            return Some(place);
        }
        if self.due(ledger).next().is_some() {
            return None;
        }
        let doubts = doubts(ledger.rows());
        let rows = doubts.keys().map(|&place| (place, &ledger.rows()[place]));
        let open = |(place, row): &(usize, &Record)| {
            (1..self.visits + MORE).contains(&(row.visits.len() as u32))
                && ledger.visited(*place) < self.visits + MORE - 1
        };
        rows.filter(open).filter(free).min_by_key(first).map(|(place, _)| place)
    }

    /// Whether the time for first visits is over: what is left is needed to see again what has been seen.
    fn must_return(&self, ledger: &Ledger, seconds: f64) -> bool {
        let Some(budget) = self.budget else { return false };
        let made: usize = ledger.rows().iter().map(|row| row.visits.len()).sum();
        let owed = self.due(ledger).count();
        seconds + seconds / made.max(1) as f64 * owed as f64 >= budget
    }

    /// The end that a budget makes.
    fn spent(&self, ledger: &Ledger, budget: f64) -> Ending {
        // A plan that has ended has chosen all it wants.
        let unmeasured = if self.ended.is_none() { self.plan.left(ledger) } else { 0 };
        Ending::Budget { seconds: budget, unmeasured }
    }
}

impl Plan for Visits {
    fn next(&mut self, ledger: &Ledger, seconds: f64) -> Result<Turn> {
        if let Some(budget) = self.budget.filter(|budget| seconds >= *budget) {
            return Ok(Turn::Stop(self.spent(ledger, budget)));
        }
        // A device that was lost leaves work to the others, so that what was complete is not any more.
        let open = self.ended.is_none_or(|ended| ended == Ending::Complete);
        if open && !self.must_return(ledger, seconds) {
            match self.plan.next(ledger, seconds)? {
                Turn::Stop(ending) => self.ended = Some(ending),
                turn @ (Turn::Measure(_) | Turn::Visit { .. } | Turn::Skip(_) | Turn::Wait) => return Ok(turn),
            }
        }
        if let Some(place) = self.next_visit(ledger) {
            return Ok(Turn::Visit { configuration: again(ledger.rows(), place), place });
        }
        Ok(match (ledger.is_under_way(), self.ended, self.budget) {
            (true, ..) => Turn::Wait,
            (false, None, Some(budget)) => Turn::Stop(self.spent(ledger, budget)),
            (false, ended, _) => Turn::Stop(ended.unwrap_or(Ending::Complete)),
        })
    }

    fn pace(&self, ledger: &Ledger, seconds: f64) -> Option<Pace> {
        let left = self.budget.map(|budget| (budget - seconds).max(0.0));
        let ahead = self.plan.left(ledger) * self.visits as usize + self.due(ledger).count();
        let each = left.map(|left| [(1.0 - KEPT) * left / ahead.max(1) as f64, left]);
        Some(Pace { visits: self.visits, seconds: each })
    }

    fn left(&self, ledger: &Ledger) -> usize {
        self.plan.left(ledger) * self.visits as usize + self.due(ledger).count()
    }

    fn learned(&self) -> &[Learned] {
        self.plan.learned()
    }
}

/// The configuration of a row, to be timed again: of the same round as the row.
fn again(rows: &[Record], place: usize) -> Configuration {
    let row = &rows[place];
    let same = |other: &&Record| {
        matches!(other.reading, Reading::Latency(_)) && (&other.variant, other.workload) == (&row.variant, row.workload)
    };
    let round = 1 + rows[..place].iter().filter(same).count() as u32;
    Configuration { variant: row.variant.clone(), workload: row.workload, variables: vec![Variable::Latency], round }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Grid;
    use crate::records::Outcome;
    use perf4sight_base::units::Milliseconds;
    use perf4sight_step::workload::Stage;

    fn configurations() -> Vec<Configuration> {
        // In no order, as a sweep has them.
        let batches = [4, 1, 2, 8].map(|batch| Workload::published(Stage::Training, batch));
        let configuration = |workload| Configuration {
            variant: Variant::new("net", 0),
            workload,
            variables: vec![Variable::Latency],
            round: 1,
        };
        batches.map(configuration).to_vec()
    }

    fn row(configuration: &Configuration, visits: &[f64]) -> Record {
        let Configuration { variant, workload, .. } = configuration.clone();
        let reading = Reading::Latency(visits.first().copied().map(Milliseconds));
        let record = Record::new(variant, workload, Outcome::Measured, reading);
        Record { spread: Some(0.0), visits: visits.to_vec(), ..record }
    }

    /// The batch sizes in the order they are visited, each visit taking so many seconds.
    fn visited(plan: &mut Visits, ledger: &mut Ledger, each: f64) -> (Vec<u64>, Ending) {
        let mut order: Vec<u64> = Vec::new();
        loop {
            let configuration = match plan.next(ledger, each * order.len() as f64).unwrap() {
                Turn::Measure(configuration) => {
                    ledger.enter(&row(&configuration, &[1.0]));
                    configuration
                }
                Turn::Visit { configuration, place } => {
                    ledger.visit(place);
                    ledger.revise(place, row(&configuration, &[1.0, 1.0]));
                    configuration
                }
                Turn::Stop(ending) => return (order, ending),
                turn => panic!("{turn:?}"),
            };
            order.push(configuration.workload.batch);
        }
    }

    fn plan(budget: Option<f64>) -> Visits {
        Visits::new(Box::new(Grid::new(configurations())), &configurations(), 2, budget)
    }

    #[test]
    fn everything_is_visited_once_and_then_again_in_the_same_order() {
        let mut ledger = Ledger::default();
        let (order, ending) = visited(&mut plan(None), &mut ledger, 1.0);
        assert_eq!((order.as_slice(), ending), (&[4, 1, 2, 8, 4, 1, 2, 8][..], Ending::Complete));
        assert!(visited(&mut plan(None), &mut Ledger::of(ledger.rows()), 1.0).0.is_empty(), "nothing is left");
    }

    #[test]
    fn what_was_visited_once_in_an_earlier_run_is_visited_again() {
        let earlier =
            [row(&configurations()[1], &[1.0]), row(&configurations()[2], &[]), row(&configurations()[0], &[1.0])];
        // The second row is of a version that kept no visits.
        assert_eq!(visited(&mut plan(None), &mut Ledger::of(&earlier), 1.0).0, [8, 4, 1, 8]);
    }

    #[test]
    fn a_budget_keeps_time_for_second_visits() {
        let (order, ending) = visited(&mut plan(Some(4.0)), &mut Ledger::default(), 1.0);
        assert_eq!((order.as_slice(), ending), (&[4, 1, 4, 1][..], Ending::Budget { seconds: 4.0, unmeasured: 2 }));
        let pace = plan(Some(80.0)).pace(&Ledger::default(), 0.0).unwrap();
        // Nine tenths of 80 s for two visits to each of four.
        assert_eq!(pace, Pace { visits: 2, seconds: Some([9.0, 80.0]) });
    }
}
