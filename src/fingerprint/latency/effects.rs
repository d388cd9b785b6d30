//! What a network has of its own, beside what its operations promise: how much that varies from network to network, learned from
//! networks left out, and what a few rows tell of one of them.
//!
//! Logarithm of time = prediction + effect of the network + deviation of the level + noise. Effects and deviations have a part that is
//! the same at all batch sizes and a part that is alike at neighbouring ones; doubts about the device's parameters are part of the
//! effect, through the step's derivatives. The effect's size is drawn anew for every network from a distribution with heavy tails
//! (Student's t as a mixture of normal distributions): a small deviation is noise, a large one is the network.

use super::cholesky::{Cholesky, dot};
use super::mixture::{Component, Mixture};
use super::term::COUNT;
use crate::stats::{mean, median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Standard deviation of a network's effect before any was left out, in logarithms, beside what doubts about parameters add.
const NETWORK: f64 = 0.02;

/// The part of it that changes with the batch size, relative to the part that does not.
const BATCH: f64 = 0.5;

/// Batch sizes a factor of 2 apart are neighbours.
const NEIGHBOURS: f64 = std::f64::consts::LN_2;

/// Standard deviations of levels and within levels before any was left out: neighbouring batch sizes of the TX2 scatter by 3 %, and for
/// levels nothing says more. Chosen among others with the TX2's coverage in sight (`docs/accuracy/latency.md`).
const LEVEL: f64 = 0.03;
const WITHIN: f64 = 0.03;

/// How many networks, levels and rows these beliefs weigh.
const PRIOR_NETWORKS: f64 = 4.0;
const PRIOR_LEVELS: f64 = 5.0;
const PRIOR_ROWS: f64 = 10.0;

/// One network tells no more of levels and rows in general than so many independent ones.
const MOST_LEVELS: usize = 4;
const MOST_ROWS: usize = 10;

/// The share of the variance within a level that measuring the same step once more would not repeat.
const NOISE: f64 = 0.1;

/// Degrees of freedom of Student's t, of which networks' effects are drawn: so few that one network far off says little of the others.
const FREEDOM: f64 = 2.0;

/// Squares of how much larger than usual a network's effect may be.
const SCALES: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// Where a row lies among all rows of networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// The network at its widths.
    pub(super) level: String,
    /// Logarithm of the batch size.
    pub(super) batch: f64,
    /// Derivatives of the logarithm of time, by parameters that are as uncertain as one another and know nothing of one another.
    pub(super) slopes: Vec<f64>,
}

impl Place {
    /// The batch size itself: what is a whole number before and after its logarithm.
    pub(super) fn samples(&self) -> u64 {
        self.batch.exp().round() as u64
    }
}

/// A row and how far it lies from its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    pub(super) place: Place,
    /// Logarithm of measured over predicted.
    pub(super) residual: f64,
    /// What visits to the row, or its steps, differ by to either side, as a share of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) spread: f64,
}

/// Whether a file can do without a number.
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Sample {
    /// Whether a file holds what could have been measured.
    pub(super) fn is_sound(&self) -> bool {
        let numbers = self.place.slopes.iter().chain([&self.residual, &self.place.batch, &self.spread]);
        self.place.slopes.len() == COUNT
            && self.spread >= 0.0
            && self.place.batch >= 0.0
            && numbers.into_iter().all(|number| number.abs() < 100.0)
    }
}

/// How much networks, levels and rows vary: variances of logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effects {
    /// The mean of squares, exceptions included.
    network: f64,
    /// The square of the scale of what is usual.
    usual: f64,
    level: f64,
    within: f64,
}

/// A variance that starts as a belief and is renewed by what is seen.
struct Variance {
    sum: f64,
    weight: f64,
}

impl Variance {
    fn believed(variance: f64, weight: f64) -> Self {
        Variance { sum: variance * weight, weight }
    }

    fn add(&mut self, variance: f64, weight: f64) {
        self.sum += variance * weight;
        self.weight += weight;
    }

    fn value(&self) -> f64 {
        self.sum / self.weight
    }
}

