//! Matches sends and receives that were enqueued together (`batch_isend_irecv`), by their order, size and ends.

use super::matching::{OrderKey, named_peers, of_step, step_names, transfer};
use super::{CollectiveCall, CollectiveOperation, ExchangePart, PeerMessage, RankExchange};
use crate::ranks::TrainingJob;
use std::collections::{BTreeMap, HashMap};

/// The batches of all ranks as exchanges: those between which a message goes belong together, for none ends before the
/// others take part.
pub(super) fn match_batches(job: &TrainingJob, calls: &[Vec<CollectiveCall>]) -> Vec<RankExchange> {
    let mut batches: Vec<ExchangePart> = Vec::new();
    let mut messages: HashMap<(OrderKey, usize), Vec<usize>> = HashMap::new();
    for (rank, calls) in calls.iter().enumerate() {
        let mut seen: HashMap<OrderKey, usize> = HashMap::new();
        let names = step_names(job, rank);
        for (index, call) in calls.iter().enumerate().filter(|(_, call)| is_batch(call)) {
            let step = call.step.map(|step| names[step].clone());
            for message in &call.batch {
                let alike = transfer(message, job.ranks[rank].number, step.clone());
                let nth = seen.entry(alike.clone()).and_modify(|count| *count += 1).or_insert(0);
                messages.entry((alike, *nth)).or_default().push(batches.len());
            }
            batches.push(ExchangePart { rank, call: index });
        }
    }
    let together = connected_sets(batches.len(), messages.values());
    let mut exchanges: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    together.iter().enumerate().for_each(|(batch, first)| exchanges.entry(*first).or_default().push(batch));
    let given = |rank: &Option<u32>| job.ranks.iter().any(|own| Some(own.number) == *rank);
    let mut is_alone = vec![false; batches.len()];
    for ((alike, _), ends) in messages.iter().filter(|((alike, _), _)| alike.peers.iter().all(given)) {
        ends.iter().for_each(|batch| is_alone[*batch] |= ends.len() < 2 && alike.peers[0] != alike.peers[1]);
    }
    let exchange = |batches_of: Vec<usize>| {
        let whole = batches_of.len() > 1 && !batches_of.iter().any(|batch| is_alone[*batch]);
        exchange(job, calls, batches_of.into_iter().map(|batch| batches[batch]).collect(), whole)
    };
    exchanges.into_values().map(exchange).collect()
}

/// Whether a call is a batch whose ends are all known.
pub(super) fn is_batch(call: &CollectiveCall) -> bool {
    let knows_ends = |message: &PeerMessage| named_peers(&message.arguments).iter().any(Option::is_some);
    !call.batch.is_empty() && call.batch.iter().all(knows_ends)
}

/// For each of `count` things the first one that it belongs to, through one of the sets or several.
pub(crate) fn connected_sets<'a>(count: usize, sets: impl Iterator<Item = &'a Vec<usize>>) -> Vec<usize> {
    let mut first: Vec<usize> = (0..count).collect();
    for set in sets {
        for pair in set.windows(2) {
            let [one, other] = [pair[0], pair[1]].map(|thing| find_root(&first, thing));
            first[one.max(other)] = one.min(other);
        }
    }
    (0..count).map(|thing| find_root(&first, thing)).collect()
}

fn find_root(first: &[usize], mut thing: usize) -> usize {
    while first[thing] != thing {
        thing = first[thing];
    }
    thing
}

fn exchange(job: &TrainingJob, calls: &[Vec<CollectiveCall>], parts: Vec<ExchangePart>, whole: bool) -> RankExchange {
    let first = &calls[parts[0].rank][parts[0].call];
    let bytes = |part: &ExchangePart| calls[part.rank][part.call].batch.iter().filter_map(PeerMessage::bytes).max();
    RankExchange {
        operation: CollectiveOperation::SendReceive,
        group: first.arguments.group.clone(),
        ranks: first.arguments.ranks.clone(),
        bytes: parts.iter().filter_map(bytes).max(),
        step: first.step.and_then(|step| of_step(job, parts[0].rank, step)),
        whole,
        parts,
    }
}
