//! `ranks = 64`: more or fewer ranks that do what the recorded ones do.

use super::clause::{WhatIfClause, positive};
use super::{Scenario, StepChange};
use crate::collectives::CollectiveOperation;
use crate::communication::{CollectiveAlgorithm, GroupCost, MessageShape, shape};
use crate::graph::{ProcessGroup, StepGraph, TransferNode, share_of_ranks};
use perf4sight_base::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy)]
struct OtherRankCount {
    ranks: u32,
    /// As before where none is given.
    algorithm: Option<CollectiveAlgorithm>,
    within_node: WithinNode,
    /// Whether what an operation takes beside its bytes grows with its messages. Traces of one number of ranks do not tell what of it is of
    /// each message, and what of the operation.
    messages_count: bool,
}

/// How fast links within a node are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WithinNode {
    /// As the recorded ones: the traces show no others.
    AsRecorded,
    /// So fast that they cost no time: a bound of what is not known.
    Free,
    /// Nanoseconds per byte.
    PerByte(f64),
}

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let text = clause.value_of("ranks")?;
    Some(ranks(text).map(|ranks| Box::new(ranks) as Box<dyn StepChange>))
}

/// `64`, `64 by tree`, `64 on 8 nodes`, `64 on 8 nodes of 900 Gb/s`.
fn ranks(text: &str) -> Result<OtherRankCount> {
    let all_alike = |ranks: &str, algorithm| -> Result<OtherRankCount> {
        let ranks = number(ranks, text)?;
        Ok(OtherRankCount { ranks, algorithm, within_node: WithinNode::AsRecorded, messages_count: true })
    };
    match (text.split_once(" by "), text.split_once(" on ")) {
        (Some((ranks, word)), None) => all_alike(ranks, Some(algorithm(word.trim(), text)?)),
        (None, Some((ranks, nodes))) => on_nodes(number(ranks, text)?, nodes, text),
        (None, None) => all_alike(text, None),
        (Some(_), Some(_)) => Err(wrong(text)),
    }
}

fn wrong(text: &str) -> Error {
    Error::usage(format!("\"{text}\" is not a number of ranks")).expected(
        "a number from 1 on, such as 64, \"64 by ring\", \"64 by tree\", \"64 on 8 nodes\" or \"64 on 8 nodes of 900 Gb/s\"",
    )
}

fn number(word: &str, text: &str) -> Result<u32> {
    word.trim().parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(|| wrong(text))
}

fn algorithm(word: &str, text: &str) -> Result<CollectiveAlgorithm> {
    match word {
        "ring" => Ok(CollectiveAlgorithm::Ring),
        "tree" => Ok(CollectiveAlgorithm::Tree),
        "hierarchical" => Err(wrong(text).help("say on how many nodes: \"64 on 8 nodes\" is hierarchical")),
        _ => Err(wrong(text)),
    }
}

/// `8 nodes`, `8 nodes of 900 Gb/s`.
fn on_nodes(ranks: u32, nodes: &str, text: &str) -> Result<OtherRankCount> {
    let (nodes, rate) = nodes.split_once(" of ").map_or((nodes, None), |(nodes, rate)| (nodes, Some(rate)));
    let nodes = number(nodes.trim_end_matches("nodes").trim_end_matches("node"), text)?;
    if !ranks.is_multiple_of(nodes) {
        return Err(Error::usage(format!("{ranks} ranks on {nodes} nodes are not equally many on each"))
            .expected("a number of nodes that divides that of the ranks"));
    }
    let within_node = match rate {
        // Gigabits a second to nanoseconds per byte.
        Some(rate) => {
            WithinNode::PerByte(8.0 / positive(rate.trim().strip_suffix("Gb/s").ok_or_else(|| wrong(text))?.trim())?)
        }
        None => WithinNode::AsRecorded,
    };
    let algorithm = Some(CollectiveAlgorithm::Hierarchical { ranks_per_node: ranks / nodes });
    Ok(OtherRankCount { ranks, algorithm, within_node, messages_count: true })
}

