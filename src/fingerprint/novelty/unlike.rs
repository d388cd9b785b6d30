//! What sets a network apart from everything that was profiled: kinds of operations, shapes, sizes, batch sizes.

use super::architecture::Families;
use crate::error::{Error, Result};
use crate::fingerprint::rows::{Observations, Row};
use crate::network::{Conv, Coverage, Network, Node, NodeId, Op, Window};
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
pub(in crate::fingerprint) struct Profiled {
    operations: BTreeSet<String>,
    inputs: BTreeSet<String>,
    sizes: BTreeMap<String, [u64; 2]>,
    largest_batch: u64,
    families: Families,
}

/// What is new about a network, as far as it makes a prediction less certain.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::fingerprint) struct News {
    /// The architecture that it has in common with networks that were measured, if it is one of their levels.
    pub family: Option<String>,
    /// Operations of kinds that were never measured.
    pub operations: BTreeSet<NodeId>,
    /// How far its sizes lie beyond those measured, as natural logarithms of factors.
    pub beyond: f64,
    /// The same of the elements of its images.
    pub images: f64,
    /// By how much what is not understood of it widens an interval, as a natural logarithm.
    pub ignorance: f64,
}

impl Profiled {
    pub fn new(observations: &Observations) -> Self {
        let mut profiled = Profiled::default();
        for network in networks(observations.rows) {
            profiled.add(network);
        }
        profiled.calibrate(observations.rows);
        profiled
    }

    /// With a few rows more: their networks are known now, but not what others have in common with them.
    pub fn calibrate(&mut self, rows: &[Row]) {
        let batches = rows.iter().map(|row| row.record.workload.batch);
        self.largest_batch = batches.fold(self.largest_batch, u64::max);
        networks(rows).for_each(|network| self.families.add(network));
    }

    fn add(&mut self, network: &Network) {
        self.operations.extend(operations(network));
        self.inputs.insert(network.input_shape().to_string());
        for (what, size) in sizes(network).into_iter().chain([(IMAGES, network.input_shape().elements())]) {
            let [low, high] = self.sizes.entry(what.to_owned()).or_insert([size; 2]);
            (*low, *high) = ((*low).min(size), (*high).max(size));
        }
    }

    /// The largest batch size profiled.
    pub fn largest_batch(&self) -> u64 {
        self.largest_batch
    }

    /// What sets `network` apart, whatever the batch size; nothing but what is not understood where it is a level of one measured.
    pub fn unlike(&self, network: &Network) -> Vec<Unlike> {
        let coverage = network.coverage();
        let missed =
            Unlike::NotUnderstood { unknown: coverage.operations - coverage.known(), operations: coverage.operations };
        let missed = (!coverage.is_full()).then_some(missed);
        if self.families.of(network).is_some() {
            return missed.into_iter().collect();
        }
        let shape = network.input_shape().to_string();
        let profiled = || self.inputs.iter().cloned().collect();
        let input = (!self.inputs.contains(&shape)).then(|| Unlike::Input { profiled: profiled(), shape });
        let unseen = operations(network).into_iter().filter(|name| !self.operations.contains(name));
        let sizes = self.beyond(network).map(|(what, value, profiled)| Unlike::Size { what, value, profiled });
        missed.into_iter().chain(input).chain(unseen.map(Unlike::Operation)).chain(sizes).collect()
    }

    /// Sizes beyond what was profiled, with their range there.
    fn beyond(&self, network: &Network) -> impl Iterator<Item = (String, u64, [u64; 2])> {
        sizes(network).into_iter().filter_map(|(what, value)| {
            let profiled = *self.sizes.get(what)?;
            let [low, high] = profiled.map(|bound| bound as f64);
            let beyond = value as f64 > high * REACH || value as f64 * REACH < low;
            beyond.then(|| (what.to_owned(), value, profiled))
        })
    }

