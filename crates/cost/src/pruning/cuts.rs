//! What is left of the weights of layers: the positions that stay on every axis that pruning made shorter.

use super::groups::{Group, Groups};
use perf4sight_network::{Network, Node, NodeId, Spans};

/// A layer that is smaller than it was, so that whoever has its weights can take the slices that are left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Its name, which is the stem of its weights' names.
    pub layer: String,
    /// What it does.
    pub operation: String,
    /// What is left of what it reads, as far as its weights lie along it.
    pub inputs: Option<Left>,
    /// What is left of what it gives.
    pub outputs: Option<Left>,
}

/// What is left of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The axis of one sample of what the layer reads or gives, counted from the last, which is 1.
    pub axis_from_last: usize,
    /// How many positions there were.
    pub of: usize,
    /// Those that stay, in order.
    pub kept: Vec<usize>,
}

/// All layers with weights of their own that are smaller without the groups marked in `gone`.
pub(super) fn cuts(network: &Network, groups: &Groups, gone: &[bool]) -> Vec<Cut> {
    let cuts = Cuts { network, groups, gone };
    let owners = network.iter().filter(|(_, node)| node.shares.is_none());
    owners.filter_map(|(id, node)| cuts.cut(id, node)).collect()
}

struct Cuts<'a> {
    network: &'a Network,
    groups: &'a Groups,
    gone: &'a [bool],
}

impl Cuts<'_> {
    fn cut(&self, id: NodeId, node: &Node) -> Option<Cut> {
        let facts = self.network.facts(node);
        let weight = facts.weights.first()?;
        let last = node.shape.rank().saturating_sub(1);
        let (inputs, outputs) = match weight.spans {
            // Its result's channels lie where those lie that it sums over.
            Spans::Filters { input } | Spans::Transposed { input } => {
                (self.left(*node.inputs.first()?, input..input + 1), self.left(id, input..input + 1))
            }
            Spans::Result { first } => (None, self.left(id, first..first + weight.dims.rank())),
            Spans::Rows => (None, self.left(id, last..last + 1)),
            Spans::Nothing => (None, None),
        };
        let smaller = inputs.is_some() || outputs.is_some();
        smaller.then(|| Cut { layer: node.name.clone(), operation: node.op.kind().to_owned(), inputs, outputs })
    }

    /// What is left of a node's channels, if they lie on one of these axes and some of them are gone.
    fn left(&self, id: NodeId, axes: std::ops::Range<usize>) -> Option<Left> {
        let channels = self.groups.tensors[id.index()].as_ref().filter(|channels| axes.contains(&channels.axis))?;
        let stays = |group: Group| !self.gone[group as usize];
        let places = channels.ids.iter().enumerate().filter(|&(_, &group)| stays(group));
        let (kept, of): (Vec<usize>, usize) = (places.map(|(place, _)| place).collect(), channels.ids.len());
        let axis_from_last = self.network.node(id).shape.rank() - channels.axis;
        (kept.len() < of).then_some(Left { axis_from_last, of, kept })
    }
}
