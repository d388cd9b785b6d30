//! What the patched NCCL of the published layout recorded: the rings or trees of each channel, and each message.

use crate::inputs::chrome::{ChromeSpan, ChromeTimeline};
use crate::inputs::contents;
use perf4sight_base::error::{Error, Result};
use perf4sight_traces::intervals::Interval;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The place of one rank in the rings and trees of `nccl_rank_graph.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NcclTopology {
    pub rank: Option<u32>,
    /// By channel, the ranks before and after it in the ring.
    pub rings: BTreeMap<u32, [Option<u32>; 2]>,
    /// By channel, the ranks above and below it in the tree.
    pub trees: BTreeMap<u32, BTreeSet<u32>>,
}

/// A message of a collective operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NcclMessage {
    /// The tensors that it is part of: `1+2`.
    pub tensors: Vec<String>,
    /// `SEND` or `RECV`.
    pub direction: String,
    /// The numbers of loop, channel, chunk and slice.
    pub part: [u64; 4],
    pub time: Interval,
}

pub(super) const GRAPH: &str = "nccl_rank_graph.json";
pub(super) const MESSAGES: &str = "comm_detail.json";

impl NcclTopology {
    /// Reads the file of a GPU's folder, if it is there.
    ///
    /// # Errors
    /// A file that is no JSON.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(GRAPH);
        if !file.exists() {
            return Ok(NcclTopology::default());
        }
        let graph: Value = serde_json::from_slice(&contents::read(&file)?.bytes)
            .map_err(|cause| Error::input(format!("is not JSON: {cause}")).file(&file))?;
        let mut topology = NcclTopology::default();
        let trees = graph.get("Tree").and_then(|trees| trees.get("-1")).and_then(Value::as_str);
        trees.unwrap_or_default().split('[').skip(1).for_each(|channel| topology.add_tree(channel));
        let rings = graph.get("RealRing").or_else(|| graph.get("Ring")).and_then(Value::as_object);
        for (channel, links) in rings.into_iter().flatten() {
            topology.add_ring(channel, links.as_str().unwrap_or_default());
        }
        Ok(topology)
    }

    /// A channel of the trees: `0] 1/-1/-1->0->-1|-1->0->1/-1/-1`, children, the rank, its parent, and the same back.
    fn add_tree(&mut self, text: &str) {
        let Some((channel, links)) = text.split_once(']') else { return };
        let mut parts = links.trim().split("->");
        let (children, rank, parent) =
            (parts.next().unwrap_or_default(), parts.next(), parts.next().unwrap_or_default());
        let numbers = children.split('/').chain(parent.split('|')).filter_map(|text| text.parse::<u32>().ok());
        self.rank = self.rank.or_else(|| rank?.trim().parse().ok());
        if let Ok(channel) = channel.trim().parse() {
            self.trees.entry(channel).or_default().extend(numbers);
        }
    }

    /// A channel of the rings: `3[3000] -> 0[2000] [receive] via NET/Socket/0,0[2000] -> 1[3000] via P2P`.
    fn add_ring(&mut self, channel: &str, links: &str) {
        let Ok(channel) = channel.parse::<u32>() else { return };
        for link in links.split(',') {
            let number = |text: &str| text.split('[').next().and_then(|rank| rank.trim().parse::<u32>().ok());
            let Some((from, to)) = link.split_once("->") else { continue };
            let (Some(from), Some(to)) = (number(from), number(to)) else { continue };
            let own = *self.rank.get_or_insert(if link.contains("receive") { to } else { from });
            let ring = self.rings.entry(channel).or_default();
            ring[0] = if to == own { Some(from) } else { ring[0] };
            ring[1] = if from == own { Some(to) } else { ring[1] };
        }
    }

    /// All ranks that it names.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        let rings = self.rings.values().flatten().flatten();
        self.rank.iter().chain(rings).chain(self.trees.values().flatten()).copied()
    }
}

/// Sentences about rings that do not close: a rank whose successor has another predecessor.
pub(super) fn broken_rings(topologies: &[NcclTopology]) -> Vec<String> {
    let mut broken = Vec::new();
    for topology in topologies {
        for (channel, [_, next]) in &topology.rings {
            let after = topologies.iter().find(|other| other.rank.is_some() && other.rank == *next);
            let before = after.and_then(|after| after.rings.get(channel)?[0]);
            if let (Some(rank), Some(next), Some(before)) = (topology.rank, next, before)
                && before != rank
            {
                broken.push(format!(
                    "the ring of channel {channel} is broken: rank {rank} sends to rank {next}, which receives from rank {before}"
                ));
            }
        }
    }
    broken
}

/// The messages in a GPU's folder; none where that GPU exchanges nothing that NCCL records. Warnings are added.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn messages(folder: &Path, warnings: &mut Vec<String>) -> Result<Vec<NcclMessage>> {
    let file = folder.join(MESSAGES);
    // Where GPUs of one machine exchange data directly, the published recorder leaves the file empty.
    if std::fs::metadata(&file).map_or(true, |file| file.len() == 0) {
        return Ok(Vec::new());
    }
    let timeline = ChromeTimeline::read(&file)?;
    warnings.extend(timeline.warnings);
    Ok(timeline.spans.iter().filter_map(message).collect())
}

/// A message by its name, `Comm.1+2.SEND`, and its arguments; another name in double angle brackets may be in it.
fn message(span: &ChromeSpan) -> Option<NcclMessage> {
    let name = match (span.name.split_once("<<"), span.name.split_once(">>")) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => span.name.clone(),
    };
    let (rest, direction) = name.rsplit_once('.').filter(|(_, word)| ["SEND", "RECV"].contains(word))?;
    let tensors = rest.rsplit_once('.').map_or(rest, |(_, tensors)| tensors);
    let mut tensors: Vec<String> = tensors.split('+').map(str::to_owned).collect();
    tensors.sort_by_key(|tensor| tensor.parse::<u64>().unwrap_or(u64::MAX));
    let part = ["loopId", "channelId", "chunkId", "sliceId"].map(|key| span.args.get(key).map_or(0, parse_whole));
    Some(NcclMessage { tensors, direction: direction.to_owned(), part, time: span.time })
}

fn parse_whole(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are those that NCCL logs, as the published program's comments quote them.
    #[test]
    fn rings_and_trees_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"Tree": {"-1": "[0] 1/-1/-1->0->-1|-1->0->1/-1/-1 [1] 1/-1/-1->0->3|3->0->1/-1/-1"},
            "RealRing": {"0": "3[3000] -> 0[2000] [receive] via NET/Socket/0,0[2000] -> 1[3000] via direct shared memory"}}"#;
        std::fs::write(folder.path().join(GRAPH), text).unwrap();
        let topology = NcclTopology::read(folder.path()).unwrap();
        assert_eq!((topology.rank, topology.rings[&0]), (Some(0), [Some(3), Some(1)]));
        assert_eq!(topology.trees[&1], BTreeSet::from([1, 3]));
        assert_eq!(topology.ranks().max(), Some(3));
    }

    #[test]
    fn rings_that_do_not_close_are_named() {
        let ring = |rank: u32, before: u32, next: u32| NcclTopology {
            rank: Some(rank),
            rings: BTreeMap::from([(0, [Some(before), Some(next)])]),
            trees: BTreeMap::new(),
        };
        assert!(broken_rings(&[ring(0, 2, 1), ring(1, 0, 2), ring(2, 1, 0)]).is_empty());
        let broken = broken_rings(&[ring(0, 2, 1), ring(1, 2, 2), ring(2, 1, 0)]);
        assert_eq!(broken, ["the ring of channel 0 is broken: rank 0 sends to rank 1, which receives from rank 2"]);
    }
}
