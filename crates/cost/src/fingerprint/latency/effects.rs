//! The part of a network's latency that its operations do not explain: how much it varies between networks, learned
//! from networks left out.
//!
//! Logarithm of time = prediction + effect of the network + deviation of the level + noise. Effects and deviations
//! have a constant part and a part that is similar at neighbouring batch sizes. Doubts about the device's parameters
//! are part of the effect, through the step's derivatives. The size of the effect is drawn separately for every
//! network from a distribution with heavy tails (Student's t as a mixture of normal distributions): a small deviation
//! is noise, a large one is an effect of the network.

use super::sample::Sample;
use perf4sight_base::stats::{mean, median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Prior standard deviation of a network's effect, in logarithms, in addition to the doubts about parameters.
const NETWORK: f64 = 0.02;

/// Prior standard deviations of levels and within levels: neighbouring batch sizes of the TX2 scatter by 3 %, and no
/// data suggest more for levels. Chosen among others by the TX2's coverage (`docs/accuracy/latency.md`).
const LEVEL: f64 = 0.03;
const WITHIN: f64 = 0.03;

/// Weights of these priors, in networks, levels and rows.
const PRIOR_NETWORKS: f64 = 4.0;
const PRIOR_LEVELS: f64 = 5.0;
const PRIOR_ROWS: f64 = 10.0;

/// One network counts for at most this many independent levels and rows.
const MOST_LEVELS: usize = 4;
const MOST_ROWS: usize = 10;

/// Degrees of freedom of the Student's t of networks' effects: few, so one outlier hardly affects the others.
pub(super) const FREEDOM: f64 = 2.0;

/// The variation of networks, levels and rows: variances of logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effects {
    /// The mean of squares, outliers included.
    pub(super) network: f64,
    /// The square of the scale without outliers.
    pub(super) usual: f64,
    pub(super) level: f64,
    pub(super) within: f64,
}

/// A variance that starts as a prior and is updated by observations.
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
            // A fit on all networks has one more than the fits that these residuals come from.
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

    /// Whether a file holds values that a fit can give.
    pub(super) fn is_sound(&self) -> bool {
        [self.network, self.usual, self.level, self.within]
            .into_iter()
            .all(|variance| variance > 0.0 && variance < 100.0)
    }
}

/// The mean of the squares of networks' effects, including the prior.
fn mean_square(squares: &[f64]) -> f64 {
    let mut variance = Variance::believed(NETWORK * NETWORK, PRIOR_NETWORKS);
    squares.iter().for_each(|square| variance.add(*square, 1.0));
    variance.value()
}

/// The square of the scale of networks' effects: that of the Student's t with the highest likelihood, including the
/// prior (expectation and maximisation; Liu and Rubin 1995). A single outlier would dominate a mean of squares.
fn usual(squares: &[f64]) -> f64 {
    let renewed = |scale: f64| {
        let mut variance = Variance::believed(NETWORK * NETWORK, PRIOR_NETWORKS);
        squares.iter().for_each(|square| variance.add(square * (FREEDOM + 1.0) / (FREEDOM + square / scale), 1.0));
        variance.value()
    };
    // Every round removes most of the remaining error; after a hundred rounds no printed digit changes.
    (0..100).fold(NETWORK * NETWORK, |scale, _| renewed(scale))
}

fn levels(samples: &[Sample]) -> BTreeMap<&str, Vec<f64>> {
    let mut levels: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        levels.entry(&sample.coordinates.level).or_default().push(sample.residual);
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

/// The variance of deviations, at most the one estimated from their median: a disturbed row must not dominate.
fn robust(deviations: &[f64], free: usize) -> Option<f64> {
    let plain = variance(deviations, free)?;
    let sizes: Vec<f64> = deviations.iter().map(|deviation| deviation.abs()).collect();
    // Half of a normal distribution is within 0.6745 standard deviations.
    let typical = (median(&sizes) / 0.6745).powi(2) * deviations.len() as f64 / free as f64;
    Some(plain.min(typical))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fingerprint::latency::sample::Coordinates;
    use crate::fingerprint::latency::term::COUNT;

    pub fn sample(level: &str, batch: f64, residual: f64) -> Sample {
        Sample {
            coordinates: Coordinates { level: level.into(), batch: batch.ln(), slopes: vec![0.0; COUNT] },
            residual,
            spread: 0.0,
        }
    }

    /// Networks that are `off` from their prediction, at four levels and five batch sizes that scatter by two
    /// percent.
    pub fn networks(off: &[f64]) -> Vec<Vec<Sample>> {
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

    #[test]
    fn variances_are_those_of_what_was_left_out() {
        let effects = Effects::learn(&networks(&[0.1; 100]));
        // Levels at +-0.02 have a variance of 4 / 3 of 0.0004; a hundred networks leave hardly any weight to the
        // prior.
        assert!((effects.network.sqrt() - 0.1).abs() < 0.003 && (effects.level.sqrt() - 0.0231).abs() < 0.002);
        // One network that is far off is an outlier, and hardly makes others less certain.
        let offs: Vec<f64> = (0..20).map(|index| if index == 0 { 1.0 } else { 0.03 }).collect();
        let learned = Effects::learn(&networks(&offs));
        assert!(learned.usual.sqrt() < 0.04 && learned.network.sqrt() > 0.15, "{learned:?}");
        let mut disturbed = networks(&[0.0; 100]);
        disturbed[0][0].residual = 3.0;
        assert!(Effects::learn(&disturbed).within < 1.1 * Effects::learn(&networks(&[0.0; 100])).within);
    }
}
