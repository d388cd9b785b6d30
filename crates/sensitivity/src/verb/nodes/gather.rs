//! Waits on node 0 until all other nodes have connected, and refuses connections that do not belong to the job.

use super::member::NodeMember;
use super::message::{self, HelloMessage, LeaderOrder, NodeMachine};
use super::rendezvous::NodeSettings;
use super::team::NodeTeam;
use super::{job, name};
use crate::verb::Sensitivity;
use crate::verb::surroundings::JobSurroundings;
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::link::{LineLink, LinkListener, ReceivedLine};
use perf4sight_machine::{Deadline, MachineProperties, RunWatch};
use perf4sight_report::Console;
use perf4sight_verb::Context;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(20);
/// How long a new connection may take to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// The most connections that have not introduced themselves.
const STRANGERS: usize = 64;
/// The interval of reports about missing nodes.
const AGAIN: Duration = Duration::from_secs(10);

/// Waits for all nodes; none after Ctrl-C.
///
/// # Errors
/// A port that is in use; nodes that did not connect in time, or cannot take part.
pub(in super::super) fn gather(
    asked: &Sensitivity,
    nodes: &NodeSettings,
    around: &JobSurroundings,
    watch: &RunWatch<'_>,
    context: &Context,
) -> Result<Option<NodeTeam>> {
    let (job, own, console) = (job(asked, nodes), NodeMachine::here(around), &context.console);
    let (address, port) = (&nodes.master_addr, nodes.port());
    let listener = LinkListener::open(address, port).map_err(|cause| {
        Error::device(format!("the other nodes cannot be waited for at port {port}: {cause}"))
            .help("choose another one, on all nodes (node_port); node 0 is to run where master_addr leads")
    })?;
    let mut gathering = NodeGathering::new(nodes, job, console);
    let (deadline, mut again) = (Deadline::after(nodes.wait), Deadline::after(Duration::ZERO));
    while gathering.members.len() + 1 < nodes.count as usize {
        if watch.cancelled() {
            return Ok(None);
        }
        if deadline.is_over() {
            return Err(gathering.missing());
        }
        if again.is_over() {
            let missing = gathering.ranks();
            console.note(format_args!("waiting at {address}:{port} for node_rank {missing} of {} nodes", nodes.count));
            again = Deadline::after(AGAIN);
        }
        gathering.look(&listener)?;
        thread::sleep(LOOK);
    }
    Ok(Some(NodeTeam::new(name(0, &own.name), own, gathering.members.into_values().collect())))
}

pub(super) struct NodeGathering<'a> {
    nodes: &'a NodeSettings,
    job: MachineProperties,
    console: &'a Console,
    /// Connections that have not introduced themselves, with their deadlines.
    strangers: Vec<(LineLink, Deadline)>,
    members: BTreeMap<u32, NodeMember>,
    refused: Vec<String>,
}

impl<'a> NodeGathering<'a> {
    pub fn new(nodes: &'a NodeSettings, job: MachineProperties, console: &'a Console) -> Self {
        NodeGathering { nodes, job, console, strangers: Vec::new(), members: BTreeMap::new(), refused: Vec::new() }
    }

    /// Accepts connections, and checks that all members are still connected.
    pub fn look(&mut self, listener: &LinkListener) -> Result<()> {
        let failed = |cause| Error::device(format!("no more nodes can come: {cause}"));
        while let Some(link) = listener.next().map_err(failed)? {
            self.strangers.push((link, Deadline::after(INTRODUCTION)));
        }
        // Connections beyond the limit are not from our nodes.
        self.strangers.truncate(STRANGERS);
        for (link, until) in std::mem::take(&mut self.strangers) {
            match link.receive(Duration::ZERO) {
                Some(ReceivedLine::Line(line)) => self.introduce(link, &line)?,
                None if !until.is_over() => self.strangers.push((link, until)),
                None | Some(ReceivedLine::Lost(_)) => {}
            }
        }
        // A member sends nothing before the first order.
        let talking: Vec<u32> =
            self.members.values().filter(|member| !is_quiet(member)).map(|member| member.rank).collect();
        for rank in talking {
            let gone = self.members.remove(&rank).map_or(String::new(), |member| member.name);
            self.console.note(format_args!("{gone} is gone again"));
        }
        Ok(())
    }

