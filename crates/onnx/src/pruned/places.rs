//! What the nodes of a file read besides their data, where they have fewer channels: tensors along the channels, such as biases and scales, by the
//! channels of the values that they meet.

use super::KeptPositions;
use crate::number::{BatchNumber, TensorDims};
use crate::operator_names;
use crate::reader::ReadValue;
use crate::schema::{GraphProto, NodeProto, TensorProto};
use crate::tensor;
use crate::value::MADE_UP;
use perf4sight_network::{Network, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// The remaining positions of one axis of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AxisCut<'a> {
    pub axis: usize,
    pub kept: &'a [usize],
}

/// The channels of a value, on an axis of the file's tensor.
#[derive(Clone, Copy)]
pub(super) struct ValueChannels<'a> {
    /// Counted from the last, which is 1.
    pub from_last: usize,
    pub before: usize,
    pub kept: &'a [usize],
}

/// What one node wants of a tensor that it reads; none where it is not known which value it meets.
type WantedCut<'a> = Option<Option<AxisCut<'a>>>;

pub(super) struct CutPlaces<'a> {
    values: &'a BTreeMap<String, ReadValue>,
    /// What remains of nodes, by name.
    kept: &'a BTreeMap<&'a str, KeptPositions<'a>>,
    /// The shapes of nodes before and now, by name.
    shapes: BTreeMap<&'a str, [&'a Shape; 2]>,
}

/// The tensors that become shorter, and the stored ones that copies were made of, by the names of the copies.
#[derive(Default)]
pub(super) struct PlannedCuts<'a> {
    pub cuts: BTreeMap<String, AxisCut<'a>>,
    pub copies: BTreeMap<String, String>,
}

impl<'a> CutPlaces<'a> {
    /// `names` gives the name in `pruned` of every node of `network`.
    pub fn new(
        values: &'a BTreeMap<String, ReadValue>,
        kept: &'a BTreeMap<&'a str, KeptPositions<'a>>,
        [network, pruned]: [&'a Network; 2],
        names: &BTreeMap<&str, &str>,
    ) -> Self {
        let after: BTreeMap<&str, _> = pruned.nodes().iter().map(|node| (&*node.name, &node.shape)).collect();
        let before = network.nodes().iter();
        let shapes = before.filter_map(|node| {
            let name = names.get(&*node.name).copied().unwrap_or(&node.name);
            Some((&*node.name, [&node.shape, *after.get(name)?]))
        });
        CutPlaces { values, kept, shapes: shapes.collect() }
    }

    /// The channels of a value that becomes smaller.
    pub fn channels(&self, value: &str) -> Option<ValueChannels<'a>> {
        let seen = self.values.get(value)?;
        let kept = self.kept.get(seen.node.as_str())?;
        let outputs = kept.outputs?;
        let before = self.shapes.get(seen.node.as_str())?[0];
        let axis = before.rank().checked_sub(kept.axis_from_last)?;
        let from_last = match seen.batch {
            Some(batch) if batch.is_alone() && batch.axis > axis => kept.axis_from_last + 1,
            Some(batch) if !batch.is_alone() && batch.axis == axis => return None,
            _ => kept.axis_from_last,
        };
        Some(ValueChannels { from_last, before: before.dims()[axis], kept: outputs })
    }

    /// Whether a value becomes smaller.
    pub fn is_smaller(&self, value: &str) -> bool {
        let seen = self.values.get(value);
        seen.and_then(|seen| self.shapes.get(seen.node.as_str())).is_some_and(|[before, now]| before != now)
    }

    /// The sizes of a value in the file before and now, the batch as a symbol.
    pub fn sizes(&self, value: &str) -> Option<[TensorDims; 2]> {
        let seen = self.values.get(value)?;
        let dims = |shape: &Shape| match seen.batch {
            Some(batch) => batch.tensor_dims(shape, BatchNumber::BATCH),
            None => shape.dims().iter().map(|&size| size.into()).collect(),
        };
        self.shapes.get(seen.node.as_str()).map(|shapes| shapes.map(dims))
    }

