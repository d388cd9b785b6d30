//! One run on all nodes, as the leader sees it: all start at once, and end when all rates are known, one node has
//! failed, or the time is up.

use super::RunPhase;
use super::member::NodeMember;
use super::message::{LeaderOrder, NodeReport};
use super::together::has_failed;
use crate::verb::points::PointRun;
use crate::verb::runner::EndDecision;
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::{Deadline, RunWatch};
use std::thread;
use std::time::Duration;

/// The polling interval for the other nodes.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct TeamRun<'a> {
    others: Vec<OtherNode<'a>>,
    point: u64,
    deadline: Deadline,
    phase: RunPhase,
    failure: Option<Error>,
}

struct OtherNode<'a> {
    member: &'a NodeMember,
    /// Its rate is known well enough.
    enough: bool,
    /// It has confirmed that the end is near.
    aware: bool,
    run: Option<PointRun>,
}

impl EndDecision for TeamRun<'_> {
    fn ends(&mut self, known: bool, _: Duration) -> bool {
        if let Err(error) = self.go_on(known, false) {
            self.failure.get_or_insert(error);
        }
        self.failure.is_some() || self.phase == RunPhase::Stopped
    }

    fn is_closing(&self) -> bool {
        self.phase != RunPhase::Running
    }
}

impl<'a> TeamRun<'a> {
    pub fn new(members: &'a [NodeMember], point: u64, time: Duration) -> Self {
        let others = members.iter().map(|member| OtherNode { member, enough: false, aware: false, run: None });
        TeamRun {
            others: others.collect(),
            point,
            deadline: Deadline::after(time),
            phase: RunPhase::Running,
            failure: None,
        }
    }

    /// Waits for the runs of the other nodes after our own; none after Ctrl-C.
    pub fn finish(mut self, own: &PointRun, watch: &RunWatch<'_>) -> Result<Option<Vec<PointRun>>> {
        self.failure.take().map_or(Ok(()), Err)?;
        while self.others.iter().any(|other| other.run.is_none()) {
            if watch.cancelled() {
                return Ok(None);
            }
            self.go_on(true, has_failed(&own.outcome))?;
            thread::sleep(LOOK);
        }
        Ok(self.others.into_iter().map(|other| other.run).collect())
    }

    /// Reads the reports and advances the phase; `known` and `failed` describe our own run.
    fn go_on(&mut self, known: bool, failed: bool) -> Result<()> {
        self.others.iter_mut().try_for_each(|other| other.receive(self.point))?;
        let runs = || self.others.iter().filter_map(|other| other.run.as_ref());
        let failed = failed || runs().any(|run| has_failed(&run.outcome));
        let enough = known && self.others.iter().all(|other| other.enough || other.run.is_some());
        let aware = self.others.iter().all(|other| other.aware || other.run.is_some());
        match self.phase {
            RunPhase::Running if failed || enough || self.deadline.is_over() => {
                self.phase = RunPhase::Closing;
                self.order(&LeaderOrder::Close { point: self.point })
            }
            RunPhase::Closing if aware => {
                self.phase = RunPhase::Stopped;
                self.order(&LeaderOrder::Stop { point: self.point })
            }
            RunPhase::Running | RunPhase::Closing | RunPhase::Stopped => Ok(()),
        }
    }

    fn order(&self, order: &LeaderOrder) -> Result<()> {
        let mut running = self.others.iter().filter(|other| other.run.is_none());
        running.try_for_each(|other| other.member.order(order))
    }
}

impl OtherNode<'_> {
    fn receive(&mut self, current: u64) -> Result<()> {
        while let Some(report) = self.member.receive(Duration::ZERO)? {
            match report {
                NodeReport::Look { point, enough } if point == current => self.enough = enough,
                NodeReport::Closing { point } if point == current => self.aware = true,
                NodeReport::Ended { point, run } if point == current && self.run.is_none() => self.run = Some(*run),
                NodeReport::Hello(_)
                | NodeReport::Waiting { .. }
                | NodeReport::Here
                | NodeReport::Ready { .. }
                | NodeReport::Look { .. }
                | NodeReport::Closing { .. }
                | NodeReport::Ended { .. }
                | NodeReport::Leaving { .. } => return Err(self.member.unexpected()),
            }
        }
        Ok(())
    }
}
