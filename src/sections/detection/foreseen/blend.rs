//! What graphs cost, times a factor, and the rest: fitted to few measurements by Bayes' rule, so that one already says something.
//!
//! A measurement is `factor * graphs + rest`, with a rest of so much a step, an image, a proposal and a pixel. What each may be is believed
//! beforehand as normal: the factor around one, each part of the rest around nothing. Measurements are off by a share of themselves. The fit is
//! then a linear system of five unknowns (Bishop, Pattern Recognition and Machine Learning, 3.3); parts that came out below nothing are
//! nothing, and the others are fitted again.

use super::{Estimate, Load};
use crate::stats::mean;

/// Standard deviations of a normal distribution within which nine tenths lie, to either side.
const NINE_TENTHS: f64 = 1.645;
/// The factor, and a step, an image, a proposal, a pixel.
const UNKNOWNS: usize = 5;

/// A measurement and what is known of it.
pub(super) struct Observed {
    /// What the fingerprint says of the graphs.
    pub graphs: f64,
    pub load: Load,
    pub measured: f64,
}

/// Factor and rest, and how sure they are.
pub(super) struct Blend {
    mean: [f64; UNKNOWNS],
    covariance: [[f64; UNKNOWNS]; UNKNOWNS],
    noise: f64,
}

impl Blend {
    /// Of at least one measurement. `noise` is the share that each is off by, `factor` and `rest` are standard deviations of what is believed
    /// beforehand; that of the rest as a share of a measurement.
    pub fn fit(observed: &[Observed], noise: f64, factor: f64, rest: f64) -> Self {
        let middle = |of: &dyn Fn(&Observed) -> f64| mean(&observed.iter().map(of).collect::<Vec<_>>());
        let share = rest * middle(&|one| one.measured);
        let each = [
            middle(&|_| 1.0),
            middle(&|one| one.load.images),
            middle(&|one| one.load.proposals),
            middle(&|one| one.load.pixels),
        ];
        let [step, image, proposal, pixel] = each.map(|amount| if amount > 0.0 { share / amount } else { 0.0 });
        let mut deviations = [factor, step, image, proposal, pixel];
        loop {
            let blend = solve(observed, noise, deviations);
            let negative = (1..UNKNOWNS).filter(|part| blend.mean[*part] < 0.0);
            let Some(lowest) = negative.min_by(|one, other| {
                (blend.mean[*one] / deviations[*one]).total_cmp(&(blend.mean[*other] / deviations[*other]))
            }) else {
                return blend;
            };
            deviations[lowest] = 0.0;
        }
    }

    /// What is to be expected where the graphs cost so much.
    pub fn at(&self, graphs: f64, load: Load) -> Estimate {
        let terms = terms(graphs, load);
        let value: f64 = terms.iter().zip(self.mean).map(|(term, mean)| term * mean).sum();
        let unsure: f64 = (0..UNKNOWNS)
            .flat_map(|i| (0..UNKNOWNS).map(move |j| (i, j)))
            .map(|(i, j)| terms[i] * self.covariance[i][j] * terms[j])
            .sum();
        let off = NINE_TENTHS * (unsure.max(0.0) + (self.noise * value).powi(2)).sqrt();
        Estimate { value, low: (value - off).max(0.0), high: value + off }
    }
}

fn terms(graphs: f64, load: Load) -> [f64; UNKNOWNS] {
    [graphs, 1.0, load.images, load.proposals, load.pixels]
}

/// The posterior; what has no deviation is what was believed.
fn solve(observed: &[Observed], noise: f64, deviations: [f64; UNKNOWNS]) -> Blend {
    let (mut mean, mut covariance) = ([1.0, 0.0, 0.0, 0.0, 0.0], [[0.0; UNKNOWNS]; UNKNOWNS]);
    for (part, deviation) in deviations.iter().enumerate() {
        covariance[part][part] = deviation.powi(2);
    }
    // One measurement after the other, each a number: no matrix has to be inverted (Kalman's update).
    for one in observed {
        let terms = terms(one.graphs, one.load);
        let gain: [f64; UNKNOWNS] = std::array::from_fn(|i| (0..UNKNOWNS).map(|j| covariance[i][j] * terms[j]).sum());
        let spread: f64 =
            terms.iter().zip(gain).map(|(term, gain)| term * gain).sum::<f64>() + (noise * one.measured).powi(2);
        let expected: f64 = terms.iter().zip(mean).map(|(term, mean)| term * mean).sum();
        for i in 0..UNKNOWNS {
            mean[i] += gain[i] / spread * (one.measured - expected);
            for j in 0..UNKNOWNS {
                covariance[i][j] -= gain[i] * gain[j] / spread;
            }
        }
    }
    Blend { mean, covariance, noise }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(images: f64, pixels: f64) -> Load {
        Load { images, proposals: 512.0 * images, pixels: images * pixels }
    }

    /// Graphs that cost 0.2 s and 0.3 s an image of 100,000 pixels on a device 1.2 times slower than its fingerprint says, and a rest of 0.05 s
    /// a step and 0.02 s an image.
    fn seconds(images: f64, pixels: f64) -> Observed {
        let graphs = 0.2 + 0.3 * images * pixels / 1e5;
        let load = load(images, pixels);
        Observed { graphs, load, measured: 1.2 * graphs + 0.05 + 0.02 * images }
    }

    #[test]
    fn two_small_batches_tell_of_larger_ones_and_other_sizes() {
        let blend = Blend::fit(&[seconds(1.0, 1e5), seconds(2.0, 1e5)], 0.04, 0.5, 0.1);
        for (images, pixels) in [(4.0, 1e5), (4.0, 2e5), (8.0, 1e5), (1.0, 3e5)] {
            let truth = seconds(images, pixels);
            let told = blend.at(truth.graphs, truth.load);
            assert!(
                (told.value / truth.measured - 1.0).abs() < 0.06,
                "{images} of {pixels}: {told:?} for {}",
                truth.measured
            );
            assert!(told.low <= truth.measured && truth.measured <= told.high, "{told:?} for {}", truth.measured);
        }
    }

    #[test]
    fn one_measurement_already_says_something_but_less_surely() {
        let one = Blend::fit(&[seconds(1.0, 1e5)], 0.04, 0.5, 0.1);
        let two = Blend::fit(&[seconds(1.0, 1e5), seconds(4.0, 1e5)], 0.04, 0.5, 0.1);
        let truth = seconds(8.0, 1e5);
        let width = |blend: &Blend| {
            let told = blend.at(truth.graphs, truth.load);
            assert!(told.low <= truth.measured && truth.measured <= told.high);
            told.high - told.low
        };
        assert!(width(&one) > 1.5 * width(&two));
    }

    #[test]
    fn no_part_of_the_rest_is_below_nothing() {
        // Half of what the graphs alone would cost, at one batch size: whatever is believed, no rest makes up for it.
        let cheap = Observed { graphs: 2.0, load: load(2.0, 1e5), measured: 1.0 };
        let blend = Blend::fit(&[cheap], 0.04, 0.5, 0.1);
        assert!(blend.mean[1..].iter().all(|part| *part >= 0.0), "{:?}", blend.mean);
    }
}
