//! The state of a machine before and after a measurement: clocks, temperatures, throttling, other programs.
//!
//! Two rules use it. They report nothing where the machine does not provide the values.
//!
//! **Throttled** ([`Conditions::throttling`]): a processor's own counter of thermal throttling grew; or the kernel's
//! thermal management (a cooling device that limits clocks) or a GPU's driver lowered clocks; or at the end, under
//! load, a clock was below the one that is guaranteed under any load.
//!
//! **Disturbed** ([`Conditions::disturbance`]): a hypervisor gave more than a twentieth of the processor time that was
//! wanted here, and a tenth of a second at least, to other machines, or other programs used the device before or after.

use perf4sight_base::units::Percent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A guaranteed clock counts as kept above this share of it: clocks are read as averages over milliseconds.
const KEPT: f64 = 0.95;

/// Share of the wanted processor time that a hypervisor may give to others, the same as for single steps.
const TOLERATED_THEFT: f64 = 0.05;
/// Stolen time below this many seconds is chance: the kernel counts in hundredths.
const LEAST_THEFT: f64 = 0.1;

/// A machine at one moment; unavailable values are missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineState {
    /// Clocks in MHz: `cpu` (the fastest core's), `gpu`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks: BTreeMap<String, f64>,
    /// Guaranteed clocks in MHz, which should not be lower under load: a processor's base clock.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub promised: BTreeMap<String, f64>,
    /// Temperatures in degrees Celsius, by zone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub temperatures: BTreeMap<String, f64>,
    /// Power in watts, by consumer: `gpu`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub powers: BTreeMap<String, f64>,
    /// Utilization of accelerators in percent, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, f64>,
    /// Reasons for low clocks, in the words of the kernel or the driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// Thermal throttling events of cores and packages since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttles: Option<u64>,
    /// Seconds of processor time used since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Seconds since boot that processors had work while a hypervisor ran other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Other programs that use the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// The state before and after a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Before the steps.
    pub start: MachineState,
    /// Right after the last step, with clocks still under load.
    pub end: MachineState,
}

impl Conditions {
    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// Extends this period to the end of the next one.
    pub fn extend(&mut self, next: &Conditions) {
        if self.is_empty() {
            self.start = next.start.clone();
        }
        self.end = next.end.clone();
    }

    /// The reason for throttling; none where the machine reports none.
    pub fn throttling(&self) -> Option<String> {
        let Conditions { start, end } = self;
        let throttles = end.throttles.zip(start.throttles).map(|(end, start)| end.saturating_sub(start));
        if let Some(times @ 1..) = throttles {
            return Some(format!("the processor slowed down for heat {times} times"));
        }
        if let Some(holder) = end.held_by.iter().chain(&start.held_by).next() {
            return Some(format!("clocks were held down by {holder}"));
        }
        end.promised.iter().find_map(|(name, promised)| {
            let clock = end.clocks.get(name).filter(|clock| **clock < KEPT * promised)?;
            Some(format!("the {name} ran at {clock:.0} MHz, below the {promised:.0} MHz it promises"))
        })
    }

    /// Another user of the device; none where the machine reports none.
    pub fn disturbance(&self) -> Option<String> {
        if let Some(other) = self.start.others.iter().chain(&self.end.others).next() {
            return Some(format!("{other} used the device too"));
        }
        self.stolen_time().filter(|seconds| *seconds >= LEAST_THEFT)?;
        let share = self.stolen_share().filter(|share| *share > TOLERATED_THEFT)?;
        Some(format!("the hypervisor gave {} of the processor time to other machines", Percent(100.0 * share)))
    }

    /// The share of the wanted processor time that a hypervisor gave to others.
    pub fn stolen_share(&self) -> Option<f64> {
        let stolen = self.stolen_time()?;
        let wanted = stolen + since(self.end.busy, self.start.busy)?;
        (wanted > 0.0).then(|| stolen / wanted)
    }

    fn stolen_time(&self) -> Option<f64> {
        since(self.end.stolen, self.start.stolen)
    }
}

/// Prints clocks, the highest temperature and the reasons for low clocks.
impl fmt::Display for MachineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clocks = self.clocks.iter().map(|(name, megahertz)| format!("{name} {megahertz:.0} MHz"));
        let hottest = self.temperatures.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let hottest = hottest.map(|(zone, degrees)| format!("{zone} {degrees:.1} °C"));
        let held = self.held_by.iter().map(|holder| format!("held down by {holder}"));
        let parts: Vec<String> = clocks.chain(hottest).chain(held).collect();
        f.write_str(&if parts.is_empty() {
            "the machine reports no clocks or temperatures".to_owned()
        } else {
            parts.join(", ")
        })
    }
}

/// The growth of a counter; none where it decreased, because the machine is another one.
fn since(end: Option<f64>, start: Option<f64>) -> Option<f64> {
    Some(end? - start?).filter(|grown| *grown >= 0.0)
}

#[cfg(test)]
mod tests;
