//! How far off predicted memory may be: the distribution of its error, as networks showed it that a fit had not seen.

use super::curve::Curve;
use super::digest::{Known, Step, curve};
use super::model::Model;
use super::search::search;
use crate::target::Allocator;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeSet;

/// The error of a prediction: Student's t, whose scale grows with what a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Doubt {
    /// MiB, however little a step needs.
    fixed: f64,
    /// And this share of what it needs.
    share: f64,
    /// Degrees of freedom: few networks leave the scale itself uncertain.
    freedom: f64,
}

/// The doubts about both quantities that a step may have to keep within a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Doubts {
    /// About what the allocator takes for tensors.
    pub tensors: Doubt,
    /// About all that is used.
    pub all: Doubt,
}

/// One step: MiB predicted and measured.
type Miss = (f64, f64);

/// What is believed before any network was seen weighs as much as this many of them.
const BELIEF: f64 = 3.0;

/// Below a MiB readings are rounded to pages.
const LEAST_FIXED: f64 = 0.5;

/// The share that predictions are believed to be off by. Requests that go straight to the system can be counted; how a caching allocator cuts
/// its segments cannot be foreseen to the last (`ACCURACY.md`).
fn believed(allocator: Allocator) -> f64 {
    match allocator {
        Allocator::Direct => 0.01,
        Allocator::Caching(_) => 0.1,
    }
}

impl Doubts {
    /// From what is known of networks; used memory is predicted for each from all others.
    pub fn of(known: &[Known], allocator: Allocator) -> Self {
        let names: BTreeSet<&String> = known.iter().map(|part| &part.network).collect();
        let names: Vec<&String> = names.into_iter().collect();
        let tensors = names.iter().map(|name| tensors(known, name)).collect::<Vec<_>>();
        let all = names.par_iter().map(|name| all(known, name, allocator)).collect::<Vec<_>>();
        Doubts { tensors: Doubt::of(&tensors, allocator), all: Doubt::of(&all, allocator) }
    }

    /// Whether these can be scales of errors.
    pub fn is_sound(&self) -> bool {
        let numbers = [self.tensors, self.all].map(|doubt| [doubt.fixed, doubt.share, doubt.freedom]);
        numbers.concat().iter().all(|number| number.is_finite() && *number > 0.0)
    }
}

/// Steps of a network of which the profile has what the allocator took.
fn tensors(known: &[Known], network: &str) -> Vec<Miss> {
    let own = known.iter().filter(|part| part.network == network);
    own.flat_map(|part| &part.steps).filter_map(|step| Some((step.simulated.reserved, step.reserved?))).collect()
}

/// Steps of a network, predicted from all others; none where there are no others.
fn all(known: &[Known], network: &str, allocator: Allocator) -> Vec<Miss> {
    let (own, others): (Vec<&Known>, Vec<&Known>) = known.iter().partition(|part| part.network == network);
    let Some(curve) = curve(&others, allocator) else { return Vec::new() };
    // How far off a step would be that the device could not give all it needs cannot be seen.
    let model = Model::untaught(Curve { cap: None, ..curve });
    let steps = own.iter().flat_map(|part| part.steps.iter().map(move |step| (part, step)));
    let miss = |(part, step): (&&Known, &Step)| -> Option<Miss> {
        Some((model.used(&part.architecture, &part.query(step)), step.used?))
    };
    steps.filter_map(miss).collect()
}

impl Doubt {
    /// The likeliest scale; every network weighs the same, however many steps it has.
    fn of(networks: &[Vec<Miss>], allocator: Allocator) -> Self {
        let networks: Vec<&Vec<Miss>> = networks.iter().filter(|steps| !steps.is_empty()).collect();
        let believed = believed(allocator);
        let surprise = |[fixed, share]: [f64; 2]| {
            let doubt = Doubt { fixed: fixed.exp(), share: share.exp(), freedom: 1.0 };
            let prior = BELIEF * (share + 0.5 * (believed / doubt.share).powi(2));
            prior + networks.iter().map(|steps| doubt.surprise(steps)).sum::<f64>()
        };
        let least = LEAST_FIXED.ln();
        let bounded = |[fixed, share]: [f64; 2]| if fixed < least { f64::INFINITY } else { surprise([fixed, share]) };
        let ([fixed, share], _) = search([least + 1.0, believed.ln()], [0.5, 0.5], bounded);
        Doubt { fixed: fixed.exp(), share: share.exp(), freedom: BELIEF + networks.len() as f64 }
    }

