//! The error of predicted memory: its distribution, learned from networks that a fit had not seen.

use super::curve::UsageCurve;
use super::digest::{ProfiledStep, ProfiledVariant, curve};
use super::model::UsageModel;
use super::search::search;
use crate::fingerprint::cross_validation::leave_out;
use perf4sight_platform::Allocator;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The error of a prediction: Student's t, whose scale grows with the need of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorDistribution {
    /// MiB, independent of the need.
    fixed: f64,
    share: f64,
    /// Degrees of freedom: with few networks the scale itself is uncertain.
    freedom: f64,
}

/// The doubts about both quantities that a limit may apply to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorDistributions {
    /// About the memory that the allocator takes for tensors.
    pub tensors: ErrorDistribution,
    /// About all memory used.
    pub all: ErrorDistribution,
}

/// One step: MiB predicted and measured.
type PredictedAndMeasured = (f64, f64);

/// Weight of the prior, in networks.
const BELIEF: f64 = 3.0;

/// Prior error in MiB, at any size of a step: pages and small buffers of libraries.
const BELIEVED_FIXED: f64 = 1.0;

/// Prior error as a share. Requests that go straight to the system can be counted; how a caching allocator cuts its
/// segments cannot be predicted exactly (`docs/accuracy/memory.md`).
fn prior_share(allocator: Allocator) -> f64 {
    match allocator {
        Allocator::Direct => 0.01,
        Allocator::Caching(_) => 0.1,
    }
}

impl ErrorDistributions {
    /// The prior: `other` MiB of the memory used, in addition to the tensors, are in doubt.
    pub fn prior(allocator: Allocator, other: f64) -> Self {
        let tensors = ErrorDistribution { fixed: BELIEVED_FIXED, share: prior_share(allocator), freedom: BELIEF };
        ErrorDistributions { tensors, all: ErrorDistribution { fixed: BELIEVED_FIXED.hypot(other), ..tensors } }
    }

    /// From profiled networks; the memory used of each is predicted from all others.
    pub fn fit(known: &[ProfiledVariant], allocator: Allocator) -> Self {
        let misses =
            |own: &[&ProfiledVariant], others: &[&ProfiledVariant]| (tensors(own), all(own, others, allocator));
        let (tensors, all): (Vec<_>, Vec<_>) = leave_out(known, |part| Some(&part.network), misses).into_iter().unzip();
        ErrorDistributions {
            tensors: ErrorDistribution::fit(&tensors, allocator),
            all: ErrorDistribution::fit(&all, allocator),
        }
    }

    /// The same, widened so that one step of twenty exceeds its predicted use by a factor of e to the `width`: no
    /// verdict is more certain than the interval shown next to it.
    pub fn at_least_as_unsure(self, width: f64) -> Self {
        ErrorDistributions { all: self.all.at_least(width.exp_m1()), ..self }
    }

    /// The same about a network unlike those of the fit: the MiB of its process besides the tensors are in doubt, too.
    pub fn of_another_process(self, other: f64) -> Self {
        ErrorDistributions { all: ErrorDistribution { fixed: self.all.fixed.hypot(other), ..self.all }, ..self }
    }

    /// The same about a network that is partly not understood; `ignorance` is a share of its need.
    pub fn widened(self, ignorance: f64) -> Self {
        let ErrorDistributions { tensors, all } = self;
        ErrorDistributions { tensors: tensors.widened(ignorance), all: all.widened(ignorance) }
    }

    /// Whether the numbers are possible scales of errors.
    pub fn is_valid(&self) -> bool {
        let numbers = [self.tensors, self.all].map(|doubt| [doubt.fixed, doubt.share, doubt.freedom]);
        numbers.concat().iter().all(|number| number.is_finite() && *number > 0.0)
    }
}

/// Predicted and measured memory of the allocator, for the steps where the profile has it.
fn tensors(own: &[&ProfiledVariant]) -> Vec<PredictedAndMeasured> {
    let steps = own.iter().flat_map(|part| &part.steps);
    steps.filter_map(|step| Some((step.simulated.reserved, step.reserved?))).collect()
}

/// Steps of a network, predicted from all others; none where there are no others.
fn all(own: &[&ProfiledVariant], others: &[&ProfiledVariant], allocator: Allocator) -> Vec<PredictedAndMeasured> {
    let Some(curve) = curve(others, allocator) else { return Vec::new() };
    // The error of a step that filled the device cannot be seen.
    let model = UsageModel::unfitted(UsageCurve { cap: None, ..curve });
    let steps = own.iter().flat_map(|part| part.steps.iter().map(move |step| (part, step)));
    let miss = |(part, step): (&&ProfiledVariant, &ProfiledStep)| -> Option<PredictedAndMeasured> {
        Some((model.used_memory(&part.architecture, &part.query(step)), step.used?))
    };
    steps.filter_map(miss).collect()
}

