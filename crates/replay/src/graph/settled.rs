//! When ranks and their streams begin a step that follows others like it: each as it ended the one before.

use super::queues::LaunchQueues;
use super::{NodeId, RankNodes, StepGraph, WorkKind};
use crate::collectives::connected_sets;
use crate::simulate::NodeSchedule;

/// Steps one after the other until nothing changes any more; where a rank or a stream falls behind without end there is no such step, and
/// in each one it falls behind by as much.
const MOST: usize = 8;
/// Smaller differences in nanoseconds are none.
const SAME: u64 = 1_000;

/// A rank that begins later by this share of a step than it does behind a step like it followed another one. Chosen so that what other programs disturb is less: no
/// recording of the tests comes near.
const LATE: f64 = 0.2;

fn is_same(more: &[i64], before: &[i64]) -> bool {
    more.len() == before.len() && more.iter().zip(before).all(|(more, before)| more.abs_diff(*before) <= SAME)
}

impl StepGraph {
    /// The step as it follows others like it. What was recorded followed a step as recorded: a rank that ended that one late began
    /// late, and a stream that was behind its thread began later than that.
    pub(crate) fn without_backlog(self) -> Self {
        let queues = LaunchQueues::from_step(&self);
        self.settled_with(&queues)
    }

    /// The same with delays before kernels that are known.
    pub(crate) fn settled_with(mut self, queues: &LaunchQueues) -> Self {
        let islands = self.islands();
        let backlogs: Vec<NodeId> =
            self.graph.ids().filter(|id| self.graph.node(*id).kind == WorkKind::Backlog).collect();
        // What recorded steps left in the queues would take many steps to be done where steps get a little shorter.
        backlogs.iter().for_each(|id| self.graph.set_duration(*id, 0));
        let mut before: Vec<i64> = Vec::new();
        for left in (0..MOST).rev() {
            let schedule = queues.fit(&mut self);
            let begins = self.next_begins(&islands, &backlogs, &schedule);
            let now = |id: NodeId| self.graph.node(id).duration;
            let more: Vec<i64> = begins.iter().map(|(id, begin)| begin.wrapping_sub(now(*id)) as i64).collect();
            if more.iter().all(|more| more.unsigned_abs() <= SAME) {
                return self;
            }
            // What falls behind by as much as in the step before does so in all that are left.
            let goes_on = is_same(&more, &before);
            let others = if goes_on { left as i64 } else { 0 };
            for ((id, begin), more) in begins.into_iter().zip(&more) {
                self.graph.set_duration(id, begin.saturating_add_signed(more.saturating_mul(others)));
            }
            if goes_on {
                break;
            }
            before = more;
        }
        queues.fit(&mut self);
        self
    }

    /// A step of the usual durations of several, whose kernels wait for their launch or in the queue as in these. Where queues hold work of earlier steps, or a rank
    /// begins late for what it did in other steps, it follows others like it: what these leave belongs to no one of the steps.
    pub(crate) fn with_queues(mut self, queues: &LaunchQueues) -> Self {
        if self.is_held() {
            return self.settled_with(queues);
        }
        let schedule = queues.fit(&mut self);
        if self.is_late(&schedule) { self.settled_with(queues) } else { self }
    }

    /// Whether a rank begins much later than it does behind a step like this one.
    fn is_late(&self, schedule: &NodeSchedule) -> bool {
        let late = self.next_begins(&self.islands(), &[], schedule).into_iter();
        let most = late.map(|(id, begin)| self.graph.node(id).duration.saturating_sub(begin)).max().unwrap_or(0);
        most as f64 > LATE * self.time(schedule) as f64
    }

    /// Whether queues of GPUs hold work of earlier steps.
    pub(crate) fn is_held(&self) -> bool {
        self.graph.nodes().iter().any(|node| node.kind == WorkKind::Backlog && node.duration > SAME)
    }

    /// By how many nanoseconds each rank begins the next step later than the first of its island, and its streams later than it.
    fn next_begins(&self, islands: &[usize], backlogs: &[NodeId], schedule: &NodeSchedule) -> Vec<(NodeId, u64)> {
        let mut last = vec![0; self.graph.resources().len()];
        for id in self.graph.ids() {
            let end = &mut last[self.graph.node(id).resource.0 as usize];
            *end = schedule.end(&self.graph, id).max(*end);
        }
        let main = |rank: &RankNodes| last[self.graph.node(rank.start).resource.0 as usize];
        let ends: Vec<u64> = self.ranks.iter().map(main).collect();
        // Islands are numbered by the first of their ranks.
        let mut first = vec![u64::MAX; ends.len()];
        islands.iter().zip(&ends).for_each(|(island, end)| first[*island] = first[*island].min(*end));
        let starts = self.ranks.iter().zip(&ends).zip(islands);
        let starts = starts.map(|((rank, end), island)| (rank.start, end - first[*island]));
        let backlog = |id: &NodeId| {
            let number = self.graph.resource_of(*id).rank?;
            let rank = self.ranks.binary_search_by_key(&number, |rank| rank.number).ok()?;
            let end = last[self.graph.node(*id).resource.index()];
            Some((*id, end.saturating_sub(ends[rank])))
        };
        starts.chain(backlogs.iter().filter_map(backlog)).collect()
    }

    /// For each rank, the number of the set of ranks that exchange with each other.
    pub(crate) fn islands(&self) -> Vec<usize> {
        let together: Vec<Vec<usize>> =
            self.transfers.iter().map(|transfer| transfer.parts.iter().map(|part| part.rank).collect()).collect();
        connected_sets(self.ranks.len(), together.iter())
    }
}
