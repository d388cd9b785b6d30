//! The properties of the profiled networks, and how another network differs from them.

use super::architecture::ArchitectureFamilies;
use super::kinds::{OperationKind, kinds, operations};
use super::reason::OutOfDistribution;
use crate::fingerprint::rows::{MeasuredRow, Observations};
use perf4sight_network::{Network, Node, NodeId, Op, OperationCoverage};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A size is out of range when it exceeds the profiled range by this factor: pruning alone moves sizes by less.
const REACH: f64 = 1.25;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::fingerprint) struct ProfiledNetworks {
    operations: BTreeSet<String>,
    inputs: BTreeSet<String>,
    sizes: BTreeMap<String, [u64; 2]>,
    largest_batch: u64,
    families: ArchitectureFamilies,
}

/// Differences of a network from the profiled ones that make a prediction less certain.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::fingerprint) struct Extrapolation {
    /// The architecture that it shares with measured networks, if it is one of their levels.
    pub family: Option<String>,
    /// Whether it differs from all measured networks in more than operations that are not understood.
    pub is_unlike: bool,
    /// Operations of kinds that were never measured.
    pub operations: BTreeSet<NodeId>,
    /// Distance of its sizes from the measured range, as natural logarithms of factors.
    pub beyond: f64,
    /// The same for the elements of its images.
    pub images: f64,
    /// The amount by which operations that are not understood widen an interval, as a natural logarithm.
    pub ignorance: f64,
}

impl ProfiledNetworks {
    pub fn new(observations: &Observations) -> Self {
        let mut profiled = ProfiledNetworks::default();
        for network in networks(observations.rows) {
            profiled.add(network);
        }
        profiled.calibrate(observations.rows);
        networks(observations.taught).for_each(|network| profiled.operations.extend(operations(network)));
        profiled
    }

    /// Adds a few rows: their architectures and batch sizes count as profiled, their operations and sizes do not.
    pub fn calibrate(&mut self, rows: &[MeasuredRow]) {
        let batches = rows.iter().map(|row| row.record.workload.batch);
        self.largest_batch = batches.fold(self.largest_batch, u64::max);
        networks(rows).for_each(|network| self.families.add(network));
    }

    fn add(&mut self, network: &Network) {
        self.operations.extend(operations(network));
        self.inputs.insert(network.read());
        for (what, size) in sizes(network).into_iter().chain([(IMAGES, elements(network))]) {
            let [low, high] = self.sizes.entry(what.to_owned()).or_insert([size; 2]);
            (*low, *high) = ((*low).min(size), (*high).max(size));
        }
    }

    /// Whether nothing was profiled, so that nothing can differ from it.
    fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    pub fn largest_batch(&self) -> u64 {
        self.largest_batch
    }

    /// Differences of `network` from the profiled ones, at any batch size. For a level of a profiled network, only
    /// the operations that are not understood.
    pub fn out_of_distribution(&self, network: &Network) -> Vec<OutOfDistribution> {
        let coverage = network.coverage();
        let missed = OutOfDistribution::NotUnderstood {
            unknown: coverage.operations - coverage.supported(),
            operations: coverage.operations,
        };
        let missed = (!coverage.is_full()).then_some(missed);
        if self.is_empty() || self.families.family(network).is_some() {
            return missed.into_iter().collect();
        }
        let shape = network.read();
        let profiled = || self.inputs.iter().cloned().collect();
        let input = (!self.inputs.contains(&shape)).then(|| OutOfDistribution::Input { profiled: profiled(), shape });
        let unseen = operations(network).into_iter().filter(|name| !self.operations.contains(name));
        let sizes = self.sizes_outside_profile(network).map(|(what, value, profiled)| OutOfDistribution::Size {
            what,
            value,
            profiled,
        });
        missed.into_iter().chain(input).chain(unseen.map(OutOfDistribution::Operation)).chain(sizes).collect()
    }

