//! One network on a device that was not measured: the distribution of its latency under the priors of the parameters.
//!
//! A linear approximation at the likeliest parameters would be too low: the median of a sum over many parameters
//! exceeds the sum at their medians, and its upper tail is longer.

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

/// The number of drawn devices: enough for quantiles that are stable within a few percent.
const DRAWS: usize = 256;

/// Devices computed at once with SIMD.
const SIDE_BY_SIDE: usize = 8;

/// The same devices for every network and batch size, so that predictions are comparable.
const SEED: u64 = 1;

/// Milliseconds that 5, 50 and 95 % of the devices stay below.
type Quantiles = [f64; 3];

pub(super) struct Believed<'a> {
    physics: Physics<'a>,
    devices: Arc<[Drawn]>,
    /// Standard deviation that no parameter explains, in logarithms.
    unexplained: f64,
    /// Cached quantiles: value and interval of a batch size share them.
    known: RefCell<BTreeMap<u64, Quantiles>>,
}

pub(super) struct Drawn {
    /// The values of every parameter, in the order of [`Parameter::ALL`], one per device.
    values: [[f64; SIDE_BY_SIDE]; COUNT],
    /// The unexplained deviation of a measurement on each device, in standard deviations.
    own: [f64; SIDE_BY_SIDE],
}

impl<'a> Believed<'a> {
    /// A network whose unknown operations add this standard deviation, in logarithms.
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

/// Devices spread evenly over every prior, independently of the others (a Latin hypercube: M. McKay, R. Beckman, W.
/// Conover, 1979).
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

    /// Quantiles of a step among devices whose parameters are drawn one by one, each predicted like a fitted device.
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
