//! What fingerprints say of one workload of one network: what it needs, whether that fits, how long it takes.

use crate::error::Result;
use crate::fingerprint::{About, Acquainted, Call, Fingerprints, Predicted, Prediction, Verdict};
use crate::network::Network;
use crate::workload::{Checkpoint, Precision, Step, Trainable, Workload};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What answers, and what about.
pub(super) struct Judge<'a> {
    pub network: &'a Network,
    pub fingerprints: &'a Fingerprints,
    pub memory: Acquainted<'a>,
    /// None without a fingerprint of latency.
    pub latency: Option<Acquainted<'a>>,
    /// Which steps the network can take, as far as that was asked: it goes by these alone, and looks for places to be cut at each time.
    pub possible: Mutex<BTreeMap<(Trainable, Checkpoint, Precision), bool>>,
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
    /// Refuses what a step of this network cannot be, or a fingerprint knows nothing of.
    ///
    /// # Errors
    /// With the reason.
    pub fn check(&self, workload: Workload) -> Result<()> {
        workload.check()?;
        self.network.check_step(workload.step)?;
        self.check_known(workload.step)
    }

    /// The same, of one of many.
    pub fn is_possible(&self, workload: Workload) -> bool {
        let step = workload.step;
        let mut known = self.possible.lock().unwrap_or_else(PoisonError::into_inner);
        let of_network = known
            .entry((step.trainable, step.checkpoint, step.precision))
            .or_insert_with(|| self.network.check_step(step).is_ok());
        *of_network && workload.check().and_then(|()| self.check_known(step)).is_ok()
    }

    fn check_known(&self, step: Step) -> Result<()> {
        self.fingerprints.iter().try_for_each(|fingerprint| fingerprint.check_step(step))
    }

    /// What such steps need, at any batch size.
    pub fn about_memory(&self, step: Step) -> Result<About<'a>> {
        self.memory.about(step)
    }

    pub fn need(&self, workload: Workload) -> Result<Need> {
        Ok(Need::of(&self.about_memory(workload.step)?, workload.batch))
    }

    /// None without a fingerprint of latency.
    pub fn time(&self, workload: Workload) -> Result<Option<Prediction>> {
        let latency = self.latency.as_ref();
        latency.map(|latency| Ok(latency.about(workload.step)?.at(workload.batch))).transpose()
    }
}

impl Need {
    pub fn of(about: &About, batch: u64) -> Self {
        let all = about.at(batch);
        Need { counted: about.need(batch).unwrap_or(all.value), verdict: about.verdict(batch), all }
    }

    /// Whether that is called to fit.
    pub fn fits(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.call == Call::Fits)
    }
}