    /// Accepts a node, or refuses it and informs both sides why. A node of the job that cannot take part ends
    /// everything, because no other can replace it.
    fn introduce(&mut self, link: LineLink, line: &str) -> Result<()> {
        let hello = match message::hello(line) {
            Ok(hello) => hello,
            Err(message::UnknownConnection::Leaving(why)) => return Err(Error::device(why)),
            Err(message::UnknownConnection::Unknown(why)) => {
                self.refuse(link, "somebody", why);
                return Ok(());
            }
        };
        let name = name(hello.node_rank, &hello.machine.name);
        match self.objection(&hello) {
            Some(why) => self.refuse(link, &name, why),
            None => {
                let member = NodeMember { rank: hello.node_rank, name, machine: hello.machine, link };
                if member.order(&LeaderOrder::Welcome).is_ok() {
                    self.console.note(format_args!("{} is here", member.name));
                    self.members.insert(member.rank, member);
                }
            }
        }
        Ok(())
    }

    /// Why a node does not belong to the job.
    fn objection(&self, hello: &HelloMessage) -> Option<String> {
        let (count, rank) = (self.nodes.count, hello.node_rank);
        if hello.nnodes != count {
            return Some(format!("it was started with --nnodes {}, and node 0 with --nnodes {count}", hello.nnodes));
        }
        if !(1..count).contains(&rank) {
            return Some(format!("there is no node_rank {rank} to come among {count} nodes"));
        }
        if let Some(other) = self.members.get(&rank) {
            return Some(format!("{} has this node_rank already: each node has another one", other.name));
        }
        different(&self.job, &hello.job)
    }

    fn refuse(&mut self, link: LineLink, who: &str, why: String) {
        // A refused node may already have disconnected.
        let _ = link.send_line(&message::line(&LeaderOrder::Refused { why: why.clone() }));
        link.close();
        let refused = format!("{who} was refused: {why}");
        self.console.warn(&refused);
        if self.refused.len() < STRANGERS {
            self.refused.push(refused);
        }
    }

    /// The missing ranks, as `1, 3`.
    pub fn ranks(&self) -> String {
        let missing = (1..self.nodes.count).filter(|rank| !self.members.contains_key(rank));
        missing.map(|rank| rank.to_string()).collect::<Vec<_>>().join(", ")
    }

    pub fn missing(&self) -> Error {
        let wait = humantime::format_duration(self.nodes.wait);
        let turned_away: String = self.refused.iter().map(|refused| format!("\n  {refused}")).collect();
        let missing = self.ranks();
        Error::device(format!(
            "node_rank {missing} of {} nodes did not come within {wait}{turned_away}",
            self.nodes.count
        ))
        .help(format!("start the same command with --node_rank {missing} there, or wait longer (node_wait)"))
    }
}

/// Whether a member is still connected and sends nothing.
fn is_quiet(member: &NodeMember) -> bool {
    member.link.receive(Duration::ZERO).is_none()
}

/// The differences between two jobs that should be the same.
fn different(ours: &MachineProperties, theirs: &MachineProperties) -> Option<String> {
    let of = |job: &MachineProperties, name: &String| job.get(name).cloned().unwrap_or_else(|| "unknown".to_owned());
    let differ = ours.keys().filter(|name| ours.get(*name) != theirs.get(*name));
    let differences: Vec<String> =
        differ.map(|name| format!("{name} is {} there and {} on node 0", of(theirs, name), of(ours, name))).collect();
    (!differences.is_empty()).then(|| format!("it measures another job: {}", differences.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_the_same_in_all_that_counts() {
        let job = |command: &str, batch: &str| {
            let job = [("command", command), ("--batch", batch)];
            MachineProperties::from(job.map(|(name, value)| (name.to_owned(), value.to_owned())))
        };
        assert_eq!(different(&job("a", "1"), &job("a", "1")), None);
        let expected =
            "it measures another job: --batch is 2 there and 1 on node 0; command is b there and a on node 0";
        assert_eq!(different(&job("a", "1"), &job("b", "2")).as_deref(), Some(expected));
    }
}
