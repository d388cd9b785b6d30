//! One network on a device that was not measured: the distribution of its latency under the priors of the parameters.
//!
//! A linear approximation at the likeliest parameters would be too low: the median of a sum over many parameters
//! exceeds the sum at their medians, and its upper tail is longer.

use super::fit::{NOISE, values};
use super::physics::PhysicalModel;
use super::term::{COUNT, ParameterValues};
use crate::fingerprint::prediction::{IntervalBand, IntervalBasis, Predictor};
use perf4sight_base::stats::percentile;
use perf4sight_platform::{Platform, SpeedParameter};
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
type TimeQuantiles = [f64; 3];

pub(super) struct PriorPredictor<'a> {
    physics: PhysicalModel<'a>,
    devices: Arc<[SampledDevices]>,
    /// Standard deviation that no parameter explains, in logarithms.
    unexplained: f64,
    /// Cached quantiles: value and interval of a batch size share them.
    known: RefCell<BTreeMap<u64, TimeQuantiles>>,
}

pub(super) struct SampledDevices {
    /// The values of every parameter, in the order of [`SpeedParameter::ALL`], one per device.
    values: [[f64; SIDE_BY_SIDE]; COUNT],
    /// The unexplained deviation of a measurement on each device, in standard deviations.
    own: [f64; SIDE_BY_SIDE],
}

impl<'a> PriorPredictor<'a> {
    /// A network whose unknown operations add this standard deviation, in logarithms.
    pub(super) fn new(devices: Arc<[SampledDevices]>, physics: PhysicalModel<'a>, strangeness: f64) -> Self {
        let unexplained = NOISE.hypot(strangeness);
        PriorPredictor { physics, devices, unexplained, known: RefCell::default() }
    }

    fn quantiles(&self, batch: u64) -> TimeQuantiles {
        *self.known.borrow_mut().entry(batch).or_insert_with(|| {
            let step = self.physics.step_time(batch as f64);
            let times = |SampledDevices { values, own }: &SampledDevices| {
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

impl Predictor for PriorPredictor<'_> {
    fn predict(&self, batch: u64) -> f64 {
        self.quantiles(batch)[1]
    }

    fn band(&self, batch: u64) -> Option<IntervalBand> {
        let [low, middle, high] = self.quantiles(batch);
        Some(IntervalBand { ends: [(low / middle).ln(), (high / middle).ln()], basis: IntervalBasis::Prior })
    }
}

/// Devices spread evenly over every prior, independently of the others (a Latin hypercube: M. McKay, R. Beckman, W.
/// Conover, 1979).
pub(super) fn draw(platform: &Platform) -> Arc<[SampledDevices]> {
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
        let prior = platform.speed.prior(SpeedParameter::ALL[index]);
        prior.typical.ln() + prior.spread * parameters[index][device]
    };
    let device = |device| values(&std::array::from_fn(|index| logarithm(index, device)));
    let drawn = |group: usize| {
        let devices = std::array::from_fn::<usize, SIDE_BY_SIDE, _>(|place| SIDE_BY_SIDE * group + place);
        let values: [ParameterValues; SIDE_BY_SIDE] = devices.map(device);
        SampledDevices {
            values: std::array::from_fn(|index| values.map(|values| values[index])),
            own: devices.map(|device| own[device]),
        }
    };
    (0..DRAWS / SIDE_BY_SIDE).map(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::latency::{DeviceRules, ParameterBelief};
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_step::workload::{Stage, Step};

    /// Quantiles of a step among devices whose parameters are drawn one by one, each predicted like a fitted device.
    fn sampled_quantiles(platform: &Platform, network: &str, batch: f64) -> TimeQuantiles {
        let (network, step) = (build(network, Dataset::Imagenet).unwrap(), Step::published(Stage::Training));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(99);
        let mut time = || {
            let center = std::array::from_fn(|index| {
                let prior = platform.speed.prior(SpeedParameter::ALL[index]);
                prior.typical.ln() + prior.spread * Normal::standard().inverse_cdf(random.random_range(1e-9..1.0))
            });
            let belief = ParameterBelief { center, ..ParameterBelief::prior(platform) };
            PhysicalModel::new(DeviceRules { speed: &platform.speed, platform }, belief.values(), &network, step)
                .time(batch)
        };
        let times: Vec<f64> = (0..3000).map(|_| time()).collect();
        [5.0, 50.0, 95.0].map(|percent| percentile(&times, percent))
    }

    #[test]
    fn quantiles_are_those_of_many_devices() {
        for (name, network) in [("orin", "squeezenet"), ("cpu", "squeezenet")] {
            let platform = Platform::for_name(name).unwrap();
            let (built, step) = (build(network, Dataset::Imagenet).unwrap(), Step::published(Stage::Training));
            let values = ParameterBelief::prior(&platform).values();
            let physics =
                PhysicalModel::new(DeviceRules { speed: &platform.speed, platform: &platform }, values, &built, step);
            let believed = PriorPredictor::new(draw(&platform), physics, 0.0).quantiles(8);
            let expected = sampled_quantiles(&platform, network, 8.0);
            for (believed, expected) in believed.iter().zip(expected) {
                assert!((believed / expected).ln().abs() < 0.2, "{name}: {believed} ms where {expected} are drawn");
            }
        }
    }
}
