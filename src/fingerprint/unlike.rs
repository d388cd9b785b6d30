//! What sets a network apart from everything that was profiled: kinds of operations, shapes, sizes, batch sizes.

use super::observations::Observations;
use super::rows::Row;
use crate::error::{Error, Result};
use crate::network::{Conv, Network, Node, Op, Window};
use crate::units::{Percent, grouped};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A size is out of range when it is this many times beyond what was profiled: pruning alone moves sizes by less.
const REACH: f64 = 1.25;

/// Networks of whose operations fewer than this share are understood get no prediction.
pub const LEAST_COVERAGE: f64 = 0.8;

/// One reason to trust a prediction less.
#[derive(Debug, Clone, PartialEq)]
pub enum Unlike {
    /// A kind of operation, kernel, stride or grouping that no profiled network has.
    Operation(String),
    /// An input of another shape, such as smaller images, than any profiled.
    Input {
        /// This network's.
        shape: String,
        /// Those profiled.
        profiled: Vec<String>,
    },
    /// A size beyond what was profiled.
    Size {
        /// Of what.
        what: String,
        /// This network's.
        value: u64,
        /// The smallest and the largest profiled.
        profiled: [u64; 2],
    },
    /// A larger batch than any profiled.
    Batch {
        /// The one asked for.
        batch: u64,
        /// The largest profiled.
        largest: u64,
    },
    /// Operations that are not understood and therefore not counted.
    NotUnderstood {
        /// How many.
        unknown: usize,
        /// Of how many.
        operations: usize,
    },
}

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unlike::Operation(what) => write!(f, "no profiled network has {what}"),
            Unlike::Input { shape, profiled } => {
                write!(f, "an input of {shape}, profiled {}", profiled.join(", "))
            }
            Unlike::Size { what, value, profiled: [low, high] } => {
                write!(f, "{what}: {}, profiled {} to {}", grouped(*value), grouped(*low), grouped(*high))
            }
            Unlike::Batch { batch, largest } => {
                write!(f, "batch size {} is beyond the {} profiled", grouped(*batch), grouped(*largest))
            }
            Unlike::NotUnderstood { unknown, operations } => {
                write!(f, "{unknown} of {operations} operations are not understood")
            }
        }
    }
}

/// What the profiled networks were made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profiled {
    operations: BTreeSet<String>,
    inputs: BTreeSet<String>,
    sizes: BTreeMap<String, [u64; 2]>,
    largest_batch: u64,
}

impl Profiled {
    pub fn new(observations: &Observations) -> Self {
        let mut profiled = Profiled::default();
        profiled.extend(observations.rows);
        profiled
    }

    /// With the networks of more rows.
    pub fn extend(&mut self, rows: &[Row]) {
        let mut variants = BTreeSet::new();
        for row in rows {
            self.largest_batch = self.largest_batch.max(row.record.workload.batch);
            if variants.insert(&row.record.variant) {
                self.add(&row.network);
            }
        }
    }

    fn add(&mut self, network: &Network) {
        self.operations.extend(operations(network));
        self.inputs.insert(network.input_shape().to_string());
        for (what, size) in sizes(network) {
            let [low, high] = self.sizes.entry(what.to_owned()).or_insert([size; 2]);
            (*low, *high) = ((*low).min(size), (*high).max(size));
        }
    }

    /// The largest batch size profiled.
    pub fn largest_batch(&self) -> u64 {
        self.largest_batch
    }

    /// What sets `network` apart, whatever the batch size.
    pub fn unlike(&self, network: &Network) -> Vec<Unlike> {
        let unseen = operations(network).into_iter().filter(|name| !self.operations.contains(name));
        let sizes = sizes(network).into_iter().filter_map(|(what, value)| {
            let profiled = *self.sizes.get(what)?;
            let [low, high] = profiled.map(|bound| bound as f64);
            let beyond = value as f64 > high * REACH || value as f64 * REACH < low;
            beyond.then(|| Unlike::Size { what: what.to_owned(), value, profiled })
        });
        let shape = network.input_shape().to_string();
        let profiled = || self.inputs.iter().cloned().collect();
        let input = (!self.inputs.contains(&shape)).then(|| Unlike::Input { profiled: profiled(), shape });
        let coverage = network.coverage();
        let missed =
            Unlike::NotUnderstood { unknown: coverage.operations - coverage.known(), operations: coverage.operations };
        let missed = (!coverage.is_full()).then_some(missed);
        missed.into_iter().chain(input).chain(unseen.map(Unlike::Operation)).chain(sizes).collect()
    }

    /// What sets a batch size apart.
    pub fn unlike_batch(&self, batch: u64) -> Option<Unlike> {
        let largest = self.largest_batch;
        (batch > largest).then_some(Unlike::Batch { batch, largest })
    }
}

