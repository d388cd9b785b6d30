//! What the other ranks do in a step, and how one rank differs from them: in the time of its operations, and in operations that it or they alone do.

use crate::graph::{NodeId, ResourceId, ResourceKind, StepGraph, WorkKind};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Percent;
use perf4sight_traces::NameId;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A rank does what the others do where it does so much of their work, by time: stages of a pipeline do not.
const SAME_WORK: f64 = 0.9;

/// What a node does, on any rank: a range around it, which one rank alone may have, is no other work.
type NodeWork = (WorkKind, NameId);

/// A thread or stream.
struct WorkTrack {
    kind: ResourceKind,
    nodes: Vec<NodeId>,
    work: Vec<NodeWork>,
}

/// How a rank differs from others.
pub(super) struct RankDifference {
    /// Nodes of the rank, with what the others take for them.
    pub durations: Vec<(NodeId, u64)>,
    /// Nodes of the rank that the others do not have.
    pub alone: BTreeSet<NodeId>,
    /// The others that it was compared with: some of them, where they do not do the same as each other.
    pub compared: BTreeSet<u32>,
}

/// Ranks that do the same work as each other, each with its threads and streams.
type AlikeRanks = Vec<(u32, Vec<WorkTrack>)>;

/// How a rank differs from the others that do the same work as it does; if none does, from the most that do the same as each other.
///
/// # Errors
/// A rank that does other work.
pub(super) fn difference(step: &StepGraph, rank: u32, others: &[u32]) -> Result<RankDifference> {
    let mut own = tracks(step, rank);
    let alike = alike(step, others, &own);
    let compared = alike.iter().map(|(number, _)| *number).collect();
    let mut difference = RankDifference { durations: Vec::new(), alone: BTreeSet::new(), compared };
    let (mut done, mut all) = (0, 0);
    for (place, typical) in alike.first().iter().flat_map(|(_, tracks)| tracks.iter().enumerate()) {
        let times = medians(step, &alike, place);
        all += times.iter().sum::<u64>();
        // The thread or stream that does most of the same.
        let common = |place: &usize| common(&own[*place].work, &typical.work);
        let same_kind = (0..own.len()).filter(|place| own[*place].kind == typical.kind);
        let Some(place) = same_kind.rev().max_by_key(common) else { continue };
        done += difference.add(&own.remove(place), &typical.work, &times);
    }
    own.iter().for_each(|track| difference.leave_out(track, 0..track.nodes.len()));
    let share = done as f64 / all.max(1) as f64;
    match share >= SAME_WORK {
        true => Ok(difference),
        false => Err(Error::input(format!(
            "rank {rank} does other work than the other ranks, or its trace lost events: of what they do, by time, it does {}",
            Percent(100.0 * share)
        ))
        .expected(format!(
            "a rank that does {} of it or more, and perhaps other things beside it",
            Percent(100.0 * SAME_WORK)
        ))),
    }
}

/// The others that do the same as the rank, or else the most that do the same as each other; of several as many those with the lowest rank.
fn alike(step: &StepGraph, others: &[u32], own: &[WorkTrack]) -> AlikeRanks {
    let mut groups: Vec<AlikeRanks> = Vec::new();
    for (number, tracks) in others.iter().map(|number| (*number, tracks(step, *number))) {
        match groups.iter_mut().find(|group| is_same_work(&group[0].1, &tracks)) {
            Some(group) => group.push((number, tracks)),
            None => groups.push(vec![(number, tracks)]),
        }
    }
    let as_own = |group: &AlikeRanks| is_same_work(&group[0].1, own);
    groups.into_iter().rev().max_by_key(|group| (as_own(group), group.len())).unwrap_or_default()
}

/// What ranks that do the same take for each node of one of their tracks: the median.
fn medians(step: &StepGraph, alike: &AlikeRanks, track: usize) -> Vec<u64> {
    let median = |node: usize| {
        let times = alike.iter().map(|(_, tracks)| step.graph.node(tracks[track].nodes[node]).duration);
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        times[(times.len() - 1) / 2].midpoint(times[times.len() / 2])
    };
    (0..alike[0].1[track].nodes.len()).map(median).collect()
}