    /// Negative logarithm of the likelihood of a network's steps under a normal distribution of this scale, per step.
    fn surprise(&self, steps: &[Miss]) -> f64 {
        let one = |&(predicted, measured): &Miss| {
            let scale = self.scale(predicted);
            scale.ln() + 0.5 * ((measured - predicted) / scale).powi(2)
        };
        steps.iter().map(one).sum::<f64>() / steps.len() as f64
    }

    /// MiB.
    fn scale(&self, need: f64) -> f64 {
        self.fixed.hypot(self.share * need)
    }

    /// The same about a network of which a share is not understood.
    pub fn wider(self, ignorance: f64) -> Self {
        Doubt { share: self.share + ignorance, ..self }
    }

    /// The probability that a step which should need so many MiB needs no more than `room`.
    pub fn fits(&self, need: f64, room: f64) -> f64 {
        self.errors().cdf((room - need) / self.scale(need))
    }

    /// MiB that a step stays within with this probability.
    pub fn within(&self, need: f64, probability: f64) -> f64 {
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
    use crate::target::CachingSizes;

    /// Networks that are off by a constant of their own, a share and some MiB.
    fn networks(shares: &[f64], fixed: f64) -> Vec<Vec<Miss>> {
        let steps = |share: &f64| {
            let needs = (0..8u32).map(|doublings| 10.0 * f64::from(1 << doublings));
            needs
                .enumerate()
                .map(|(at, need)| (need, need * (1.0 + share) + if at % 2 == 0 { fixed } else { -fixed }))
                .collect()
        };
        shares.iter().map(steps).collect()
    }

    #[test]
    fn the_scale_is_that_of_the_errors() {
        // Twenty networks off by 5 %, with what is believed of 1 %: sqrt((20 x 5^2 + 3 x 1^2) / 23) = 4.68 %. To steps of gigabytes half a
        // MiB is nothing.
        let large = networks(&[0.05, -0.05].repeat(10), 0.0);
        let large: Vec<Vec<Miss>> = large
            .into_iter()
            .map(|steps| steps.into_iter().map(|(need, used)| (1e3 * need, 1e3 * used)).collect())
            .collect();
        let doubt = Doubt::of(&large, Allocator::Direct);
        assert!((doubt.share - 0.0468).abs() < 0.0005 && doubt.freedom == 23.0, "{doubt:?}");
        let doubt = Doubt::of(&networks(&[0.0; 20], 6.0), Allocator::Direct);
        assert!((doubt.fixed - 6.0).abs() < 0.5 && doubt.share < 0.01, "{doubt:?}");
    }

    #[test]
    fn without_networks_it_is_what_is_believed() {
        let sizes =
            CachingSizes { round: 512, small: 1, small_segment: 1, large: 1, medium_segment: 1, large_round: 1 };
        for (allocator, believed) in [(Allocator::Direct, 0.01), (Allocator::Caching(sizes), 0.1)] {
            let doubt = Doubt::of(&[vec![]], allocator);
            assert!((doubt.share - believed).abs() < 1e-3 * believed && doubt.freedom == BELIEF, "{doubt:?}");
        }
    }

    #[test]
    fn odds_are_those_of_students_distribution() {
        let doubt = Doubt { fixed: 1e-9, share: 0.1, freedom: 5.0 };
        assert!((doubt.fits(100.0, 100.0) - 0.5).abs() < 1e-9);
        // A table of Student's t: 2.015 is the 95 % quantile of five degrees of freedom.
        assert!((doubt.fits(100.0, 120.15) - 0.95).abs() < 1e-4);
        assert!((doubt.within(100.0, 0.95) - 120.15).abs() < 0.01);
        assert!(doubt.wider(0.1).fits(100.0, 120.15) < 0.9);
    }
}
