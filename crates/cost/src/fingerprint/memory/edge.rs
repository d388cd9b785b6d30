//! The memory limit of steps: either known, or learned from failures.

use super::boundary::Boundary;
use super::curve::Curve;
use super::digest::{Digested, Known, trials};
use super::doubt::{Doubt, Doubts};
use crate::fingerprint::prediction::{Counts, MemoryLimit};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_platform::{Memory, Platform};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Edge {
    /// A known limit; only the need of a step is uncertain.
    Known(MemoryLimit),
    /// A limit learned from steps that failed and steps that fitted. Memory that is shared with other programs or
    /// partly swapped out has no exact end.
    Taught(Boundary),
}

/// An outcome less likely than this under a limit contradicts it: then something else decides.
const CONTRADICTION: f64 = 0.001;

impl Edge {
    /// From the steps tried on a device of so many MiB; none where neither they nor the device show a limit.
    ///
    /// # Errors
    /// The decision tree cannot be fitted.
    pub fn find(
        known: &[&Known],
        curve: &Curve,
        doubts: &Doubts,
        device: (&Platform, Option<f64>),
    ) -> Result<Option<Self>> {
        let (platform, capacity) = device;
        let limit = capacity.and_then(|mib| enforced(mib, platform.memory));
        if let Some(limit) = limit.filter(|limit| !contradicted(limit, known, curve, doubts)) {
            return Ok(Some(Edge::Known(limit)));
        }
        let trials = trials(known);
        let assumed = || Some(Boundary::assumed(capacity? - curve.large, &trials));
        Ok(Boundary::fit(&trials)?.or_else(assumed).map(Edge::Taught))
    }

    /// Whether a fit can give these values.
    pub fn is_sound(&self) -> bool {
        match self {
            Edge::Known(limit) => limit.bytes.0 > 0,
            Edge::Taught(boundary) => boundary.is_sound(),
        }
    }
}

/// A limit that is enforced exactly. The operating system shares out main memory, so there the worker refuses tensors
/// beyond its configured limit, which is the capacity of its rows. Memory that a board shares with other programs has
/// no enforced limit.
fn enforced(mib: f64, memory: Memory) -> Option<MemoryLimit> {
    let counts = match memory {
        Memory::Host => Counts::Tensors,
        Memory::Dedicated => Counts::All,
        Memory::Unified => return None,
    };
    Some(MemoryLimit { bytes: Bytes::from_mib(mib), counts })
}

fn contradicted(limit: &MemoryLimit, known: &[&Known], curve: &Curve, doubts: &Doubts) -> bool {
    let surprising = |(part, step): (&Known, &Digested)| {
        let need = match limit.counts {
            Counts::Tensors => step.simulated.reserved,
            Counts::All => part.query(step).curve(curve),
        };
        let fits = doubts.about(limit.counts).fits(need, limit.bytes.mib());
        if step.used.is_some() { fits < CONTRADICTION } else { fits > 1.0 - CONTRADICTION }
    };
    known.iter().flat_map(|part| part.steps.iter().map(move |step| (*part, step))).any(surprising)
}

impl Doubts {
    pub fn about(&self, counts: Counts) -> Doubt {
        match counts {
            Counts::Tensors => self.tensors,
            Counts::All => self.all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network whose steps were simulated exactly and took 30 MiB besides their tensors; beyond `fitted` MiB they
    /// failed.
    fn network(fitted: f64) -> Known {
        let step = |batch: u32| {
            let tensors = 100.0 * f64::from(batch);
            let read = if tensors <= fitted { format!("{tensors} {}", tensors + 30.0) } else { "- -".to_owned() };
            Digested::try_from(format!("{batch} {tensors} {tensors} {read}")).unwrap()
        };
        let steps = (1..=12).map(step).collect();
        let network = "net".to_owned();
        Known { network, level: 0, architecture: String::new(), parameters: 1, kernels: None, filled: false, steps }
    }

    fn edge(fitted: f64, capacity: f64, device: &str) -> Edge {
        let (known, platform) = ([network(fitted)], Platform::named(device).unwrap());
        let curve = Curve { large: 30.0, small: 30.0, floor: None, cap: None };
        let doubts = Doubts::fit(&known, platform.allocator);
        Edge::find(&[&known[0]], &curve, &doubts, (&platform, Some(capacity))).unwrap().unwrap()
    }

    #[test]
    fn a_worker_keeps_its_limit_whether_or_not_something_failed() {
        let known = Edge::Known(MemoryLimit { bytes: Bytes(1000 << 20), counts: Counts::Tensors });
        assert_eq!(edge(1000.0, 1000.0, "cpu"), known);
        let above = Edge::Known(MemoryLimit { bytes: Bytes(2000 << 20), counts: Counts::Tensors });
        assert_eq!(edge(1200.0, 2000.0, "cpu"), above);
    }

    #[test]
    fn where_failures_contradict_the_limit_or_nobody_keeps_one_they_teach_it() {
        for (fitted, device) in [(600.0, "cpu"), (1000.0, "tx2")] {
            let Edge::Taught(boundary) = edge(fitted, 1050.0, device) else {
                panic!("the limit of {device} is taken for known")
            };
            // Halfway between the largest that fitted and the smallest that did not.
            assert_eq!(boundary.likely(), fitted + 50.0);
        }
    }
}
