//! A following node: it runs its own command under the limits that node 0 orders, and cleans up when either ends.

use super::message::{self, HelloMessage, LeaderOrder, NodeMachine, NodeReport};
use super::rendezvous::NodeSettings;
use super::{RunPhase, job, name};
use crate::verb::Sensitivity;
use crate::verb::job::{JobHost, JobRunner};
use crate::verb::points::PointOutcome;
use crate::verb::points::cpus_words;
use crate::verb::runner::{EndDecision, RunGoal};
use crate::verb::surroundings::JobSurroundings;
use perf4sight_base::error::{Error, Result};
use perf4sight_limit::Limiter;
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::RunWatch;
use perf4sight_machine::description::MachineDescription;
use perf4sight_machine::link::{LineLink, ReceivedLine};
use perf4sight_machine::measurement_lock::{self, MeasurementLock};
use perf4sight_verb::{Context, Summary};
use serde_json::json;
use std::ops::ControlFlow;
use std::time::Duration;

/// How long to wait for an order before checking for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// How long to try to reach node 0 to report that this node cannot take part.
const HASTE: Duration = Duration::from_secs(3);

/// Follows until node 0 has finished.
///
/// # Errors
/// An error on this node, which is reported to node 0; a node 0 that cannot be reached, refuses this node, fails or
/// disconnects.
pub(in super::super) fn follow(
    asked: &Sensitivity,
    nodes: &NodeSettings,
    watch: RunWatch<'_>,
    context: &mut Context,
) -> Result<Summary> {
    let around = JobSurroundings::look(asked, &watch, context);
    // A node that cannot take part waits only briefly for node 0, to report that.
    let patience = if around.is_ok() { nodes.wait } else { nodes.wait.min(HASTE) };
    let leader = match (reach(nodes, patience, &watch, context), &around) {
        (Ok(Some(link)), _) => LeaderLink { link },
        (Ok(None), Ok(_)) => return Ok(interrupted()),
        (Err(error), Ok(_)) => return Err(error),
        (Ok(None) | Err(_), Err(error)) => return Err(error.clone()),
    };
    let followed = around.and_then(|around| match around {
        None => Ok(None),
        Some((around, limiter)) => {
            let follower = FollowerNode {
                asked,
                nodes,
                around: &around,
                limiter: &limiter,
                watch,
                leader: &leader,
                next: None,
                lock: None,
                runs: 0,
            };
            follower.follow(context)
        }
    });
    let why = match &followed {
        Ok(Some(_)) => None,
        Ok(None) => Some("it was interrupted".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        let why = format!("{}: {why}", name(nodes.rank, &MachineDescription::here().name()));
        // If node 0 is the one that failed, this report is not received.
        let _ = leader.report(&NodeReport::Leaving { why });
    }
    leader.link.close();
    followed.map(|summary| summary.unwrap_or_else(interrupted))
}

fn interrupted() -> Summary {
    Summary { headline: "interrupted".to_owned(), ..Summary::default() }
}

/// Connects to node 0; none after Ctrl-C.
fn reach(
    nodes: &NodeSettings,
    patience: Duration,
    watch: &RunWatch<'_>,
    context: &Context,
) -> Result<Option<LineLink>> {
    let at = format!("{}:{}", nodes.master_addr, nodes.port());
    let waiting = |why: &str| context.console.note(format_args!("waiting for node 0 at {at}: {why}"));
    let link = LineLink::reach(&nodes.master_addr, nodes.port(), patience, &RunWatch { waiting: &waiting, ..*watch });
    link.map_err(|cause| {
        let wait = humantime::format_duration(nodes.wait);
        Error::device(format!("node 0 was not reached at {at} within {wait}: {cause}"))
            .help("start the same command there with --node_rank 0, name its address (master_addr), or wait longer (node_wait)")
    })
}

struct LeaderLink {
    link: LineLink,
}

impl LeaderLink {
    fn report(&self, report: &NodeReport) -> Result<()> {
        // The reason why node 0 ended is more useful than the broken connection.
        let broken = |cause: std::io::Error| self.last_words().unwrap_or_else(|| gone(&cause.to_string()));
        self.link.send_line(&message::line(report)).map_err(broken)
    }

    /// Why it ended, if it reported that.
    fn last_words(&self) -> Option<Error> {
        loop {
            match self.receive(LOOK) {
                Ok(Some(LeaderOrder::End { why, .. })) => return Some(leader_ended(&why)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Its next order; none where none arrives within this time.
    fn receive(&self, patience: Duration) -> Result<Option<LeaderOrder>> {
        match self.link.receive(patience) {
            None => Ok(None),
            Some(ReceivedLine::Lost(why)) => Err(gone(&why)),
            Some(ReceivedLine::Line(line)) => message::message(&line).map(Some).map_err(|why| gone(&why)),
        }
    }
}

fn leader_ended(why: &str) -> Error {
    Error::device(format!("node 0 has ended: {why}"))
}

fn gone(why: &str) -> Error {
    Error::device(format!("node 0 is gone: {why}"))
        .help("points that were finished are kept there: start the same command on all nodes again")
}

struct FollowerNode<'a> {
    asked: &'a Sensitivity,
    nodes: &'a NodeSettings,
    around: &'a JobSurroundings,
    limiter: &'a Limiter,
    watch: RunWatch<'a>,
    leader: &'a LeaderLink,
    next: Option<OrderedRun>,
    /// Keeps other measurements from starting.
    lock: Option<MeasurementLock>,
    runs: usize,
}

/// A run that node 0 ordered.
#[derive(Debug, Clone, Copy)]
struct OrderedRun {
    point: u64,
    limits: ResourceLimits,
    goal: RunGoal,
}

/// The next order, or the end, without a summary after Ctrl-C.
type NextOrder = ControlFlow<Option<Summary>>;

impl FollowerNode<'_> {
    /// Introduces itself, and follows orders until the end; none after Ctrl-C.
    fn follow(mut self, context: &Context) -> Result<Option<Summary>> {
        self.introduce()?;
        while !self.watch.cancelled() {
            let Some(order) = self.leader.receive(LOOK)? else { continue };
            if let NextOrder::Break(end) = self.obey(order, context)? {
                return Ok(end);
            }
        }
        Ok(None)
    }

    fn introduce(&self) -> Result<()> {
        let hello = HelloMessage {
            perf4sight: env!("CARGO_PKG_VERSION").to_owned(),
            nnodes: self.nodes.count,
            node_rank: self.nodes.rank,
            job: job(self.asked, self.nodes),
            machine: NodeMachine::here(self.around),
        };
        self.leader.report(&NodeReport::Hello(Box::new(hello)))
    }

    fn obey(&mut self, order: LeaderOrder, context: &Context) -> Result<NextOrder> {
        match order {
            LeaderOrder::Welcome => context.console.note("node 0 waits until all nodes have come"),
            LeaderOrder::Refused { why } => {
                return Err(Error::device(format!("node 0 refused this node: {why}")));
            }
            LeaderOrder::Begin { lock } => self.begin(lock, context)?,
            LeaderOrder::Point { point, cpus, memory, storage, goal } => {
                let limits = ResourceLimits { cpus, memory, storage };
                self.around.survey.check(&limits)?;
                self.next = Some(OrderedRun { point, limits, goal });
                self.leader.report(&NodeReport::Ready { point })?;
            }
            LeaderOrder::Go { point } => {
                let wanted = self.next.take().filter(|wanted| wanted.point == point);
                let wanted = wanted.ok_or_else(|| gone("it starts a run that it did not announce"))?;
                context.console.note(format_args!("run {point}: {}", wanted.order_text()));
                return self.run(wanted, context);
            }
            // An order for a run that has already ended here.
            LeaderOrder::Close { .. } | LeaderOrder::Stop { .. } => {}
            LeaderOrder::End { done, why } => return self.end(done, &why),
        }
        Ok(NextOrder::Continue(()))
    }

    /// Takes the lock and loads the data, as node 0 does.
    fn begin(&mut self, alone: bool, context: &Context) -> Result<()> {
        let waiting = |why: &str| {
            // If node 0 has disconnected, that is detected after the wait.
            let _ = self.leader.report(&NodeReport::Waiting { why: why.to_owned() });
        };
        if alone {
            self.lock = measurement_lock::take(&RunWatch { waiting: &waiting, ..self.watch })?;
        }
        self.around.warm(self.asked, &self.watch, context);
        self.leader.report(&NodeReport::Here)
    }

    /// Runs the job, and reports the run.
    fn run(&mut self, wanted: OrderedRun, context: &Context) -> Result<NextOrder> {
        let FollowerNode { asked, around, limiter, watch, leader, .. } = *self;
        let (words, survey) = (around.command.words.as_slice(), &around.survey);
        let (clock, begun) = (context.clock, context.now());
        let runner = JobRunner { asked, words, host: JobHost { limiter, watch }, survey, team: None, clock, begun };
        let mut pace =
            LedRun { leader, point: wanted.point, known: false, phase: RunPhase::Running, end: None, failure: None };
        let run = runner.run_here(wanted.limits, wanted.goal, &mut pace)?;
        pace.failure.map_or(Ok(()), Err)?;
        if let Some((done, why)) = pace.end {
            return self.end(done, &why);
        }
        let Some(mut run) = run else { return Ok(NextOrder::Break(None)) };
        if let PointOutcome::Crashed { last_lines, .. } | PointOutcome::NoRate { last_lines, .. } = &mut run.outcome {
            message::shortened(last_lines);
        }
        self.runs += 1;
        leader.report(&NodeReport::Ended { point: wanted.point, run: Box::new(run) })?;
        Ok(NextOrder::Continue(()))
    }

    fn end(&self, done: bool, why: &str) -> Result<NextOrder> {
        if !done {
            return Err(leader_ended(why));
        }
        let NodeSettings { rank, count, .. } = self.nodes;
        let headline = format!("node {rank} of {count} made {} runs; what came of them is on node 0", self.runs);
        let json = json!({"node_rank": rank, "nnodes": count, "runs": self.runs});
        Ok(NextOrder::Break(Some(Summary { headline, json, ..Summary::default() })))
    }
}

impl OrderedRun {
    fn order_text(&self) -> String {
        let cpus = self.limits.cpus.map_or("all CPUs".to_owned(), cpus_words);
        self.limits.memory.map_or(cpus.clone(), |memory| format!("{cpus} and {memory}"))
    }
}

/// A run that ends when node 0 orders it.
struct LedRun<'a> {
    leader: &'a LeaderLink,
    point: u64,
    /// Whether node 0 was informed that the rate is known.
    known: bool,
    phase: RunPhase,
    /// Set when node 0 has ended: whether all is done, and why not.
    end: Option<(bool, String)>,
    failure: Option<Error>,
}

impl EndDecision for LedRun<'_> {
    fn ends(&mut self, known: bool, _: Duration) -> bool {
        if let Err(error) = self.go_on(known) {
            self.failure.get_or_insert(error);
        }
        self.failure.is_some() || self.end.is_some() || self.phase == RunPhase::Stopped
    }

    fn is_closing(&self) -> bool {
        self.phase != RunPhase::Running
    }
}

impl LedRun<'_> {
    fn go_on(&mut self, known: bool) -> Result<()> {
        // Node 0 sends nothing after its end.
        if self.end.is_some() {
            return Ok(());
        }
        if known != self.known {
            self.leader.report(&NodeReport::Look { point: self.point, enough: known })?;
            self.known = known;
        }
        while let Some(order) = self.leader.receive(Duration::ZERO)? {
            match order {
                LeaderOrder::Close { point } if point == self.point => {
                    self.phase = RunPhase::Closing;
                    self.leader.report(&NodeReport::Closing { point })?;
                }
                LeaderOrder::Stop { point } if point == self.point => self.phase = RunPhase::Stopped,
                LeaderOrder::End { done, why } => {
                    self.end = Some((done, why));
                    return Ok(());
                }
                LeaderOrder::Welcome
                | LeaderOrder::Refused { .. }
                | LeaderOrder::Begin { .. }
                | LeaderOrder::Point { .. }
                | LeaderOrder::Go { .. }
                | LeaderOrder::Close { .. }
                | LeaderOrder::Stop { .. } => return Err(gone("it orders what cannot be done now")),
            }
        }
        Ok(())
    }
}