impl Effects {
    /// From the rows of every network, predicted by a fit on all others.
    pub(super) fn learn(networks: &[Vec<Sample>]) -> Self {
        let mut squares: Vec<f64> = Vec::new();
        let mut level = Variance::believed(LEVEL * LEVEL, PRIOR_LEVELS);
        let mut within = Variance::believed(WITHIN * WITHIN, PRIOR_ROWS);
        let count = networks.iter().filter(|samples| !samples.is_empty()).count() as f64;
        for samples in networks.iter().filter(|samples| !samples.is_empty()) {
            let levels = levels(samples);
            let means: Vec<f64> = levels.values().map(|residuals| mean(residuals)).collect();
            // A fit on all of them knows one network more than the fits that these residuals come from.
            squares.push((mean(&means) * (count - 1.0) / count).powi(2));
            if let Some(variance) = variance(&means, means.len() - 1) {
                level.add(variance, (means.len() - 1).min(MOST_LEVELS) as f64);
            }
            let deviations: Vec<f64> = levels.values().flat_map(|residuals| deviations(residuals)).collect();
            let free = samples.len() - means.len();
            if let Some(variance) = robust(&deviations, free) {
                within.add(variance, free.min(MOST_ROWS) as f64);
            }
        }
        Effects { network: mean_square(&squares), usual: usual(&squares), level: level.value(), within: within.value() }
    }

    /// What a few rows tell of their network; of a network without rows only how much networks vary. `strangeness` is the standard
    /// deviation that it has beyond theirs.
    pub(super) fn posterior<'a>(&self, strangeness: f64, samples: &'a [Sample]) -> Posterior<'a> {
        let guesses = SCALES.into_iter().zip(weights());
        // What rows say is told from what is usual; of a network without rows that another was an exception is part of the doubt.
        let network = if samples.is_empty() { self.network } else { self.usual };
        let effects = Effects { network, ..*self };
        let guess = |(scale, weight): (f64, f64)| Guess::new(Kernel { effects, scale, strangeness }, weight, samples);
        let guesses: Vec<Guess> = guesses.filter_map(guess).collect();
        Posterior { guesses, samples }
    }

    /// Whether a file holds what could have been learned.
    pub(super) fn is_sound(&self) -> bool {
        [self.network, self.usual, self.level, self.within]
            .into_iter()
            .all(|variance| variance > 0.0 && variance < 100.0)
    }
}

/// The mean of the squares of networks' effects, beside what was believed.
fn mean_square(squares: &[f64]) -> f64 {
    let mut variance = Variance::believed(NETWORK * NETWORK, PRIOR_NETWORKS);
    squares.iter().for_each(|square| variance.add(*square, 1.0));
    variance.value()
}

/// The square of the scale of networks' effects, given theirs: that of Student's t under which they are likeliest (expectation and
/// maximisation; Liu and Rubin 1995), beside what was believed. A mean of squares would be ruled by the one network farthest off.
fn usual(squares: &[f64]) -> f64 {
    let renewed = |scale: f64| {
        let mut variance = Variance::believed(NETWORK * NETWORK, PRIOR_NETWORKS);
        squares.iter().for_each(|square| variance.add(square * (FREEDOM + 1.0) / (FREEDOM + square / scale), 1.0));
        variance.value()
    };
    // Every round closes most of what is left; a hundred of them leave nothing that a printed digit could show.
    (0..100).fold(NETWORK * NETWORK, |scale, _| renewed(scale))
}

/// Residuals by level.
fn levels(samples: &[Sample]) -> BTreeMap<&str, Vec<f64>> {
    let mut levels: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        levels.entry(&sample.place.level).or_default().push(sample.residual);
    }
    levels
}

fn deviations(values: &[f64]) -> Vec<f64> {
    let center = mean(values);
    values.iter().map(|value| value - center).collect()
}

fn variance(values: &[f64], free: usize) -> Option<f64> {
    let squares = deviations(values).into_iter().map(|deviation| deviation * deviation).sum::<f64>();
    (free > 0).then(|| squares / free as f64)
}

/// The variance of deviations, at most what half of them say: a disturbed row is no rule.
fn robust(deviations: &[f64], free: usize) -> Option<f64> {
    let plain = variance(deviations, free)?;
    let sizes: Vec<f64> = deviations.iter().map(|deviation| deviation.abs()).collect();
    // Half of a normal distribution lies within 0.6745 standard deviations.
    let typical = (median(&sizes) / 0.6745).powi(2) * deviations.len() as f64 / free as f64;
    Some(plain.min(typical))
}

