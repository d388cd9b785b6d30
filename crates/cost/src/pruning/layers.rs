//! The ranked layers: the filters of every convolution but those on a shortcut, and the widths of layers over tokens.

use super::channels::TensorChannels;
use super::groups::GroupId;
use perf4sight_network::{Network, Node, NodeId, Op, OperationNature};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub(super) struct RankedLayer {
    pub node: NodeId,
    pub filters: Vec<RankedFilter>,
}

/// The unit of ranking: a filter of a convolution, or the outputs of a fully connected layer that go together, such
/// as those of a head.
#[derive(Debug, Clone)]
pub(super) struct RankedFilter {
    pub group: GroupId,
    /// Its positions among the layer's outputs.
    pub outputs: Vec<usize>,
}

/// The ranked layers of `network`, in the order they run. A convolution on a shortcut follows the block it bridges. A
/// fully connected layer ranks only outputs that no earlier layer ranks: every block of a transformer writes its
/// width.
pub(super) fn ranked_layers(network: &Network, tensors: &[Option<TensorChannels>]) -> Vec<RankedLayer> {
    let shortcuts = shortcuts(network);
    let mut known: BTreeSet<GroupId> = BTreeSet::new();
    let mut layers = Vec::new();
    let is_ranked = network.ranked_nodes();
    for (id, node) in network.iter() {
        let Some(channels) = &tensors[id.index()] else { continue };
        if !is_ranked[id.index()] || shortcuts.contains(&id) {
            continue;
        }
        let filters = match matches!(node.op, Op::Conv(_) | Op::Conv3d(_) | Op::ConvTranspose(_)) {
            true => one_filter_each(&channels.ids),
            // Channels that pass through on another axis are not made here.
            false if channels.axis + 1 < node.shape.rank() => continue,
            false => grouped_filters(&channels.ids, &known),
        };
        known.extend(filters.iter().map(|filter| filter.group));
        layers.push(RankedLayer { node: id, filters });
    }
    layers
}

fn one_filter_each(groups: &[GroupId]) -> Vec<RankedFilter> {
    groups.iter().enumerate().map(|(output, &group)| RankedFilter { group, outputs: vec![output] }).collect()
}

fn grouped_filters(groups: &[GroupId], known: &BTreeSet<GroupId>) -> Vec<RankedFilter> {
    let mut found: BTreeMap<GroupId, Vec<usize>> = BTreeMap::new();
    for (output, group) in groups.iter().enumerate().filter(|(_, group)| !known.contains(group)) {
        found.entry(*group).or_default().push(output);
    }
    found.into_iter().map(|(group, outputs)| RankedFilter { group, outputs }).collect()
}

/// Convolutions on the shorter side of a sum, unless the longer side passes through them too.
fn shortcuts(network: &Network) -> Vec<NodeId> {
    let mut depths: Vec<usize> = Vec::new();
    for node in network.nodes() {
        let deepest = node.inputs.iter().map(|id| depths[id.index()]).max().unwrap_or(0);
        depths.push(deepest + usize::from(matches!(node.op, Op::Conv(_) | Op::Conv3d(_))));
    }
    network
        .nodes()
        .iter()
        .filter(|node| is_sum(node))
        .filter_map(|sum| {
            let [a, b] = [source(network, sum.inputs[0])?, source(network, sum.inputs[1])?];
            let (short, long) = if depths[a.index()] < depths[b.index()] { (a, b) } else { (b, a) };
            (depths[short.index()] < depths[long.index()] && !depends_on(network, long, short)).then_some(short)
        })
        .collect()
}

/// Whether a node sums (or subtracts) two tensors, as residual connections do.
pub(super) fn is_sum(node: &Node) -> bool {
    node.inputs.len() == 2 && matches!(node.op, Op::Binary(binary) if binary.is_sum())
}

/// The convolution whose result reaches `id` through normalisation, activation and dropout only.
fn source(network: &Network, mut id: NodeId) -> Option<NodeId> {
    loop {
        let node = network.node(id);
        match network.facts(node).nature {
            OperationNature::Convolution(_) | OperationNature::Volume(_) => return Some(id),
            OperationNature::Normalisation | OperationNature::Activation(_) | OperationNature::Dropout => {
                id = node.inputs[0]
            }
            OperationNature::Input
            | OperationNature::Parameter
            | OperationNature::Linear(_)
            | OperationNature::MatMul
            | OperationNature::Softmax => return None,
            OperationNature::Transposed(_)
            | OperationNature::Attention
            | OperationNature::Embedding(_)
            | OperationNature::Choice => return None,
            OperationNature::Arithmetic(_) | OperationNature::Pooling(_) | OperationNature::Movement => return None,
            OperationNature::Recurrent(_) | OperationNature::Unknown(_) => return None,
        }
    }
}

/// Whether `late` reads `early`, directly or through others.
fn depends_on(network: &Network, late: NodeId, early: NodeId) -> bool {
    let mut reached = vec![false; network.nodes().len()];
    reached[late.index()] = true;
    for (id, node) in network.iter().rev() {
        if reached[id.index()] {
            node.inputs.iter().for_each(|input| reached[input.index()] = true);
        }
    }
    reached[early.index()]
}
