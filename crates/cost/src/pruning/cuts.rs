//! The cuts of layers' weights: the positions that remain on every axis that pruning made shorter.

use super::groups::{DependencyGroups, GroupId};
use perf4sight_network::{Network, Node, NodeId, WeightSpans};

/// A layer that became smaller, with the remaining slices of its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerCut {
    /// Its name, which is the stem of its weights' names.
    pub layer: String,
    /// The name of the node.
    pub operation: String,
    /// The remaining positions of its input, if its weights span that axis.
    pub inputs: Option<RemainingPositions>,
    /// The remaining positions of its output.
    pub outputs: Option<RemainingPositions>,
}

/// The remaining positions of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingPositions {
    /// The axis in one sample of the layer's input or output, counted from the last, which is 1.
    pub axis_from_last: usize,
    /// The number of positions before pruning.
    pub of: usize,
    /// The positions that remain, in order.
    pub kept: Vec<usize>,
}

/// The cuts of layers with weights of their own, and of those that share the weights of another.
pub(super) fn cuts(network: &Network, groups: &DependencyGroups, gone: &[bool]) -> [Vec<LayerCut>; 2] {
    let cuts = CutFinder { network, groups, gone };
    [false, true].map(|shares| {
        let layers = network.iter().filter(|(_, node)| node.shares.is_some() == shares);
        layers.filter_map(|(id, node)| cuts.cut(id, node)).collect()
    })
}

/// What remains of the results of operations without weights.
pub(super) fn weightless_cuts(network: &Network, groups: &DependencyGroups, gone: &[bool]) -> Vec<LayerCut> {
    let cuts = CutFinder { network, groups, gone };
    let nodes = network.iter().filter(|(_, node)| network.facts(node).weights.is_empty());
    let passed = nodes.filter_map(|(id, node)| {
        let outputs = Some(cuts.remaining(id, 0..node.shape.rank())?);
        Some(LayerCut { layer: node.name.clone(), operation: node.op.kind().to_owned(), inputs: None, outputs })
    });
    passed.collect()
}

struct CutFinder<'a> {
    network: &'a Network,
    groups: &'a DependencyGroups,
    gone: &'a [bool],
}

impl CutFinder<'_> {
    fn cut(&self, id: NodeId, node: &Node) -> Option<LayerCut> {
        let facts = self.network.facts(node);
        let weight = facts.weights.first()?;
        let last = node.shape.rank().saturating_sub(1);
        let (inputs, outputs) = match weight.spans {
            // The channels of the result are on the same axis as those of the input that it sums over.
            WeightSpans::Filters { input } | WeightSpans::Transposed { input } => {
                (self.remaining(*node.inputs.first()?, input..input + 1), self.remaining(id, input..input + 1))
            }
            WeightSpans::Result { first } => (None, self.remaining(id, first..first + weight.dims.rank())),
            WeightSpans::Rows => (None, self.remaining(id, last..last + 1)),
            WeightSpans::Nothing => (None, None),
        };
        let smaller = inputs.is_some() || outputs.is_some();
        smaller.then(|| LayerCut { layer: node.name.clone(), operation: node.op.kind().to_owned(), inputs, outputs })
    }

    /// The remaining positions of a node's channels, if they are on one of these axes and some were removed.
    fn remaining(&self, id: NodeId, axes: std::ops::Range<usize>) -> Option<RemainingPositions> {
        let channels = self.groups.tensors[id.index()].as_ref().filter(|channels| axes.contains(&channels.axis))?;
        let stays = |group: GroupId| !self.gone[group as usize];
        let places = channels.ids.iter().enumerate().filter(|&(_, &group)| stays(group));
        let (kept, of): (Vec<usize>, usize) = (places.map(|(place, _)| place).collect(), channels.ids.len());
        let axis_from_last = self.network.node(id).shape.rank() - channels.axis;
        (kept.len() < of).then_some(RemainingPositions { axis_from_last, of, kept })
    }
}
