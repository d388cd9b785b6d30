//! Builds the smaller network: every node again, with its remaining channels.

use super::accounts::ParameterAccount;
use super::groups::{DependencyGroups, GroupId};
use perf4sight_base::error::Result;
use perf4sight_network::{ChannelCoupling, Conv, ConvTranspose, Embedding, Linear, Network, Node, NodeId, Op, Shape};

pub(super) fn rebuild(network: &Network, groups: &DependencyGroups, gone: &[bool]) -> Result<Network> {
    let mut builder = network.builder_with_input();
    let left = RemainingChannels { network, groups, gone };
    let mut ids = vec![builder.input()];
    for (id, node) in network.iter().skip(1) {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|input| ids[input.index()]).collect();
        let new = builder.add(&node.name, left.op(id, node), &inputs)?;
        debug_assert_eq!(builder.shape(new), &left.shape(id, node), "{} keeps the channels its groups keep", node.name);
        if let Some(trained) = node.trained {
            builder.set_trained(new, left.trained_elements(id, node).unwrap_or(trained));
        }
        if let Some(owner) = node.shares {
            builder.share(new, ids[owner.index()])?;
        }
        ids.push(new);
    }
    let outputs: Vec<NodeId> = network.outputs().iter().map(|output| ids[output.index()]).collect();
    Ok(builder.finish_with(&outputs).folded(network.is_folded()).holding(network.unread()))
}

struct RemainingChannels<'a> {
    network: &'a Network,
    groups: &'a DependencyGroups,
    gone: &'a [bool],
}

impl RemainingChannels<'_> {
    fn op(&self, id: NodeId, node: &Node) -> Op {
        let shape = self.shape(id, node);
        match self.network.facts(node).channels {
            ChannelCoupling::Filters(conv) => Op::Conv(self.conv(node, conv, shape.channels())),
            ChannelCoupling::Volumes(conv) => Op::Conv3d(self.conv(node, conv, shape.channels())),
            ChannelCoupling::Features(linear) => {
                Op::Linear(Linear { out_features: shape.features(), ..linear.clone() })
            }
            ChannelCoupling::Rows(embedding) => {
                Op::Embedding(Embedding { width: shape.features(), ..embedding.clone() })
            }
            ChannelCoupling::Partner => Op::Parameter(shape),
            ChannelCoupling::Spread(transposed) => Op::ConvTranspose(ConvTranspose {
                conv: self.conv(node, &transposed.conv, shape.channels()),
                extra: transposed.extra,
            }),
            ChannelCoupling::Stretched => Op::Expand(shape),
            ChannelCoupling::Regrouped => Op::Reshape(shape),
            ChannelCoupling::Part { axis, start, .. } => Op::Slice {
                axis,
                start: self.remaining_before(node.inputs[0], axis, start),
                length: shape.dims()[axis],
            },
            ChannelCoupling::Each(affine) => Op::GroupNorm { groups: shape.channels(), affine },
            ChannelCoupling::Given
            | ChannelCoupling::Same
            | ChannelCoupling::Grouped { .. }
            | ChannelCoupling::Image
            | ChannelCoupling::Tied => node.op.clone(),
            ChannelCoupling::Joined { .. } | ChannelCoupling::Permuted(_) | ChannelCoupling::Reduced { .. } => {
                node.op.clone()
            }
            ChannelCoupling::Kept | ChannelCoupling::OtherAxes { .. } => node.op.clone(),
            ChannelCoupling::Multiplied
            | ChannelCoupling::Lost
            | ChannelCoupling::Remembered(_)
            | ChannelCoupling::Unknown(_) => node.op.clone(),
        }
    }

    fn conv<W: Clone>(&self, node: &Node, conv: &Conv<W>, out_channels: usize) -> Conv<W> {
        let depthwise = conv.is_depthwise(self.network.input_of(node, 0).channels());
        let groups = if depthwise { self.shape_of(node.inputs[0]).channels() } else { conv.groups };
        Conv { out_channels, groups, ..conv.clone() }
    }

    /// Remaining trained elements of a node that has another number of them than its operation implies.
    fn trained_elements(&self, id: NodeId, node: &Node) -> Option<u64> {
        let account = ParameterAccount::new(self.network, node, self.groups.tensors[id.index()].as_ref())?;
        let left =
            |id: NodeId| self.groups.tensors[id.index()].as_ref().map(|channels| self.count(&channels.ids) as u64);
        let inputs = node.inputs.first().and_then(|&input| left(input)).filter(|_| account.inputs > 0);
        let (inputs, outputs) = (inputs.unwrap_or(account.inputs), left(id).unwrap_or(account.outputs));
        Some(account.with(inputs, outputs).parameters())
    }

    fn shape_of(&self, id: NodeId) -> Shape {
        self.shape(id, self.network.node(id))
    }

    /// The shape of the node's output with only the remaining channels on its followed axis.
    fn shape(&self, id: NodeId, node: &Node) -> Shape {
        let mut dims = node.shape.dims().to_vec();
        if let Some(channels) = &self.groups.tensors[id.index()] {
            dims[channels.axis] = self.count(&channels.ids);
        }
        Shape::new(dims)
    }

    /// The number of the first `start` positions along `axis` that remain.
    fn remaining_before(&self, id: NodeId, axis: usize, start: usize) -> usize {
        let followed = self.groups.tensors[id.index()].as_ref().filter(|channels| channels.axis == axis);
        followed.map_or(start, |channels| self.count(&channels.ids[..start]))
    }

    fn count(&self, ids: &[GroupId]) -> usize {
        ids.iter().filter(|&&group| !self.gone[group as usize]).count()
    }
}
