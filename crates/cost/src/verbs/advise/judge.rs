//! What fingerprints say of one workload of one network: what it needs, whether that fits, how long it takes.

use crate::fingerprint::{About, Call, Predicted, Prediction, PreparedNetwork, Verdict};
use perf4sight_base::cache::Cache;
use perf4sight_base::error::Result;
use perf4sight_network::Network;
use perf4sight_step::workload::{Checkpoint, Step, Trainable, Workload};

/// What answers, and what about.
pub(super) struct Judge<'a> {
    pub network: &'a Network,
    pub memory: PreparedNetwork<'a>,
    /// None without a fingerprint of latency.
    pub latency: Option<PreparedNetwork<'a>>,
    /// Whether that knows the step which was asked for.
    pub is_timed: bool,
    /// What of the network can be trained, and where it can be cut, as far as that was asked; neither goes by the other.
    pub possible: Cache<(Trainable, Checkpoint), bool>,
}

/// Memory of a workload.
#[derive(Debug, Clone)]
pub(super) struct Need {
    /// All that it takes.
    pub all: Prediction,
    /// What counts against the limit.
    pub counted: Predicted,
    /// None where nothing says what it must fit into.
    pub verdict: Option<Verdict>,
}

impl<'a> Judge<'a> {
    /// Refuses what a step of this network cannot be, or whose memory nothing is known of.
    ///
    /// # Errors
    /// With the reason.
    pub fn check(&self, workload: Workload) -> Result<()> {
        workload.check()?;
        match self.network_takes(workload.step) {
            true => self.memory.check_step(workload.step),
            false => self.network.check_step(workload.step),
        }
    }

    /// Refuses what a fingerprint of latency knows nothing of, where it knows what was asked for.
    ///
    /// # Errors
    /// With the reason.
    pub fn check_time(&self, step: Step) -> Result<()> {
        self.latency.as_ref().filter(|_| self.is_timed).map_or(Ok(()), |latency| latency.check_step(step))
    }

    /// Whether all is known of one of many.
    pub fn is_possible(&self, workload: Workload) -> bool {
        let (step, checked) = (workload.step, workload.check());
        let known = || checked.and_then(|()| self.memory.check_step(step)).and_then(|()| self.check_time(step));
        self.network_takes(step) && known().is_ok()
    }

    fn network_takes(&self, step: Step) -> bool {
        let parts = [Step { checkpoint: Checkpoint::None, ..step }, Step { trainable: Trainable::All, ..step }];
        let takes =
            |part: Step| *self.possible.of((part.trainable, part.checkpoint), || self.network.check_step(part).is_ok());
        parts.into_iter().all(takes)
    }

    /// What such steps need, at any batch size.
    pub fn about_memory(&self, step: Step) -> Result<About<'a>> {
        self.memory.about(step)
    }

    pub fn need(&self, workload: Workload) -> Result<Need> {
        Ok(Need::new(&self.about_memory(workload.step)?, workload.batch))
    }

    /// What a workload needs at least, and whether it fits if it needs no more; none where that is not found faster than what it needs.
    pub fn at_least(&self, workload: Workload) -> Result<Option<(f64, bool)>> {
        let least = self.about_memory(workload.step)?.at_least(workload.batch);
        let fits = |verdict: Option<Verdict>| verdict.is_some_and(|verdict| verdict.call == Call::Fits);
        Ok(least.map(|(need, verdict)| (need.value(), fits(verdict))))
    }

    /// None without a fingerprint of latency that knows such steps.
    pub fn time(&self, workload: Workload) -> Result<Option<Prediction>> {
        let latency = self.latency.as_ref().filter(|latency| latency.check_step(workload.step).is_ok());
        latency.map(|latency| Ok(latency.about(workload.step)?.at(workload.batch))).transpose()
    }
}

impl Need {
    pub fn new(about: &About, batch: u64) -> Self {
        let all = about.at(batch);
        Need { counted: about.need(batch).unwrap_or(all.value), verdict: about.verdict(batch), all }
    }

    pub fn fits(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.call == Call::Fits)
    }
}
