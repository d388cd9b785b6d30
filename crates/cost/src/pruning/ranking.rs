//! The order in which filters are removed: random, random by depth, or by the magnitude of their weights.

use super::Pruner;
use perf4sight_base::checksum::hash;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::mean;
use perf4sight_onnx::Magnitudes;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How quickly the weight of a layer changes with its index in [`Ranking::random_weighted`].
const DECAY: f64 = 0.1;

/// One score for every filter of the ranked convolutions, across all layers; the lowest are removed first.
///
/// A channel that several filters share (a residual sum, a depthwise convolution behind its expansion) is removed
/// with the first of them, so wide groups are removed earlier, as published.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking(Vec<Vec<f64>>);

perf4sight_base::words! {
    /// How filters are scored.
    pub enum Mode: "mode" {
        Random = "random",
        RandomWeighted = "random_weighted",
        L1 = "l1",
    }
}

/// The random generator of one variant. Every variant draws independently, as the published levels do: a level is no
/// subset of the next one.
pub fn generator(seed: u64, network: &str, level: u8, repeat: u32) -> Xoshiro256PlusPlus {
    let name = network.bytes().chain([0, level]).chain(repeat.to_le_bytes());
    Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(32) ^ hash(name))
}

impl Ranking {
    /// The ranking of that mode; a mode without randomness draws nothing.
    ///
    /// # Errors
    /// As [`Ranking::l1`].
    pub fn by(mode: Mode, pruner: &Pruner, generator: &mut impl Rng, magnitudes: &Magnitudes) -> Result<Self> {
        match mode {
            Mode::Random => Ok(Self::random(pruner, generator)),
            Mode::RandomWeighted => Ok(Self::random_weighted(pruner, generator)),
            Mode::L1 => Self::l1(pruner, magnitudes),
        }
    }

    /// Every filter draws from U(0, 1).
    pub fn random(pruner: &Pruner, generator: &mut impl Rng) -> Self {
        Self::drawn(pruner, generator, |_| 1.0)
    }

    /// Every filter draws from U(0, 1) times a weight of its layer. One draw for the whole network decides whether
    /// late layers lose more (probability 0.3), early ones (0.3), or all the same (0.4).
    pub fn random_weighted(pruner: &Pruner, generator: &mut impl Rng) -> Self {
        let slope = match generator.random::<f64>() {
            draw if draw < 0.3 => Some(-DECAY),
            draw if draw < 0.6 => Some(DECAY),
            _ => None,
        };
        Self::drawn(pruner, generator, |layer| slope.map_or(1.0, |slope| 5.0 * (slope * layer as f64).exp()))
    }

    /// The mean magnitude of each filter's weights.
    ///
    /// # Errors
    /// When a ranked convolution has no magnitudes.
    pub fn l1(pruner: &Pruner, magnitudes: &Magnitudes) -> Result<Self> {
        let layers = pruner.groups.layers.iter().map(|layer| {
            let name = &pruner.network.node(layer.node).name;
            let score = |found: &[f64], outputs: &[usize]| {
                let magnitudes: Option<Vec<f64>> = outputs.iter().map(|&output| found.get(output).copied()).collect();
                magnitudes.map(|magnitudes| mean(&magnitudes))
            };
            let found = magnitudes.get(name);
            let scores =
                found.and_then(|found| layer.filters.iter().map(|filter| score(found, &filter.outputs)).collect());
            scores.ok_or_else(|| {
                Error::input(format!("l1 pruning of {} needs the weights of \"{name}\"", pruner.network.name()))
                    .help("export the network with its weights, choose mode = random, or keep the layer where its weights are computed")
            })
        });
        layers.collect::<Result<Vec<_>>>().map(Ranking)
    }

    fn drawn(pruner: &Pruner, generator: &mut impl Rng, weight: impl Fn(usize) -> f64) -> Self {
        let layers = pruner.groups.layers.iter().enumerate();
        let scores = layers.map(|(index, layer)| {
            let weight = weight(index);
            layer.filters.iter().map(|_| generator.random::<f64>() * weight).collect()
        });
        Ranking(scores.collect())
    }

    /// Layer by layer, filter by filter.
    pub(super) fn scores(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().flatten().copied()
    }
}
