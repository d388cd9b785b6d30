//! Fits the costs of graphs, times factors, plus a rest to few measurements by Bayes' rule, so that one measurement
//! already helps.
//!
//! A measurement is a sum of known terms, each times an unknown: the graphs' costs times factors around one, and a rest
//! for each step, image, proposal and pixel, each around zero. The priors of the unknowns are normal; the error of a
//! measurement is a share of its value. The fit is then a linear system of few unknowns (Bishop, Pattern Recognition
//! and Machine Learning, 3.3).

use super::CostInterval;

/// Nine tenths of a normal distribution are within this many standard deviations of its mean.
const NINE_TENTHS: f64 = 1.645;
/// Factors for the graphs on whole images and on proposals; then amounts for a step, an image, a proposal, a pixel.
pub(super) const UNKNOWNS: usize = 6;
/// How many of them are factors.
const FACTORS: usize = 2;

/// The coefficient of each unknown.
pub(super) type BlendTerms = [f64; UNKNOWNS];

/// A measurement, its terms, and its relative error.
pub(super) struct ObservedTime {
    pub terms: BlendTerms,
    pub measured: f64,
    pub noise: f64,
}

/// The estimated unknowns, and their uncertainty.
pub(super) struct BlendFit {
    mean: BlendTerms,
    covariance: [BlendTerms; UNKNOWNS],
    noise: f64,
}

impl BlendFit {
    /// The fit to the measurements; none where there are none. The result of a prediction has a relative error of
    /// `noise`.
    pub fn fit(deviations: BlendTerms, noise: f64, observed: &[ObservedTime]) -> Option<Self> {
        let before = BlendFit::prior(deviations, observed.first()?, noise);
        Some(observed.iter().fold(before, BlendFit::with))
    }

    /// The prior: `deviations` of the factors, and of each part of the rest as shares of `whole`, a measurement with
    /// these terms.
    fn prior(deviations: BlendTerms, whole: &ObservedTime, noise: f64) -> Self {
        let (mut mean, mut covariance) = ([0.0; UNKNOWNS], [[0.0; UNKNOWNS]; UNKNOWNS]);
        for unknown in 0..UNKNOWNS {
            let amount = whole.terms[unknown];
            let scale = if unknown < FACTORS { 1.0 } else { whole.measured / amount };
            mean[unknown] = if unknown < FACTORS { 1.0 } else { 0.0 };
            covariance[unknown][unknown] = if amount > 0.0 { (scale * deviations[unknown]).powi(2) } else { 0.0 };
        }
        BlendFit { mean, covariance, noise }
    }

    /// With one measurement more: it is a number, so that no matrix has to be inverted (Kalman's update).
    fn with(mut self, observed: &ObservedTime) -> Self {
        let gain: BlendTerms = std::array::from_fn(|row| dot(&self.covariance[row], &observed.terms));
        let spread = dot(&gain, &observed.terms) + (observed.noise * observed.measured).powi(2);
        let off = observed.measured - dot(&self.mean, &observed.terms);
        for row in 0..UNKNOWNS {
            self.mean[row] += gain[row] / spread * off;
            for column in 0..UNKNOWNS {
                self.covariance[row][column] -= gain[row] * gain[column] / spread;
            }
        }
        self
    }

    pub fn estimate(&self, terms: &BlendTerms) -> CostInterval {
        let value = dot(&self.mean, terms);
        let unsure: f64 = (0..UNKNOWNS).map(|row| terms[row] * dot(&self.covariance[row], terms)).sum();
        let off = NINE_TENTHS * (unsure.max(0.0) + (self.noise * value).powi(2)).sqrt();
        CostInterval { value: value.max(0.0), low: (value - off).max(0.0), high: value.max(0.0) + off }
    }
}

