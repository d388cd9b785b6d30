//! Follows every channel through the graph of any network: which positions of which tensors are the same channel.
//!
//! At most one axis of a tensor is followed: the one with its channels. Each position on it names a channel; an
//! operation that allows positions to be removed only together joins them.

use super::products::multiplied_axes;
use super::reason::UnprunableReason;
use super::union::ChannelUnion;
use perf4sight_network::{ChannelCoupling, Conv, Network, Node, NodeId, Op, Shape};
use std::ops::Range;
use std::sync::Arc;

/// Limits on followed channels, and on tensor positions that hold them. No network exceeds them, but a damaged file
/// must not take all memory: some 250 bytes a channel and 4 a position. The 152 layers of resnet152 make at most
/// 2,048 channels each.
const MOST: ChannelBudget = ChannelBudget { channels: 1 << 20, places: 1 << 24 };

/// The remaining budget for the whole network.
struct ChannelBudget {
    channels: usize,
    places: usize,
}

impl ChannelBudget {
    /// Whether a node may be followed, given the longest of its axes and its inputs' axes.
    fn allows(&self, longest: usize, inputs: usize) -> bool {
        longest <= self.channels && longest.saturating_mul(inputs.max(1)) <= self.places
    }

    fn spend(&mut self, channels: usize, places: usize) {
        self.channels = self.channels.saturating_sub(channels);
        self.places = self.places.saturating_sub(places);
    }
}

/// The channels of a tensor: an axis, and the channel at each position of it.
#[derive(Clone)]
pub(super) struct TensorChannels {
    pub axis: usize,
    pub ids: Arc<[u32]>,
}

/// The channels of every node's output, where any can be followed.
pub(super) struct FollowedChannels {
    pub tensors: Vec<Option<TensorChannels>>,
    pub union: ChannelUnion,
}

/// Follows all channels of `network` from input to result; layers with kept names fix the channels of their inputs
/// and outputs. With `equal_parts`, equally long parts of an axis lose the same positions.
pub(super) fn follow(network: &Network, keeps: impl Fn(&str) -> bool, equal_parts: bool) -> FollowedChannels {
    let multiplied = multiplied_axes(network);
    let mut follower = ChannelFollower {
        network,
        multiplied,
        equal_parts,
        union: ChannelUnion::default(),
        tensors: Vec::new(),
        budget: MOST,
    };
    for (id, node) in network.iter() {
        let visited = follower.visit(id, node);
        let tensor = follower.on_channel_axis(node, visited);
        follower.budget.spend(0, tensor.as_ref().map_or(0, |channels| channels.ids.len()));
        follower.tensors.push(tensor);
        follower.tie_shared(node);
    }
    for output in network.outputs() {
        let result = follower.ids(*output);
        follower.union.fix(&result, UnprunableReason::Result);
    }
    network.iter().filter(|(_, node)| keeps(&node.name)).for_each(|(id, node)| follower.keep(id, node));
    FollowedChannels { tensors: follower.tensors, union: follower.union }
}

struct ChannelFollower<'a> {
    network: &'a Network,
    /// For every node, which of its axes a matrix product multiplies.
    multiplied: Vec<Vec<bool>>,
    equal_parts: bool,
    union: ChannelUnion,
    tensors: Vec<Option<TensorChannels>>,
    budget: ChannelBudget,
}