impl StepChange for OtherRankCount {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let recorded = scenario.step.ranks.len() as u32;
        if self.ranks < recorded {
            return Err(Error::usage(format!("{} ranks are fewer than the {recorded} recorded ones", self.ranks))
                .help("name the traces of fewer ranks"));
        }
        if self.ranks > recorded {
            refuse_several_kinds(&scenario.step)?;
        }
        let before: u32 = scenario.step.ranks.iter().map(|rank| rank.stands_for).sum();
        self.scale_transfers(scenario, f64::from(self.ranks) / f64::from(before.max(1)))?;
        for (place, rank) in scenario.step.ranks.iter_mut().enumerate() {
            rank.stands_for = share_of_ranks(self.ranks, recorded, place);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let more = "every further rank does what a recorded one does at the same time, and has a link of its own as fast as the recorded one: stragglers and congestion that more ranks bring are not in it; the largest process groups grow with the job, smaller ones, as of tensor parallel layers, stay as they are; what an operation takes beside its bytes grows with its messages, and the interval holds a step in which it does not";
        Some(format!("{more}{}", self.of_nodes().unwrap_or_default()))
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let free = self.leaves_links_open().then_some(OtherRankCount { within_node: WithinNode::Free, ..*self });
        let bounds = free.into_iter().chain([OtherRankCount { messages_count: false, ..*self }]);
        bounds.map(|bound| Box::new(bound) as Box<dyn StepChange>).collect()
    }
}

impl OtherRankCount {
    fn ranks_per_node(&self) -> Option<u32> {
        match self.algorithm {
            Some(CollectiveAlgorithm::Hierarchical { ranks_per_node }) => Some(ranks_per_node),
            Some(CollectiveAlgorithm::Ring | CollectiveAlgorithm::Tree) | None => None,
        }
    }

    /// Whether nothing says how fast links are that the change has.
    fn leaves_links_open(&self) -> bool {
        self.within_node == WithinNode::AsRecorded && self.ranks_per_node().is_some_and(|ranks| ranks > 1)
    }

    /// What is assumed about nodes.
    fn of_nodes(&self) -> Option<String> {
        let ranks_per_node = self.ranks_per_node()?;
        let links = "; all-reduce runs within nodes and then between them, over links between nodes that are as fast as the recorded ones";
        let nodes = self.ranks / ranks_per_node;
        let unknown = format!(
            "; how fast links within a node are is not in these traces: the step is with links as fast as the recorded ones, the interval begins with links that cost no time; \"ranks = {} on {nodes} nodes of 900 Gb/s\" says it",
            self.ranks
        );
        Some(format!("{links}{}", if self.leaves_links_open() { unknown.as_str() } else { "" }))
    }

    /// Gives transfers of the groups that grow the time that they take among more ranks.
    fn scale_transfers(&self, scenario: &mut Scenario, growth: f64) -> Result<()> {
        let Scenario { step, communication } = scenario;
        let largest = step.groups.iter().map(|group| group.size).max();
        let size = |group: &ProcessGroup| match Some(group.size) == largest {
            true => (f64::from(group.size) * growth).round() as u32,
            false => group.size,
        };
        let sizes: Vec<u32> = step.groups.iter().map(size).collect();
        let algorithm = self.algorithm.unwrap_or(communication.algorithm);
        for transfer in &mut step.transfers {
            let [old, new] = [step.groups[transfer.group].size, sizes[transfer.group]];
            if Some(old) != largest {
                continue;
            }
            let cost = communication.groups.get(transfer.group).copied().flatten();
            let bytes = with_ranks(transfer.operation, transfer.bytes.unwrap_or(0), growth);
            let recorded = shape(transfer.operation, communication.algorithm, old, transfer.bytes.unwrap_or(0));
            let changed = shape(transfer.operation, algorithm, new, bytes);
            let messages = if self.messages_count { changed.messages } else { recorded.messages };
            let before = time(cost, recorded);
            let after = time(self.on_links(cost, transfer)?, MessageShape { messages, ..changed });
            let factor = if before > 0.0 { after / before } else { 1.0 };
            let duration = step.graph.node(transfer.node).duration as f64;
            step.graph.set_duration(transfer.node, (duration * factor).round() as u64);
            transfer.bytes = transfer.bytes.map(|_| bytes);
        }
        for cost in communication.groups.iter_mut().flatten() {
            *cost = self.on_own_links(*cost);
        }
        step.groups.iter_mut().zip(sizes).for_each(|(group, size)| group.size = size);
        communication.algorithm = algorithm;
        Ok(())
    }

    /// The cost of a transfer on the links that the change has.
    fn on_links(&self, cost: Option<GroupCost>, transfer: &TransferNode) -> Result<Option<GroupCost>> {
        match cost {
            None if matches!(self.within_node, WithinNode::PerByte(_)) => Err(Error::input(format!(
                "how fast the recorded links are is not known, for the traces do not say how many bytes {} is of",
                transfer.operation
            ))
            .expected("a number of nodes without the rate of their links")),
            cost => Ok(cost.map(|cost| self.on_own_links(cost))),
        }
    }

