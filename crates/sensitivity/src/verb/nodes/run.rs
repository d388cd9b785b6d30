//! One run on all nodes, as the leader sees it: all start at once, and end when all rates are known, one node has
//! failed, or the time is up.

use super::Phase;
use super::member::Member;
use super::message::{Order, Report};
use super::together::has_failed;
use crate::verb::points::Run;
use crate::verb::runner::Pace;
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::{Deadline, Watch};
use std::thread;
use std::time::Duration;

/// The polling interval for the other nodes.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct TeamRun<'a> {
    others: Vec<Other<'a>>,
    point: u64,
    deadline: Deadline,
    phase: Phase,
    failure: Option<Error>,
}

struct Other<'a> {
    member: &'a Member,
    /// Its rate is known well enough.
    enough: bool,
    /// It has confirmed that the end is near.
    aware: bool,
    run: Option<Run>,
}

impl Pace for TeamRun<'_> {
    fn ends(&mut self, known: bool, _: Duration) -> bool {
        if let Err(error) = self.go_on(known, false) {
            self.failure.get_or_insert(error);
        }
        self.failure.is_some() || self.phase == Phase::Stopped
    }

    fn is_closing(&self) -> bool {
        self.phase != Phase::Running
    }
}

impl<'a> TeamRun<'a> {
    pub fn new(members: &'a [Member], point: u64, time: Duration) -> Self {
        let others = members.iter().map(|member| Other { member, enough: false, aware: false, run: None });
        TeamRun {
            others: others.collect(),
            point,
            deadline: Deadline::after(time),
            phase: Phase::Running,
            failure: None,
        }
    }

    /// Waits for the runs of the other nodes after our own; none after Ctrl-C.
    pub fn finish(mut self, own: &Run, watch: &Watch<'_>) -> Result<Option<Vec<Run>>> {
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
            Phase::Running if failed || enough || self.deadline.is_over() => {
                self.phase = Phase::Closing;
                self.order(&Order::Close { point: self.point })
            }
            Phase::Closing if aware => {
                self.phase = Phase::Stopped;
                self.order(&Order::Stop { point: self.point })
            }
            Phase::Running | Phase::Closing | Phase::Stopped => Ok(()),
        }
    }

    fn order(&self, order: &Order) -> Result<()> {
        let mut running = self.others.iter().filter(|other| other.run.is_none());
        running.try_for_each(|other| other.member.order(order))
    }
}

impl Other<'_> {
    fn receive(&mut self, current: u64) -> Result<()> {
        while let Some(report) = self.member.receive(Duration::ZERO)? {
            match report {
                Report::Look { point, enough } if point == current => self.enough = enough,
                Report::Closing { point } if point == current => self.aware = true,
                Report::Ended { point, run } if point == current && self.run.is_none() => self.run = Some(*run),
                Report::Hello(_)
                | Report::Waiting { .. }
                | Report::Here
                | Report::Ready { .. }
                | Report::Look { .. }
                | Report::Closing { .. }
                | Report::Ended { .. }
                | Report::Leaving { .. } => return Err(self.member.unexpected()),
            }
        }
        Ok(())
    }
}
