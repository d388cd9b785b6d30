//! Sends and receives of gloo name their peer by its number in the process group, and not the group. The traces list the groups: a
//! peer is the rank that takes as many messages of this rank as this one sends to it.

use super::{CollectiveCall, CollectiveOperation};
use crate::ranks::TrainingJob;
use std::collections::HashMap;

/// Sender, receiver, and the index of a process group.
type PeerLink = (u32, u32, usize);

/// Gives the sends and receives of processors the numbers of their peers in the job.
pub(super) fn to_job(job: &TrainingJob, calls: &mut [Vec<CollectiveCall>]) {
    let groups = groups(job);
    if groups.iter().all(|group| group.iter().zip(0..).all(|(rank, place)| *rank == place)) {
        return;
    }
    let numbers: Vec<u32> = job.ranks.iter().map(|rank| rank.number).collect();
    let mut ends: HashMap<PeerLink, [usize; 2]> = HashMap::new();
    for (own, call) in numbers.iter().zip(&*calls).flat_map(|(own, calls)| calls.iter().map(move |call| (*own, call))) {
        for (_, link) in links(own, call, &groups) {
            ends.entry(link).or_default()[end(call)] += 1;
        }
    }
    let is_whole = |link: &PeerLink| {
        let is_given = [link.0, link.1].iter().all(|rank| numbers.contains(rank));
        ends.get(link).is_some_and(|[sent, received]| sent == received) || !is_given
    };
    for (own, calls) in numbers.iter().zip(calls) {
        for call in calls {
            // The largest group is the default one.
            let known = links(*own, call, &groups).into_iter().find(|(_, link)| is_whole(link));
            if let Some((peer, _)) = known {
                call.arguments.peers[1 - end(call)] = Some(peer);
            }
        }
    }
}

/// The process groups that any trace lists, the largest first.
fn groups(job: &TrainingJob) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = job.ranks.iter().flat_map(|rank| rank.trace.header.groups.clone()).collect();
    groups.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    groups.dedup();
    groups
}

/// The place of a call's own rank among sender and receiver.
fn end(call: &CollectiveCall) -> usize {
    usize::from(call.operation == CollectiveOperation::Receive)
}

/// The peers that a call may be with: their numbers in the job, and the link in each group.
fn links(own: u32, call: &CollectiveCall, groups: &[Vec<u32>]) -> Vec<(u32, PeerLink)> {
    let arguments = &call.arguments;
    if !call.operation.is_between_two() || !arguments.ranks.is_empty() || !arguments.group.is_empty() {
        return Vec::new();
    }
    let Some(place) = arguments.peers[1 - end(call)] else { return Vec::new() };
    let link = |(index, group): (usize, &Vec<u32>)| {
        let peer = *group.get(place as usize).filter(|peer| group.contains(&own) && **peer != own)?;
        Some((peer, if end(call) == 0 { (own, peer, index) } else { (peer, own, index) }))
    };
    groups.iter().enumerate().filter_map(link).collect()
}
