//! The adaptive plan: it measures the most informative configurations and stops when more rows would not help, after
//! about a tenth of the rows.
//!
//! A profile serves three purposes, and the plan divides its measurements between them: rows that improve the fits of
//! time and memory ([`design`]), the size from which on steps do not fit ([`edge`]), and the noise floor of the
//! device, from rows measured twice. All decisions follow from the rows so far, so an interrupted profile continues
//! where it stopped.

mod candidate;
mod candidate_result;
mod design;
mod edge;
mod progress;
mod share;

pub use candidate::OfferedConfiguration;
pub use share::RowShare;

use super::decision::{Plan, PlanDecision, PlanEnding};
use super::ledger::{ConfigurationStatus, MeasurementLedger};
use super::sweep::Configuration;
use crate::records::ErrorEstimate;
use candidate::{PlanCandidate, candidates};
use candidate_result::{CandidateIndex, CandidateResult};
use design::PlanDesign;
use edge::{FitChance, chances};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_platform::Platform;
use progress::{FitErrors, estimates, is_due, is_flat};

/// A step that fits with at least this probability is safe to run; one that does not fit with this probability is not
/// worth trying.
const SURE: f64 = 0.9;

/// One in this many measurements searches for the edge of memory.
const EDGE_EVERY: usize = 8;

const REPEAT_EVERY: usize = 9;

/// The number of configurations that are measured twice, for the noise floor.
const REPEATED: usize = 6;

/// The inputs of a plan besides the rows.
#[derive(Debug, Clone)]
pub struct PlanInputs {
    /// By whose rules memory is simulated.
    pub platform: Platform,
    /// The memory that it has for networks, if known.
    pub capacity: Option<Bytes>,
    /// Whether a repetition on the device is a new measurement.
    pub repeats: bool,
    /// The seed of the fits that estimate the error.
    pub seed: u64,
}

/// Measures what is most informative for a fit on all rows so far.
#[derive(Debug, Clone)]
pub struct AdaptivePlan {
    candidates: Vec<PlanCandidate>,
    index: CandidateIndex,
    share: RowShare,
    means: PlanInputs,
    design: PlanDesign,
    /// How often each candidate was added to the design.
    designed: Vec<u32>,
    learned: Vec<ErrorEstimate>,
}

impl AdaptivePlan {
    /// A plan that chooses from these offers.
    pub fn new(offers: Vec<OfferedConfiguration>, means: PlanInputs) -> Self {
        let share = RowShare::from_configurations(offers.iter().map(|offer| &offer.configuration));
        let candidates = candidates(offers, &means.platform);
        AdaptivePlan {
            index: CandidateIndex::new(&candidates),
            share,
            design: PlanDesign::new(&candidates),
            designed: vec![0; candidates.len()],
            learned: Vec::new(),
            candidates,
            means,
        }
    }

    /// Adds to the design all runs since the last decision.
    fn learn(&mut self, seen: &[CandidateResult]) {
        for (at, seen) in seen.iter().enumerate().filter(|(_, seen)| !seen.ran_out) {
            while self.designed[at] < seen.times {
                self.designed[at] += 1;
                self.design.observe(&self.candidates, at);
            }
        }
    }

    fn ending(&mut self, ledger: &MeasurementLedger, measured: usize, seconds: f64) -> Result<Option<PlanEnding>> {
        // A failed configuration adds no row; then the plan is called again with the same number of rows.
        let known = self.learned.last().is_some_and(|last| last.measured == measured);
        if is_due(measured, self.share.least) && !known {
            let rows = self.index.rows(&self.candidates, ledger);
            let estimates = estimates(&rows, &self.means.platform, self.means.seed)?;
            self.note(&estimates, measured, seconds);
            if is_flat(&estimates, &rows) {
                return Ok(Some(PlanEnding::Flat { measured }));
            }
        }
        let full = self.share.most.iter().any(|(quantity, most)| self.index.count(ledger, *quantity) >= *most);
        Ok(full.then_some(PlanEnding::Rows { measured, of: self.candidates.len() }))
    }

    fn note(&mut self, estimates: &FitErrors, measured: usize, seconds: f64) {
        let learned = estimates.iter().map(|(&(step, quantity), estimate)| {
            let error = estimate.error;
            ErrorEstimate { measured, seconds, stage: step.stage, quantity, error }
        });
        self.learned.extend(learned);
    }

