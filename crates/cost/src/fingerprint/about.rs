//! Predictions for one network: it is prepared once, then predicted for any step and batch size.

use super::distribution::{Extrapolation, OutOfDistribution};
use super::prediction::{
    ExpectedError, FitVerdict, IntervalBand, IntervalBasis, LatencyShares, LowerBound, MaxBatch, MemoryLimit,
    PredictedValue, Prediction, PredictionInterval, Predictor, StepPredictors, TimedOperation,
};
use super::rows::MeasuredRow;
use super::{Fingerprint, FingerprintSubject, FitMethod};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_memory::{MemoryTimeline, TensorsAtPeak};
use perf4sight_network::Network;
use perf4sight_step::workload::{Precision, Quantity, Step};

/// Intervals are wider by this much on either side, in logarithms, for a precision that was not profiled. It is the
/// largest error of simulated tensors (`docs/accuracy/simulated-memory.md`); the readings of a device do not show it.
const OTHER_PRECISION: f64 = 0.06;
/// The same for steps in bfloat16 on processors, for which oneDNN has other kernels where the instructions differ from those of the rules: nine of
/// ten steps of 5 MiB and more are within it (`docs/accuracy/simulated-memory.md`, "Other precisions").
const OTHER_KERNELS: f64 = 0.12;

/// A network prepared for predictions of its steps; shared work is done once.
pub struct PreparedNetwork<'a> {
    fingerprint: &'a Fingerprint,
    reasons: Vec<OutOfDistribution>,
    extrapolation: Extrapolation,
    /// The part of what the extrapolation ignores that is operations that are not understood; none where the module was followed, whose tensors
    /// are known without them.
    not_understood: f64,
    steps: StepPredictors<'a>,
}

/// One step of a network, ready for predictions.
pub struct PreparedStep<'a> {
    fingerprint: &'a Fingerprint,
    reasons: Vec<OutOfDistribution>,
    extrapolation: Extrapolation,
    /// As that of the network.
    not_understood: f64,
    is_own_step: bool,
    predictor: Box<dyn Predictor + 'a>,
}

impl Fingerprint {
    /// The prediction for one step of `network` with `batch` samples. [`Fingerprint::about`] gives more, and is
    /// faster for many batch sizes.
    pub fn predict(&self, network: &Network, batch: u64) -> PredictedValue {
        self.about(network).predict(batch).value
    }

    /// Prepares a network for predictions of the profiled step.
    pub fn about<'a>(&'a self, network: &'a Network) -> PreparedStep<'a> {
        self.about_within(network, None)
    }

    /// Like [`Fingerprint::about`], but a step must fit into `limit` instead of the memory of the profiled device.
    pub fn about_within<'a>(&'a self, network: &'a Network, limit: Option<Bytes>) -> PreparedStep<'a> {
        self.prepare(network, limit).about_known(self.subject.step)
    }

