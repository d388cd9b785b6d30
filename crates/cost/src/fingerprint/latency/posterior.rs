//! A network's own effect on latency, estimated from a few of its rows.

use super::cholesky::{Cholesky, dot};
use super::effects::{EffectVariances, FREEDOM};
use super::mixture::{MixtureComponent, NormalMixture};
use super::sample::{ResidualSample, RowCoordinates};

/// Size of the part of the effect that changes with the batch size, relative to the constant part.
const BATCH: f64 = 0.5;

/// Batch sizes a factor of 2 apart are neighbours.
const NEIGHBOURS: f64 = std::f64::consts::LN_2;

/// The share of the variance within a level that differs between repetitions of the same step.
const NOISE: f64 = 0.1;

/// Squares of the size of a network's effect relative to the usual one.
const SCALES: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

impl EffectVariances {
    /// The effect of a network, from a few of its rows; without rows only its variation between networks.
    /// `strangeness` is the additional standard deviation of this network, `middle` the logarithm of the batch size
    /// at which slopes change nothing.
    pub(super) fn posterior<'a>(
        &self,
        strangeness: f64,
        middle: f64,
        samples: &'a [ResidualSample],
    ) -> NetworkPosterior<'a> {
        let hypotheses = SCALES.into_iter().zip(weights());
        // Rows are compared with the usual effect. Without rows, the outliers among other networks are part of the
        // doubt.
        let [network, slope] =
            if samples.is_empty() { [self.network, self.slope] } else { [self.usual, self.usual_slope] };
        let effects = EffectVariances { network, slope, ..*self };
        let hypothesis = |(scale, weight): (f64, f64)| {
            EffectHypothesis::new(RowCovariance { effects, scale, strangeness, middle }, weight, samples)
        };
        let hypotheses: Vec<EffectHypothesis> = hypotheses.filter_map(hypothesis).collect();
        NetworkPosterior { hypotheses, samples }
    }
}

/// The probability of each of [`SCALES`], for a variance whose inverse is chi-squared with [`FREEDOM`] degrees of
/// freedom, so that effects follow Student's t.
fn weights() -> [f64; SCALES.len()] {
    // The share of variances below `scale`: for chi-squared with 2 degrees of freedom, exp(-x / 2) is beyond x = 2 /
    // scale.
    const { assert!(FREEDOM == 2.0) };
    let below = |scale: f64| (-1.0 / scale).exp();
    let bounds: Vec<f64> = SCALES.windows(2).map(|pair| below((pair[0] * pair[1]).sqrt())).collect();
    std::array::from_fn(|index| {
        let above = bounds.get(index).copied().unwrap_or(1.0);
        above - index.checked_sub(1).map_or(0.0, |before| bounds[before])
    })
}

/// Covariances of rows of one network whose effect is of one size.
#[derive(Debug, Clone, Copy)]
struct RowCovariance {
    effects: EffectVariances,
    scale: f64,
    strangeness: f64,
    /// Logarithm of a batch size.
    middle: f64,
}

impl RowCovariance {
    fn covariance_of(&self, a: &RowCoordinates, b: &RowCoordinates) -> f64 {
        let apart = (a.batch - b.batch) / NEIGHBOURS;
        let near = (-0.5 * apart * apart).exp();
        let along = (a.batch - self.middle) * (b.batch - self.middle);
        let own = self.effects.network * (1.0 + BATCH * BATCH * near) + self.strangeness * self.strangeness;
        let network = self.scale * (own + self.effects.slope * along + dot(&a.slopes, &b.slopes));
        let level = self.effects.level + self.effects.level_slope * along + (1.0 - NOISE) * self.effects.within * near;
        network + if a.level == b.level { level } else { 0.0 }
    }

    fn noise_variance(&self) -> f64 {
        NOISE * self.effects.within
    }
}

