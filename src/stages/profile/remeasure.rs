//! What was measured while the machine was throttled or others used it is measured once more.
//!
//! At once, so that the sweep stays in its order; a machine that is still hot then keeps the mark, and the conditions tell why.

use super::planned::Planned;
use crate::device::{Device, Job, Measurement, Watch};
use crate::error::Result;
use crate::records::{Attempt, Conditions, Outcome};
use crate::units::Milliseconds;

/// The runs of one configuration: one, or two where the first was doubtful.
pub(super) struct Attempts {
    first: Measurement,
    second: Option<Measurement>,
}

impl Attempts {
    /// Measures, and measures again what is doubtful.
    ///
    /// # Errors
    /// When the device as a whole cannot measure.
    pub fn of(device: &dyn Device, job: &Job, watch: &Watch<'_>) -> Result<Self> {
        let first = device.measure(job, watch)?;
        let again = first.doubt().is_some() && !watch.cancelled();
        let second = again.then(|| device.measure(job, watch)).transpose()?;
        Ok(Attempts { first, second })
    }

    /// The second where nothing speaks against it; else the first, with its mark.
    pub fn kept(&self) -> &Measurement {
        self.better().unwrap_or(&self.first)
    }

    fn better(&self) -> Option<&Measurement> {
        self.second.as_ref().filter(|second| second.outcome() == Some(Outcome::Measured))
    }

    /// Seconds the device spent in steps.
    pub fn seconds(&self) -> f64 {
        self.first.seconds() + self.second.as_ref().map_or(0.0, Measurement::seconds)
    }

    /// What to tell of a measurement that was made twice.
    pub fn remark(&self) -> Option<String> {
        let (outcome, why) = self.first.doubt()?;
        self.second.as_ref()?;
        Some(match self.kept().doubt() {
            None => format!("{outcome} ({why}); measured once more, and kept from that"),
            Some(_) => format!("{outcome} ({why}); measured once more in vain, so its time is marked"),
        })
    }

    /// Each run with what the machine told around it.
    pub fn told(&self, planned: &Planned) -> Vec<Attempt> {
        let replaced = self.better().is_some();
        let first = attempt(planned, &self.first, !replaced);
        let second = self.second.as_ref().and_then(|second| attempt(planned, second, replaced));
        first.into_iter().chain(second).collect()
    }
}

/// Of runs that measured something; the others told nothing.
fn attempt(planned: &Planned, run: &Measurement, kept: bool) -> Option<Attempt> {
    let Measurement::Measured { latency, conditions, .. } = run else { return None };
    Some(Attempt {
        variant: planned.configuration.variant.clone(),
        workload: planned.configuration.workload,
        outcome: run.outcome()?,
        doubt: run.doubt().map(|(_, why)| why),
        kept,
        milliseconds: latency.as_ref().map(|latency| Milliseconds(latency.median)),
        conditions: Conditions::clone(conditions),
    })
}