    /// Sizes outside the profiled range, with that range.
    fn sizes_outside_profile(&self, network: &Network) -> impl Iterator<Item = (String, u64, [u64; 2])> {
        sizes(network).into_iter().filter_map(|(what, value)| {
            let profiled = *self.sizes.get(what)?;
            let [low, high] = profiled.map(|bound| bound as f64);
            let beyond = value as f64 > high * REACH || value as f64 * REACH < low;
            beyond.then(|| (what.to_owned(), value, profiled))
        })
    }

    pub fn extrapolation(&self, network: &Network) -> Extrapolation {
        let far = |value: u64, [low, high]: [u64; 2]| {
            let [value, low, high] = [value, low, high].map(|size| size.max(1) as f64);
            (value / high).max(low / value).max(1.0).ln()
        };
        let unseen: BTreeSet<OperationKind> =
            kinds(network).filter(|kind| kind.names().iter().any(|name| !self.operations.contains(name))).collect();
        let is_new = |node: &Node| match self.is_empty() {
            // The prior covers all operations but those known by name only.
            true => matches!(node.op, Op::Unknown(_)),
            false => OperationKind::new(network, node).is_some_and(|kind| unseen.contains(&kind)),
        };
        let differences = self.out_of_distribution(network);
        Extrapolation {
            is_unlike: differences.iter().any(|one| !matches!(one, OutOfDistribution::NotUnderstood { .. })),
            family: self.families.family(network).map(str::to_owned),
            operations: network.iter().filter(|(_, node)| is_new(node)).map(|(id, _)| id).collect(),
            beyond: self
                .sizes_outside_profile(network)
                .map(|(_, value, profiled)| far(value, profiled))
                .fold(0.0, f64::max),
            images: self.sizes.get(IMAGES).map_or(0.0, |profiled| far(elements(network), *profiled)),
            ignorance: ignorance(&network.coverage()),
        }
    }

    /// Reports a batch size above the profiled ones.
    pub fn batch_out_of_distribution(&self, batch: u64) -> Option<OutOfDistribution> {
        let largest = self.largest_batch;
        (batch > largest && !self.is_empty()).then_some(OutOfDistribution::Batch { batch, largest })
    }
}

/// Operations that are not understood widen an interval as if each could cost twice the average.
fn ignorance(coverage: &OperationCoverage) -> f64 {
    let missed = (coverage.operations - coverage.supported()) as f64 / coverage.operations.max(1) as f64;
    (2.0 * missed).ln_1p()
}

fn networks(rows: &[MeasuredRow]) -> impl Iterator<Item = &Network> {
    let mut variants = BTreeSet::new();
    rows.iter().filter(move |row| variants.insert(&row.record.variant)).map(|row| row.network.as_ref())
}

/// Elements of one sample of all inputs.
fn elements(network: &Network) -> u64 {
    network.inputs().map(|(_, _, input)| input.shape.elements()).sum()
}

/// The size whose difference is reported as another input.
const IMAGES: &str = "elements of one input";

fn sizes(network: &Network) -> [(&'static str, u64); 4] {
    let channels = network.nodes().iter().map(|node| node.shape.channels() as u64).max();
    [
        ("parameters", network.parameters()),
        ("multiply-accumulates of one sample", network.macs()),
        ("activations of one sample", network.activations()),
        ("channels at most", channels.unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::zoo::{Dataset, build};

    #[test]
    fn images_of_another_size_are_a_reason() {
        let mut profiled = ProfiledNetworks::default();
        profiled.add(&build("resnet18", Dataset::Imagenet).unwrap());
        assert_eq!(profiled.out_of_distribution(&build("resnet18", Dataset::Imagenet).unwrap()), []);
        let small = profiled.out_of_distribution(&build("resnet18", Dataset::Cifar10).unwrap());
        assert_eq!(small[0].to_string(), "an input of 3x32x32, profiled 3x224x224");
    }
}
