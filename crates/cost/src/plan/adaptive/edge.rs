//! Estimates from which size on steps do not fit into memory, and the probability that an untried step fits.
//!
//! Memory is simulated, and all steps of a stage share one edge, so a failure of one network keeps all others away
//! from it. A network that cannot be simulated has its own edge for each variant, on the scale of its batch sizes.

use super::candidate::PlanCandidate;
use super::candidate_result::CandidateResult;
use crate::fingerprint::{MemoryBoundary, TriedStep};
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Step, Workload};
use std::collections::BTreeMap;

/// Without a failure and without a known capacity, a step of this many times the largest one that fitted has an even
/// chance to fit.
const AHEAD: f64 = 4.0;

/// The maximum number of failures of one variant and stage; further failures cost more than they reveal.
const FAILURES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FitChance {
    pub fits: f64,
    /// Whether it may be tried: its variant may fail once more, or a batch at least as large ran.
    pub may_fail: bool,
}

/// The tries of one variant at one stage.
#[derive(Debug, Clone, Copy)]
struct TriedBracket {
    /// The largest batch size that ran.
    ran: u64,
    /// The smallest batch size that did not run.
    failed: u64,
    failures: usize,
}

/// The chances of every candidate on a device with this capacity in MiB; none if the capacity is unknown.
pub(super) fn chances(
    candidates: &[PlanCandidate],
    seen: &[CandidateResult],
    capacity: Option<f64>,
) -> Result<Vec<FitChance>> {
    let edges = edges(candidates, seen, capacity)?;
    let brackets = brackets(candidates, seen);
    let chance = |one: &PlanCandidate| {
        let Workload { step, batch } = one.configuration.workload;
        let bracket = brackets[&(one.variant, step)];
        let fits = match batch {
            batch if batch >= bracket.failed => 0.0,
            batch if batch <= bracket.ran => 1.0,
            _ => edges[&scale(one)].fit_probability(one.demand),
        };
        FitChance { fits, may_fail: bracket.failures < FAILURES || batch <= bracket.ran }
    };
    Ok(candidates.iter().map(chance).collect())
}

fn brackets(candidates: &[PlanCandidate], seen: &[CandidateResult]) -> BTreeMap<(usize, Step), TriedBracket> {
    let mut brackets = BTreeMap::new();
    for (one, seen) in candidates.iter().zip(seen) {
        let Workload { step, batch } = one.configuration.workload;
        let untried = TriedBracket { ran: 0, failed: u64::MAX, failures: 0 };
        let bracket = brackets.entry((one.variant, step)).or_insert(untried);
        if seen.ran_out {
            (bracket.failed, bracket.failures) = (batch.min(bracket.failed), bracket.failures + 1);
        } else if seen.times > 0 {
            bracket.ran = batch.max(bracket.ran);
        }
    }
    brackets
}

/// The key of an edge: a step, with the variant if it cannot be simulated.
type EdgeKey = (Step, Option<usize>);

fn scale(one: &PlanCandidate) -> EdgeKey {
    (one.configuration.workload.step, (!one.simulated).then_some(one.variant))
}

fn edges(
    candidates: &[PlanCandidate],
    seen: &[CandidateResult],
    capacity: Option<f64>,
) -> Result<BTreeMap<EdgeKey, EdgeEstimate>> {
    let mut scales: BTreeMap<EdgeKey, (f64, Vec<TriedStep>)> = BTreeMap::new();
    for (one, seen) in candidates.iter().zip(seen) {
        let (least, tried) = scales.entry(scale(one)).or_insert((f64::INFINITY, Vec::new()));
        *least = one.demand.min(*least);
        if seen.times > 0 {
            tried.push(TriedStep { demand: one.demand, fitted: !seen.ran_out });
        }
    }
    let edge = |(scale, (least, tried)): (EdgeKey, (f64, Vec<TriedStep>))| {
        let capacity = capacity.filter(|_| scale.1.is_none());
        Ok((scale, EdgeEstimate::estimate(&tried, capacity, least)?))
    };
    scales.into_iter().map(edge).collect()
}