fn dot(one: &BlendTerms, other: &BlendTerms) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELIEFS: BlendTerms = [0.5, 0.5, 0.1, 0.1, 0.1, 0.1];

    /// On whole images graphs cost 0.2 s and 0.3 s an image of 100,000 pixels, on a device 1.3 times slower than its
    /// fingerprint; on proposals 0.25 s an image, where it is twice as slow; the rest is 0.05 s a step and 0.02 s an
    /// image.
    fn seconds(images: f64, pixels: f64) -> ObservedTime {
        let [dense, boxes] = [0.2 + 0.3 * images * pixels / 1e5, 0.25 * images];
        let terms = [dense, boxes, 1.0, images, 512.0 * images, images * pixels];
        ObservedTime { terms, measured: 1.3 * dense + 2.0 * boxes + 0.05 + 0.02 * images, noise: 0.04 }
    }

    /// The backbone's own time, which is most of the time of whole images.
    fn trunk(images: f64, pixels: f64) -> ObservedTime {
        let dense = 0.8 * seconds(images, pixels).terms[0];
        ObservedTime { terms: [dense, 0.0, 0.0, 0.0, 0.0, 0.0], measured: 1.3 * dense, noise: 0.04 }
    }

    fn fitted(loads: &[(f64, f64)]) -> BlendFit {
        let both = |&(images, pixels): &(f64, f64)| [seconds(images, pixels), trunk(images, pixels)];
        BlendFit::fit(BELIEFS, 0.04, &loads.iter().flat_map(both).collect::<Vec<ObservedTime>>()).unwrap()
    }

    #[test]
    fn two_small_batches_tell_of_larger_ones_and_other_sizes() {
        let blend = fitted(&[(1.0, 1e5), (2.0, 1e5)]);
        for (images, pixels) in [(4.0, 1e5), (4.0, 2e5), (8.0, 1e5), (1.0, 3e5)] {
            let truth = seconds(images, pixels);
            let estimate = blend.estimate(&truth.terms);
            assert!(
                (estimate.value / truth.measured - 1.0).abs() < 0.08,
                "{images} of {pixels}: {estimate:?} for {}",
                truth.measured
            );
            assert!(
                estimate.low <= truth.measured && truth.measured <= estimate.high,
                "{estimate:?} for {}",
                truth.measured
            );
        }
    }

    #[test]
    fn one_measurement_already_says_something_but_less_surely() {
        let truth = seconds(8.0, 1e5);
        let width = |blend: &BlendFit| {
            let estimate = blend.estimate(&truth.terms);
            assert!(
                estimate.low <= truth.measured && truth.measured <= estimate.high,
                "{estimate:?} for {}",
                truth.measured
            );
            estimate.high - estimate.low
        };
        assert!(width(&fitted(&[(1.0, 1e5)])) > 1.2 * width(&fitted(&[(1.0, 1e5), (4.0, 1e5)])));
    }

    #[test]
    fn what_was_disturbed_is_believed_less() {
        let disturbed = |noise| {
            let slow = seconds(2.0, 1e5);
            let slow = ObservedTime { measured: 1.4 * slow.measured, noise, ..slow };
            let blend = BlendFit::fit(BELIEFS, 0.04, &[seconds(1.0, 1e5), slow]).unwrap();
            blend.estimate(&seconds(4.0, 1e5).terms)
        };
        let (believed, doubted) = (disturbed(0.04), disturbed(0.2));
        assert!(doubted.value < believed.value, "{doubted:?}, {believed:?}");
        assert!(doubted.high - doubted.low > believed.high - believed.low, "{doubted:?}, {believed:?}");
    }

    #[test]
    fn before_anything_is_measured_graphs_cost_what_the_fingerprint_says() {
        let truth = seconds(2.0, 1e5);
        let estimate = BlendFit::prior(BELIEFS, &truth, 0.04).estimate(&truth.terms);
        assert!((estimate.value - (truth.terms[0] + truth.terms[1])).abs() < 1e-12);
    }
}