impl ChannelFollower<'_> {
    fn visit(&mut self, id: NodeId, node: &Node) -> Option<TensorChannels> {
        let longest = node.shape.dims().iter().copied().max().unwrap_or(1);
        if !self.budget.allows(longest, node.inputs.len()) {
            self.fix_inputs(node, UnprunableReason::TooMany(node.name.as_str().into()));
            return None;
        }
        match self.network.facts(node).channels {
            ChannelCoupling::Given => Some(self.fixed_channels(&node.shape, UnprunableReason::Input)),
            ChannelCoupling::Partner => None, // follows the tensor it is combined with
            ChannelCoupling::Filters(conv) => self.conv(node, conv),
            ChannelCoupling::Volumes(conv) => self.conv(node, conv),
            ChannelCoupling::Spread(transposed) => self.conv(node, &transposed.conv),
            ChannelCoupling::Features(_) => self.linear(node),
            ChannelCoupling::Rows(embedding) => Some(self.new_channels(node.shape.rank() - 1, embedding.width)),
            ChannelCoupling::Same | ChannelCoupling::Each(_) => self.input(node),
            ChannelCoupling::Grouped { groups } => self.grouped_channels(node, groups),
            ChannelCoupling::Image => self.image(node),
            ChannelCoupling::Lost => {
                self.fix_inputs(node, UnprunableReason::Mixed(node.name.as_str().into()));
                None
            }
            ChannelCoupling::Kept | ChannelCoupling::Stretched => self.on_kept_axis(node),
            ChannelCoupling::OtherAxes { axis } => self.on_other_axes(node, axis),
            ChannelCoupling::Tied => self.tie_elementwise(node),
            ChannelCoupling::Joined { axis } => self.concatenated(node, axis),
            ChannelCoupling::Regrouped => self.through_reshape(id, node),
            ChannelCoupling::Permuted(order) => self.input(node).map(|channels| TensorChannels {
                // An order is a permutation of all axes, so the followed one is in it.
                axis: order.iter().position(|&axis| axis == channels.axis).unwrap_or(channels.axis),
                ..channels
            }),
            ChannelCoupling::Part { axis, start, length } => self.part_of_axis(node, axis, start..start + length),
            ChannelCoupling::Reduced { axes, keep } => {
                self.input(node).filter(|channels| !axes.contains(&channels.axis)).map(|channels| {
                    let before = axes.iter().filter(|&&axis| !keep && axis < channels.axis).count();
                    TensorChannels { axis: channels.axis - before, ..channels }
                })
            }
            ChannelCoupling::Multiplied => self.attention_heads(node),
            ChannelCoupling::Remembered(layer) => {
                let reason = UnprunableReason::Recurrent(node.name.as_str().into());
                self.fix_inputs(node, reason.clone());
                let states = self.new_channels(node.shape.rank() - 1, layer.hidden);
                self.union.fix(&states.ids, reason);
                Some(states)
            }
            ChannelCoupling::Unknown(unknown) => {
                let reason = UnprunableReason::Unknown(node.name.as_str().into(), unknown.op_type.as_str().into());
                self.fix_inputs(node, reason);
                None
            }
        }
    }

    /// Channels on an axis whose length is their number. Others are fixed, such as those with one number a sample,
    /// which has no axis.
    fn on_channel_axis(&mut self, node: &Node, channels: Option<TensorChannels>) -> Option<TensorChannels> {
        let channels = channels?;
        if node.shape.dims().get(channels.axis) == Some(&channels.ids.len()) {
            return Some(channels);
        }
        self.union.fix(&channels.ids, UnprunableReason::Mixed(node.name.as_str().into()));
        None
    }

    /// New output channels. A depthwise convolution passes its input's on; a grouped one ties the same index of every
    /// group, so that all groups stay equally large.
    fn conv<W>(&mut self, node: &Node, conv: &Conv<W>) -> Option<TensorChannels> {
        let input = self.on_axis(node, 0);
        let inputs = self.network.input_of(node, 0).channels();
        if conv.is_depthwise(inputs) {
            let multiplier = conv.out_channels / conv.groups;
            return input.map(|input| TensorChannels { axis: 0, ids: repeat(&input.ids, 1, multiplier) });
        }
        if let Some(input) = input.filter(|_| conv.groups > 1) {
            self.fold(&input.ids, inputs / conv.groups, 1);
        }
        let filters = self.new_channels(0, conv.out_channels / conv.groups).ids;
        Some(TensorChannels { axis: 0, ids: repeat(&filters, conv.groups, 1) })
    }

    /// Channels in groups, the same index of every group tied, so that all stay equally large.
    fn grouped_channels(&mut self, node: &Node, groups: usize) -> Option<TensorChannels> {
        let input = self.on_axis(node, 0)?;
        self.fold(&input.ids, input.ids.len() / groups, 1);
        Some(input)
    }

    fn linear(&mut self, node: &Node) -> Option<TensorChannels> {
        let last = node.shape.rank() - 1;
        match self.input(node) {
            // It applies along another axis than the channels, which pass through; those that stay in any case, as the tokens of
            // the network's input do, need not be followed further.
            Some(input) if input.axis != last && !self.are_fixed(&input.ids) => Some(input),
            _ => Some(self.new_channels(last, node.shape.dims()[last])),
        }
    }

    /// Whether none of these channels can be pruned, whatever is still to come.
    fn are_fixed(&mut self, ids: &[u32]) -> bool {
        ids.iter().all(|&id| self.union.reason(id).is_some())
    }

    /// The channels of the first input; those of a second one, such as a grid of positions, are fixed.
    fn image(&mut self, node: &Node) -> Option<TensorChannels> {
        for &other in node.inputs.iter().skip(1) {
            self.fix_elsewhere(other, None, node);
        }
        self.on_axis(node, 0)
    }

    /// Channels on an axis that keeps its length; others are fixed.
    fn on_kept_axis(&mut self, node: &Node) -> Option<TensorChannels> {
        let input = self.input(node);
        self.on_channel_axis(node, input)
    }

    /// Channels on any axis, on this one those at `places`.
    fn part_of_axis(&mut self, node: &Node, axis: usize, places: Range<usize>) -> Option<TensorChannels> {
        let input = self.input(node)?;
        if input.axis != axis {
            return Some(input);
        }
        let length = places.len();
        if self.equal_parts && input.ids.len().is_multiple_of(length) && places.start.is_multiple_of(length) {
            self.fold(&input.ids, length, 1);
        }
        Some(TensorChannels { axis, ids: input.ids[places].into() })
    }

    /// Channels on any axis but this one; on this one they are fixed.
    fn on_other_axes(&mut self, node: &Node, axis: usize) -> Option<TensorChannels> {
        let input = self.input(node)?;
        if input.axis != axis {
            return Some(input);
        }
        self.union.fix(&input.ids, UnprunableReason::Mixed(node.name.as_str().into()));
        None
    }

    /// Ties channels that are combined element by element; tensors that are broadcast along the channels stay
    /// independent.
    fn tie_elementwise(&mut self, node: &Node) -> Option<TensorChannels> {
        let rank = node.shape.rank();
        let offset = |follower: &Self, id: NodeId| rank - follower.network.node(id).shape.rank();
        let along = |follower: &Self, id: NodeId| {
            let channels = follower.tensors[id.index()].as_ref().filter(|channels| channels.ids.len() > 1);
            channels.map(|channels| channels.axis + offset(follower, id))
        };
        let axis = node.inputs.iter().find_map(|&id| along(self, id))?;
        let mut result: Option<TensorChannels> = None;
        for &id in &node.inputs {
            let local = axis.checked_sub(offset(self, id));
            let spans = local.filter(|&local| self.network.node(id).shape.dims()[local] > 1);
            let Some(local) = spans else {
                self.fix_elsewhere(id, None, node);
                continue;
            };
            let ids = self.fix_elsewhere(id, Some(local), node);
            match &result {
                Some(first) => self.union.join_all(&first.ids.clone(), &ids),
                None => result = Some(TensorChannels { axis, ids }),
            }
        }
        result
    }

    fn concatenated(&mut self, node: &Node, axis: usize) -> Option<TensorChannels> {
        let axes: Vec<usize> =
            node.inputs.iter().filter_map(|id| Some(self.tensors[id.index()].as_ref()?.axis)).collect();
        let followed = if axes.contains(&axis) { axis } else { *axes.first()? };
        let parts: Vec<_> = node.inputs.iter().map(|&id| self.fix_elsewhere(id, Some(followed), node)).collect();
        if followed == axis {
            return Some(TensorChannels { axis, ids: parts.concat().into() });
        }
        parts[1..].iter().for_each(|part| self.union.join_all(&parts[0], part));
        Some(TensorChannels { axis: followed, ids: parts[0].clone() })
    }

    /// The heads of an attention, if its operands have them: each head is multiplied separately.
    fn attention_heads(&mut self, node: &Node) -> Option<TensorChannels> {
        let rank = node.shape.rank();
        let aligned = |id: NodeId| {
            let channels = self.tensors[id.index()].clone()?;
            let axis = channels.axis + rank - self.network.node(id).shape.rank();
            Some(TensorChannels { axis, ..channels })
        };
        // The fourth input of an attention is added to its scores.
        let (factors, added) = node.inputs.split_at(node.inputs.len().min(3));
        let operands: Option<Vec<TensorChannels>> = factors.iter().map(|&id| aligned(id)).collect();
        let heads = operands.filter(|operands| {
            let first = &operands[0];
            let alike = |one: &TensorChannels| one.axis == first.axis && one.ids.len() == first.ids.len();
            first.axis + 2 < rank && operands.iter().all(alike)
        });
        let Some(heads) = heads else {
            self.fix_inputs(node, UnprunableReason::MatrixProduct(node.name.as_str().into()));
            return None;
        };
        heads[1..].iter().for_each(|other| self.union.join_all(&heads[0].ids, &other.ids));
        for &id in added {
            let spans = self.network.node(id).shape.dims()[heads[0].axis] > 1;
            let ids = self.fix_elsewhere(id, spans.then_some(heads[0].axis), node);
            if spans {
                self.union.join_all(&heads[0].ids, &ids);
            }
        }
        heads.into_iter().next()
    }

    /// Follows channels through a reshape. In a merged axis, each is repeated along the other axis. Of a split axis
    /// one part shrinks: the innermost, as in a channel shuffle, or the innermost that no matrix product multiplies,
    /// as the heads of an attention. Positions that are equal along it are tied.
    fn through_reshape(&mut self, id: NodeId, node: &Node) -> Option<TensorChannels> {
        let input = self.input(node)?;
        let dims = self.network.input_of(node, 0).dims();
        let outer: usize = dims[..input.axis].iter().product();
        let inner: usize = dims[input.axis + 1..].iter().product();
        let length = input.ids.len();
        let reshaped = node.shape.dims();
        for (axis, &dim) in reshaped.iter().enumerate() {
            let before: usize = reshaped[..axis].iter().product();
            let after: usize = reshaped[axis + 1..].iter().product();
            if outer.is_multiple_of(before)
                && inner.is_multiple_of(after)
                && before * dim * after == outer * length * inner
            {
                return Some(TensorChannels { axis, ids: repeat(&input.ids, outer / before, inner / after) });
            }
        }
        let parts = parts(reshaped, [outer, length, inner]);
        let innermost = parts.first().filter(|part| part.each == 1);
        let free = parts.iter().find(|part| !self.multiplied[id.index()][part.axis]);
        if let Some(&AxisPart { axis, each }) = innermost.map(|innermost| free.unwrap_or(innermost)) {
            return Some(TensorChannels { axis, ids: self.fold(&input.ids, reshaped[axis], each) });
        }
        self.union.fix(&input.ids, UnprunableReason::Mixed(node.name.as_str().into()));
        None
    }

    /// Tied weights: channels removed from one user are removed from all.
    fn tie_shared(&mut self, node: &Node) {
        let Some(owner) = node.shares else { return };
        let outputs = self.tensors.last().cloned().flatten().map_or_else(|| [].into(), |channels| channels.ids);
        let read = |node: &Node| node.inputs.first().map_or_else(|| [].into(), |&id| self.ids(id));
        let (inputs, of_owner) = (read(node), self.network.node(owner));
        let table = matches!(of_owner.op, Op::Embedding(_));
        let pairs = if table && matches!(node.op, Op::Linear(_)) {
            // The classifier over words reads the width of the embedding.
            vec![(inputs, self.ids(owner))]
        } else if table {
            vec![(outputs, self.ids(owner))]
        } else {
            vec![(outputs, self.ids(owner)), (inputs, read(of_owner))]
        };
        for (mine, theirs) in pairs {
            if mine.len() == theirs.len() {
                self.union.join_all(&mine, &theirs);
            } else {
                self.union.fix(&mine, UnprunableReason::FixedPartner(node.name.as_str().into()));
                self.union.fix(&theirs, UnprunableReason::FixedPartner(node.name.as_str().into()));
            }
        }
    }

    /// Ties positions with the same index on an axis of `length`, where each index repeats `each` times in a row;
    /// returns one of each.
    fn fold(&mut self, ids: &[u32], length: usize, each: usize) -> Arc<[u32]> {
        for (position, &id) in ids.iter().enumerate() {
            self.union.join(ids[position / each % length * each], id);
        }
        (0..length).map(|position| ids[position * each]).collect()
    }

    /// The channels of operand `id` along its own `axis`. A free parameter takes on new channels; channels on another
    /// axis are fixed, and an operand without channels along `axis` gets new, fixed ones.
    fn fix_elsewhere(&mut self, id: NodeId, axis: Option<usize>, at: &Node) -> Arc<[u32]> {
        let operand = self.network.node(id);
        let reason = UnprunableReason::FixedPartner(at.name.as_str().into());
        match (&self.tensors[id.index()], axis) {
            (Some(channels), Some(axis)) if channels.axis == axis => return channels.ids.clone(),
            (Some(channels), _) => self.union.fix(&channels.ids.clone(), reason.clone()),
            (None, _) => {}
        }
        let Some(axis) = axis else { return [].into() };
        let channels = self.new_channels(axis, operand.shape.dims()[axis]);
        if matches!(operand.op, Op::Parameter(_)) && self.tensors[id.index()].is_none() {
            self.tensors[id.index()] = Some(channels.clone());
        } else {
            self.union.fix(&channels.ids, reason);
        }
        channels.ids
    }

    /// Fixes the channels of a node's inputs and output.
    fn keep(&mut self, id: NodeId, node: &Node) {
        let reason = UnprunableReason::Asked(node.name.as_str().into());
        let given = self.ids(id);
        self.union.fix(&given, reason.clone());
        self.fix_inputs(node, reason);
    }

    /// The input's channels if they are on `axis`; else they are fixed.
    fn on_axis(&mut self, node: &Node, axis: usize) -> Option<TensorChannels> {
        let input = self.input(node)?;
        if input.axis != axis {
            self.union.fix(&input.ids, UnprunableReason::Mixed(node.name.as_str().into()));
            return None;
        }
        Some(input)
    }

    fn input(&self, node: &Node) -> Option<TensorChannels> {
        self.tensors[node.inputs.first()?.index()].clone()
    }

    fn ids(&self, id: NodeId) -> Arc<[u32]> {
        self.tensors[id.index()].as_ref().map_or_else(|| [].into(), |channels| channels.ids.clone())
    }

    fn fix_inputs(&mut self, node: &Node, reason: UnprunableReason) {
        for &id in &node.inputs {
            let ids = self.ids(id);
            self.union.fix(&ids, reason.clone());
        }
    }

    fn new_channels(&mut self, axis: usize, length: usize) -> TensorChannels {
        self.budget.spend(length, length);
        TensorChannels { axis, ids: self.union.add_channels(length).collect() }
    }

    fn fixed_channels(&mut self, shape: &Shape, reason: UnprunableReason) -> TensorChannels {
        let channels = self.new_channels(0, shape.channels());
        self.union.fix(&channels.ids, reason);
        channels
    }
}

/// A part of an axis that a reshape splits.
#[derive(Clone, Copy)]
struct AxisPart {
    axis: usize,
    /// Positions of the whole axis per position of this part.
    each: usize,
}

/// The parts that a reshape splits an axis into, which has `outer` elements before it and `inner` behind; innermost
/// first.
fn parts(dims: &[usize], [outer, length, inner]: [usize; 3]) -> Vec<AxisPart> {
    let part = |axis: usize| {
        let before: usize = dims[..axis].iter().product();
        let after: usize = dims[axis + 1..].iter().product();
        let within = before.is_multiple_of(outer) && after.is_multiple_of(inner) && length.is_multiple_of(dims[axis]);
        (dims[axis] > 1 && within).then(|| AxisPart { axis, each: after / inner })
    };
    (0..dims.len()).rev().filter_map(part).collect()
}

/// `ids`, each `inner` times in a row, and all of that `outer` times.
fn repeat(ids: &[u32], outer: usize, inner: usize) -> Arc<[u32]> {
    let row = ids.iter().flat_map(|&id| std::iter::repeat_n(id, inner));
    std::iter::repeat_n(row, outer).flatten().collect()
}
