//! The plan that measures what is most informative, and stops when more rows would not help: a profile for a tenth of the rows.
//!
//! Three things are wanted of a profile, and its measurements are shared out between them: rows that make the fits of time and memory better
//! ([`design`]), the size from which on steps do not fit ([`edge`]), and the noise floor of the device, from rows measured twice.
//! All of it follows from the rows so far, so an interrupted profile goes on where it was.

mod candidate;
mod design;
mod edge;
mod progress;
mod seen;
mod share;

pub use candidate::Offer;
pub use share::Share;

use super::decision::{Decision, Ending, Plan};
use super::ledger::{Ledger, Status};
use super::sweep::Configuration;
use crate::records::Learned;
use candidate::{Candidate, candidates};
use design::Design;
use edge::{Chance, chances};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_platform::Platform;
use progress::{Estimates, estimates, is_due, is_flat};
use seen::{Index, Seen};

/// A step that fits with this probability is safe to run, and one that does not fit with this probability is not worth trying.
const SURE: f64 = 0.9;

/// Every so many measurements the edge of memory is looked for.
const EDGE_EVERY: usize = 8;

/// Every so many measurements something is measured a second time.
const REPEAT_EVERY: usize = 9;

/// So many configurations are measured twice, for the noise floor.
const REPEATED: usize = 6;

/// What a plan knows besides the rows.
#[derive(Debug, Clone)]
pub struct Means {
    /// The facts of the device.
    pub platform: Platform,
    /// The memory it has for networks, where that is known.
    pub capacity: Option<Bytes>,
    /// Whether the device measures anew when it is asked again.
    pub repeats: bool,
    /// The seed of the fits that tell how good the rows are.
    pub seed: u64,
}

/// Measures what is most informative.
#[derive(Debug, Clone)]
pub struct Adaptive {
    candidates: Vec<Candidate>,
    index: Index,
    share: Share,
    means: Means,
    design: Design,
    /// How often each candidate is in the design.
    designed: Vec<u32>,
    learned: Vec<Learned>,
}

impl Adaptive {
    /// Chooses from these offers.
    pub fn new(offers: Vec<Offer>, means: Means) -> Self {
        let share = Share::of(offers.iter().map(|offer| &offer.configuration));
        let candidates = candidates(offers, &means.platform);
        Adaptive {
            index: Index::new(&candidates),
            share,
            design: Design::new(&candidates),
            designed: vec![0; candidates.len()],
            learned: Vec::new(),
            candidates,
            means,
        }
    }

    /// The design learns from what ran since it was last asked.
    fn learn(&mut self, seen: &[Seen]) {
        for (at, seen) in seen.iter().enumerate().filter(|(_, seen)| !seen.ran_out) {
            while self.designed[at] < seen.times {
                self.designed[at] += 1;
                self.design.observe(&self.candidates, at);
            }
        }
    }

    /// Why nothing more is to be measured, if so.
    fn ending(&mut self, ledger: &Ledger, measured: usize, seconds: f64) -> Result<Option<Ending>> {
        // What breaks adds no row, and the plan is asked again with what it knew before.
        let known = self.learned.last().is_some_and(|last| last.measured == measured);
        if is_due(measured, self.share.least) && !known {
            let rows = self.index.rows(&self.candidates, ledger);
            let estimates = estimates(&rows, &self.means.platform, self.means.seed)?;
            self.note(&estimates, measured, seconds);
            if is_flat(&estimates, &rows) {
                return Ok(Some(Ending::Flat { measured }));
            }
        }
        let full = self.share.most.iter().any(|(quantity, most)| self.index.count(ledger, *quantity) >= *most);
        Ok(full.then_some(Ending::Rows { measured, of: self.candidates.len() }))
    }

    fn note(&mut self, estimates: &Estimates, measured: usize, seconds: f64) {
        let learned = estimates.iter().map(|(&(step, quantity), estimate)| {
            let error = estimate.error;
            Learned { measured, seconds, stage: step.stage, quantity, error }
        });
        self.learned.extend(learned);
    }

    fn choose(&self, ledger: &Ledger, seen: &[Seen], measured: usize) -> Result<Option<Configuration>> {
        let capacity = self.means.capacity.map(Bytes::mib);
        let chances = chances(&self.candidates, seen, capacity)?;
        let open: Vec<Option<Configuration>> =
            self.candidates.iter().map(|one| missing(ledger, &one.configuration)).collect();
        let informative = || self.most_informative(&open, &chances).and_then(|at| open[at].clone());
        let bisecting = || self.most_uncertain(&open, &chances).and_then(|at| open[at].clone());
        let due = |every: usize| measured % every == every - 1;
        let again = if due(REPEAT_EVERY) { self.again(ledger, seen) } else { None };
        Ok(again.or_else(|| match due(EDGE_EVERY) {
            true => bisecting().or_else(informative),
            false => informative().or_else(bisecting),
        }))
    }