    /// Finds what remains of the tensors that nodes read along their channels. A tensor that several nodes read, of which other channels remain for each,
    /// is stored once for each of them from now on.
    pub fn plan(&self, graph: &mut GraphProto, is_filters: impl Fn(&str) -> bool) -> PlannedCuts<'a> {
        let sizes = stored_sizes(graph);
        let mut readers: BTreeMap<String, Vec<(usize, usize, WantedCut<'a>)>> = BTreeMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for (place, input) in node.input.iter().enumerate() {
                let Some(dims) = sizes.get(input).filter(|_| !is_filters(input)) else { continue };
                readers.entry(input.clone()).or_default().push((index, place, self.wanted_cut(node, place, dims)));
            }
        }
        let mut planned = PlannedCuts::default();
        for (tensor, readers) in readers {
            let mut wanted: Vec<Option<AxisCut>> = Vec::new();
            for one in readers.iter().filter_map(|(_, _, wanted)| *wanted) {
                if !wanted.contains(&one) {
                    wanted.push(one);
                }
            }
            if wanted.iter().all(Option::is_none) {
                continue;
            }
            planned.cuts.extend(wanted[0].map(|cut| (tensor.clone(), cut)));
            for other in &wanted[1..] {
                let own = readers.iter().filter(|(_, _, wanted)| *wanted == Some(*other));
                let places: Vec<(usize, usize)> = own.map(|&(node, place, _)| (node, place)).collect();
                let copy = copy_tensor(graph, &tensor, &places);
                planned.cuts.extend(other.map(|cut| (copy.clone(), cut)));
                planned.copies.insert(copy, tensor.clone());
            }
        }
        // Constants are made before they are read.
        graph.node.sort_by_key(|node| node.op_type() != "Constant");
        planned
    }

    /// What a node wants of a tensor of these sizes that it reads at a place.
    fn wanted_cut(&self, node: &NodeProto, place: usize, dims: &[usize]) -> WantedCut<'a> {
        let output = node.output.first()?;
        let aligned = |channels: ValueChannels<'a>| {
            let axis = dims.len().checked_sub(channels.from_last)?;
            (dims[axis] == channels.before).then_some(AxisCut { axis, kept: channels.kept })
        };
        let alone = |channels: ValueChannels<'a>| {
            (dims == [channels.before]).then_some(AxisCut { axis: 0, kept: channels.kept })
        };
        let is_aligned = match node.op_type() {
            "BatchNormalization" | "InstanceNormalization" | "GroupNormalization" if place > 0 => false,
            "Conv" | "ConvTranspose" if place == 2 => false,
            "LayerNormalization" | "RMSNormalization" if place > 0 => true,
            "PRelu" if place == 1 => true,
            "Gemm" if place == 2 => true,
            "Where" => true,
            other if operator_names::binary(other).is_some() => true,
            _ => return None,
        };
        let met = self.channels_met(output, node)?;
        Some(met.and_then(|channels| if is_aligned { aligned(channels) } else { alone(channels) }))
    }

    /// The channels of what a node makes, or of what it reads; none inside where all of them remain.
    fn channels_met(&self, output: &str, node: &NodeProto) -> Option<Option<ValueChannels<'a>>> {
        let known = |value: &str| self.values.get(value).filter(|seen| self.shapes.contains_key(seen.node.as_str()));
        let inputs = node.input.iter().map(String::as_str);
        let value = std::iter::once(output).chain(inputs).find(|value| known(value).is_some())?;
        Some(self.channels(value))
    }
}

/// The sizes of the stored tensors of floating-point numbers, also of constants, of more than one element.
fn stored_sizes(graph: &GraphProto) -> BTreeMap<String, Vec<usize>> {
    let constants = graph.node.iter().filter_map(|node| Some((node.output.first()?.as_str(), constant(node)?)));
    let stored = graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).chain(constants);
    let floats = stored.filter(|(_, tensor)| tensor::kind(tensor).is_some_and(tensor::is_float));
    let sizes = floats.filter_map(|(name, tensor)| Some((name.to_owned(), tensor::dims(tensor)?)));
    sizes.filter(|(_, dims)| dims.iter().any(|&size| size > 1)).collect()
}

/// The tensor of a node that gives one.
pub(super) fn constant(node: &NodeProto) -> Option<&TensorProto> {
    let attributes = (node.op_type() == "Constant").then_some(&node.attribute)?;
    attributes.iter().find_map(|attribute| attribute.t.as_deref())
}

/// Stores a tensor again, which the nodes at these places read from now on, and returns its name.
fn copy_tensor(graph: &mut GraphProto, tensor: &str, places: &[(usize, usize)]) -> String {
    let taken: BTreeSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let outputs = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    let taken: BTreeSet<&str> = taken.into_iter().chain(outputs).collect();
    // What a tensor is, is told by how its name begins where an exporter made it up, or else by how it ends.
    let named = |number: usize| match tensor.rsplit_once('.') {
        Some((module, last)) if !tensor.starts_with(MADE_UP) => format!("{module}.copy{number}.{last}"),
        _ => format!("{tensor}{number:03}"),
    };
    let name = (1..).map(named).find(|name| !taken.contains(name.as_str())).unwrap_or_default();
    let stored = graph.initializer.iter().find(|one| one.name() == tensor).cloned();
    match stored {
        Some(stored) => graph.initializer.push(TensorProto { name: Some(name.clone()), ..stored }),
        None => {
            let made = graph.node.iter().position(|node| node.output.iter().any(|output| output == tensor));
            if let Some(index) = made {
                let again = NodeProto { output: vec![name.clone()], name: None, ..graph.node[index].clone() };
                // Behind all others for now, so that the places of the nodes stay.
                graph.node.push(again);
            }
        }
    }
    for &(node, place) in places {
        name.clone_into(&mut graph.node[node].input[place]);
    }
    name
}