    /// The same for another step than the profiled ones. Its memory is simulated. Its latency is the fitted one,
    /// except for the parts that differ, which the physical model estimates.
    ///
    /// # Errors
    /// The step is of another stage; it differs and the method is the published one, which has no physical model; the
    /// device lacks the precision; or no step of that precision was timed.
    pub fn about_step<'a>(
        &'a self,
        network: &'a Network,
        step: Step,
        limit: Option<Bytes>,
    ) -> Result<PreparedStep<'a>> {
        self.prepare(network, limit).about(step)
    }

    /// Prepares a network for predictions of any step, which must fit into `limit` instead of the memory of the
    /// profiled device.
    pub fn prepare<'a>(&'a self, network: &'a Network, limit: Option<Bytes>) -> PreparedNetwork<'a> {
        let extrapolation = self.profiled.extrapolation(network);
        let steps = self.fitted.steps(&self.subject, network, &extrapolation, limit);
        let reasons = self.profiled.out_of_distribution(network);
        let not_understood = if network.followed().is_some() { 0.0 } else { extrapolation.ignorance };
        PreparedNetwork { fingerprint: self, reasons, extrapolation, not_understood, steps }
    }

    /// Whether memory of such steps is simulated for kernels that the device may not have: in bfloat16 processors' kernels differ by their
    /// instructions, and no row of that precision shows which they are.
    pub fn may_have_other_kernels(&self, step: Step) -> bool {
        self.other_precision(step).is_some_and(|[asked, _]| asked != Precision::Fp32) && self.fitted.is_on_processor()
    }

    /// The precision of a step whose memory is simulated and that of the profile, where they differ.
    fn other_precision(&self, step: Step) -> Option<[Precision; 2]> {
        // Without a profile the prior is for single precision, whichever step is requested first.
        let profiled = if self.is_prior() { Precision::Fp32 } else { self.subject.step.precision };
        (step.precision != profiled && self.subject.quantity == Quantity::Memory).then_some([step.precision, profiled])
    }

    /// Refuses a precision that the device does not support.
    ///
    /// # Errors
    /// The device does not support the precision.
    pub fn check_device(&self, precision: Precision) -> Result<()> {
        self.fitted.check_device(precision)
    }

    /// Refuses a step that this fingerprint cannot predict.
    ///
    /// # Errors
    /// As [`Fingerprint::about_step`].
    pub fn check_step(&self, step: Step) -> Result<()> {
        let FingerprintSubject { step: own, quantity, .. } = &self.subject;
        self.fitted.check_precision(&self.subject, step.precision)?;
        let (same, same_stage) = (*own == step, own.stage == step.stage);
        if same || same_stage && self.recipe().method == FitMethod::Hybrid {
            return Ok(());
        }
        Err(Error::input(format!("this {quantity} fingerprint is of {own}, and says nothing of {step}"))
            .expected("a fingerprint of that stage, fitted with method = hybrid")
            .help("fit one to rows of that step, or ask for the step that was profiled"))
    }
}

impl<'a> PreparedNetwork<'a> {
    /// Refuses steps that the fingerprint cannot predict.
    ///
    /// # Errors
    /// As [`Fingerprint::check_step`].
    pub fn check_step(&self, step: Step) -> Result<()> {
        self.fingerprint.check_step(step)
    }

    /// The predictions for one step, or the refusal of [`Fingerprint::about_step`].
    ///
    /// # Errors
    /// As [`Fingerprint::about_step`].
    pub fn about(&self, step: Step) -> Result<PreparedStep<'a>> {
        self.fingerprint.check_step(step)?;
        Ok(self.about_known(step))
    }

    fn about_known(&self, step: Step) -> PreparedStep<'a> {
        let (mut extrapolation, mut reasons) = (self.extrapolation.clone(), self.reasons.clone());
        let (own, not_understood) = (self.fingerprint.subject.step, self.not_understood);
        // Latency at another precision is either measured or refused, so only memory gets wider intervals here.
        if let Some([asked, profiled]) = self.fingerprint.other_precision(step) {
            let has_other_kernels = self.fingerprint.may_have_other_kernels(step);
            extrapolation.ignorance += if has_other_kernels { OTHER_KERNELS } else { OTHER_PRECISION };
            let is_prior = self.fingerprint.is_prior();
            reasons.extend((!is_prior).then_some(OutOfDistribution::Precision { asked, profiled }));
        }
        let predictor = (self.steps)(step, &extrapolation);
        let (fingerprint, is_own_step) = (self.fingerprint, step == own);
        PreparedStep { fingerprint, reasons, extrapolation, not_understood, is_own_step, predictor }
    }
}

