//! One network with the fitted latency of a device, ready for predictions at any batch size of the profiled step.

use super::LatencyModel;
use super::cholesky::Cholesky;
use super::layers::OperationCorrections;
use super::mixture::NormalMixture;
use super::physics::PhysicalModel;
use super::posterior::NetworkPosterior;
use super::predicted_steps::PredictedSteps;
use super::residual::CorrectionCurve;
use super::sample::{ResidualSample, RowCoordinates};
use crate::fingerprint::distribution::Extrapolation;
use crate::fingerprint::distribution::level;
use crate::fingerprint::prediction::{IntervalBand, IntervalBasis};
use perf4sight_base::cache::Cache;
use perf4sight_network::{Network, Op};

/// Standard deviation of the time, in logarithms, of operations of kinds that were never measured. With the heavy
/// tails of networks' effects, nine tenths are within a factor of 2.4.
const NEVER_MEASURED: f64 = 0.3;

/// The same for operations known by name only, priced by their products or, where no rule gives these, by the bytes
/// they read and write. Training steps on one core of an EPYC with an LSTM, a GRU and a deformable convolution took
/// 0.7, 1.3 and 4.7 times the prediction from their products; the root mean square of the logarithms is 0.93. No
/// operation without products was measured.
const NAMED: f64 = 0.93;

/// The same for every factor of e by which sizes or batch sizes exceed the measured range.
const BEYOND: f64 = 0.03;

/// The same for every factor of e in the elements of images: from 224 to 96 pixels, a factor of 5.4, five networks on one core of an EPYC
/// were 15 to 18 % off (`docs/accuracy/latency.md`).
const OTHER_IMAGES: f64 = 0.1;

/// The worst twentieth of a normal distribution starts this many standard deviations above the mean.
pub(super) const WORST_TWENTIETH: f64 = 1.645;

/// One network, ready for predictions.
pub(in crate::fingerprint) struct PreparedLatency<'a> {
    pub(super) promise: PredictedSteps<'a>,
    curve: CorrectionCurve,
    widths: IntervalWidths,
    own: OwnEffect<'a>,
    /// Cached predictions by the number of samples; predictions of other steps need them again.
    known: Cache<u64, f64>,
    bands: Cache<u64, Option<IntervalBand>>,
}

struct OwnEffect<'a> {
    /// The network at its widths.
    level: String,
    /// The uncertainty of the device's parameters.
    doubt: Cholesky,
    posterior: NetworkPosterior<'a>,
}

struct IntervalWidths {
    /// Half of their width, where the network was profiled at other levels and none of its rows were added since.
    profiled: Option<f64>,
    basis: IntervalBasis,
    /// The smallest and the largest batch size profiled.
    batches: [f64; 2],
}

impl<'a> PreparedLatency<'a> {
    pub(super) fn new(latency: &'a LatencyModel, promise: PredictedSteps<'a>, extrapolation: &Extrapolation) -> Self {
        let PredictedSteps { network, corrections, ref physics, .. } = promise;
        let samples = extrapolation.family.as_ref().and_then(|family| latency.calibrated.get(family));
        let samples: &[ResidualSample] = samples.map_or(&[], Vec::as_slice);
        let profiled = extrapolation.family.as_ref().and_then(|family| latency.levels.get(family)).copied();
        let batches = latency.residual.batches();
        let strangeness = strangeness(network, physics, corrections, batches[1], extrapolation);
        let own = OwnEffect {
            level: level(network),
            doubt: latency
                .parameter_uncertainty()
                .expect("a fit only adds to what was known before, and no other file is loaded"),
            posterior: latency.effects.posterior(strangeness, 0.5 * (batches[0].ln() + batches[1].ln()), samples),
        };
        let mut curve = latency.residual.curve(physics, corrections);
        if !samples.is_empty() {
            let knots = latency.residual.knots(samples.iter().map(|sample| sample.coordinates.samples())).into_iter();
            curve = curve.shifted(knots.map(|batch| (physics.time(batch), own.deviation(physics, batch).mean())));
        }
        let widths = match (samples, profiled) {
            ([], Some(width)) => IntervalWidths { profiled: Some(width), basis: IntervalBasis::Levels, batches },
            ([], None) => IntervalWidths { profiled: None, basis: latency.basis_for_others(), batches },
            _ => IntervalWidths { profiled: None, basis: IntervalBasis::Rows, batches },
        };
        PreparedLatency { promise, curve, widths, own, known: Cache::default(), bands: Cache::default() }
    }

    /// The position of a row of this network among all rows.
    pub(super) fn coordinates(&self, batch: u64) -> RowCoordinates {
        self.own.coordinates(&self.promise.physics, batch as f64)
    }

    /// Milliseconds of a step of `batch` samples.
    pub(super) fn milliseconds(&self, batch: u64) -> f64 {
        *self.known.get_or_compute(batch, || self.curve.corrected(self.promise.physics.time(batch as f64)))
    }

    /// The range of measurements around that prediction.
    pub(super) fn band(&self, batch: u64) -> Option<IntervalBand> {
        *self.bands.get_or_compute(batch, || self.compute_band(batch))
    }

    fn compute_band(&self, batch: u64) -> Option<IntervalBand> {
        let IntervalWidths { profiled, basis, batches: [low, high] } = self.widths;
        let batch = batch as f64;
        let outside = BEYOND * (batch / batch.clamp(low, high)).ln().abs();
        if let Some(width) = profiled {
            return Some(IntervalBand::even(width.hypot(WORST_TWENTIETH * outside), basis));
        }
        let own = self.own.deviation(&self.promise.physics, batch).with_noise(outside);
        Some(IntervalBand { ends: [0.05, 0.95].map(|share| own.quantile(share) - own.mean()), basis })
    }
}

impl OwnEffect<'_> {
    /// The expected deviation of measurements from the physical prediction.
    fn deviation(&self, physics: &PhysicalModel, batch: f64) -> NormalMixture {
        self.posterior.deviation(&self.coordinates(physics, batch))
    }

    fn coordinates(&self, physics: &PhysicalModel, batch: f64) -> RowCoordinates {
        let (time, slopes) = physics.slopes(batch);
        let slopes = self.doubt.whiten(&slopes.map(|slope| slope / time));
        RowCoordinates { level: self.level.clone(), batch: batch.ln(), slopes }
    }
}

/// Standard deviation of the time of a network, in logarithms, beyond that of networks like those profiled.
pub(super) fn strangeness(
    network: &Network,
    physics: &PhysicalModel,
    corrections: &OperationCorrections,
    batch: f64,
    extrapolation: &Extrapolation,
) -> f64 {
    let unseen = match extrapolation.operations.is_empty() {
        true => 0.0,
        false => {
            let times = physics.nodes(corrections, batch);
            let unseen = extrapolation
                .operations
                .iter()
                .filter_map(|node| Some(of_kind(&network.node(*node).op) * times.get(node)?));
            unseen.sum::<f64>() / times.values().sum::<f64>()
        }
    };
    unseen.hypot(BEYOND * extrapolation.beyond).hypot(OTHER_IMAGES * extrapolation.images)
}

/// Standard deviation of an operation of a kind that was never measured.
fn of_kind(op: &Op) -> f64 {
    if matches!(op, Op::Unknown(_)) { NAMED } else { NEVER_MEASURED }
}
