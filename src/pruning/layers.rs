//! The layers whose filters are ranked: every convolution but those on a shortcut.

use super::channels::Channels;
use super::groups::Group;
use crate::network::{Nature, Network, Node, NodeId, Op};
use std::sync::Arc;

/// One convolution whose filters are ranked.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub node: NodeId,
    pub filters: Arc<[Group]>,
}

/// The ranked layers of `network`, in the order they run. A convolution on a shortcut follows the block it bridges.
pub(super) fn ranked(network: &Network, tensors: &[Option<Channels>]) -> Vec<Layer> {
    let shortcuts = shortcuts(network);
    let convs = network.iter().filter(|(id, node)| matches!(node.op, Op::Conv(_)) && !shortcuts.contains(id));
    convs.filter_map(|(node, _)| Some(Layer { node, filters: tensors[node.index()].as_ref()?.ids.clone() })).collect()
}

/// Convolutions on the shorter side of a sum, where the longer side does not pass through them.
fn shortcuts(network: &Network) -> Vec<NodeId> {
    let mut depths: Vec<usize> = Vec::new();
    for node in network.nodes() {
        let deepest = node.inputs.iter().map(|id| depths[id.index()]).max().unwrap_or(0);
        depths.push(deepest + usize::from(matches!(node.op, Op::Conv(_))));
    }
    network
        .nodes()
        .iter()
        .filter(|node| is_sum(node))
        .filter_map(|sum| {
            let [a, b] = [source(network, sum.inputs[0])?, source(network, sum.inputs[1])?];
            let (short, long) = if depths[a.index()] < depths[b.index()] { (a, b) } else { (b, a) };
            (depths[short.index()] < depths[long.index()] && !depends(network, long, short)).then_some(short)
        })
        .collect()
}

/// Whether a node sums (or subtracts) two tensors, as residual connections do.
pub(super) fn is_sum(node: &Node) -> bool {
    node.inputs.len() == 2 && matches!(node.op, Op::Binary(binary) if binary.is_sum())
}

/// The convolution whose result arrives at `id`, behind nothing but normalisation, activation and dropout.
fn source(network: &Network, mut id: NodeId) -> Option<NodeId> {
    loop {
        let node = network.node(id);
        match network.facts(node).nature {
            Nature::Convolution(_) => return Some(id),
            Nature::Normalisation | Nature::Activation(_) | Nature::Dropout => id = node.inputs[0],
            Nature::Input | Nature::Parameter | Nature::Linear(_) | Nature::MatMul | Nature::Softmax => return None,
            Nature::Arithmetic(_) | Nature::Pooling(_) | Nature::Movement | Nature::Unknown(_) => return None,
        }
    }
}

/// Whether `late` reads `early`, directly or through others.
fn depends(network: &Network, late: NodeId, early: NodeId) -> bool {
    let mut reached = vec![false; network.nodes().len()];
    reached[late.index()] = true;
    for (id, node) in network.iter().rev() {
        if reached[id.index()] {
            node.inputs.iter().for_each(|input| reached[input.index()] = true);
        }
    }
    reached[early.index()]
}