impl PreparedStep<'_> {
    /// The prediction for steps of `batch` samples; a step has at least one.
    pub fn predict(&self, batch: u64) -> Prediction {
        let batch = batch.max(1);
        let value = self.predictor.predict(batch);
        let of_batch = self.fingerprint.profiled.batch_out_of_distribution(batch);
        let reasons = self.reasons.iter().cloned().chain(of_batch);
        Prediction {
            value: self.to_value(value),
            interval: self.interval(batch, value),
            out_of_distribution: reasons.collect(),
        }
    }

    /// The errors of predictions for such a network, tested when the fingerprint was fitted. None where that was not
    /// tested, which includes all steps but the profiled one.
    pub fn expected_error(&self) -> Option<ExpectedError> {
        if !self.is_own_step {
            return None;
        }
        let Fingerprint { scores, left_out, .. } = self.fingerprint;
        ExpectedError::new(self.extrapolation.family.is_some(), *scores, left_out)
    }

    /// The memory limit of a step; only memory fingerprints have one.
    pub fn limit(&self) -> Option<MemoryLimit> {
        self.predictor.limit()
    }

    /// The memory that a step of `batch` samples needs, of the kind that [`PreparedStep::limit`] counts; all memory without
    /// a limit.
    pub fn needed_memory(&self, batch: u64) -> Option<PredictedValue> {
        self.predictor.counted_need(batch.max(1)).map(|need| self.to_value(need))
    }

    /// A lower bound of [`PreparedStep::needed_memory`], and the verdict for a step that needs no more. None where the bound is not
    /// faster to find than the need itself.
    pub fn at_least(&self, batch: u64) -> Option<(PredictedValue, Option<FitVerdict>)> {
        let LowerBound { need, verdict } = self.predictor.at_least(batch.max(1))?;
        Some((self.to_value(need), verdict))
    }

    /// The memory that the allocator takes for the tensors alone of a step of `batch` samples; only from a
    /// simulation.
    pub fn tensors(&self, batch: u64) -> Option<PredictedValue> {
        self.predictor.tensors(batch.max(1)).map(|tensors| self.to_value(tensors))
    }

    /// The least and the most that [`PreparedStep::tensors`] may be: they differ where the file of the network can be read in several ways, or has operations
    /// that are not understood.
    pub fn tensors_between(&self, batch: u64) -> Option<[PredictedValue; 2]> {
        let [least, most] = self.predictor.tensors_between(batch.max(1))?;
        let factor = self.not_understood.exp();
        Some([least / factor, most * factor].map(|tensors| self.to_value(tensors)))
    }

    /// Whether a step of `batch` samples fits. Only memory fingerprints answer, if the limit is known or their
    /// profile has steps that did not fit.
    pub fn verdict(&self, batch: u64) -> Option<FitVerdict> {
        self.predictor.verdict(batch.max(1))
    }

    /// The largest batch sizes that fit; given where [`PreparedStep::verdict`] is.
    pub fn max_batch(&self) -> Option<MaxBatch> {
        self.predictor.max_batch()
    }

    /// The tensors that are alive when a step of `batch` samples needs the most memory; only from a simulation.
    pub fn alive(&self, batch: u64) -> Option<TensorsAtPeak> {
        self.predictor.alive(batch.max(1))
    }

    /// The memory timeline of a step of `batch` samples, operation by operation; only from a simulation.
    pub fn timeline(&self, batch: u64) -> Option<MemoryTimeline> {
        self.predictor.timeline(batch.max(1))
    }

    /// The breakdown of the time of a step of `batch` samples; only from latency fingerprints of the hybrid method.
    pub fn shares(&self, batch: u64) -> Option<LatencyShares> {
        self.predictor.shares(batch.max(1))
    }

    /// The operations of a row of this network that the profile timed one by one, measured and predicted. None where
    /// the profile did not time them, or the fingerprint does not predict operations.
    pub fn operations(&self, row: &MeasuredRow) -> Vec<TimedOperation> {
        self.predictor.operations(row)
    }

    /// None for the published method, which has no intervals.
    fn interval(&self, batch: u64, value: f64) -> Option<PredictionInterval> {
        let IntervalBand { ends: [below, above], basis } = self.predictor.band(batch)?;
        let ignorance = self.extrapolation.ignorance;
        let [mut low, high] = [below - ignorance, above + ignorance].map(|end| value * end.exp());
        let is_prior = basis == IntervalBasis::Prior;
        if let Some([tensors, _]) = self.predictor.tensors_between(batch).filter(|_| is_prior) {
            // The whole is never less than the tensors shown next to it.
            low = low.max((tensors / self.not_understood.exp()).min(high));
        }
        let [low, high] = [low, high].map(|end| self.to_value(end));
        // A prior rests on no step that was profiled.
        Some(PredictionInterval {
            low,
            high,
            basis: if self.is_own_step || is_prior { basis } else { IntervalBasis::OtherStep },
        })
    }

    fn to_value(&self, value: f64) -> PredictedValue {
        PredictedValue::new(self.fingerprint.subject.quantity, value)
    }
}
