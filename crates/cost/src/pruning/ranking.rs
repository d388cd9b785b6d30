//! The order in which filters are removed: random, random by depth, or by the magnitude of their weights.

use super::Pruner;
use super::layers::{RankedFilter, RankedLayer};
use perf4sight_base::checksum::hash;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::mean;
use perf4sight_onnx::Magnitudes;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How quickly the weight of a layer changes with its index in [`FilterRanking::random_weighted`].
const DECAY: f64 = 0.1;

/// One score for every filter of the ranked layers, across all of them; the lowest are removed first. A layer that is skipped has no scores.
///
/// A channel that several filters share (a residual sum, a depthwise convolution behind its expansion) is removed
/// with the first of them, so wide groups are removed earlier, as published.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterRanking(Vec<Vec<f64>>);

perf4sight_base::words! {
    /// How filters are scored.
    pub enum RankingMode: "mode" {
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

impl FilterRanking {
    /// The ranking of that mode; a mode without randomness draws nothing.
    ///
    /// # Errors
    /// As [`FilterRanking::l1`].
    pub fn by(mode: RankingMode, pruner: &Pruner, generator: &mut impl Rng, magnitudes: &Magnitudes) -> Result<Self> {
        match mode {
            RankingMode::Random => Ok(Self::random(pruner, generator)),
            RankingMode::RandomWeighted => Ok(Self::random_weighted(pruner, generator)),
            RankingMode::L1 => Self::l1(pruner, magnitudes),
        }
    }

    /// Every filter draws from U(0, 1).
    pub fn random(pruner: &Pruner, generator: &mut impl Rng) -> Self {
        Self::with_layer_weights(pruner, generator, |_| 1.0)
    }

    /// Every filter draws from U(0, 1) times a weight of its layer. One draw for the whole network decides whether
    /// late layers lose more (probability 0.3), early ones (0.3), or all the same (0.4).
    pub fn random_weighted(pruner: &Pruner, generator: &mut impl Rng) -> Self {
        let slope = match generator.random::<f64>() {
            draw if draw < 0.3 => Some(-DECAY),
            draw if draw < 0.6 => Some(DECAY),
            _ => None,
        };
        Self::with_layer_weights(pruner, generator, |layer| {
            slope.map_or(1.0, |slope| 5.0 * (slope * layer as f64).exp())
        })
    }

    /// The mean magnitude of each filter's weights. Layers without magnitudes, such as those whose weights are computed while the network
    /// runs, are skipped: their filters have no scores, and go only with filters of other layers.
    ///
    /// # Errors
    /// When no ranked layer has magnitudes.
    pub fn l1(pruner: &Pruner, magnitudes: &Magnitudes) -> Result<Self> {
        let scores = |layer: &RankedLayer| {
            let found = magnitudes.get(&pruner.network.node(layer.node).name)?;
            let score = |filter: &RankedFilter| {
                let magnitudes: Option<Vec<f64>> =
                    filter.outputs.iter().map(|&output| found.get(output).copied()).collect();
                magnitudes.map(|magnitudes| mean(&magnitudes))
            };
            layer.filters.iter().map(score).collect::<Option<Vec<f64>>>()
        };
        let layers: Vec<Option<Vec<f64>>> = pruner.groups.layers.iter().map(scores).collect();
        if !layers.is_empty() && layers.iter().all(Option::is_none) {
            let first = &pruner.network.node(pruner.groups.layers[0].node).name;
            return Err(Error::input(format!(
                "l1 pruning of {} needs the weights of \"{first}\"",
                pruner.network.name()
            ))
            .help("export the network with its weights, none of them computed of others (torch.nn.utils.parametrize), or choose mode = random"));
        }
        Ok(FilterRanking(layers.into_iter().map(Option::unwrap_or_default).collect()))
    }

    /// The layers whose filters could go, but have no scores.
    pub fn skipped_layers<'a>(&'a self, pruner: &'a Pruner) -> impl Iterator<Item = &'a str> {
        let layers = self.0.iter().zip(&pruner.groups.layers);
        let skipped = layers.filter(|(scores, layer)| scores.is_empty() && pruner.could_go(layer));
        skipped.map(|(_, layer)| pruner.network.node(layer.node).name.as_str())
    }

    fn with_layer_weights(pruner: &Pruner, generator: &mut impl Rng, weight: impl Fn(usize) -> f64) -> Self {
        let layers = pruner.groups.layers.iter().enumerate();
        let scores = layers.map(|(index, layer)| {
            let weight = weight(index);
            layer.filters.iter().map(|_| generator.random::<f64>() * weight).collect()
        });
        FilterRanking(scores.collect())
    }

    /// Every filter that has a score, with it, in the order in which layers run.
    pub(super) fn scored_filters<'a>(
        &'a self,
        layers: &'a [RankedLayer],
    ) -> impl Iterator<Item = (f64, &'a RankedFilter)> {
        let layers = self.0.iter().zip(layers);
        layers.flat_map(|(scores, layer)| scores.iter().copied().zip(&layer.filters))
    }
}