/// How likely each of [`SCALES`] is: of a variance whose inverse is chi-squared with [`FREEDOM`] degrees of freedom, so that effects
/// follow Student's t.
fn weights() -> [f64; SCALES.len()] {
    // The share of variances below `scale`: of chi-squared with 2 degrees of freedom, beyond x = 2 / scale lies exp(-x / 2).
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
struct Kernel {
    effects: Effects,
    scale: f64,
    strangeness: f64,
}

impl Kernel {
    fn covariance(&self, a: &Place, b: &Place) -> f64 {
        let apart = (a.batch - b.batch) / NEIGHBOURS;
        let near = (-0.5 * apart * apart).exp();
        let own = self.effects.network * (1.0 + BATCH * BATCH * near) + self.strangeness * self.strangeness;
        let network = self.scale * (own + dot(&a.slopes, &b.slopes));
        let level = self.effects.level + (1.0 - NOISE) * self.effects.within * near;
        network + if a.level == b.level { level } else { 0.0 }
    }

    fn noise(&self) -> f64 {
        NOISE * self.effects.within
    }
}

/// What rows say if the effect is of one size.
#[derive(Debug, Clone)]
struct Guess {
    kernel: Kernel,
    /// Logarithm of its likelihood, up to a constant.
    likelihood: f64,
    rows: Cholesky,
    /// The residuals of the rows, measured by the inverse of their covariance.
    pull: Vec<f64>,
}

impl Guess {
    fn new(kernel: Kernel, weight: f64, samples: &[Sample]) -> Option<Self> {
        let rows = Cholesky::of(samples.len(), |row, column| {
            let noise = if row == column { kernel.noise() + samples[row].spread.powi(2) } else { 0.0 };
            kernel.covariance(&samples[row].place, &samples[column].place) + noise
        })?;
        let residuals: Vec<f64> = samples.iter().map(|sample| sample.residual).collect();
        let pull = rows.solve(&residuals);
        let likelihood = weight.ln() - 0.5 * (rows.log_determinant() + dot(&residuals, &pull));
        Some(Guess { kernel, likelihood, rows, pull })
    }

    /// Mean and variance of a measurement's residual.
    fn at(&self, place: &Place, samples: &[Sample]) -> [f64; 2] {
        let covariances: Vec<f64> = samples.iter().map(|sample| self.kernel.covariance(place, &sample.place)).collect();
        let known = self.rows.whiten(&covariances);
        let variance = self.kernel.covariance(place, place) + self.kernel.noise() - dot(&known, &known);
        [dot(&covariances, &self.pull), variance.max(self.kernel.noise())]
    }
}

/// What is known of one network.
#[derive(Debug, Clone)]
pub(super) struct Posterior<'a> {
    guesses: Vec<Guess>,
    samples: &'a [Sample],
}

