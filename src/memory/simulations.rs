//! The steps of one network: those that are alike but for their samples share what is known of them.

use super::{Schedules, Simulation};
use crate::network::Network;
use crate::platform::Platform;
use crate::workload::{Accumulate, Step};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// From the second on passes are alike, so that steps of more leave the same behind.
const PASSES: Accumulate = Accumulate::new(2).expect("two are some");

/// All steps of one network on one device.
#[derive(Debug)]
pub struct Simulations<'a> {
    network: &'a Network,
    platform: &'a Platform,
    known: Mutex<BTreeMap<Step, Arc<Schedules>>>,
}

impl<'a> Simulations<'a> {
    /// None of which is known yet.
    pub fn new(network: &'a Network, platform: &'a Platform) -> Self {
        Simulations { network, platform, known: Mutex::default() }
    }

    /// One of them.
    pub fn of(&self, step: Step) -> Simulation<'a> {
        let alike = Step { accumulate: step.accumulate.min(PASSES), ..step };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let schedules = Arc::clone(known.entry(alike).or_default());
        Simulation { network: self.network, platform: self.platform, step, schedules }
    }
}