    fn on_own_links(&self, cost: GroupCost) -> GroupCost {
        let per_byte_within_node = match self.within_node {
            WithinNode::AsRecorded => cost.per_byte_within_node,
            WithinNode::Free => Some(0.0),
            WithinNode::PerByte(per_byte) => Some(per_byte),
        };
        GroupCost { per_byte_within_node, ..cost }
    }
}

/// Refuses jobs whose largest process groups are of several kinds, as of tensor and data parallelism on a square grid: which of
/// them grow is not known.
fn refuse_several_kinds(step: &StepGraph) -> Result<()> {
    let largest = step.groups.iter().map(|group| group.size).max().unwrap_or_default();
    let mut members: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for transfer in step.transfers.iter().filter(|transfer| step.groups[transfer.group].size == largest) {
        members.entry(transfer.group).or_default().extend(transfer.parts.iter().map(|part| part.rank));
    }
    let members: BTreeSet<BTreeSet<usize>> =
        members.into_values().filter(|ranks| ranks.len() as u32 == largest).collect();
    let in_several = |rank: usize| members.iter().filter(|own| own.contains(&rank)).count() > 1;
    match (0..step.ranks.len()).any(in_several) {
        true => Err(Error::input(format!(
            "ranks are in several process groups of {largest} ranks each, and which of these grow with the job is not known"
        ))
        .expected("a job whose largest groups are of one kind")),
        false => Ok(()),
    }
}

/// Nanoseconds of an operation; where only times are known, all of it is taken for bytes, in units of its own.
fn time(cost: Option<GroupCost>, shape: MessageShape) -> f64 {
    match cost {
        Some(cost) => cost.time(shape),
        None => (shape.bytes + shape.bytes_within_node).max(shape.messages),
    }
}

