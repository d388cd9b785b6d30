//! The part of a network's latency that its operations do not explain: how much it varies between networks, learned
//! from networks left out.
//!
//! Logarithm of time = prediction + effect of the network + deviation of the level + noise. Effects and deviations
//! have a constant part, a slope over the logarithm of the batch size, and a part that is similar at neighbouring batch
//! sizes. Doubts about the device's parameters are part of the effect, through the step's derivatives. The size of the effect is drawn separately for every
//! network from a distribution with heavy tails (Student's t as a mixture of normal distributions): a small deviation
//! is noise, a large one is an effect of the network.

use super::sample::ResidualSample;
use perf4sight_base::stats::{mean, median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Prior standard deviation of a network's effect, in logarithms, in addition to the doubts about parameters.
const NETWORK: f64 = 0.02;

/// Prior standard deviations of levels and within levels: neighbouring batch sizes of the TX2 scatter by 3 %, and no
/// data suggest more for levels. Chosen among others by the TX2's coverage (`docs/accuracy/latency.md`).
const LEVEL: f64 = 0.03;
const WITHIN: f64 = 0.03;

/// Prior standard deviations of the slopes of networks and levels: of logarithms of time for every factor of e in the
/// batch size. Those of the TX2's networks are 0.01 to 0.04, and those of one network's levels scatter by 0.02 to 0.035
/// (`docs/accuracy/latency.md`).
const NETWORK_SLOPE: f64 = 0.02;
const LEVEL_SLOPE: f64 = 0.04;

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
pub(super) struct EffectVariances {
    /// The mean of squares, outliers included.
    pub(super) network: f64,
    /// The square of the scale without outliers.
    pub(super) usual: f64,
    /// The mean of squares of networks' slopes over the batch size, outliers included. Files of earlier versions have
    /// no slopes, and get what is believed of them.
    #[serde(default = "network_slope")]
    pub(super) slope: f64,
    /// The square of their scale without outliers.
    #[serde(default = "network_slope")]
    pub(super) usual_slope: f64,
    pub(super) level: f64,
    /// The variance of the slopes of one network's levels.
    #[serde(default = "level_slope")]
    pub(super) level_slope: f64,
    pub(super) within: f64,
}

fn network_slope() -> f64 {
    NETWORK_SLOPE * NETWORK_SLOPE
}

fn level_slope() -> f64 {
    LEVEL_SLOPE * LEVEL_SLOPE
}

/// A variance that starts as a prior and is updated by observations.
struct VarianceEstimate {
    sum: f64,
    weight: f64,
}

impl VarianceEstimate {
    fn from_prior(variance: f64, weight: f64) -> Self {
        VarianceEstimate { sum: variance * weight, weight }
    }

    fn add(&mut self, variance: f64, weight: f64) {
        self.sum += variance * weight;
        self.weight += weight;
    }

    /// Adds the variance of one network's values, if there are several; `free` of them, or at most so many, count.
    fn add_scatter(&mut self, variance: Option<f64>, free: [usize; 2]) {
        if let Some(variance) = variance {
            self.add(variance, free[0].min(free[1]) as f64);
        }
    }

    fn value(&self) -> f64 {
        self.sum / self.weight
    }
}

impl EffectVariances {
    /// From the rows of every network, predicted by a fit on all others.
    pub(super) fn learn(networks: &[Vec<ResidualSample>]) -> Self {
        let [mut squares, mut slopes] = [Vec::new(), Vec::new()];
        let mut level = VarianceEstimate::from_prior(LEVEL * LEVEL, PRIOR_LEVELS);
        let mut level_slope = VarianceEstimate::from_prior(LEVEL_SLOPE * LEVEL_SLOPE, PRIOR_LEVELS);
        let mut within = VarianceEstimate::from_prior(WITHIN * WITHIN, PRIOR_ROWS);
        let count = networks.iter().filter(|samples| !samples.is_empty()).count() as f64;
        // A fit on all networks has one more than the fits that these residuals come from.
        let square = |values: &[f64]| (mean(values) * (count - 1.0) / count).powi(2);
        for samples in networks.iter().filter(|samples| !samples.is_empty()) {
            let levels = levels(samples);
            let means: Vec<f64> = levels.iter().map(LevelResiduals::mean).collect();
            let own_slopes: Vec<f64> = levels.iter().filter_map(LevelResiduals::slope).collect();
            squares.push(square(&means));
            // The median, and a robust scatter: a disturbed row tilts its level, and must not tilt the network.
            let slope = if own_slopes.is_empty() { 0.0 } else { median(&own_slopes) };
            if !own_slopes.is_empty() {
                slopes.push(square(&[slope]));
            }
            let free = means.len() - 1;
            level.add_scatter(variance(&means, free), [free, MOST_LEVELS]);
            let free = own_slopes.len().saturating_sub(1);
            level_slope.add_scatter(robust(&deviations(&own_slopes), free), [free, MOST_LEVELS]);
            let apart: Vec<f64> = levels.iter().flat_map(|level| level.deviations(slope)).collect();
            let free = (samples.len() - means.len()).saturating_sub(usize::from(!own_slopes.is_empty()));
            within.add_scatter(robust(&apart, free), [free, MOST_ROWS]);
        }
        EffectVariances {
            network: mean_square(&squares, NETWORK),
            usual: scale_squared(&squares, NETWORK),
            slope: mean_square(&slopes, NETWORK_SLOPE),
            usual_slope: scale_squared(&slopes, NETWORK_SLOPE),
            level: level.value(),
            level_slope: level_slope.value(),
            within: within.value(),
        }
    }

    /// Whether a file holds values that a fit can give.
    pub(super) fn is_valid(&self) -> bool {
        let EffectVariances { network, usual, slope, usual_slope, level, level_slope, within } = *self;
        [network, usual, slope, usual_slope, level, level_slope, within]
            .into_iter()
            .all(|variance| variance > 0.0 && variance < 100.0)
    }
}

/// The mean of the squares of networks' effects, or of their slopes, including the prior.
fn mean_square(squares: &[f64], prior: f64) -> f64 {
    let mut variance = VarianceEstimate::from_prior(prior * prior, PRIOR_NETWORKS);
    squares.iter().for_each(|square| variance.add(*square, 1.0));
    variance.value()
}

/// The square of the scale of networks' effects, or of their slopes: that of the Student's t with the highest
/// likelihood, including the prior (expectation and maximisation; Liu and Rubin 1995). A single outlier would dominate
/// a mean of squares.
fn scale_squared(squares: &[f64], prior: f64) -> f64 {
    let renewed = |scale: f64| {
        let mut variance = VarianceEstimate::from_prior(prior * prior, PRIOR_NETWORKS);
        squares.iter().for_each(|square| variance.add(square * (FREEDOM + 1.0) / (FREEDOM + square / scale), 1.0));
        variance.value()
    };
    // Every round removes most of the remaining error; after a hundred rounds no printed digit changes.
    (0..100).fold(prior * prior, |scale, _| renewed(scale))
}

#[derive(Default)]
struct LevelResiduals {
    batches: Vec<f64>,
    residuals: Vec<f64>,
}

/// Batch sizes less than this far apart, in logarithms, show no slope.
const REACH: f64 = 1.0;

impl LevelResiduals {
    fn mean(&self) -> f64 {
        mean(&self.residuals)
    }

    /// The slope of the residuals, if the batch sizes show one: the median of those between two rows (Theil 1950, Sen 1968), which one
    /// disturbed row hardly moves.
    fn slope(&self) -> Option<f64> {
        let rows: Vec<(f64, f64)> = self.batches.iter().copied().zip(self.residuals.iter().copied()).collect();
        let pairs =
            rows.iter().enumerate().flat_map(|(index, row)| rows[index + 1..].iter().map(move |other| (row, other)));
        let far = pairs.filter(|(row, other)| (other.0 - row.0).abs() > REACH);
        let slopes: Vec<f64> = far.map(|(row, other)| (other.1 - row.1) / (other.0 - row.0)).collect();
        (!slopes.is_empty()).then(|| median(&slopes))
    }

    fn deviations(&self, slope: f64) -> Vec<f64> {
        let apart = deviations(&self.batches);
        deviations(&self.residuals).into_iter().zip(apart).map(|(residual, apart)| residual - slope * apart).collect()
    }
}

fn levels(samples: &[ResidualSample]) -> Vec<LevelResiduals> {
    let mut levels: BTreeMap<&str, LevelResiduals> = BTreeMap::new();
    for ResidualSample { coordinates, residual, .. } in samples {
        let level = levels.entry(&coordinates.level).or_default();
        level.batches.push(coordinates.batch);
        level.residuals.push(*residual);
    }
    levels.into_values().collect()
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
    use crate::fingerprint::latency::sample::RowCoordinates;
    use crate::fingerprint::latency::term::COUNT;

    pub fn sample(level: &str, batch: f64, residual: f64) -> ResidualSample {
        ResidualSample {
            coordinates: RowCoordinates { level: level.into(), batch: batch.ln(), slopes: vec![0.0; COUNT] },
            residual,
            spread: 0.0,
        }
    }

    /// Networks that are `off` from their prediction, at four levels and five batch sizes that scatter by two
    /// percent.
    pub fn networks(off: &[f64]) -> Vec<Vec<ResidualSample>> {
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
        let effects = EffectVariances::learn(&networks(&[0.1; 100]));
        // Levels at +-0.02 have a variance of 4 / 3 of 0.0004; a hundred networks leave hardly any weight to the
        // prior.
        assert!((effects.network.sqrt() - 0.1).abs() < 0.003 && (effects.level.sqrt() - 0.0231).abs() < 0.002);
        // One network that is far off is an outlier, and hardly makes others less certain.
        let offs: Vec<f64> = (0..20).map(|index| if index == 0 { 1.0 } else { 0.03 }).collect();
        let learned = EffectVariances::learn(&networks(&offs));
        assert!(learned.usual.sqrt() < 0.04 && learned.network.sqrt() > 0.15, "{learned:?}");
        // Networks that differ from their prediction by 0.05 more for every factor of e in the batch size, but whose levels do so
        // alike.
        let drifting: Vec<Vec<ResidualSample>> = networks(&[0.0; 100])
            .into_iter()
            .map(|rows| {
                rows.into_iter().map(|row| ResidualSample { residual: 0.05 * row.coordinates.batch, ..row }).collect()
            })
            .collect();
        let learned = EffectVariances::learn(&drifting);
        assert!((learned.slope.sqrt() - 0.05).abs() < 0.002 && learned.level_slope.sqrt() < 0.01, "{learned:?}");
        assert!((learned.usual_slope / learned.slope - 1.0).abs() < 0.1 && learned.within.sqrt() < 0.01, "{learned:?}");
        let mut disturbed = networks(&[0.0; 100]);
        disturbed[0][0].residual = 3.0;
        assert!(
            EffectVariances::learn(&disturbed).within < 1.1 * EffectVariances::learn(&networks(&[0.0; 100])).within
        );
    }
}