impl Posterior<'_> {
    /// How far measurements at some place are expected to lie from their prediction, as logarithms of the ratio.
    pub(super) fn at(&self, place: &Place) -> Mixture {
        let likeliest = self.guesses.iter().map(|guess| guess.likelihood).fold(f64::NEG_INFINITY, f64::max);
        let components = self.guesses.iter().map(|guess| {
            let [mean, variance] = guess.at(place, self.samples);
            Component { weight: (guess.likelihood - likeliest).exp(), mean, deviation: variance.sqrt() }
        });
        Mixture::new(components.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(level: &str, batch: f64, residual: f64) -> Sample {
        Sample {
            place: Place { level: level.into(), batch: batch.ln(), slopes: vec![0.0; COUNT] },
            residual,
            spread: 0.0,
        }
    }

    /// Networks that lie `off` from their prediction, at four levels and five batch sizes that scatter by two percent.
    fn networks(off: &[f64]) -> Vec<Vec<Sample>> {
        let rows = |off: f64| {
            let steps = (0..20u32).map(move |row| (row % 4, row / 4));
            let deviation = |row: u32| if row.is_multiple_of(2) { 0.02 } else { -0.02 };
            steps.map(move |(level, row)| {
                let batch = f64::from(1 << row);
                sample(&level.to_string(), batch, off + deviation(level) + deviation(row))
            })
        };
        off.iter().map(|&off| rows(off).collect()).collect()
    }

    /// The mean, and half of the 90 % interval.
    fn at(posterior: &Posterior, level: &str, batch: f64) -> [f64; 2] {
        let mixture = posterior.at(&sample(level, batch, 0.0).place);
        [mixture.mean(), 0.5 * (mixture.quantile(0.95) - mixture.quantile(0.05))]
    }

    #[test]
    fn scales_are_as_likely_as_under_chi_squared() {
        assert!((weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Around a scale of 0.5, between 0.3536 and 0.7071, 2 / scale lies between 2.828 and 5.657; of chi-squared with 2 degrees of
        // freedom 0.2431 and 0.0591 lie beyond.
        assert!((weights()[1] - (0.2431 - 0.0591)).abs() < 2e-4, "{:?}", weights());
    }

    #[test]
    fn variances_are_those_of_what_was_left_out() {
        let effects = Effects::learn(&networks(&[0.1; 100]));
        // Levels at +-0.02 have a variance of 4 / 3 of 0.0004; a hundred networks hardly leave anything of what was believed.
        assert!((effects.network.sqrt() - 0.1).abs() < 0.003 && (effects.level.sqrt() - 0.0231).abs() < 0.002);
        // One that is far off is an exception, and hardly makes others less certain.
        let offs: Vec<f64> = (0..20).map(|index| if index == 0 { 1.0 } else { 0.03 }).collect();
        let learned = Effects::learn(&networks(&offs));
        assert!(learned.usual.sqrt() < 0.04 && learned.network.sqrt() > 0.15, "{learned:?}");
        let mut disturbed = networks(&[0.0; 100]);
        disturbed[0][0].residual = 3.0;
        assert!(Effects::learn(&disturbed).within < 1.1 * Effects::learn(&networks(&[0.0; 100])).within);
    }

    #[test]
    fn rows_far_off_move_predictions_where_they_were_measured() {
        let effects = Effects::learn(&networks(&[0.05, -0.05, 0.02, -0.03]));
        for factor in [1.2_f64, 1.3, 6.0, 0.3] {
            let rows = [2.0, 32.0].map(|batch| sample("0", batch, factor.ln()));
            let posterior = effects.posterior(0.0, &rows);
            for batch in [2.0, 32.0] {
                let moved = at(&posterior, "0", batch)[0] / factor.ln();
                assert!((0.9..1.05).contains(&moved), "{factor}: {moved:.2} of the way at {batch}");
            }
            // A large deviation is the network's, at all its levels.
            let elsewhere = at(&posterior, "50", 8.0)[0] / factor.ln();
            assert!(factor.ln().abs() < 1.0 || elsewhere > 0.9, "{factor}: {elsewhere:.2} of the way at another level");
        }
        // A small one may be the level's.
        let rows = [sample("0", 2.0, 0.04)];
        assert!(at(&effects.posterior(0.0, &rows), "50", 32.0)[0] < 0.6 * 0.04);
    }

    #[test]
    fn rows_that_wandered_say_less() {
        let effects = Effects::learn(&networks(&[0.05, -0.05, 0.02, -0.03]));
        let steady = [2.0, 16.0].map(|batch| sample("0", batch, 1.8));
        let wandered = steady.clone().map(|sample| Sample { spread: 0.3, ..sample });
        let [firm, vague] = [steady, wandered].map(|rows| at(&effects.posterior(0.0, &rows), "0", 2.0)[1]);
        // A step that is at 30 % to either side of its middle is not known to 3 %.
        assert!(firm < 0.06 && vague > 0.2, "{firm:.3} {vague:.3}");
    }

    #[test]
    fn rows_narrow_intervals_and_strangeness_widens_them() {
        let effects = Effects::learn(&networks(&[0.1, -0.1, 0.05]));
        let rows = [2.0, 32.0].map(|batch| sample("0", batch, 0.1));
        let width =
            |strangeness: f64, rows: &[Sample], level: &str| at(&effects.posterior(strangeness, rows), level, 8.0)[1];
        assert!(width(0.0, &rows, "0") < width(0.0, &rows, "50"));
        assert!(width(0.0, &rows, "50") < width(0.0, &[], "50"));
        assert!(width(0.5, &[], "50") > 0.5 * 1.645);
        // That networks have nothing of their own three tell less firmly than thirty.
        let many = Effects::learn(&networks(&[0.0; 30]));
        let few = Effects::learn(&networks(&[0.0; 3]));
        assert!(at(&few.posterior(0.0, &[]), "0", 8.0)[1] > at(&many.posterior(0.0, &[]), "0", 8.0)[1]);
    }
}