/// The estimated edge of the steps on one scale.
#[derive(Debug, Clone, Copy)]
enum EdgeEstimate {
    /// Everything up to `fitted` MiB fitted and nothing from `failed` MiB on. A step halfway between has an even
    /// chance, so that trying it halves the remaining range.
    Between { fitted: f64, failed: f64 },
    /// Nothing has failed yet, or some steps that fitted took more memory than some that did not.
    Fitted(MemoryBoundary),
}

impl EdgeEstimate {
    /// Estimates the edge from the steps tried; `least` MiB is the smallest step of all.
    fn estimate(tried: &[TriedStep], capacity: Option<f64>, least: f64) -> Result<Self> {
        let demands = |fitted: bool| tried.iter().filter(move |one| one.fitted == fitted).map(|one| one.demand);
        let fitted = demands(true).reduce(f64::max);
        match demands(false).reduce(f64::min) {
            None => {
                let room = capacity.unwrap_or_else(|| AHEAD * fitted.unwrap_or(least));
                Ok(EdgeEstimate::Fitted(MemoryBoundary::without_failures(room, tried)))
            }
            Some(failed) => {
                // If nothing has fitted yet, half of the smallest step is assumed to fit.
                let fitted = fitted.unwrap_or(0.5 * least);
                let limit = if fitted < failed { None } else { MemoryBoundary::fit(tried)? };
                Ok(limit.map_or(EdgeEstimate::Between { fitted, failed }, EdgeEstimate::Fitted))
            }
        }
    }

    /// The probability that a step of this many MiB fits.
    fn fit_probability(&self, demand: f64) -> f64 {
        match *self {
            EdgeEstimate::Between { fitted, failed } if fitted < failed => {
                ((failed / demand).ln() / (failed / fitted).ln()).clamp(0.0, 1.0)
            }
            EdgeEstimate::Between { failed, .. } => f64::from(demand < failed),
            EdgeEstimate::Fitted(limit) => limit.fit_probability(demand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried_steps(fitted: &[f64], failed: &[f64]) -> Vec<TriedStep> {
        let tried = |fitted| move |&demand: &f64| TriedStep { demand, fitted };
        fitted.iter().map(tried(true)).chain(failed.iter().map(tried(false))).collect()
    }

    #[test]
    fn halfway_between_what_fitted_and_what_did_not_nobody_knows() {
        let edge =
            EdgeEstimate::estimate(&tried_steps(&[100.0, 400.0], &[1600.0, 3000.0]), Some(9000.0), 10.0).unwrap();
        // 800 is halfway from 400 to 1600 on a logarithmic scale.
        assert!((edge.fit_probability(800.0) - 0.5).abs() < 1e-9);
        assert_eq!(
            (edge.fit_probability(400.0), edge.fit_probability(1600.0), edge.fit_probability(9000.0)),
            (1.0, 0.0, 0.0)
        );
    }

    #[test]
    fn before_anything_failed_the_capacity_says_how_far_to_go_or_what_fitted() {
        let known = EdgeEstimate::estimate(&[], Some(1000.0), 10.0).unwrap();
        assert!(
            known.fit_probability(500.0) > 0.9
                && known.fit_probability(1000.0) == 0.5
                && known.fit_probability(2000.0) < 0.1
        );
        let unknown = |tried: &[TriedStep]| EdgeEstimate::estimate(tried, None, 10.0).unwrap();
        assert!(unknown(&[]).fit_probability(20.0) > 0.9 && unknown(&[]).fit_probability(200.0) < 0.1);
        assert!(unknown(&tried_steps(&[200.0], &[])).fit_probability(400.0) > 0.9, "further the next time");
    }

    #[test]
    fn contradictions_blur_the_edge() {
        let edge = EdgeEstimate::estimate(&tried_steps(&[100.0, 480.0, 620.0], &[520.0, 900.0]), None, 10.0).unwrap();
        assert!(edge.fit_probability(100.0) > 0.9, "{edge:?}");
        // Five tries, two of which contradict each other, give no certainty: not between them, and not quite beyond
        // them.
        assert!((0.25..0.75).contains(&edge.fit_probability(560.0)) && edge.fit_probability(900.0) < 0.25, "{edge:?}");
    }
}
