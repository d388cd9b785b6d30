//! The leader and its followers while points are measured.

use super::member::NodeMember;
use super::message::{LeaderOrder, NodeMachine, NodeReport};
use super::run::TeamRun;
use super::together::combine_runs;
use crate::verb::points::PointRun;
use crate::verb::runner::{EndDecision, RunGoal};
use perf4sight_base::error::Result;
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::RunWatch;
use perf4sight_verb::Context;
use std::cell::Cell;
use std::time::Duration;

/// How long to wait for a report before checking for Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);

/// All nodes, as node 0 sees them.
pub(in super::super) struct NodeTeam {
    name: String,
    own: NodeMachine,
    members: Vec<NodeMember>,
    points: Cell<u64>,
}

impl NodeTeam {
    /// Node 0 with its name, and the followers in the order of their ranks.
    pub(super) fn new(name: String, own: NodeMachine, members: Vec<NodeMember>) -> Self {
        NodeTeam { name, own, members, points: Cell::new(0) }
    }

    /// The machines with the names of their nodes; our own is the first.
    pub fn machines(&self) -> impl Iterator<Item = (&str, &NodeMachine)> {
        let others = self.members.iter().map(|member| (member.name.as_str(), &member.machine));
        std::iter::once((self.name.as_str(), &self.own)).chain(others)
    }

    /// Orders the other nodes to get ready. Of several nodes on one machine the first takes the measurement lock; on
    /// ours, this one does.
    pub fn begin(&self) -> Result<()> {
        let boots: Vec<Option<&String>> = self.machines().map(|(_, machine)| machine.boot.as_ref()).collect();
        for (before, member) in (1..).zip(&self.members) {
            let boot = member.machine.boot.as_ref();
            let lock = boot.is_none() || !boots[..before].contains(&boot);
            member.order(&LeaderOrder::Begin { lock })?;
        }
        Ok(())
    }

    /// Waits until all are ready; false after Ctrl-C.
    pub fn assembled(&self, watch: &RunWatch<'_>, context: &Context) -> Result<bool> {
        let watch = RunWatch { waiting: &|why| context.console.note(why), ..*watch };
        self.all(&watch, &|report| *report == NodeReport::Here)
    }

    /// Runs one point on all nodes at once; `here` runs it on ours. None after Ctrl-C.
    ///
    /// # Errors
    /// A node that disconnects or cannot enforce these limits; the errors of `here`.
    pub fn run(
        &self,
        limits: &ResourceLimits,
        goal: RunGoal,
        watch: &RunWatch<'_>,
        here: &mut dyn FnMut(&mut dyn EndDecision) -> Result<Option<PointRun>>,
    ) -> Result<Option<PointRun>> {
        let point = self.points.get() + 1;
        self.points.set(point);
        let ResourceLimits { cpus, memory, storage } = *limits;
        self.order(&LeaderOrder::Point { point, cpus, memory, storage, goal })?;
        if !self.all(watch, &|report| *report == NodeReport::Ready { point })? {
            return Ok(None);
        }
        self.order(&LeaderOrder::Go { point })?;
        let mut run = TeamRun::new(&self.members, point, goal.time);
        let Some(own) = here(&mut run)? else { return Ok(None) };
        let Some(others) = run.finish(&own, watch)? else { return Ok(None) };
        let names: Vec<String> = self.machines().map(|(name, _)| name.to_owned()).collect();
        Ok(combine_runs([own].into_iter().chain(others).collect(), &names))
    }

    /// Ends the other nodes; `why` is the reason if the measurement is incomplete.
    pub fn end(self, why: Option<String>) {
        let order = LeaderOrder::End { done: why.is_none(), why: why.unwrap_or_default() };
        for member in self.members {
            // A disconnected node needs no order.
            if member.order(&order).is_ok() {
                member.link.close();
            }
        }
    }

    fn order(&self, order: &LeaderOrder) -> Result<()> {
        self.members.iter().try_for_each(|member| member.order(order))
    }

    /// Waits until each node has reported `wanted`; false after Ctrl-C.
    fn all(&self, watch: &RunWatch<'_>, wanted: &dyn Fn(&NodeReport) -> bool) -> Result<bool> {
        let mut missing: Vec<&NodeMember> = self.members.iter().collect();
        while !missing.is_empty() && !watch.cancelled() {
            let mut still = Vec::new();
            for member in missing {
                match member.receive(LOOK)? {
                    Some(NodeReport::Waiting { why }) => {
                        (watch.waiting)(&format!("waiting for {}: {why}", member.name));
                        still.push(member);
                    }
                    Some(report) if !wanted(&report) => return Err(member.unexpected()),
                    Some(_) => {}
                    None => still.push(member),
                }
            }
            missing = still;
        }
        Ok(missing.is_empty())
    }
}
