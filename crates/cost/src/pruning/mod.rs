//! Structured pruning: dependency groups of channels, their removal, and the smaller network.
//!
//! Dependency groups come from the graph alone: a [`Pruner`] follows every channel from the filter that makes it to
//! all of its readers, and ties those that must go together (residual sums, depthwise and grouped convolutions,
//! squeeze-and-excite products, shuffles, shared weights, the heads of an attention). A [`FilterRanking`] gives the order
//! in which filters are removed, a [`PruningGoal`] the end.
//!
//! ```
//! use perf4sight_network::zoo::{Dataset, build};
//! use perf4sight_cost::pruning::{PruningGoal, Pruner, FilterRanking, generator};
//! let network = build("resnet18", Dataset::Imagenet)?;
//! let pruner = Pruner::new(&network);
//! let ranking = FilterRanking::random(&pruner, &mut generator(7, "resnet18", 50, 0));
//! let pruned = pruner.prune(&ranking, PruningGoal::percent(&network, 50.0))?;
//! assert!((pruned.percent - 50.0).abs() < 0.2);
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

mod accounts;
mod channels;
mod cuts;
mod groups;
mod layers;
mod limit;
mod products;
mod ranking;
mod reason;
mod rebuild;
mod union;
mod walk;

pub use cuts::{LayerCut, RemainingPositions};
pub use limit::PruningLimit;
pub use ranking::{FilterRanking, RankingMode, generator};
pub use reason::UnprunableReason;
pub use walk::{PrunedNetwork, PruningGoal};

use groups::{DependencyGroups, GroupId};
use layers::RankedLayer;
use perf4sight_base::error::Result;
use perf4sight_network::{Network, Node, NodeId, Op};
use rebuild::rebuild;
use walk::PruningWalk;

/// A network with its dependency groups; prunes it any number of times.
pub struct Pruner<'a> {
    network: &'a Network,
    groups: DependencyGroups,
}

/// Channels of one layer that cannot be pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unprunable {
    /// The convolution or fully connected layer that makes them.
    pub layer: String,
    /// How many of a layer's channels stay.
    pub channels: usize,
    /// Why they stay.
    pub reason: UnprunableReason,
}

impl<'a> Pruner<'a> {
    /// Finds the dependency groups of `network`.
    pub fn new(network: &'a Network) -> Self {
        Self::keeping(network, |_| false, false)
    }

    /// The same, but layers with these names keep all channels of their inputs and outputs. With `equal_parts`, equally long parts of a
    /// tensor stay so, as code needs that divides tensors by `chunk`.
    pub fn keeping(network: &'a Network, keeps: impl Fn(&str) -> bool, equal_parts: bool) -> Self {
        Pruner { network, groups: DependencyGroups::new(network, keeps, equal_parts) }
    }

    /// The network without the lowest-ranked groups, as many as the goal needs. Groups that would overshoot it are
    /// removed only where the others do not come near enough.
    ///
    /// # Errors
    /// None is known for networks from a [`perf4sight_network::NetworkBuilder`]; shapes are inferred anew.
    pub fn prune(&self, ranking: &FilterRanking, goal: PruningGoal) -> Result<PrunedNetwork> {
        let mut walk = PruningWalk::new(self.network, &self.groups, goal);
        let order = self.order(ranking);
        for too_large in [false, true] {
            for &group in &order {
                if walk.is_at_goal() || too_large && walk.is_near() {
                    break;
                }
                if walk.allows(group) && (too_large || !walk.leads_too_far(group)) {
                    walk.remove(group);
                }
            }
        }
        let network = rebuild(self.network, &self.groups, walk.gone())?;
        debug_assert_eq!(network.parameters(), walk.parameters(), "the walk counts exactly");
        let [cuts, shared_cuts] = cuts::cuts(self.network, &self.groups, walk.gone());
        let passed = cuts::weightless_cuts(self.network, &self.groups, walk.gone());
        Ok(PrunedNetwork { network, percent: walk.percent(), limit: walk.limit(), cuts, shared_cuts, passed })
    }