impl RankDifference {
    /// Adds a track of the rank beside that of the others, with their times; nanoseconds of theirs that the rank does, too.
    fn add(&mut self, own: &WorkTrack, others: &[NodeWork], times: &[u64]) -> u64 {
        let mut done = 0;
        // What the others alone do takes its time after what comes before it on both.
        let mut late = 0;
        let first = self.durations.len();
        for change in capture_diff_slices(Algorithm::Myers, &own.work, others) {
            match change {
                DiffOp::Equal { old_index, new_index, len } => {
                    for at in 0..len {
                        let time = times[new_index + at];
                        self.durations.push((own.nodes[old_index + at], time));
                        done += time;
                    }
                }
                DiffOp::Delete { old_index, old_len, .. } => self.leave_out(own, old_index..old_index + old_len),
                DiffOp::Insert { new_index, new_len, .. } => {
                    late += self.later(first, &times[new_index..new_index + new_len]);
                }
                DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                    self.leave_out(own, old_index..old_index + old_len);
                    late += self.later(first, &times[new_index..new_index + new_len]);
                }
            }
        }
        self.durations.get_mut(first).into_iter().for_each(|(_, time)| *time += late);
        done
    }

    /// Gives times of the others to the last node that both have; returns them where there is none yet.
    fn later(&mut self, first: usize, times: &[u64]) -> u64 {
        let all = times.iter().sum();
        match self.durations[first..].last_mut() {
            Some((_, time)) => {
                *time += all;
                0
            }
            None => all,
        }
    }

    /// Leaves out nodes of the rank: all but those that wait for an exchange, which takes place.
    fn leave_out(&mut self, own: &WorkTrack, places: Range<usize>) {
        let waits = |place: &usize| own.work[*place].0 == WorkKind::Wait;
        self.alone.extend(places.filter(|place| !waits(place)).map(|place| own.nodes[place]));
    }
}

/// The nodes of a rank by thread and stream, in the order of what these do: their own is that in which they come in a trace.
fn tracks(step: &StepGraph, rank: u32) -> Vec<WorkTrack> {
    let is_own =
        |id: &NodeId| step.graph.resource_of(*id).rank == Some(rank) && step.graph.node(*id).kind != WorkKind::Launch;
    let mut tracks: BTreeMap<ResourceId, Vec<NodeId>> = BTreeMap::new();
    for id in step.graph.ids().filter(is_own) {
        tracks.entry(step.graph.node(id).resource).or_default().push(id);
    }
    let track = |nodes: Vec<NodeId>| WorkTrack {
        kind: step.graph.resource_of(nodes[0]).kind,
        work: nodes.iter().map(|id| work(step, *id)).collect(),
        nodes,
    };
    let mut tracks: Vec<WorkTrack> = tracks.into_values().map(track).collect();
    tracks.sort_by(|one, other| one.work.cmp(&other.work));
    tracks
}

fn work(step: &StepGraph, id: NodeId) -> NodeWork {
    let node = step.graph.node(id);
    (node.kind, step.graph.calls().name_id(node.call))
}

fn is_same_work(one: &[WorkTrack], other: &[WorkTrack]) -> bool {
    one.iter().map(|track| &track.work).eq(other.iter().map(|track| &track.work))
}

/// How much two tracks have in common, in any order.
fn common(own: &[NodeWork], others: &[NodeWork]) -> usize {
    let mut counts: BTreeMap<NodeWork, usize> = BTreeMap::new();
    own.iter().for_each(|work| *counts.entry(*work).or_default() += 1);
    let take = |work: &&NodeWork| counts.get_mut(work).filter(|left| **left > 0).map(|left| *left -= 1).is_some();
    others.iter().filter(take).count()
}
