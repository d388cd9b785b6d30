//! Everything a fingerprint says about one network: prepared once, asked for any step and batch size.

use super::distribution::{Extrapolation, OutOfDistribution};
use super::prediction::{
    Band, Basis, Expected, Interval, Least, MaxBatch, MemoryLimit, Predicted, Prediction, Predictor, Shares, Steps,
    TimedOperation, Verdict,
};
use super::rows::Row;
use super::{Fingerprint, Method, Subject};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_memory::{Alive, Timeline};
use perf4sight_network::Network;
use perf4sight_step::workload::{Precision, Quantity, Step};

/// By how much intervals are wider either way, in logarithms, for a precision that was not profiled: as far as simulated tensors were off at worst
/// (`docs/accuracy/simulated-memory.md`), of which a device's own readings tell nothing.
const OTHER_PRECISION: f64 = 0.06;

/// A network prepared for predictions of its steps; what these have in common is computed once.
pub struct PreparedNetwork<'a> {
    fingerprint: &'a Fingerprint,
    /// Why the network is out of distribution.
    reasons: Vec<OutOfDistribution>,
    extrapolation: Extrapolation,
    steps: Steps<'a>,
}

/// One step of a network before a fingerprint.
pub struct About<'a> {
    fingerprint: &'a Fingerprint,
    /// Why the network is out of distribution.
    reasons: Vec<OutOfDistribution>,
    extrapolation: Extrapolation,
    /// Whether it is asked about the step that was profiled.
    is_own_step: bool,
    predictor: Box<dyn Predictor + 'a>,
}

impl Fingerprint {
    /// What it predicts for one step of `network` with `batch` samples; [`Fingerprint::about`] tells more, and faster for many
    /// batch sizes.
    pub fn predict(&self, network: &Network, batch: u64) -> Predicted {
        self.about(network).at(batch).value
    }

    /// Prepares what it says about a network.
    pub fn about<'a>(&'a self, network: &'a Network) -> About<'a> {
        self.about_within(network, None)
    }

    /// The same, where a step must fit into `limit` instead of the memory of the device that was profiled.
    pub fn about_within<'a>(&'a self, network: &'a Network, limit: Option<Bytes>) -> About<'a> {
        self.prepare(network, limit).about_known(self.subject.step)
    }

    /// The same of another step than those that were profiled: its memory is simulated, and of its time all is as fitted but what it does
    /// otherwise, which takes what physics says.
    ///
    /// # Errors
    /// Another stage; another step where the published method was fitted, which knows no physics; a precision that the device lacks, or of
    /// which nothing was timed.
    pub fn about_step<'a>(&'a self, network: &'a Network, step: Step, limit: Option<Bytes>) -> Result<About<'a>> {
        self.prepare(network, limit).about(step)
    }

    /// What it says of any step of a network, which must fit into `limit` instead of the memory of the device that was profiled.
    pub fn prepare<'a>(&'a self, network: &'a Network, limit: Option<Bytes>) -> PreparedNetwork<'a> {
        let extrapolation = self.profiled.extrapolation(network);
        let steps = self.fitted.steps(&self.subject, network, &extrapolation, limit);
        let reasons = self.profiled.out_of_distribution(network);
        PreparedNetwork { fingerprint: self, reasons, extrapolation, steps }
    }

    /// Refuses a precision that its device does not compute with.
    ///
    /// # Errors
    /// Such a precision.
    pub fn check_device(&self, precision: Precision) -> Result<()> {
        self.fitted.check_device(precision)
    }

    /// Refuses a step that it can say nothing of.
    ///
    /// # Errors
    /// As [`Fingerprint::about_step`].
    pub fn check_step(&self, step: Step) -> Result<()> {
        let Subject { step: own, quantity, .. } = &self.subject;
        self.fitted.check_precision(&self.subject, step.precision)?;
        let (same, same_stage) = (*own == step, own.stage == step.stage);
        if same || same_stage && self.recipe().method == Method::Hybrid {
            return Ok(());
        }
        Err(Error::input(format!("this {quantity} fingerprint is of {own}, and says nothing of {step}"))
            .expected("a fingerprint of that stage, fitted with method = hybrid")
            .help("fit one to rows of that step, or ask for the step that was profiled"))
    }
}

impl<'a> PreparedNetwork<'a> {
    /// Refuses steps that its fingerprint knows nothing of.
    ///
    /// # Errors
    /// As [`Fingerprint::check_step`].
    pub fn check_step(&self, step: Step) -> Result<()> {
        self.fingerprint.check_step(step)
    }

