//! Collective operations that do not end: of each group the first that a rank waits in.

use super::BlockedOperation;
use super::members::{self, KnownMembers};
use crate::collectives::CollectiveOperation;
use crate::inputs::{FlightDump, FlightEntry};
use std::collections::{BTreeMap, BTreeSet};

/// The operations of a group by their number, and by rank.
type GroupCalls<'a> = BTreeMap<u64, BTreeMap<u32, &'a FlightEntry>>;

/// The first operation of each group that a rank waits in.
pub(super) fn blocked_collectives(dumps: &[FlightDump]) -> Vec<BlockedOperation> {
    let mut groups: BTreeMap<(&str, KnownMembers), GroupCalls<'_>> = BTreeMap::new();
    for dump in dumps {
        let mut known: BTreeMap<&str, KnownMembers> = BTreeMap::new();
        for entry in dump.entries.iter().filter(|entry| !entry.is_p2p) {
            let name = entry.process_group.0.as_str();
            let members = known.entry(name).or_insert_with(|| members::find_members(dumps, dump, entry));
            let calls = groups.entry((name, members.clone())).or_default();
            // Operations that were enqueued together share their number; the last one stands for all.
            calls.entry(entry.collective_seq_id).or_default().insert(dump.rank, entry);
        }
    }
    groups.iter().filter_map(|((_, members), calls)| first_blocked(dumps, members, calls)).collect()
}

fn first_blocked(dumps: &[FlightDump], members: &KnownMembers, calls: &GroupCalls<'_>) -> Option<BlockedOperation> {
    let dump = |rank: u32| dumps.iter().find(|dump| dump.rank == rank);
    let is_done = |rank: u32, entry: &FlightEntry| dump(rank).is_some_and(|dump| dump.is_done(entry));
    calls.iter().find_map(|(&sequence, ranks)| {
        let undone = ranks.iter().filter(|(rank, entry)| !is_done(**rank, entry));
        let mut waiting: BTreeMap<u32, &FlightEntry> = undone.map(|(rank, entry)| (*rank, *entry)).collect();
        let usual = most_common(&waiting)?;
        waiting.retain(|_, entry| difference(entry, usual).is_none());
        let different = ranks.iter().filter_map(|(rank, entry)| Some((*rank, difference(entry, usual)?))).collect();
        let (given, silent): (BTreeSet<u32>, _) = members.ranks.iter().partition(|rank| dump(**rank).is_some());
        Some(BlockedOperation {
            sequence: Some(sequence),
            behind: ranks_behind(&waiting),
            waiting: waiting.into_keys().collect(),
            missing: missing(calls, sequence, given.iter().filter_map(|rank| dump(*rank))),
            silent,
            different,
            all_known: members.all_known,
            ..BlockedOperation::in_operation(usual)
        })
    })
}

/// The ranks that have not come to an operation of a group, each with its last one. A rank whose recorder has gone on has
/// forgotten the operation.
fn missing<'a>(
    calls: &GroupCalls<'_>,
    sequence: u64,
    given: impl Iterator<Item = &'a FlightDump>,
) -> BTreeMap<u32, Option<String>> {
    let last = |rank: u32| calls.iter().rev().find_map(|(number, ranks)| Some((*number, *ranks.get(&rank)?)));
    let has_come = |rank: u32| last(rank).is_some_and(|(number, _)| number >= sequence);
    let named = |dump: &FlightDump| {
        let read = if dump.damaged > 0 { ", as far as its dump could be read" } else { "" };
        last(dump.rank).map(|(number, entry)| format!("{} {number}{read}", entry.operation()))
    };
    given.filter(|dump| !has_come(dump.rank)).map(|dump| (dump.rank, named(dump))).collect()
}

/// Ranks whose GPU has not begun what others have. Without timing the recorder notices no beginning on any rank.
fn ranks_behind(waiting: &BTreeMap<u32, &FlightEntry>) -> BTreeSet<u32> {
    let has_begun = |entry: &FlightEntry| entry.state == "started" || entry.time_discovered_started_ns > 0;
    let (begun, behind): (Vec<_>, Vec<_>) = waiting.iter().partition(|(_, entry)| has_begun(entry));
    if begun.is_empty() { BTreeSet::new() } else { behind.into_iter().map(|(rank, _)| *rank).collect() }
}

/// What most ranks enqueued; of equally many the first. None of no ranks.
fn most_common<'a>(ranks: &BTreeMap<u32, &'a FlightEntry>) -> Option<&'a FlightEntry> {
    let same = |entry: &FlightEntry| ranks.values().filter(|other| difference(other, entry).is_none()).count();
    ranks.values().rev().max_by_key(|entry| same(entry)).copied()
}

/// How an operation differs from another, if the two do not match.
fn difference(entry: &FlightEntry, usual: &FlightEntry) -> Option<String> {
    if entry.operation() != usual.operation() {
        return Some(format!("enqueued {}", entry.operation()));
    }
    if !CollectiveOperation::from_name(entry.operation()).is_even() {
        return None;
    }
    if entry.input_sizes != usual.input_sizes {
        return Some(format!("enqueued {} of {:?}, not {:?}", entry.operation(), entry.input_sizes, usual.input_sizes));
    }
    (entry.input_dtypes != usual.input_dtypes).then(|| {
        format!(
            "enqueued {} of {}, not {}",
            entry.operation(),
            entry.input_dtypes.join(", "),
            usual.input_dtypes.join(", ")
        )
    })
}

impl BlockedOperation {
    /// An operation, without any ranks.
    pub(super) fn in_operation(entry: &FlightEntry) -> Self {
        let (name, description) = &entry.process_group;
        BlockedOperation {
            group: if description.is_empty() || description == "undefined" { name } else { description }.clone(),
            sequence: None,
            operation: entry.operation().to_owned(),
            sizes: entry.input_sizes.clone(),
            place: entry.script_line(),
            waiting: BTreeSet::new(),
            behind: BTreeSet::new(),
            missing: BTreeMap::new(),
            silent: BTreeSet::new(),
            different: BTreeMap::new(),
            all_known: false,
        }
    }
}