    /// Every channel that cannot be pruned, layer by layer, with the reason.
    pub fn unprunable(&self) -> Vec<Unprunable> {
        let makes = |node: &Node| {
            let op = &node.op;
            matches!(op, Op::Conv(_) | Op::Conv3d(_) | Op::ConvTranspose(_) | Op::Linear(_) | Op::Recurrent(_))
        };
        let made = self.network.iter().filter(|(_, node)| makes(node));
        made.flat_map(|(id, node)| self.unprunable_of(id, node)).collect()
    }

    fn unprunable_of(&self, id: NodeId, node: &Node) -> Vec<Unprunable> {
        let mut found: Vec<Unprunable> = Vec::new();
        let ids = self.groups.tensors[id.index()].iter().flat_map(|channels| channels.ids.iter());
        for reason in ids.filter_map(|&group| self.groups.reasons[group as usize].as_ref()) {
            match found.iter_mut().find(|known| known.reason == *reason) {
                Some(known) => known.channels += 1,
                None => found.push(Unprunable { layer: node.name.clone(), channels: 1, reason: reason.clone() }),
            }
        }
        found
    }

    /// Whether any filter of a layer could go.
    fn could_go(&self, layer: &RankedLayer) -> bool {
        layer.filters.iter().any(|filter| self.groups.reasons[filter.group as usize].is_none())
    }

    /// All ranked groups by the lowest score of their filters, lowest first; ties in the order in which layers run.
    fn order(&self, ranking: &FilterRanking) -> Vec<GroupId> {
        let scored = ranking.scored_filters(&self.groups.layers);
        let mut order: Vec<(f64, GroupId)> = scored.map(|(score, filter)| (score, filter.group)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.into_iter().map(|(_, group)| group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::{BinaryFunction, Conv, ConvTranspose, Linear, NetworkBuilder, Shape, Window};

    /// x + back(wide(x)) on tokens, and a classifier: the width between is all that can go, since the sum is as wide as the input.
    #[test]
    fn tokens_of_the_input_stay_and_the_width_between_goes() {
        for tokens in [vec![5, 32], vec![5, 4, 32]] {
            let mut builder = NetworkBuilder::new("feeding", Shape::new(tokens));
            let linear = |out_features| Op::Linear(Linear { out_features, bias: true });
            let input = builder.input();
            let wide = builder.add("wide", linear(64), &[input]).unwrap();
            let back = builder.add("back", linear(32), &[wide]).unwrap();
            let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[input, back]).unwrap();
            let result = builder.add("classify", linear(10), &[sum]).unwrap();
            let network = builder.finish(result);
            let pruner = Pruner::new(&network);
            let ranking = FilterRanking::random(&pruner, &mut generator(7, "feeding", 50, 0));
            let pruned = pruner.prune(&ranking, PruningGoal::percent(&network, 50.0)).unwrap();
            // 65 of the 4,522 parameters belong to each of the 64 features between, and 2,261 are to go: 35 of them.
            assert_eq!(network.parameters() - pruned.network.parameters(), 35 * 65);
            let cut: Vec<&str> = pruned.cuts.iter().map(|cut| cut.layer.as_str()).collect();
            assert_eq!(cut, ["wide", "back"]);
        }
    }

    #[test]
    fn what_only_convolutions_turned_around_make_can_go() {
        // The generator of a DCGAN (Radford et al. 2015): 4x4 kernels, a stride of 2.
        let mut builder = NetworkBuilder::new("generator", Shape::new([64, 4, 4]));
        let mut at = builder.input();
        for (name, out_channels) in [("a", 32), ("b", 16), ("c", 3)] {
            let conv = Conv { out_channels, window: Window::square(4, 2, 1), groups: 1, bias: false };
            at = builder.add(name, Op::ConvTranspose(ConvTranspose { conv, extra: [0, 0] }), &[at]).unwrap();
        }
        let network = builder.finish(at);
        let pruner = Pruner::new(&network);
        let ranking = FilterRanking::random(&pruner, &mut generator(7, "generator", 50, 0));
        let pruned = pruner.prune(&ranking, PruningGoal::percent(&network, 50.0)).unwrap();
        assert!((pruned.percent - 50.0).abs() < 2.0, "{} %", pruned.percent);
        let stays = pruner.unprunable();
        assert_eq!(stays.len(), 1);
        assert_eq!((stays[0].layer.as_str(), stays[0].channels, &stays[0].reason), ("c", 3, &UnprunableReason::Result));
    }
}