    fn choose(
        &self,
        ledger: &MeasurementLedger,
        seen: &[CandidateResult],
        measured: usize,
    ) -> Result<Option<Configuration>> {
        let capacity = self.means.capacity.map(Bytes::mib);
        let chances = chances(&self.candidates, seen, capacity)?;
        let open: Vec<Option<Configuration>> =
            self.candidates.iter().map(|one| missing(ledger, &one.configuration)).collect();
        let informative = || self.most_informative(&open, &chances).and_then(|at| open[at].clone());
        let bisecting = || self.most_uncertain(&open, &chances).and_then(|at| open[at].clone());
        let due = |every: usize| measured % every == every - 1;
        let again = if due(REPEAT_EVERY) { self.choose_repetition(ledger, seen) } else { None };
        Ok(again.or_else(|| match due(EDGE_EVERY) {
            true => bisecting().or_else(informative),
            false => informative().or_else(bisecting),
        }))
    }

    /// The candidate that is safe to run and most reduces the variance of all candidates that may fit.
    fn most_informative(&self, open: &[Option<Configuration>], chances: &[FitChance]) -> Option<usize> {
        let weights: Vec<f64> = chances.iter().map(|chance| chance.fits).collect();
        let gain = |at: usize| match (&open[at], chances[at]) {
            (Some(left), FitChance { fits, may_fail: true }) if fits >= SURE => {
                left.variables.len() as f64 * self.design.gain(at, &weights)
            }
            _ => 0.0,
        };
        largest_positive(self.candidates.len(), gain)
    }

    /// The candidate with the largest product of the uncertainty of whether it fits and its variance.
    fn most_uncertain(&self, open: &[Option<Configuration>], chances: &[FitChance]) -> Option<usize> {
        let uncertainty = |at: usize| match chances[at] {
            FitChance { fits, may_fail: true } if open[at].is_some() && fits > 1.0 - SURE && fits < SURE => {
                fits * (1.0 - fits) * self.design.variance(at)
            }
            _ => 0.0,
        };
        largest_positive(self.candidates.len(), uncertainty)
    }

    /// A configuration to repeat, until enough are repeated for the noise floor: of the network with the fewest
    /// repeats, the step of median size among those measured once.
    fn choose_repetition(&self, ledger: &MeasurementLedger, seen: &[CandidateResult]) -> Option<Configuration> {
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

impl Plan for AdaptivePlan {
    fn next(&mut self, ledger: &MeasurementLedger, seconds: f64) -> Result<PlanDecision> {
        let seen = self.index.results(ledger);
        let measured = seen.iter().map(|seen| seen.times as usize).sum();
        if let Some(ending) = self.ending(ledger, measured, seconds)? {
            return Ok(PlanDecision::Stop(ending));
        }
        self.learn(&seen);
        let chosen = self.choose(ledger, &seen, measured)?;
        Ok(match chosen.filter(|chosen| ledger.status(chosen) != ConfigurationStatus::UnderWay) {
            Some(chosen) => PlanDecision::Measure(chosen),
            None if ledger.is_under_way() => PlanDecision::Wait,
            None => PlanDecision::Stop(PlanEnding::Complete),
        })
    }

    fn remaining(&self, ledger: &MeasurementLedger) -> usize {
        let left =
            self.share.most.iter().map(|(quantity, most)| most.saturating_sub(self.index.count(ledger, *quantity)));
        left.min().unwrap_or_default()
    }

    fn error_estimates(&self) -> &[ErrorEstimate] {
        &self.learned
    }
}

/// The variables of a configuration that still need a measurement, if any.
fn missing(ledger: &MeasurementLedger, configuration: &Configuration) -> Option<Configuration> {
    match ledger.status(configuration) {
        ConfigurationStatus::Measure(variables) => Some(Configuration { variables, ..configuration.clone() }),
        ConfigurationStatus::Done | ConfigurationStatus::UnderWay | ConfigurationStatus::Skip { .. } => None,
    }
}

/// The index of the largest value above zero; of equal ones the first.
fn largest_positive(places: usize, value: impl Fn(usize) -> f64) -> Option<usize> {
    // Values that differ only by rounding count as equal, because rounding depends on the order in which rows were
    // read.
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