/// Bytes that a rank passes in where there are more ranks: an all-gather of parameters gathers smaller shards.
fn with_ranks(operation: CollectiveOperation, bytes: u64, growth: f64) -> u64 {
    match operation {
        CollectiveOperation::AllGather | CollectiveOperation::Gather => (bytes as f64 / growth).round() as u64,
        CollectiveOperation::AllReduce
        | CollectiveOperation::ReduceScatter
        | CollectiveOperation::AllToAll
        | CollectiveOperation::Broadcast
        | CollectiveOperation::Reduce
        | CollectiveOperation::Scatter
        | CollectiveOperation::Barrier
        | CollectiveOperation::Send
        | CollectiveOperation::Receive
        | CollectiveOperation::SendReceive
        | CollectiveOperation::Other => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::simulate;
    use crate::synthetic::{SyntheticCluster, SyntheticStep, cluster};

    /// Nanoseconds of a cluster's step, and of the same with a change, whose links are of an algorithm.
    fn before_and_after(algorithm: CollectiveAlgorithm, change: &OtherRankCount) -> [u64; 2] {
        let shape = SyntheticCluster { ranks: 4, per_byte: 5.0, ..SyntheticCluster::default() };
        let SyntheticStep { job, mut communication, .. } = cluster(&shape, 1).unwrap();
        communication.algorithm = algorithm;
        let mut scenario = Scenario { step: job, communication };
        let before = scenario.step.time(&simulate(&scenario.step.graph));
        change.apply(&mut scenario).unwrap();
        [before, scenario.step.time(&simulate(&scenario.step.graph))]
    }

    /// Nanoseconds of the first transfer of a cluster, and of the same with a change.
    fn first_transfer(shape: &SyntheticCluster) -> (f64, impl Fn(&dyn StepChange) -> f64) {
        let SyntheticStep { job, communication, .. } = cluster(shape, 1).unwrap();
        let scenario = Scenario { step: job, communication };
        let transfer = scenario.step.transfers[0].node;
        let time = move |scenario: &Scenario| scenario.step.graph.node(transfer).duration as f64;
        let recorded = time(&scenario);
        let changed = move |change: &dyn StepChange| {
            let mut scenario = scenario.clone();
            change.apply(&mut scenario).unwrap();
            time(&scenario)
        };
        (recorded, changed)
    }

    /// As many ranks that do the same in the same way are the same.
    #[test]
    fn as_many_ranks_as_before_change_nothing() {
        for (algorithm, texts) in [
            (CollectiveAlgorithm::Ring, ["4", "4 by ring", "4 on 1 nodes"]),
            (CollectiveAlgorithm::Tree, ["4", "4 by tree", "4  by  tree"]),
        ] {
            for text in texts {
                let [before, after] = before_and_after(algorithm, &ranks(text).unwrap());
                assert_eq!(before, after, "{algorithm:?}: {text}");
            }
        }
    }

    /// 16 ranks send 2 (16 - 1) / 16 = 1.875 of the bytes over links of one speed, however they are grouped; 8 ranks on each of two
    /// nodes send 0.125 of them between the nodes. The 4 recorded ones send 1.5.
    #[test]
    fn links_within_nodes_are_as_fast_as_the_recorded_ones_unless_said() {
        let shape = SyntheticCluster { ranks: 4, latency: 0.0, ..SyntheticCluster::default() };
        let (recorded, time) = first_transfer(&shape);
        let two_nodes = ranks("16 on 2 nodes").unwrap();
        let near = |time: f64, share: f64| (time / recorded / (share / 1.5) - 1.0).abs() < 1e-6;
        assert!(near(time(&two_nodes), 1.875) && near(time(&ranks("16").unwrap()), 1.875));
        let [bound, _] = two_nodes.bounds().try_into().unwrap();
        assert!(near(time(bound.as_ref()), 0.125));
        // Recorded links of 0.1 ns a byte carry 80 Gb/s; those of 800 Gb/s take a tenth of the 1.75 within the nodes.
        let faster = ranks("16 on 2 nodes of 800 Gb/s").unwrap();
        assert!(near(time(&faster), 0.175 + 0.125) && faster.bounds().len() == 1);
        assert!(two_nodes.assumption().unwrap().contains("not in these traces"));
    }

    /// A ring of 4 passes 6 messages on, one of 16 30. Without bytes an operation takes five times as long, or as long as before.
    #[test]
    fn what_is_of_the_operation_does_not_grow() {
        let shape = SyntheticCluster { ranks: 4, per_byte: 0.0, ..SyntheticCluster::default() };
        let (recorded, time) = first_transfer(&shape);
        let more = ranks("16").unwrap();
        let [bound] = more.bounds().try_into().unwrap();
        assert!((time(&more) / recorded - 5.0).abs() < 1e-6 && (time(bound.as_ref()) / recorded - 1.0).abs() < 1e-6);
    }

    /// Four ranks on a grid of 2 x 2: groups of two by row, then by column.
    #[test]
    fn groups_of_several_kinds_and_one_size_do_not_all_grow() {
        let SyntheticStep { job: mut step, communication, .. } =
            cluster(&SyntheticCluster { ranks: 4, layers: 8, ..SyntheticCluster::default() }, 1).unwrap();
        let transfers = std::mem::take(&mut step.transfers);
        let group = ProcessGroup { size: 2, ..step.groups[0].clone() };
        step.groups = vec![group; 4];
        for (transfer, groups) in transfers.into_iter().zip([[[0, 1], [2, 3]], [[0, 2], [1, 3]]].iter().enumerate()) {
            let (kind, groups) = groups;
            for (place, ranks) in groups.iter().enumerate() {
                let mut own = transfer.clone();
                own.group = 2 * kind + place;
                own.parts.retain(|part| ranks.contains(&part.rank));
                step.transfers.push(own);
            }
        }
        let refused = |step: &StepGraph| {
            let mut scenario = Scenario { step: step.clone(), communication: communication.clone() };
            scenario.communication.groups = vec![communication.groups[0]; 4];
            ranks("8").unwrap().apply(&mut scenario).err().map(|error| error.to_string())
        };
        assert!(refused(&step).unwrap().contains("several process groups of 2 ranks"));
        step.transfers.truncate(2);
        assert_eq!(refused(&step), None);
    }

    #[test]
    fn numbers_of_ranks_are_read_or_refused_with_what_is_accepted() {
        let algorithm = |text: &str| ranks(text).map(|ranks| ranks.algorithm);
        assert_eq!(algorithm("64").unwrap(), None);
        assert_eq!(algorithm("64 by ring").unwrap(), Some(CollectiveAlgorithm::Ring));
        assert_eq!(algorithm("64 on 8 nodes").unwrap(), Some(CollectiveAlgorithm::Hierarchical { ranks_per_node: 8 }));
        let refused = [
            ("8 on 9 nodes", "divides"),
            ("8 on 3 nodes", "divides"),
            ("8 on 0 nodes", "from 1 on"),
            ("8 by hierarchical", "on how many nodes"),
            ("8 by star", "8 by star"),
            ("8 on 2 nodes of much", "Gb/s"),
            ("8 by ring on 2 nodes", "64 by ring"),
        ];
        for (text, part) in refused {
            assert!(algorithm(text).unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