/// Numbers in all results and weights of a network for a single sample, 1 TiB of them: no device holds more, so shapes that say so are
/// wrong.
const MOST_ELEMENTS: u64 = 1 << 38;

/// Refuses a network of which too little is understood: less than [`LEAST_COVERAGE`] of its operations, or shapes no device holds.
///
/// # Errors
/// Such a network, with the operations that are not understood, or the largest of its results.
pub fn check_understood(network: &Network) -> Result<()> {
    check_sizes(network)?;
    let coverage = network.coverage();
    let share = coverage.known() as f64 / coverage.operations.max(1) as f64;
    if share >= LEAST_COVERAGE {
        return Ok(());
    }
    let names: Vec<&str> = coverage.unknown.keys().map(String::as_str).collect();
    let problem = format!(
        "only {} of the {} operations of {} are understood; unknown: {}",
        coverage.known(),
        coverage.operations,
        network.name(),
        names.join(", ")
    );
    Err(Error::input(problem)
        .expected(format!("at least {} of them", Percent(100.0 * LEAST_COVERAGE)))
        .help("export the network with standard ONNX operations"))
}

fn check_sizes(network: &Network) -> Result<()> {
    let elements = |node: &Node| node.shape.elements().saturating_add(network.parameters_of(node));
    let all = network.nodes().iter().map(elements).fold(0, u64::saturating_add);
    match network.nodes().iter().max_by_key(|node| elements(node)) {
        Some(largest) if all > MOST_ELEMENTS => Err(Error::input(format!(
            "{} cannot be as its file says: one sample of it takes {} numbers, the largest result being \"{}\" ({}, {})",
            network.name(),
            grouped(all),
            largest.name,
            largest.op.kind(),
            largest.shape
        ))
        .expected(format!("at most {}, which is 1 TiB", grouped(MOST_ELEMENTS)))
        .help("a shape was misread on the way there: export the network with fixed sizes and static shapes")),
        _ => Ok(()),
    }
}

/// Kinds of operations; of convolutions also kernels, strides and groupings. Networks repeat themselves: only what differs is put into
/// words.
fn operations(network: &Network) -> BTreeSet<String> {
    let kinds: BTreeSet<&str> = network.nodes().iter().map(|node| node.op.kind()).collect();
    let convolutions = network.nodes().iter().filter_map(|node| match &node.op {
        Op::Conv(conv) => {
            let Window { kernel, stride, dilation, .. } = conv.window;
            Some((grouping(conv, network.input_of(node, 0).channels()), kernel, stride, dilation))
        }
        _ => None,
    });
    let mut names: BTreeSet<String> = kinds.into_iter().map(|kind| format!("{kind} operations")).collect();
    for (grouping, [height, width], [down, right], dilation) in convolutions.collect::<BTreeSet<_>>() {
        names.insert(format!("{grouping} convolutions"));
        names.insert(format!("{height}x{width} {grouping} convolutions"));
        names.insert(format!("convolutions of stride {}", down.max(right)));
        if dilation != [1, 1] {
            names.insert("dilated convolutions".to_owned());
        }
    }
    names
}

fn grouping(conv: &Conv, channels: usize) -> &'static str {
    match conv.groups {
        1 => "dense",
        groups if groups == channels => "depthwise",
        _ => "grouped",
    }
}

/// Sizes that cost grows with.
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
    use crate::network::zoo::{Dataset, build};
    use crate::network::{NetworkBuilder, Shape, Unknown};

    #[test]
    fn shapes_that_no_device_holds_are_refused() {
        let with = |shape: Shape| {
            let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
            let pooled = builder.add("pooled", Op::Mean { axes: vec![1, 2], keep: false }, &[builder.input()]).unwrap();
            let wrong = Unknown::new("Odd", shape, 0);
            let wrong = builder.add("wrong", Op::Unknown(wrong), &[pooled]).unwrap();
            builder.finish(wrong)
        };
        assert!(check_sizes(&with(Shape::new([1 << 18, 1 << 12]))).is_ok());
        let refused = check_sizes(&with(Shape::new([1 << 20, 1 << 19]))).unwrap_err().to_string();
        assert!(refused.contains("\"wrong\"") && refused.contains("1 TiB"), "{refused}");
    }

    #[test]
    fn images_of_another_size_are_a_reason() {
        let mut profiled = Profiled::default();
        profiled.add(&build("resnet18", Dataset::Imagenet).unwrap());
        assert_eq!(profiled.unlike(&build("resnet18", Dataset::Imagenet).unwrap()), []);
        let small = profiled.unlike(&build("resnet18", Dataset::Cifar10).unwrap());
        assert_eq!(small[0].to_string(), "an input of 3x32x32, profiled 3x224x224");
    }
}