#[derive(Debug, Clone)]
struct EffectHypothesis {
    covariance: RowCovariance,
    /// Logarithm of its likelihood, up to a constant.
    likelihood: f64,
    rows: Cholesky,
    /// The inverse of the rows' covariance times their residuals.
    pull: Vec<f64>,
}

impl EffectHypothesis {
    fn new(covariance: RowCovariance, weight: f64, samples: &[ResidualSample]) -> Option<Self> {
        let rows = Cholesky::decompose(samples.len(), |row, column| {
            let noise = if row == column { covariance.noise_variance() + samples[row].spread.powi(2) } else { 0.0 };
            covariance.covariance_of(&samples[row].coordinates, &samples[column].coordinates) + noise
        })?;
        let residuals: Vec<f64> = samples.iter().map(|sample| sample.residual).collect();
        let pull = rows.solve(&residuals);
        let likelihood = weight.ln() - 0.5 * (rows.log_determinant() + dot(&residuals, &pull));
        Some(EffectHypothesis { covariance, likelihood, rows, pull })
    }

    /// Mean and variance of a measurement's residual.
    fn residual_moments(&self, coordinates: &RowCoordinates, samples: &[ResidualSample]) -> [f64; 2] {
        let covariances: Vec<f64> =
            samples.iter().map(|sample| self.covariance.covariance_of(coordinates, &sample.coordinates)).collect();
        let known = self.rows.whiten(&covariances);
        let variance = self.covariance.covariance_of(coordinates, coordinates) + self.covariance.noise_variance()
            - dot(&known, &known);
        [dot(&covariances, &self.pull), variance.max(self.covariance.noise_variance())]
    }
}

/// The estimated effect of one network.
#[derive(Debug, Clone)]
pub(super) struct NetworkPosterior<'a> {
    hypotheses: Vec<EffectHypothesis>,
    samples: &'a [ResidualSample],
}

