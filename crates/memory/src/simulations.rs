//! The steps of one network: those that are alike but for their samples share what is known of them.

use super::ground::Grounds;
use super::{Schedules, Simulation};
use perf4sight_base::remembered::Remembered;
use perf4sight_network::Network;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Accumulate, Step};
use std::sync::Arc;

/// From the second on passes are alike, so that steps of more leave the same behind.
const PASSES: Accumulate = Accumulate::new(2).expect("two are some");

/// All steps of one network on one device.
#[derive(Debug)]
pub struct Simulations<'a> {
    network: &'a Network,
    platform: &'a Platform,
    grounds: Arc<Grounds<'a>>,
    known: Remembered<Step, Schedules>,
}

impl<'a> Simulations<'a> {
    /// None of which is known yet.
    pub fn new(network: &'a Network, platform: &'a Platform) -> Self {
        Simulations {
            network,
            platform,
            grounds: Arc::new(Grounds::new(network, platform)),
            known: Remembered::default(),
        }
    }

    /// One of them.
    pub fn of(&self, step: Step) -> Simulation<'a> {
        let alike = Step { accumulate: step.accumulate.min(PASSES), ..step };
        let schedules = self.known.of(alike, Schedules::default);
        let grounds = Arc::clone(&self.grounds);
        Simulation { network: self.network, platform: self.platform, step, grounds, schedules }
    }
}