    /// The candidate that is safe to run and says most about all that may fit.
    fn most_informative(&self, open: &[Option<Configuration>], chances: &[Chance]) -> Option<usize> {
        let weights: Vec<f64> = chances.iter().map(|chance| chance.fits).collect();
        let gain = |at: usize| match (&open[at], chances[at]) {
            (Some(left), Chance { fits, may_fail: true }) if fits >= SURE => {
                left.variables.len() as f64 * self.design.gain(at, &weights)
            }
            _ => 0.0,
        };
        best(self.candidates.len(), gain)
    }

    /// The candidate of which it is least known whether it fits; of equal ones the one of which least is known otherwise.
    fn most_uncertain(&self, open: &[Option<Configuration>], chances: &[Chance]) -> Option<usize> {
        let uncertainty = |at: usize| match chances[at] {
            Chance { fits, may_fail: true } if open[at].is_some() && fits > 1.0 - SURE && fits < SURE => {
                fits * (1.0 - fits) * self.design.variance(at)
            }
            _ => 0.0,
        };
        best(self.candidates.len(), uncertainty)
    }

    /// What was measured only once a second time, as long as too few tell the noise floor: of the network with the fewest repeats the
    /// step of middle size.
    fn again(&self, ledger: &Ledger, seen: &[Seen]) -> Option<Configuration> {
        let repeated = |at: &usize| seen[*at].times > 1;
        let of = |network: usize| (0..seen.len()).filter(move |&at| self.candidates[at].network == network);
        let once: Vec<usize> = (0..seen.len()).filter(|&at| seen[at].times == 1 && !seen[at].ran_out).collect();
        if !self.means.repeats || (0..seen.len()).filter(repeated).count() >= REPEATED {
            return None;
        }
        let networks = once.iter().map(|&at| self.candidates[at].network);
        let network = networks.min_by_key(|&network| (of(network).filter(repeated).count(), network))?;
        let mut own: Vec<usize> = once.into_iter().filter(|&at| self.candidates[at].network == network).collect();
        own.sort_by(|&a, &b| self.candidates[a].demand.total_cmp(&self.candidates[b].demand));
        let again = Configuration { round: 2, ..self.candidates[own[own.len() / 2]].configuration.clone() };
        missing(ledger, &again)
    }
}

impl Plan for Adaptive {
    fn next(&mut self, ledger: &Ledger, seconds: f64) -> Result<Decision> {
        let seen = self.index.seen(ledger);
        let measured = seen.iter().map(|seen| seen.times as usize).sum();
        if let Some(ending) = self.ending(ledger, measured, seconds)? {
            return Ok(Decision::Stop(ending));
        }
        self.learn(&seen);
        let chosen = self.choose(ledger, &seen, measured)?;
        Ok(match chosen.filter(|chosen| ledger.status(chosen) != Status::UnderWay) {
            Some(chosen) => Decision::Measure(chosen),
            None if ledger.is_under_way() => Decision::Wait,
            None => Decision::Stop(Ending::Complete),
        })
    }

    fn left(&self, ledger: &Ledger) -> usize {
        let left =
            self.share.most.iter().map(|(quantity, most)| most.saturating_sub(self.index.count(ledger, *quantity)));
        left.min().unwrap_or_default()
    }

    fn learned(&self) -> &[Learned] {
        &self.learned
    }
}

/// What has to be measured of a configuration, if anything.
fn missing(ledger: &Ledger, configuration: &Configuration) -> Option<Configuration> {
    match ledger.status(configuration) {
        Status::Measure(variables) => Some(Configuration { variables, ..configuration.clone() }),
        Status::Done | Status::UnderWay | Status::Skip { .. } => None,
    }
}

/// The place of the largest value above zero; of equal ones the first.
fn best(places: usize, value: impl Fn(usize) -> f64) -> Option<usize> {
    // Values that differ by rounding are equal: it depends on the order in which rows were read.
    const ROUNDING: f64 = 1e-9;
    let mut best: Option<(f64, usize)> = None;
    for at in 0..places {
        let value = value(at);
        if value > best.map_or(0.0, |(most, _)| most * (1.0 + ROUNDING)) {
            best = Some((value, at));
        }
    }
    best.map(|(_, at)| at)
}
