//! Sends and receives that do not end, matched by sender and receiver.

use super::BlockedOperation;
use super::members::{self, ALL_RANKS, KnownMembers};
use crate::inputs::{FlightDump, FlightEntry};
use std::collections::{BTreeMap, BTreeSet};

/// A send or receive.
struct TransferEnd<'a> {
    dump: &'a FlightDump,
    entry: &'a FlightEntry,
    is_done: bool,
}

/// The sends and the receives from one rank to another, whose numbers are those in their group.
#[derive(Default)]
struct PeerPair<'a> {
    sends: Vec<TransferEnd<'a>>,
    receives: Vec<TransferEnd<'a>>,
}

/// A group, and sender and receiver by their numbers in it.
type PeerPairs<'a> = BTreeMap<(&'a str, KnownMembers, [u32; 2]), PeerPair<'a>>;

/// The first transfer between any two ranks that one of them waits in.
pub(super) fn blocked_transfers(dumps: &[FlightDump]) -> Vec<BlockedOperation> {
    let mut pairs = PeerPairs::new();
    for dump in dumps {
        add(dumps, dump, &mut pairs);
    }
    let of_pair = |((_, members, numbers), pair): (&(&str, KnownMembers, [u32; 2]), &PeerPair<'_>)| {
        let peer = |number: u32| global(pair, members, number);
        let sender = waiting(dumps, &pair.sends, &pair.receives, peer(numbers[1]));
        // Where both ends are there, the sender's stands for the two.
        let one_for_both = sender.as_ref().is_some_and(|sender| sender.waiting.len() > 1);
        let receiver = if one_for_both { None } else { waiting(dumps, &pair.receives, &pair.sends, peer(numbers[0])) };
        sender.into_iter().chain(receiver)
    };
    pairs.iter().flat_map(of_pair).collect()
}

fn add<'a>(dumps: &[FlightDump], dump: &'a FlightDump, pairs: &mut PeerPairs<'a>) {
    let batches = batches(dump);
    let mut known: BTreeMap<&str, KnownMembers> = BTreeMap::new();
    for entry in dump.entries.iter().filter(|entry| entry.is_p2p) {
        let Some(numbers) = entry.peers() else { continue };
        let name = entry.process_group.0.as_str();
        let members = known.entry(name).or_insert_with(|| members::find_members(dumps, dump, entry));
        let pair = pairs.entry((name, members.clone(), numbers)).or_default();
        let batch = batches.get(&(name, entry.p2p_seq_id));
        let end = TransferEnd { dump, entry, is_done: dump.is_done(batch.copied().unwrap_or(entry)) };
        if entry.is_send() { &mut pair.sends } else { &mut pair.receives }.push(end);
    }
}

/// What `batch_isend_irecv` enqueued together, by group and number: only the entry for all of it has states
/// (torch/distributed/flight_recorder/components/builder.py).
fn batches(dump: &FlightDump) -> BTreeMap<(&str, u64), &FlightEntry> {
    let whole = dump.entries.iter().filter(|entry| entry.is_p2p && entry.operation() == "coalesced");
    whole.map(|entry| ((entry.process_group.0.as_str(), entry.p2p_seq_id), entry)).collect()
}

/// The number in the job of a rank that has a number in a group.
fn global(pair: &PeerPair<'_>, members: &KnownMembers, number: u32) -> Option<u32> {
    if members.all_known {
        return members.ranks.iter().nth(number as usize).copied();
    }
    let mut ends = pair.sends.iter().chain(&pair.receives);
    ends.any(|end| end.entry.process_group.1 == ALL_RANKS).then_some(number)
}

/// The first send (or receive) that its rank waits in, if there is one, with whether the peer has come.
fn waiting(
    dumps: &[FlightDump],
    own: &[TransferEnd<'_>],
    other: &[TransferEnd<'_>],
    peer: Option<u32>,
) -> Option<BlockedOperation> {
    let first = own.iter().find(|end| !end.is_done)?;
    let mut blocked = BlockedOperation {
        waiting: BTreeSet::from([first.dump.rank]),
        all_known: peer.is_some(),
        ..BlockedOperation::in_operation(first.entry)
    };
    let pending = other.iter().find(|end| !end.is_done);
    let forgets = |dump: Option<&FlightDump>| dump.is_some_and(FlightDump::is_incomplete);
    let peer_dump = dumps.iter().find(|dump| Some(dump.rank) == peer);
    let has_come = match forgets(Some(first.dump)) || forgets(peer_dump) {
        // How many there were in all is not known.
        true => pending.is_some(),
        false => other.len() > own.iter().filter(|end| end.is_done).count(),
    };
    match (peer, peer_dump) {
        (Some(_), Some(_)) if has_come => blocked.waiting.extend(pending.map(|end| end.dump.rank)),
        (Some(peer), Some(_)) => _ = blocked.missing.insert(peer, None),
        (Some(peer), None) => _ = blocked.silent.insert(peer),
        (None, _) => {}
    }
    Some(blocked)
}
