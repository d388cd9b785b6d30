//! The memory limit of steps: either known, or learned from failures.

use super::boundary::MemoryBoundary;
use super::curve::UsageCurve;
use super::digest::{ProfiledStep, ProfiledVariant, trials};
use super::error_distribution::{ErrorDistribution, ErrorDistributions};
use crate::fingerprint::prediction::{CountedMemory, MemoryLimit};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_platform::{Platform, TensorMemory};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MemoryEdge {
    /// A known limit; only the need of a step is uncertain.
    Known(MemoryLimit),
    /// A limit learned from steps that failed and steps that fitted. Memory that is shared with other programs or
    /// partly swapped out has no exact end.
    Taught(MemoryBoundary),
}

/// An outcome less likely than this under a limit contradicts it: then something else decides.
const CONTRADICTION: f64 = 0.001;

impl MemoryEdge {
    /// From the steps tried on a device of so many MiB; none where neither they nor the device show a limit.
    ///
    /// # Errors
    /// The decision tree cannot be fitted.
    pub fn find(
        known: &[&ProfiledVariant],
        curve: &UsageCurve,
        doubts: &ErrorDistributions,
        device: (&Platform, Option<f64>),
    ) -> Result<Option<Self>> {
        let (platform, capacity) = device;
        let limit = capacity.and_then(|mib| enforced_limit(mib, platform.memory));
        if let Some(limit) = limit.filter(|limit| !contradicts_limit(limit, known, curve, doubts)) {
            return Ok(Some(MemoryEdge::Known(limit)));
        }
        let trials = trials(known);
        let assumed = || Some(MemoryBoundary::without_failures(capacity? - curve.large, &trials));
        Ok(MemoryBoundary::fit(&trials)?.or_else(assumed).map(MemoryEdge::Taught))
    }

    /// Whether a fit can give these values.
    pub fn is_valid(&self) -> bool {
        match self {
            MemoryEdge::Known(limit) => limit.bytes.0 > 0,
            MemoryEdge::Taught(boundary) => boundary.is_valid(),
        }
    }
}

/// A limit that is enforced exactly. The operating system shares out main memory, so there the worker refuses tensors
/// beyond its configured limit, which is the capacity of its rows. Memory that a board shares with other programs has
/// no enforced limit.
fn enforced_limit(mib: f64, memory: TensorMemory) -> Option<MemoryLimit> {
    let counts = match memory {
        TensorMemory::Host => CountedMemory::Tensors,
        TensorMemory::Dedicated => CountedMemory::All,
        TensorMemory::Unified => return None,
    };
    Some(MemoryLimit { bytes: Bytes::from_mib(mib), counts })
}

fn contradicts_limit(
    limit: &MemoryLimit,
    known: &[&ProfiledVariant],
    curve: &UsageCurve,
    doubts: &ErrorDistributions,
) -> bool {
    let surprising = |(part, step): (&ProfiledVariant, &ProfiledStep)| {
        let need = match limit.counts {
            CountedMemory::Tensors => step.simulated.reserved,
            CountedMemory::All => part.query(step).curve(curve),
        };
        let fits = doubts.about(limit.counts).fit_probability(need, limit.bytes.mib());
        if step.used.is_some() { fits < CONTRADICTION } else { fits > 1.0 - CONTRADICTION }
    };
    known.iter().flat_map(|part| part.steps.iter().map(move |step| (*part, step))).any(surprising)
}

impl ErrorDistributions {
    pub fn about(&self, counts: CountedMemory) -> ErrorDistribution {
        match counts {
            CountedMemory::Tensors => self.tensors,
            CountedMemory::All => self.all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network whose steps were simulated exactly and took 30 MiB besides their tensors; beyond `fitted` MiB they
    /// failed.
    fn network(fitted: f64) -> ProfiledVariant {
        let step = |batch: u32| {
            let tensors = 100.0 * f64::from(batch);
            let read = if tensors <= fitted { format!("{tensors} {}", tensors + 30.0) } else { "- -".to_owned() };
            ProfiledStep::try_from(format!("{batch} {tensors} {tensors} {read}")).unwrap()
        };
        let steps = (1..=12).map(step).collect();
        let network = "net".to_owned();
        ProfiledVariant {
            network,
            level: 0,
            architecture: String::new(),
            parameters: 1,
            kernels: None,
            filled: false,
            steps,
        }
    }

    fn edge(fitted: f64, capacity: f64, device: &str) -> MemoryEdge {
        let (known, platform) = ([network(fitted)], Platform::for_name(device).unwrap());
        let curve = UsageCurve { large: 30.0, small: 30.0, floor: None, cap: None };
        let doubts = ErrorDistributions::fit(&known, platform.allocator);
        MemoryEdge::find(&[&known[0]], &curve, &doubts, (&platform, Some(capacity))).unwrap().unwrap()
    }

    #[test]
    fn a_worker_keeps_its_limit_whether_or_not_something_failed() {
        let known = MemoryEdge::Known(MemoryLimit { bytes: Bytes(1000 << 20), counts: CountedMemory::Tensors });
        assert_eq!(edge(1000.0, 1000.0, "cpu"), known);
        let above = MemoryEdge::Known(MemoryLimit { bytes: Bytes(2000 << 20), counts: CountedMemory::Tensors });
        assert_eq!(edge(1200.0, 2000.0, "cpu"), above);
    }

    #[test]
    fn where_failures_contradict_the_limit_or_nobody_keeps_one_they_teach_it() {
        for (fitted, device) in [(600.0, "cpu"), (1000.0, "tx2")] {
            let MemoryEdge::Taught(boundary) = edge(fitted, 1050.0, device) else {
                panic!("the limit of {device} is taken for known")
            };
            // Halfway between the largest that fitted and the smallest that did not.
            assert_eq!(boundary.likely_demand(), fitted + 50.0);
        }
    }
}
