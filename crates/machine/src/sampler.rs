//! Samples a machine's state periodically while something runs: clocks, power, GPU utilization.

use super::{MachineState, gpu, linux};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The sampling interval; a sample takes about a millisecond.
const LOOK: Duration = Duration::from_secs(1);

/// Samples this machine until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Sender<()>,
    looking: JoinHandle<SampledConditions>,
}

/// The samples' summary, by name; unavailable values are missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledConditions {
    /// Mean utilization of accelerators in percent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, f64>,
    /// Mean clocks in MHz.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks: BTreeMap<String, f64>,
    /// Mean watts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub powers: BTreeMap<String, f64>,
    /// Highest temperatures in degrees Celsius.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub temperatures: BTreeMap<String, f64>,
}

impl Sampler {
    /// Starts sampling; `bus` is the address of a GPU to sample too.
    pub fn start(bus: Option<String>) -> Self {
        let (stop, stopped) = channel();
        let looking = thread::spawn(move || {
            let mut moments = Vec::new();
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let mut now = linux::moment(Path::new("/"));
                bus.iter().for_each(|bus| gpu::add(bus, &mut now));
                moments.push(now);
            }
            SampledConditions::from_moments(&moments)
        });
        Sampler { stop, looking }
    }

    /// Stops, and returns the summary.
    pub fn stop(self) -> SampledConditions {
        drop(self.stop);
        self.looking.join().unwrap_or_default()
    }
}

impl SampledConditions {
    fn from_moments(moments: &[MachineState]) -> Self {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let highest = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
        SampledConditions {
            uses: reduce_by_name(moments, |moment| &moment.uses, mean),
            clocks: reduce_by_name(moments, |moment| &moment.clocks, mean),
            powers: reduce_by_name(moments, |moment| &moment.powers, mean),
            temperatures: reduce_by_name(moments, |moment| &moment.temperatures, highest),
        }
    }

    /// Whether the machine reported anything.
    pub fn is_empty(&self) -> bool {
        *self == SampledConditions::default()
    }
}

/// Reduces the values of each name to one number, over the moments that have it.
fn reduce_by_name(
    moments: &[MachineState],
    of: impl Fn(&MachineState) -> &BTreeMap<String, f64>,
    one: impl Fn(&[f64]) -> f64,
) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in moments.iter().flat_map(of) {
        all.entry(name.clone()).or_default().push(*value);
    }
    all.into_iter().map(|(name, values)| (name, one(&values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_power_are_means_and_temperatures_the_highest() {
        let moment = |clock: f64, degrees: f64| MachineState {
            clocks: [("gpu".to_owned(), clock)].into(),
            powers: [("gpu".to_owned(), clock / 10.0)].into(),
            temperatures: [("gpu".to_owned(), degrees)].into(),
            ..MachineState::default()
        };
        let seen =
            SampledConditions::from_moments(&[moment(1000.0, 50.0), moment(1500.0, 60.0), MachineState::default()]);
        assert_eq!((seen.clocks["gpu"], seen.powers["gpu"], seen.temperatures["gpu"]), (1250.0, 125.0, 60.0));
        assert!(seen.uses.is_empty() && !seen.is_empty() && SampledConditions::from_moments(&[]).is_empty());
    }

    #[test]
    fn what_nobody_waited_for_was_not_seen() {
        assert!(Sampler::start(None).stop().is_empty());
    }
}