impl ErrorDistribution {
    /// The likeliest scale; every network weighs the same, however many steps it has.
    fn fit(networks: &[Vec<PredictedAndMeasured>], allocator: Allocator) -> Self {
        let networks: Vec<&Vec<PredictedAndMeasured>> = networks.iter().filter(|steps| !steps.is_empty()).collect();
        let believed = prior_share(allocator);
        // Both have a prior. Otherwise, with steps of similar size, the fit would put all error into the cheaper
        // number.
        let belief = |log: f64, believed: f64| BELIEF * (log + 0.5 * (believed / log.exp()).powi(2));
        let surprise = |[fixed, share]: [f64; 2]| {
            let doubt = ErrorDistribution { fixed: fixed.exp(), share: share.exp(), freedom: 1.0 };
            let seen: f64 = networks.iter().map(|steps| doubt.negative_log_likelihood(steps)).sum();
            belief(fixed, BELIEVED_FIXED) + belief(share, believed) + seen
        };
        let ([fixed, share], _) = search([BELIEVED_FIXED.ln(), believed.ln()], [0.5, 0.5], surprise);
        ErrorDistribution { fixed: fixed.exp(), share: share.exp(), freedom: BELIEF + networks.len() as f64 }
    }

    /// Negative logarithm of the likelihood of a network's steps under a normal distribution of this scale, per step.
    fn negative_log_likelihood(&self, steps: &[PredictedAndMeasured]) -> f64 {
        let one = |&(predicted, measured): &PredictedAndMeasured| {
            let scale = self.scale(predicted);
            scale.ln() + 0.5 * ((measured - predicted) / scale).powi(2)
        };
        steps.iter().map(one).sum::<f64>() / steps.len() as f64
    }

    fn scale(&self, need: f64) -> f64 {
        self.fixed.hypot(self.share * need)
    }

    /// The same about a network of which a share is not understood.
    pub fn widened(self, ignorance: f64) -> Self {
        ErrorDistribution { share: self.share + ignorance, ..self }
    }

    /// The same, widened so that a step exceeds its prediction by this share in at least one case of twenty.
    pub fn at_least(self, share: f64) -> Self {
        ErrorDistribution { share: self.share.max(share / self.errors().inverse_cdf(0.95)), ..self }
    }

    /// The probability that a step with a predicted need of so many MiB needs no more than `limit`.
    pub fn fit_probability(&self, need: f64, limit: f64) -> f64 {
        self.errors().cdf((limit - need) / self.scale(need))
    }

    /// MiB that a step stays within with this probability.
    pub fn need_at_probability(&self, need: f64, probability: f64) -> f64 {
        need + self.errors().inverse_cdf(probability) * self.scale(need)
    }

    fn errors(&self) -> StudentsT {
        StudentsT::new(0.0, 1.0, self.freedom)
            .expect("degrees of freedom are positive, as fitted and as checked on load")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_platform::CachingSizes;

    #[test]
    fn the_scale_is_that_of_the_errors() {
        // Twenty networks off by 5 %, with a prior of 1 %: sqrt((20 x 5^2 + 3 x 1^2) / 23) = 4.68 %. The steps take
        // gigabytes, so that a MiB is negligible.
        let large = |&share: &f64| vec![(4096.0, 4096.0 * (1.0 + share)); 8];
        let large: Vec<Vec<PredictedAndMeasured>> = [0.05, -0.05].repeat(10).iter().map(large).collect();
        let doubt = ErrorDistribution::fit(&large, Allocator::Direct);
        assert!((doubt.share - 0.0468).abs() < 0.0005 && doubt.fixed < 5.0 && doubt.freedom == 23.0, "{doubt:?}");
        // And off by 6 MiB, with a prior of 1: sqrt((20 x 6^2 + 3) / 23) = 5.6 MiB at most, for a small share
        // explains some.
        let small: Vec<Vec<PredictedAndMeasured>> =
            [6.0, -6.0].repeat(10).iter().map(|&fixed| vec![(20.0, 20.0 + fixed); 8]).collect();
        let doubt = ErrorDistribution::fit(&small, Allocator::Direct);
        assert!((0.5..6.0).contains(&doubt.fixed), "{doubt:?}");
        assert!((doubt.scale(20.0) - 5.6).abs() < 0.3, "{doubt:?}");
    }

    #[test]
    fn without_networks_it_is_what_is_believed() {
        let sizes =
            CachingSizes { round: 512, small: 1, small_segment: 1, large: 1, medium_segment: 1, large_round: 1 };
        for (allocator, believed) in [(Allocator::Direct, 0.01), (Allocator::Caching(sizes), 0.1)] {
            let doubt = ErrorDistribution::fit(&[vec![]], allocator);
            assert!((doubt.share - believed).abs() < 1e-3 * believed && doubt.freedom == BELIEF, "{doubt:?}");
            assert!((doubt.fixed - BELIEVED_FIXED).abs() < 1e-3, "{doubt:?}");
        }
    }

    #[test]
    fn odds_are_those_of_students_distribution() {
        let doubt = ErrorDistribution { fixed: 1e-9, share: 0.1, freedom: 5.0 };
        assert!((doubt.fit_probability(100.0, 100.0) - 0.5).abs() < 1e-9);
        // A table of Student's t: 2.015 is the 95 % quantile of five degrees of freedom.
        assert!((doubt.fit_probability(100.0, 120.15) - 0.95).abs() < 1e-4);
        assert!((doubt.need_at_probability(100.0, 0.95) - 120.15).abs() < 0.01);
        assert!(doubt.widened(0.1).fit_probability(100.0, 120.15) < 0.9);
        assert!((doubt.at_least(0.3).fit_probability(100.0, 130.0) - 0.95).abs() < 1e-4);
        assert_eq!(doubt.at_least(0.1).fit_probability(100.0, 130.0), doubt.fit_probability(100.0, 130.0));
    }
}
