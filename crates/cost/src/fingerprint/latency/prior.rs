//! One network before a device that was not measured: what the priors of its parameters let expect, drawn many times.
//!
//! A straight line through the likeliest parameters would say too little: the sum of what many parameters promise is larger than what
//! their medians do, and its upper tail is the longer one.

use super::fit::{NOISE, values};
use super::physics::Physics;
use super::term::{COUNT, Values};
use crate::fingerprint::prediction::{Band, Basis, Predictor};
use perf4sight_base::stats::percentile;
use perf4sight_platform::{Parameter, Platform};
use rand::Rng;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ContinuousCDF, Normal};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many devices are drawn: quantiles then stay where they are within a few percent.
const DRAWS: usize = 256;

/// So many of them are computed at once, which processors do side by side.
const SIDE_BY_SIDE: usize = 8;

/// The same devices for every network and batch size, so that those compare.
const SEED: u64 = 1;

/// Milliseconds that 5, 50 and 95 % of the devices stay below.
type Quantiles = [f64; 3];

/// One network, ready to be asked about.
pub(super) struct Believed<'a> {
    physics: Physics<'a>,
    devices: Arc<[Drawn]>,
    /// Standard deviation, in logarithms, of what no parameter explains.
    unexplained: f64,
    /// What was asked already: value and interval of a batch size share it.
    known: RefCell<BTreeMap<u64, Quantiles>>,
}

/// Devices as the priors allow them.
pub(super) struct Drawn {
    /// Of every parameter, in the order of [`Parameter::ALL`], what it is on each.
    values: [[f64; SIDE_BY_SIDE]; COUNT],
    /// What a measurement on each has of its own, in standard deviations.
    own: [f64; SIDE_BY_SIDE],
}

impl<'a> Believed<'a> {
    /// A network of which operations known by price alone leave it open by so many standard deviations, in logarithms.
    pub(super) fn new(devices: Arc<[Drawn]>, physics: Physics<'a>, strangeness: f64) -> Self {
        let unexplained = NOISE.hypot(strangeness);
        Believed { physics, devices, unexplained, known: RefCell::default() }
    }

    fn quantiles(&self, batch: u64) -> Quantiles {
        *self.known.borrow_mut().entry(batch).or_insert_with(|| {
            let step = self.physics.step_time(batch as f64);
            let times = |Drawn { values, own }: &Drawn| {
                let times = step.times(|parameter| values[parameter as usize]);
                std::array::from_fn::<f64, SIDE_BY_SIDE, _>(|device| {
                    times[device] * (self.unexplained * own[device]).exp()
                })
            };
            let times: Vec<f64> = self.devices.iter().flat_map(times).collect();
            [5.0, 50.0, 95.0].map(|percent| percentile(&times, percent))
        })
    }
}

impl Predictor for Believed<'_> {
    fn at(&self, batch: u64) -> f64 {
        self.quantiles(batch)[1]
    }

    fn band(&self, batch: u64) -> Option<Band> {
        let [low, middle, high] = self.quantiles(batch);
        Some(Band { ends: [(low / middle).ln(), (high / middle).ln()], basis: Basis::Prior })
    }
}

/// Devices spread evenly over every prior, whatever the others are (a Latin hypercube: M. McKay, R. Beckman, W. Conover, 1979).
pub(super) fn draw(platform: &Platform) -> Arc<[Drawn]> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut deviations = || {
        let mut strata: Vec<usize> = (0..DRAWS).collect();
        strata.shuffle(&mut random);
        let below = |stratum: usize, within: f64| (stratum as f64 + within) / DRAWS as f64;
        strata
            .into_iter()
            .map(|stratum| Normal::standard().inverse_cdf(below(stratum, random.random_range(0.01..0.99))))
            .collect()
    };
    let own: Vec<f64> = deviations();
    let parameters: [Vec<f64>; COUNT] = std::array::from_fn(|_| deviations());
    let logarithm = |index: usize, device: usize| {
        let prior = platform.speed.prior(Parameter::ALL[index]);
        prior.typical.ln() + prior.spread * parameters[index][device]
    };
    let device = |device| values(&std::array::from_fn(|index| logarithm(index, device)));
    let drawn = |group: usize| {
        let devices = std::array::from_fn::<usize, SIDE_BY_SIDE, _>(|place| SIDE_BY_SIDE * group + place);
        let values: [Values; SIDE_BY_SIDE] = devices.map(device);
        Drawn {
            values: std::array::from_fn(|index| values.map(|values| values[index])),
            own: devices.map(|device| own[device]),
        }
    };
    (0..DRAWS / SIDE_BY_SIDE).map(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::latency::{Belief, Rules};
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_step::workload::{Stage, Step};

    /// Quantiles of a step among devices whose parameters are drawn one by one, each asked as a fitted device is.
    fn drawn(platform: &Platform, network: &str, batch: f64) -> Quantiles {
        let (network, step) = (build(network, Dataset::Imagenet).unwrap(), Step::published(Stage::Training));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(99);
        let mut time = || {
            let center = std::array::from_fn(|index| {
                let prior = platform.speed.prior(Parameter::ALL[index]);
                prior.typical.ln() + prior.spread * Normal::standard().inverse_cdf(random.random_range(1e-9..1.0))
            });
            let belief = Belief { center, ..Belief::before(platform) };
            Physics::new(Rules { speed: &platform.speed, platform }, belief.values(), &network, step).time(batch)
        };
        let times: Vec<f64> = (0..3000).map(|_| time()).collect();
        [5.0, 50.0, 95.0].map(|percent| percentile(&times, percent))
    }

    #[test]
    fn quantiles_are_those_of_many_devices() {
        for (name, network) in [("orin", "squeezenet"), ("cpu", "squeezenet")] {
            let platform = Platform::named(name).unwrap();
            let (built, step) = (build(network, Dataset::Imagenet).unwrap(), Step::published(Stage::Training));
            let values = Belief::before(&platform).values();
            let physics = Physics::new(Rules { speed: &platform.speed, platform: &platform }, values, &built, step);
            let believed = Believed::new(draw(&platform), physics, 0.0).quantiles(8);
            let expected = drawn(&platform, network, 8.0);
            for (believed, expected) in believed.iter().zip(expected) {
                assert!((believed / expected).ln().abs() < 0.2, "{name}: {believed} ms where {expected} are drawn");
            }
        }
    }
}