impl NetworkPosterior<'_> {
    /// The expected deviation of measurements at some coordinates from their prediction, as logarithms of the ratio.
    pub(super) fn deviation(&self, coordinates: &RowCoordinates) -> NormalMixture {
        let likeliest =
            self.hypotheses.iter().map(|hypothesis| hypothesis.likelihood).fold(f64::NEG_INFINITY, f64::max);
        let components = self.hypotheses.iter().map(|hypothesis| {
            let [mean, variance] = hypothesis.residual_moments(coordinates, self.samples);
            MixtureComponent { weight: (hypothesis.likelihood - likeliest).exp(), mean, deviation: variance.sqrt() }
        });
        NormalMixture::new(components.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::latency::effects::tests::{networks, sample};

    const MIDDLE: f64 = 3.0 * std::f64::consts::LN_2;

    /// The mean, and half of the 90 % interval.
    fn interval_at(posterior: &NetworkPosterior, level: &str, batch: f64) -> [f64; 2] {
        let mixture = posterior.deviation(&sample(level, batch, 0.0).coordinates);
        [mixture.mean(), 0.5 * (mixture.quantile(0.95) - mixture.quantile(0.05))]
    }

    #[test]
    fn scales_are_as_likely_as_under_chi_squared() {
        assert!((weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Around a scale of 0.5, between 0.3536 and 0.7071, 2 / scale is between 2.828 and 5.657; for chi-squared
        // with 2 degrees of freedom 0.2431 and 0.0591 are beyond.
        assert!((weights()[1] - (0.2431 - 0.0591)).abs() < 2e-4, "{:?}", weights());
    }

    #[test]
    fn rows_far_off_move_predictions_where_they_were_measured() {
        let effects = EffectVariances::learn(&networks(&[0.05, -0.05, 0.02, -0.03]));
        for factor in [1.2_f64, 1.3, 6.0, 0.3] {
            let rows = [2.0, 32.0].map(|batch| sample("0", batch, factor.ln()));
            let posterior = effects.posterior(0.0, MIDDLE, &rows);
            for batch in [2.0, 32.0] {
                let moved = interval_at(&posterior, "0", batch)[0] / factor.ln();
                assert!((0.9..1.05).contains(&moved), "{factor}: {moved:.2} of the way at {batch}");
            }
            // A large deviation is the network's, at all its levels.
            let elsewhere = interval_at(&posterior, "50", 8.0)[0] / factor.ln();
            assert!(factor.ln().abs() < 1.0 || elsewhere > 0.9, "{factor}: {elsewhere:.2} of the way at another level");
        }
        // A small one may be the level's.
        let rows = [sample("0", 2.0, 0.04)];
        assert!(interval_at(&effects.posterior(0.0, MIDDLE, &rows), "50", 32.0)[0] < 0.6 * 0.04);
    }

    #[test]
    fn slopes_of_networks_widen_the_ends_and_are_learned_from_rows_far_apart() {
        // By hand: networks whose slope is 0.1 for every factor of e, seen 4.16 of them from the middle: 0.416 more.
        let effects =
            EffectVariances { slope: 0.01, usual_slope: 0.01, ..EffectVariances::learn(&networks(&[0.0; 30])) };
        let [middle, end] = [8.0, 512.0].map(|batch| interval_at(&effects.posterior(0.0, MIDDLE, &[]), "0", batch)[1]);
        // Of Student's t with 2 degrees of freedom 95 % lie below 2.92 scales.
        let added = (end * end - middle * middle).sqrt() / 2.92;
        assert!((added / (0.1 * 64f64.ln()) - 1.0).abs() < 0.1, "{added}");
        // 20 % too long at 1 and 20 % too short at 64: at 8 as predicted, at 512 beyond what was measured at 64.
        let rows = [(1.0, -0.2), (64.0, 0.2)].map(|(batch, residual)| sample("0", batch, residual));
        let posterior = effects.posterior(0.0, MIDDLE, &rows);
        let [between, beyond] = [8.0, 512.0].map(|batch| interval_at(&posterior, "50", batch)[0]);
        assert!(between.abs() < 0.02 && beyond > 0.2, "{between} {beyond}");
    }

    #[test]
    fn rows_that_wandered_say_less() {
        let effects = EffectVariances::learn(&networks(&[0.05, -0.05, 0.02, -0.03]));
        let steady = [2.0, 16.0].map(|batch| sample("0", batch, 1.8));
        let wandered = steady.clone().map(|sample| ResidualSample { spread: 0.3, ..sample });
        let [firm, vague] =
            [steady, wandered].map(|rows| interval_at(&effects.posterior(0.0, MIDDLE, &rows), "0", 2.0)[1]);
        // A step that varies by 30 % around its middle is not known to 3 %.
        assert!(firm < 0.06 && vague > 0.2, "{firm:.3} {vague:.3}");
    }

    #[test]
    fn rows_narrow_intervals_and_strangeness_widens_them() {
        let effects = EffectVariances::learn(&networks(&[0.1, -0.1, 0.05]));
        let rows = [2.0, 32.0].map(|batch| sample("0", batch, 0.1));
        let width = |strangeness: f64, rows: &[ResidualSample], level: &str| {
            interval_at(&effects.posterior(strangeness, MIDDLE, rows), level, 8.0)[1]
        };
        assert!(width(0.0, &rows, "0") < width(0.0, &rows, "50"));
        assert!(width(0.0, &rows, "50") < width(0.0, &[], "50"));
        assert!(width(0.5, &[], "50") > 0.5 * 1.645);
        // Three networks without effects give less certainty than thirty.
        let many = EffectVariances::learn(&networks(&[0.0; 30]));
        let few = EffectVariances::learn(&networks(&[0.0; 3]));
        assert!(
            interval_at(&few.posterior(0.0, MIDDLE, &[]), "0", 8.0)[1]
                > interval_at(&many.posterior(0.0, MIDDLE, &[]), "0", 8.0)[1]
        );
    }
}
