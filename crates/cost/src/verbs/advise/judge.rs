//! Predicts one workload of one network: its memory, whether it fits, its time.

use crate::fingerprint::{FitDecision, FitVerdict, PredictedValue, Prediction, PreparedNetwork, PreparedStep};
use crate::verbs::verdict::tensors_text;
use perf4sight_base::cache::Cache;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Network;
use perf4sight_step::workload::{Checkpoint, Step, Trainable, Workload};

pub(super) struct WorkloadJudge<'a> {
    pub network: &'a Network,
    pub memory: PreparedNetwork<'a>,
    pub latency: Option<PreparedNetwork<'a>>,
    /// Whether the latency fingerprint can predict the requested step.
    pub is_timed: bool,
    /// Whether the network supports a trainable part or a checkpoint setting, as far as it was checked; the two are
    /// independent of each other.
    pub possible: Cache<(Trainable, Checkpoint), bool>,
}

#[derive(Debug, Clone)]
pub(super) struct PredictedNeed {
    /// The total memory.
    pub all: Prediction,
    /// The memory that counts against the limit.
    pub counted: PredictedValue,
    /// What its tensors take, in words.
    pub tensors: Option<String>,
    /// None if no limit is known.
    pub verdict: Option<FitVerdict>,
}

impl<'a> WorkloadJudge<'a> {
    /// Refuses steps that the network does not support, or whose memory cannot be predicted.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self, workload: Workload) -> Result<()> {
        self.check_pass(workload)?;
        match self.network_takes(workload.step) {
            true => self.memory.check_step(workload.step),
            false => self.network.check_step(workload.step),
        }
    }

    /// Refuses steps whose latency cannot be predicted, if that of the requested step can.
    ///
    /// # Errors
    /// The reason.
    pub fn check_time(&self, step: Step) -> Result<()> {
        self.latency.as_ref().filter(|_| self.is_timed).map_or(Ok(()), |latency| latency.check_step(step))
    }

    /// Whether the network supports the workload and everything about it can be predicted.
    pub fn is_possible(&self, workload: Workload) -> bool {
        let (step, checked) = (workload.step, self.check_pass(workload));
        let known = || checked.and_then(|()| self.memory.check_step(step)).and_then(|()| self.check_time(step));
        self.network_takes(step) && known().is_ok()
    }

    /// Refuses what no network can run, and passes that PyTorch refuses.
    fn check_pass(&self, workload: Workload) -> Result<()> {
        workload.check()?;
        let refused = self
            .network
            .refused_pass(workload)
            .map(|refused| Error::input(refused).help("ask for two samples in each pass at least"));
        refused.map_or(Ok(()), Err)
    }

    fn network_takes(&self, step: Step) -> bool {
        let parts = [Step { checkpoint: Checkpoint::None, ..step }, Step { trainable: Trainable::All, ..step }];
        let takes = |part: Step| {
            *self.possible.get_or_compute((part.trainable, part.checkpoint), || self.network.check_step(part).is_ok())
        };
        parts.into_iter().all(takes)
    }

    /// The memory of such a step, for any batch size.
    pub fn about_memory(&self, step: Step) -> Result<PreparedStep<'a>> {
        self.memory.about(step)
    }

    pub fn needed_memory(&self, workload: Workload) -> Result<PredictedNeed> {
        Ok(PredictedNeed::new(&self.about_memory(workload.step)?, workload.batch))
    }

    /// A lower bound on the memory of a workload, and whether it fits if it needs no more; none if no bound is faster
    /// to compute than the memory itself.
    pub fn at_least(&self, workload: Workload) -> Result<Option<(f64, bool)>> {
        let least = self.about_memory(workload.step)?.at_least(workload.batch);
        let fits = |verdict: Option<FitVerdict>| verdict.is_some_and(|verdict| verdict.call == FitDecision::Fits);
        Ok(least.map(|(need, verdict)| (need.value(), fits(verdict))))
    }

    /// None without a fingerprint of latency that can predict such steps.
    pub fn time(&self, workload: Workload) -> Result<Option<Prediction>> {
        let latency = self.latency.as_ref().filter(|latency| latency.check_step(workload.step).is_ok());
        latency.map(|latency| Ok(latency.about(workload.step)?.predict(workload.batch))).transpose()
    }
}

impl PredictedNeed {
    pub fn new(about: &PreparedStep, batch: u64) -> Self {
        let all = about.predict(batch);
        PredictedNeed {
            counted: about.needed_memory(batch).unwrap_or(all.value),
            tensors: about.tensors(batch).map(|tensors| tensors_text(tensors, about.tensors_between(batch))),
            verdict: about.verdict(batch),
            all,
        }
    }

    pub fn fits(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.call == FitDecision::Fits)
    }
}
