//! What a machine reported of itself before and after a measurement: clocks, temperatures, what held it back, who else used it.
//!
//! Two rules follow from it, and what they need a machine may not tell: then they find nothing.
//!
//! **Throttled** ([`Conditions::throttling`]): a processor's own counter of thermal throttling grew; or the kernel's thermal
//! management (a cooling device that limits clocks) or a GPU's driver held clocks down; or a clock was in the end, under load, below
//! the one that is promised whatever the load.
//!
//! **Disturbed** ([`Conditions::disturbance`]): a hypervisor gave more than a twentieth of the processor time that was wanted
//! here, and a tenth of a second at least, to other machines, or other programs were using the device at either end.

use perf4sight_base::units::Percent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Share of a promised clock that counts as kept: clocks are read as averages over milliseconds.
const KEPT: f64 = 0.95;

/// Share of the processor time wanted that a hypervisor may give to others, as for single steps.
const TOLERATED_THEFT: f64 = 0.05;
/// Seconds below which a share of them is chance: the kernel counts in hundredths.
const LEAST_THEFT: f64 = 0.1;

/// A machine at one moment; what it does not tell is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Clocks in MHz: `cpu` (the fastest core's), `gpu`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks: BTreeMap<String, f64>,
    /// The clocks in MHz below which those under load should not fall: of a processor its base clock.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub promised: BTreeMap<String, f64>,
    /// Temperatures in degrees Celsius by the names of their zones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub temperatures: BTreeMap<String, f64>,
    /// Power in watts, by what draws it: `gpu`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub powers: BTreeMap<String, f64>,
    /// Percent of the time that accelerators were at work, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, f64>,
    /// What holds clocks down, in the words of kernel or driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// How often cores and packages slowed down for heat since the machine started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttles: Option<u64>,
    /// Seconds that processors worked since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Seconds since then that they had work but a hypervisor ran other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Other programs that use the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// Before and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Before there was anything to do.
    pub start: Moment,
    /// Right after the last step, clocks still being those under load.
    pub end: Moment,
}

impl Conditions {
    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// Reaches to the end of what followed.
    pub fn extend(&mut self, next: &Conditions) {
        if self.is_empty() {
            self.start = next.start.clone();
        }
        self.end = next.end.clone();
    }

    /// What kept the machine from its speed; none where it reports nothing that did.
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

    /// Who else used the device; none where the machine reports nobody.
    pub fn disturbance(&self) -> Option<String> {
        if let Some(other) = self.start.others.iter().chain(&self.end.others).next() {
            return Some(format!("{other} used the device too"));
        }
        self.stolen().filter(|seconds| *seconds >= LEAST_THEFT)?;
        let share = self.stolen_share().filter(|share| *share > TOLERATED_THEFT)?;
        Some(format!("the hypervisor gave {} of the processor time to other machines", Percent(100.0 * share)))
    }

    /// The share of the processor time wanted here that a hypervisor gave to others.
    pub fn stolen_share(&self) -> Option<f64> {
        let stolen = self.stolen()?;
        let wanted = stolen + since(self.end.busy, self.start.busy)?;
        (wanted > 0.0).then(|| stolen / wanted)
    }

    fn stolen(&self) -> Option<f64> {
        since(self.end.stolen, self.start.stolen)
    }
}

/// Clocks, the hottest temperature, what holds clocks down.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clocks = self.clocks.iter().map(|(name, megahertz)| format!("{name} {megahertz:.0} MHz"));
        let hottest = self.temperatures.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let hottest = hottest.map(|(zone, degrees)| format!("{zone} {degrees:.1} °C"));
        let held = self.held_by.iter().map(|holder| format!("held down by {holder}"));
        let told: Vec<String> = clocks.chain(hottest).chain(held).collect();
        f.write_str(&if told.is_empty() {
            "the machine reports no clocks or temperatures".to_owned()
        } else {
            told.join(", ")
        })
    }
}

/// What a counter grew by; none where it was another machine's.
fn since(end: Option<f64>, start: Option<f64>) -> Option<f64> {
    Some(end? - start?).filter(|grown| *grown >= 0.0)
}

#[cfg(test)]
mod tests;