    /// What is new about `network`.
    pub fn news(&self, network: &Network) -> News {
        let far = |value: u64, [low, high]: [u64; 2]| {
            let [value, low, high] = [value, low, high].map(|size| size.max(1) as f64);
            (value / high).max(low / value).max(1.0).ln()
        };
        let unseen: BTreeSet<Form> =
            forms(network).filter(|form| form.names().iter().any(|name| !self.operations.contains(name))).collect();
        let is_new = |node: &Node| Form::of(network, node).is_some_and(|form| unseen.contains(&form));
        News {
            family: self.families.of(network).map(str::to_owned),
            operations: network.iter().filter(|(_, node)| is_new(node)).map(|(id, _)| id).collect(),
            beyond: self.beyond(network).map(|(_, value, profiled)| far(value, profiled)).fold(0.0, f64::max),
            images: self.sizes.get(IMAGES).map_or(0.0, |profiled| far(network.input_shape().elements(), *profiled)),
            ignorance: ignorance(&network.coverage()),
        }
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

/// Operations that are not understood widen an interval as if each could cost twice an average one.
fn ignorance(coverage: &Coverage) -> f64 {
    let missed = (coverage.operations - coverage.known()) as f64 / coverage.operations.max(1) as f64;
    (2.0 * missed).ln_1p()
}

/// The networks of some rows, each once.
fn networks(rows: &[Row]) -> impl Iterator<Item = &Network> {
    let mut variants = BTreeSet::new();
    rows.iter().filter(move |row| variants.insert(&row.record.variant)).map(|row| row.network.as_ref())
}

/// What an operation has in common with others that are computed alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form<'a> {
    Kind(&'a str),
    /// A fully connected layer that sees many positions, as transformers have them.
    Positions,
    Convolution {
        grouping: &'static str,
        kernel: [usize; 2],
        stride: [usize; 2],
        dilation: [usize; 2],
    },
}

impl<'a> Form<'a> {
    /// None of what costs nothing.
    fn of(network: &Network, node: &'a Node) -> Option<Self> {
        if let Op::Conv(conv) = &node.op {
            let Window { kernel, stride, dilation, .. } = conv.window;
            let grouping = grouping(conv, network.input_of(node, 0).channels());
            return Some(Form::Convolution { grouping, kernel, stride, dilation });
        }
        let is_positions = matches!(node.op, Op::Linear(_)) && node.shape.rank() > 1;
        let form = if is_positions { Form::Positions } else { Form::Kind(node.op.kind()) };
        (!matches!(node.op, Op::Input(_) | Op::Dropout { rate: 0.0 })).then_some(form)
    }

    /// In words, each of which may be new.
    fn names(&self) -> Vec<String> {
        match *self {
            Form::Kind(kind) => vec![format!("{kind} operations")],
            Form::Positions => vec!["linear operations on many positions".to_owned()],
            Form::Convolution { grouping, kernel: [height, width], stride: [down, right], dilation } => {
                let dilated = (dilation != [1, 1]).then(|| "dilated convolutions".to_owned());
                let names = [
                    format!("{grouping} convolutions"),
                    format!("{height}x{width} {grouping} convolutions"),
                    format!("convolutions of stride {}", down.max(right)),
                ];
                names.into_iter().chain(dilated).collect()
            }
        }
    }
}

/// The forms of a network's operations, each once: networks repeat themselves, and only what differs is put into words.
fn forms(network: &Network) -> impl Iterator<Item = Form<'_>> {
    let forms: BTreeSet<Form> = network.nodes().iter().filter_map(|node| Form::of(network, node)).collect();
    forms.into_iter()
}

/// Kinds of operations; of convolutions also kernels, strides and groupings.
fn operations(network: &Network) -> BTreeSet<String> {
    forms(network).flat_map(|form| form.names()).collect()
}

fn grouping(conv: &Conv, channels: usize) -> &'static str {
    match conv.groups {
        1 => "dense",
        _ if conv.is_depthwise(channels) => "depthwise",
        _ => "grouped",
    }
}

/// The size whose being new is told as another input.
const IMAGES: &str = "elements of one input";

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
