//! The dependency groups of a network: which channels go together, their parameters, and which cannot go at all.

use super::accounts::ParameterAccount;
use super::channels::{self, FollowedChannels, TensorChannels};
use super::layers::{self, RankedLayer, is_sum};
use super::reason::UnprunableReason;
use perf4sight_network::{Network, Node, WeightSpans};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type GroupId = u32;

#[derive(Default, Clone)]
pub(super) struct GroupMembers {
    /// Its positions in each tensor width.
    pub widths: Vec<(usize, u32)>,
    /// Its inputs and outputs in each account.
    pub accounts: Vec<(usize, u64, u64)>,
}

/// The number of channels of tensors with the same channels.
#[derive(Debug, Clone)]
pub(super) struct GroupWidth {
    pub count: u32,
    /// Whether residual sums tie it to several layers.
    pub summed: bool,
}

pub(super) struct DependencyGroups {
    pub members: Vec<GroupMembers>,
    pub reasons: Vec<Option<UnprunableReason>>,
    pub layers: Vec<RankedLayer>,
    pub widths: Vec<GroupWidth>,
    pub accounts: Vec<ParameterAccount>,
    /// The followed axis of every node's output and the group at each position of it.
    pub tensors: Vec<Option<TensorChannels>>,
}

impl DependencyGroups {
    /// The groups of a network; layers with kept names keep all channels, and with `equal_parts`, equally long parts stay so.
    pub fn new(network: &Network, keeps: impl Fn(&str) -> bool, equal_parts: bool) -> Self {
        let (tensors, reasons) = number(channels::follow(network, keeps, equal_parts));
        let mut groups = DependencyGroups {
            members: vec![GroupMembers::default(); reasons.len()],
            reasons,
            layers: layers::ranked_layers(network, &tensors),
            widths: Vec::new(),
            accounts: Vec::new(),
            tensors,
        };
        groups.fix_unranked();
        groups.add_widths(network);
        groups.add_accounts(network);
        groups
    }

    /// Groups without a ranked filter are never removed.
    fn fix_unranked(&mut self) {
        let mut ranked = vec![false; self.reasons.len()];
        self.layers
            .iter()
            .flat_map(|layer| layer.filters.iter())
            .for_each(|filter| ranked[filter.group as usize] = true);
        for (reason, _) in self.reasons.iter_mut().zip(ranked).filter(|(reason, ranked)| reason.is_none() && !ranked) {
            *reason = Some(UnprunableReason::NoFilter);
        }
    }

    fn add_widths(&mut self, network: &Network) {
        let mut summed: BTreeMap<Arc<[u32]>, bool> = BTreeMap::new();
        for (id, node) in network.iter() {
            if let Some(channels) = &self.tensors[id.index()] {
                *summed.entry(channels.ids.clone()).or_default() |= is_sum(node);
            }
        }
        for (index, (ids, summed)) in summed.into_iter().enumerate() {
            self.widths.push(GroupWidth { count: ids.len() as u32, summed });
            for (group, count) in count_groups(&ids) {
                self.members[group as usize].widths.push((index, count));
            }
        }
    }

    fn add_accounts(&mut self, network: &Network) {
        for (id, node) in network.iter() {
            let output = self.tensors[id.index()].as_ref();
            let Some(account) = ParameterAccount::new(network, node, output) else { continue };
            let inputs = if account.inputs > 0 { self.groups_read(network, node) } else { Vec::new() };
            let outputs = output.filter(|channels| channels.ids.len() as u64 == account.outputs);
            let mut taken: BTreeMap<GroupId, (u64, u64)> = BTreeMap::new();
            inputs.iter().for_each(|(group, count)| taken.entry(*group).or_default().0 += u64::from(*count));
            for (group, count) in outputs.map(|channels| count_groups(&channels.ids)).unwrap_or_default() {
                taken.entry(group).or_default().1 += u64::from(count);
            }
            for (group, (inputs, outputs)) in taken {
                self.members[group as usize].accounts.push((self.accounts.len(), inputs, outputs));
            }
            self.accounts.push(account);
        }
    }

    /// Groups on the axis that the weights of `node` span, with the number of positions of each.
    fn groups_read(&self, network: &Network, node: &Node) -> Vec<(GroupId, u32)> {
        let Some(input) = &self.tensors[node.inputs[0].index()] else { return Vec::new() };
        let spans = network.facts(node).weights.first().map(|weight| weight.spans);
        let axis = match spans {
            Some(WeightSpans::Filters { input } | WeightSpans::Transposed { input }) => Some(input),
            Some(WeightSpans::Result { .. } | WeightSpans::Rows | WeightSpans::Nothing) | None => None,
        };
        if axis == Some(input.axis) { count_groups(&input.ids) } else { Vec::new() }
    }
}

/// Replaces channels by the number of their group; groups are numbered in the order they first appear.
fn number(followed: FollowedChannels) -> (Vec<Option<TensorChannels>>, Vec<Option<UnprunableReason>>) {
    let FollowedChannels { tensors, mut union } = followed;
    let mut groups: BTreeMap<u32, GroupId> = BTreeMap::new();
    let mut reasons = Vec::new();
    let mut renamed: BTreeMap<Arc<[u32]>, Arc<[u32]>> = BTreeMap::new();
    let mut group_of = |channel: u32| {
        let root = union.find(channel);
        *groups.entry(root).or_insert_with(|| {
            reasons.push(union.reason(root).cloned());
            reasons.len() as GroupId - 1
        })
    };
    let tensors = tensors.into_iter().map(|tensor| {
        tensor.map(|TensorChannels { axis, ids }| {
            let ids = renamed.entry(ids).or_insert_with_key(|ids| ids.iter().map(|&id| group_of(id)).collect());
            TensorChannels { axis, ids: ids.clone() }
        })
    });
    (tensors.collect(), reasons)
}

/// Each group with its number of occurrences in `ids`, in the groups' order.
fn count_groups(ids: &[GroupId]) -> Vec<(GroupId, u32)> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect()
}
