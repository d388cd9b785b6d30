//! Prunes along a ranking: removes groups one by one until the goal is reached, if every layer of a group stays wide
//! enough.

use super::accounts::ParameterAccount;
use super::cuts::LayerCut;
use super::groups::{DependencyGroups, GroupId};
use super::limit::PruningLimit;
use super::reason::UnprunableReason;
use perf4sight_network::Network;

const MINIMUM: u32 = 2;

/// How small the network is to become, and how small its layers may.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PruningGoal {
    /// Pruning ends when this many parameters or fewer are left.
    pub parameters: u64,
    /// Fewer parameters than these are left only where no other groups can go, for example if many blocks share one
    /// width.
    pub least: u64,
    /// Requested reduction in percent of all parameters; it sets how many channels of a residual sum must stay.
    pub percent: f64,
}

/// The smaller network, and how close it is to the goal.
#[derive(Debug, Clone, PartialEq)]
pub struct PrunedNetwork {
    /// The smaller network, under the same name.
    pub network: Network,
    /// Percent of all parameters that were removed, counted exactly.
    pub percent: f64,
    /// Why pruning stopped short of its goal, or went too far past it.
    pub limit: Option<PruningLimit>,
    /// The cuts of every layer that became smaller.
    pub cuts: Vec<LayerCut>,
    /// The same of layers that share the weights of another: files store equal weights once, of which each layer keeps its own channels.
    pub shared_cuts: Vec<LayerCut>,
    /// What remains of the results of operations without weights.
    pub passed: Vec<LayerCut>,
}

impl PruningGoal {
    /// Percentage points by which a network may miss its goal.
    pub const TOLERANCE: f64 = 2.0;

    /// Removes at least `percent` of all parameters of `network`, with no more groups than needed, and at most
    /// [`PruningGoal::TOLERANCE`] percentage points more where possible.
    pub fn percent(network: &Network, percent: f64) -> Self {
        let left = |percent: f64| (network.parameters() as f64 * (1.0 - percent / 100.0)).max(0.0) as u64;
        PruningGoal { parameters: left(percent), least: left(percent + PruningGoal::TOLERANCE), percent }
    }

    /// Share of its channels that a layer joined by residual sums keeps, as published: the remaining share of the
    /// whole network, and below 50 % the requested share.
    fn summed_share(self) -> f64 {
        let asked = self.percent / 100.0;
        if asked >= 0.5 { 1.0 - asked } else { asked }
    }
}

pub(super) struct PruningWalk<'a> {
    groups: &'a DependencyGroups,
    goal: PruningGoal,
    total: u64,
    left: u64,
    /// Channels left in each width, and its minimum.
    widths: Vec<(u32, u32)>,
    accounts: Vec<ParameterAccount>,
    gone: Vec<bool>,
}

impl<'a> PruningWalk<'a> {
    pub fn new(network: &Network, groups: &'a DependencyGroups, goal: PruningGoal) -> Self {
        let total = network.parameters();
        let share = goal.summed_share();
        let widths = groups.widths.iter().map(|width| {
            let summed = if width.summed { (f64::from(width.count) * share).ceil() as u32 } else { 0 };
            (width.count, summed.max(MINIMUM))
        });
        PruningWalk {
            groups,
            goal,
            total,
            left: total,
            widths: widths.collect(),
            accounts: groups.accounts.clone(),
            gone: vec![false; groups.members.len()],
        }
    }

    /// Whether the goal is reached.
    pub fn is_at_goal(&self) -> bool {
        self.left <= self.goal.parameters
    }

    /// Whether the goal is so near that no group should overshoot it.
    pub fn is_near(&self) -> bool {
        self.percent() >= self.goal.percent - PruningGoal::TOLERANCE
    }

    /// Whether a group is not yet removed, can go, and leaves every layer wide enough.
    pub fn allows(&self, group: GroupId) -> bool {
        let index = group as usize;
        !self.gone[index] && self.groups.reasons[index].is_none() && self.leaves_enough(group)
    }

    /// Whether removing a group that may go leaves too few parameters.
    pub fn leads_too_far(&self, group: GroupId) -> bool {
        let accounts = self.groups.members[group as usize].accounts.iter();
        let taken = accounts.map(|&(account, inputs, outputs)| {
            let account = &self.accounts[account];
            let after = account.clone().with(account.inputs - inputs, account.outputs - outputs);
            account.parameters() - after.parameters()
        });
        self.left < self.goal.least + taken.sum::<u64>()
    }

    pub fn remove(&mut self, group: GroupId) {
        let index = group as usize;
        self.gone[index] = true;
        let members = &self.groups.members[index];
        for &(width, count) in &members.widths {
            self.widths[width].0 -= count;
        }
        for &(account, inputs, outputs) in &members.accounts {
            let account = &mut self.accounts[account];
            self.left -= account.parameters();
            account.inputs -= inputs;
            account.outputs -= outputs;
            self.left += account.parameters();
        }
    }

    fn leaves_enough(&self, group: GroupId) -> bool {
        let widths = &self.groups.members[group as usize].widths;
        widths.iter().all(|&(width, count)| {
            let (left, least) = self.widths[width];
            left >= least + count
        })
    }

    /// Which groups were removed.
    pub fn gone(&self) -> &[bool] {
        &self.gone
    }

    pub fn parameters(&self) -> u64 {
        self.left
    }

    /// Percent of all parameters that were removed.
    pub fn percent(&self) -> f64 {
        100.0 * (self.total - self.left) as f64 / self.total.max(1) as f64
    }

    /// Why pruning stopped short of its goal or overshot it, if it did.
    pub fn limit(&self) -> Option<PruningLimit> {
        // Without any parameters the goal would count as reached at the start.
        if self.is_at_goal() && (self.total > 0 || self.goal.percent <= 0.0) {
            return (self.left < self.goal.least).then_some(PruningLimit::Together);
        }
        if self.groups.reasons.iter().any(|reason| matches!(reason, Some(UnprunableReason::TooMany(_)))) {
            return Some(PruningLimit::TooMany);
        }
        if self.groups.reasons.iter().all(Option::is_some) {
            return Some(PruningLimit::NothingToPrune);
        }
        if (0..self.groups.members.len()).any(|group| self.allows(group as GroupId)) {
            return Some(PruningLimit::Together);
        }
        let summed = self.groups.widths.iter().any(|width| width.summed);
        Some(PruningLimit::Minimums {
            channels: MINIMUM,
            summed_percent: summed.then(|| 100.0 * self.goal.summed_share()),
        })
    }
}
