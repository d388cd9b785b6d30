//! `ranks = 64`: more or fewer ranks that do what the recorded ones do.

use super::clause::Clause;
use super::{Change, Scenario};
use crate::collectives::Operation;
use crate::communication::{Algorithm, Shape, shape};
use crate::graph::{Group, share_of_ranks};
use perf4sight_base::error::{Error, Result};

#[derive(Debug)]
struct Ranks {
    ranks: u32,
    algorithm: Algorithm,
}

pub(super) fn parse(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    let text = clause.value_of("ranks")?;
    Some(ranks(text).map(|ranks| Box::new(ranks) as Box<dyn Change>))
}

/// `64`, `64 by tree`, `64 on 8 nodes`.
fn ranks(text: &str) -> Result<Ranks> {
    let wrong = || {
        Error::usage(format!("\"{text}\" is no number of ranks"))
            .expected("a number from 1 on, such as 64, \"64 by tree\" or \"64 on 8 nodes\"")
    };
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(wrong);
    if let Some(ranks) = text.strip_suffix("by tree") {
        return Ok(Ranks { ranks: number(ranks)?, algorithm: Algorithm::Tree });
    }
    if let Some((ranks, nodes)) = text.split_once(" on ") {
        let (ranks, nodes) = (number(ranks)?, number(nodes.trim_end_matches("nodes").trim_end_matches("node"))?);
        let ranks_per_node = ranks.div_ceil(nodes);
        return Ok(Ranks { ranks, algorithm: Algorithm::Hierarchical { ranks_per_node } });
    }
    Ok(Ranks { ranks: number(text)?, algorithm: Algorithm::Ring })
}

impl Change for Ranks {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let recorded = scenario.step.ranks.len() as u32;
        if self.ranks < recorded {
            return Err(Error::usage(format!("{} ranks are fewer than the {recorded} recorded ones", self.ranks))
                .help("name the traces of fewer ranks"));
        }
        let before: u32 = scenario.step.ranks.iter().map(|rank| rank.stands_for).sum();
        self.scale_transfers(scenario, f64::from(self.ranks) / f64::from(before.max(1)));
        for (place, rank) in scenario.step.ranks.iter_mut().enumerate() {
            rank.stands_for = share_of_ranks(self.ranks, recorded, place);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some("every further rank does what a recorded one does at the same time, and has a link of its own as fast as the recorded one: stragglers and congestion that more ranks bring are not in it; the largest process groups grow with the job, smaller ones, as of tensor parallel layers, stay as they are".to_owned())
    }
}

impl Ranks {
    /// Gives transfers of the groups that grow the time that they take among more ranks.
    fn scale_transfers(&self, scenario: &mut Scenario, growth: f64) {
        let Scenario { step, communication } = scenario;
        let largest = step.groups.iter().map(|group| group.size).max();
        let size = |group: &Group| match Some(group.size) == largest {
            true => (f64::from(group.size) * growth).round() as u32,
            false => group.size,
        };
        let sizes: Vec<u32> = step.groups.iter().map(size).collect();
        for transfer in &mut step.transfers {
            let [old, new] = [step.groups[transfer.group].size, sizes[transfer.group]];
            if Some(old) != largest {
                continue;
            }
            let bytes = transfer.bytes.unwrap_or(0);
            let before = shape(transfer.operation, communication.algorithm, old, bytes);
            let bytes = with_ranks(transfer.operation, bytes, growth);
            let after = shape(transfer.operation, self.algorithm, new, bytes);
            let cost = communication.groups.get(transfer.group).copied().flatten();
            let time = |shape: Shape| match cost {
                Some(cost) => cost.time(shape),
                // Where only times are known, all of it is taken for bytes.
                None => shape.bytes.max(shape.messages),
            };
            let factor = if time(before) > 0.0 { time(after) / time(before) } else { 1.0 };
            let duration = step.graph.node(transfer.node).duration as f64;
            step.graph.set_duration(transfer.node, (duration * factor).round() as u64);
            transfer.bytes = transfer.bytes.map(|_| bytes);
        }
        step.groups.iter_mut().zip(sizes).for_each(|(group, size)| group.size = size);
        communication.algorithm = self.algorithm;
    }
}

/// Bytes that a rank passes in where there are more ranks: an all-gather of parameters gathers smaller shards.
fn with_ranks(operation: Operation, bytes: u64, growth: f64) -> u64 {
    match operation {
        Operation::AllGather | Operation::Gather => (bytes as f64 / growth).round() as u64,
        Operation::AllReduce
        | Operation::ReduceScatter
        | Operation::AllToAll
        | Operation::Broadcast
        | Operation::Reduce
        | Operation::Scatter
        | Operation::Barrier
        | Operation::Send
        | Operation::Receive
        | Operation::SendReceive
        | Operation::Other => bytes,
    }
}