    /// Its fingerprint says this of one of the steps, or refuses it as [`Fingerprint::about_step`] does.
    ///
    /// # Errors
    /// As [`Fingerprint::about_step`].
    pub fn about(&self, step: Step) -> Result<About<'a>> {
        self.fingerprint.check_step(step)?;
        Ok(self.about_known(step))
    }

    fn about_known(&self, step: Step) -> About<'a> {
        let (mut extrapolation, mut reasons) = (self.extrapolation.clone(), self.reasons.clone());
        let own = self.fingerprint.subject.step;
        // Where nothing was profiled what is believed is of single precision, whichever step it is asked about first.
        let is_prior = self.fingerprint.is_prior();
        let [asked, profiled] = [step.precision, if is_prior { Precision::Fp32 } else { own.precision }];
        // How long such steps take was measured, or is not answered.
        if asked != profiled && self.fingerprint.subject.quantity == Quantity::Memory {
            extrapolation.ignorance += OTHER_PRECISION;
            reasons.extend((!is_prior).then_some(OutOfDistribution::Precision { asked, profiled }));
        }
        let predictor = (self.steps)(step, &extrapolation);
        About { fingerprint: self.fingerprint, reasons, extrapolation, is_own_step: step == own, predictor }
    }
}

impl About<'_> {
    /// What it predicts for steps of `batch` samples; a step has at least one.
    pub fn at(&self, batch: u64) -> Prediction {
        let batch = batch.max(1);
        let value = self.predictor.at(batch);
        let of_batch = self.fingerprint.profiled.batch_out_of_distribution(batch);
        let reasons = self.reasons.iter().cloned().chain(of_batch);
        Prediction {
            value: self.predicted(value),
            interval: self.interval(batch, value),
            out_of_distribution: reasons.collect(),
        }
    }

    /// How far off predictions of such a network were when the fingerprint was fitted; none where that was not tested, as of other steps than
    /// the profiled one.
    pub fn expected(&self) -> Option<Expected> {
        if !self.is_own_step {
            return None;
        }
        let Fingerprint { scores, left_out, .. } = self.fingerprint;
        Expected::new(self.extrapolation.family.is_some(), *scores, left_out)
    }

    /// What a step must fit into; only a memory fingerprint knows.
    pub fn limit(&self) -> Option<MemoryLimit> {
        self.predictor.limit()
    }

    /// What a step of `batch` samples needs of what [`About::limit`] counts, and of all memory where it counts nothing.
    pub fn need(&self, batch: u64) -> Option<Predicted> {
        self.predictor.need(batch.max(1)).map(|need| self.predicted(need))
    }

    /// What a step of `batch` samples needs of the same at least, and whether one fits that needs no more; none where that is not found faster
    /// than what it needs.
    pub fn at_least(&self, batch: u64) -> Option<(Predicted, Option<Verdict>)> {
        let Least { need, verdict } = self.predictor.at_least(batch.max(1))?;
        Some((self.predicted(need), verdict))
    }

    /// What the allocator takes for the tensors of a step of `batch` samples alone; only a simulation knows.
    pub fn tensors(&self, batch: u64) -> Option<Predicted> {
        self.predictor.tensors(batch.max(1)).map(|tensors| self.predicted(tensors))
    }

    /// Whether a step of `batch` samples fits; only a memory fingerprint knows, where it knows what a step must fit into or its profile
    /// has steps that did not.
    pub fn verdict(&self, batch: u64) -> Option<Verdict> {
        self.predictor.verdict(batch.max(1))
    }

    /// The largest batch sizes that fit; known where [`About::verdict`] is.
    pub fn max_batch(&self) -> Option<MaxBatch> {
        self.predictor.max_batch()
    }

    /// What is alive when a step of `batch` samples needs the most memory; only a simulation knows.
    pub fn alive(&self, batch: u64) -> Option<Alive> {
        self.predictor.alive(batch.max(1))
    }

    /// What lies in memory while a step of `batch` samples runs, operation by operation; only a simulation knows.
    pub fn timeline(&self, batch: u64) -> Option<Timeline> {
        self.predictor.timeline(batch.max(1))
    }

    /// Where the time of a step of `batch` samples goes; only a latency fingerprint of the hybrid method knows.
    pub fn shares(&self, batch: u64) -> Option<Shares> {
        self.predictor.shares(batch.max(1))
    }

    /// The operations of a row of this network that the profile timed one by one, measured and predicted; none where it did not,
    /// or where the fingerprint knows of no operations.
    pub fn operations(&self, row: &Row) -> Vec<TimedOperation> {
        self.predictor.operations(row)
    }

    /// None for the published method, which knows no intervals.
    fn interval(&self, batch: u64, value: f64) -> Option<Interval> {
        let Band { ends: [below, above], basis } = self.predictor.band(batch)?;
        let ignorance = self.extrapolation.ignorance;
        let [mut low, high] = [below - ignorance, above + ignorance].map(|end| value * end.exp());
        let is_prior = basis == Basis::Prior;
        if let Some(tensors) = self.predictor.tensors(batch).filter(|_| is_prior) {
            // The whole is never less than the tensors shown next to it.
            low = low.max(tensors.min(high));
        }
        let [low, high] = [low, high].map(|end| self.predicted(end));
        // A prior rests on no step that was profiled.
        Some(Interval { low, high, basis: if self.is_own_step || is_prior { basis } else { Basis::OtherStep } })
    }

    fn predicted(&self, value: f64) -> Predicted {
        Predicted::new(self.fingerprint.subject.quantity, value)
    }
}
