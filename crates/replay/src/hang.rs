//! Why a job hangs, from the dumps of its ranks' flight recorders: which operations some ranks wait in, and which ranks
//! have not come to them, or came with something else.

use crate::collectives::Operation;
use crate::inputs::{Dump, Entry};
use perf4sight_traces::rank_list;
use std::collections::{BTreeMap, BTreeSet};

/// What hangs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hang {
    /// The operations that ranks wait in, the first of each process group; those with ranks that are not there first.
    pub blocked: Vec<Blocked>,
    /// Ranks of process groups without a dump.
    pub silent: BTreeSet<u32>,
    /// Ranks that others wait for and that wait in no operation themselves.
    pub culprits: BTreeSet<u32>,
}

/// An operation that ranks wait in.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// The process group: its description if it has one, else its name.
    pub group: String,
    /// The number of the operation in its group; none of a send or receive.
    pub sequence: Option<u64>,
    /// What most ranks enqueued: `all_reduce`.
    pub operation: String,
    /// The sizes of its inputs.
    pub sizes: Vec<Vec<u64>>,
    /// Where it was enqueued, if the dump contains stacks.
    pub place: Option<String>,
    /// The ranks that wait in it.
    pub waiting: BTreeSet<u32>,
    /// The ranks that have not enqueued it, each with the last that it did in the group.
    pub missing: BTreeMap<u32, Option<String>>,
    /// The ranks that enqueued something else under this number, in words.
    pub different: BTreeMap<u32, String>,
}

/// The operations of a group by their number, and by rank.
type Calls<'a> = BTreeMap<u64, BTreeMap<u32, &'a Entry>>;

impl Hang {
    /// Compares the dumps of a job.
    pub fn of(dumps: &[Dump]) -> Self {
        let mut groups: BTreeMap<(&str, Vec<u32>), Calls<'_>> = BTreeMap::new();
        for dump in dumps {
            for entry in dump.entries.iter().filter(|entry| !entry.is_p2p) {
                let name = entry.process_group.0.as_str();
                let members = dump.groups.get(name).map(|members| members.iter().copied().collect());
                let calls = groups.entry((name, members.unwrap_or_default())).or_default();
                // Operations that were enqueued together share their number; the last one stands for all.
                calls.entry(entry.collective_seq_id).or_default().insert(dump.rank, entry);
            }
        }
        let given: BTreeSet<u32> = dumps.iter().map(|dump| dump.rank).collect();
        let mut hang = Hang::default();
        for ((_, members), calls) in &groups {
            let members = members_of(members, calls, &given);
            hang.silent.extend(members.difference(&given));
            hang.blocked.extend(first_blocked(dumps, &members, calls));
        }
        hang.blocked.extend(lone_transfers(dumps));
        hang.blocked.sort_by_key(|blocked| {
            (blocked.missing.is_empty() && blocked.different.is_empty(), blocked.sequence.is_none())
        });
        let waiting: BTreeSet<u32> = hang.blocked.iter().flat_map(|blocked| blocked.waiting.iter().copied()).collect();
        let missing = hang.blocked.iter().flat_map(|blocked| blocked.missing.keys().copied());
        hang.culprits = missing.filter(|rank| !waiting.contains(rank)).chain(hang.silent.iter().copied()).collect();
        hang
    }

    /// The answer in a sentence; none if nothing hangs.
    pub fn headline(&self) -> Option<String> {
        let first = self.blocked.first()?;
        let call = first.call();
        let waits = |ranks: &BTreeSet<u32>| if ranks.len() == 1 { "waits" } else { "wait" };
        let (who, wait) = (rank_list(&first.waiting), waits(&first.waiting));
        let at = first.place.as_ref().map_or(String::new(), |place| format!(", enqueued at {place}"));
        if !first.different.is_empty() {
            let others: Vec<String> =
                first.different.iter().map(|(rank, what)| format!("rank {rank} {what}")).collect();
            return Some(format!("{who} {wait} in {call}{at}, under whose number {}", others.join(", ")));
        }
        if first.missing.is_empty() {
            return Some(format!(
                "all ranks are in {call}{at}, which does not end: a link or a GPU fails, or an earlier kernel does not end"
            ));
        }
        let missing: BTreeSet<u32> = first.missing.keys().copied().collect();
        let has = if missing.len() == 1 { "has" } else { "have" };
        let mut sentence = format!("{} {has} not come to {call}, in which {who} {wait}{at}", rank_list(&missing));
        if let Some((rank, Some(last))) = first.missing.first_key_value() {
            sentence += &format!("; the last of rank {rank} in that group is {last}");
        }
        if !self.culprits.is_empty() && !missing.is_subset(&self.culprits) {
            sentence += &format!("; {} in no operation, and may be the cause", are(&self.culprits));
        }
        Some(sentence)
    }

    /// Ranks without a dump, in a sentence.
    pub fn warnings(&self) -> Vec<String> {
        let silent = (!self.silent.is_empty())
            .then(|| format!("no dump of {}: dead, or the file is missing", rank_list(&self.silent)));
        silent.into_iter().collect()
    }
}

fn are(ranks: &BTreeSet<u32>) -> String {
    format!("{} {}", rank_list(ranks), if ranks.len() == 1 { "is" } else { "are" })
}

impl Blocked {
    /// Its name in sentences: `all_reduce 7 of default_pg`.
    pub fn call(&self) -> String {
        let number = self.sequence.map_or(String::new(), |sequence| format!(" {sequence}"));
        format!("{}{number} of group {}", self.operation, self.group)
    }
}

/// The ranks of a group: as configured; else all that take part in it, and in the group of all ranks, all that have a dump.
fn members_of(configured: &[u32], calls: &Calls<'_>, given: &BTreeSet<u32>) -> BTreeSet<u32> {
    if !configured.is_empty() {
        return configured.iter().copied().collect();
    }
    if calls.values().flat_map(BTreeMap::values).any(|entry| entry.process_group.1 == "default_pg") {
        return given.clone();
    }
    calls.values().flat_map(|ranks| ranks.keys().copied()).collect()
}

/// The first operation of a group that a rank waits in.
fn first_blocked(dumps: &[Dump], members: &BTreeSet<u32>, calls: &Calls<'_>) -> Option<Blocked> {
    let dump = |rank: u32| dumps.iter().find(|dump| dump.rank == rank);
    let is_done = |rank: u32, entry: &Entry| dump(rank).is_some_and(|dump| dump.is_done(entry));
    calls.iter().find_map(|(sequence, ranks)| {
        let waiting: BTreeSet<u32> =
            ranks.iter().filter(|(rank, entry)| !is_done(**rank, entry)).map(|(rank, _)| *rank).collect();
        if waiting.is_empty() {
            return None;
        }
        let usual = usual(ranks)?;
        let different = ranks.iter().filter_map(|(rank, entry)| Some((*rank, difference(entry, usual)?))).collect();
        // A rank whose recorder has gone on has forgotten this one.
        let is_missing =
            |rank: &&u32| !ranks.contains_key(rank) && last(calls, **rank).is_none_or(|last| last.0 < *sequence);
        let missing = members.iter().filter(|rank| dump(**rank).is_some()).filter(is_missing);
        let missing = missing
            .map(|rank| (*rank, last(calls, *rank).map(|(number, entry)| format!("{} {number}", entry.operation()))));
        let (name, description) = &usual.process_group;
        Some(Blocked {
            group: if description.is_empty() || description == "undefined" { name } else { description }.clone(),
            sequence: Some(*sequence),
            operation: usual.operation().to_owned(),
            sizes: usual.input_sizes.clone(),
            place: usual.place(),
            waiting,
            missing: missing.collect(),
            different,
        })
    })
}

/// The last operation of a rank in a group, and its number.
fn last<'a>(calls: &Calls<'a>, rank: u32) -> Option<(u64, &'a Entry)> {
    calls.iter().rev().find_map(|(number, ranks)| Some((*number, *ranks.get(&rank)?)))
}

/// What most ranks enqueued; of equally many the first.
fn usual<'a>(ranks: &BTreeMap<u32, &'a Entry>) -> Option<&'a Entry> {
    let same = |entry: &Entry| ranks.values().filter(|other| difference(other, entry).is_none()).count();
    ranks.values().rev().max_by_key(|entry| same(entry)).copied()
}

/// How an operation differs from another, if the two do not match.
fn difference(entry: &Entry, usual: &Entry) -> Option<String> {
    if entry.operation() != usual.operation() {
        return Some(format!("enqueued {}", entry.operation()));
    }
    if !Operation::named(entry.operation()).is_even() {
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

/// A rank's send or receive, and whether it is done.
type End<'a> = (u32, &'a Entry, bool);

/// Sends and receives that wait for the other end: more of one than of the other between two ranks.
fn lone_transfers(dumps: &[Dump]) -> Vec<Blocked> {
    let mut pairs: BTreeMap<(&str, String), [Vec<End<'_>>; 2]> = BTreeMap::new();
    for dump in dumps {
        for entry in dump.entries.iter().filter(|entry| entry.is_p2p) {
            let operation = entry.operation();
            let (receives, pair) = match (operation.split_once("->"), operation.split_once("<-")) {
                (Some((from, to)), _) => (0, format!("{}->{to}", digits(from))),
                (None, Some((to, from))) => (1, format!("{from}->{}", digits(to))),
                (None, None) => continue,
            };
            let ends = pairs.entry((&entry.process_group.0, pair)).or_default();
            ends[receives].push((dump.rank, entry, dump.is_done(entry)));
        }
    }
    let lone = pairs.into_iter().filter_map(|((group, _), [sends, receives])| {
        let (more, fewer) = if sends.len() > receives.len() { (sends, receives) } else { (receives, sends) };
        let (rank, entry, is_done) = *more.get(fewer.len())?;
        let peer = fewer.first().map(|(rank, ..)| *rank);
        (!is_done).then(|| Blocked {
            group: group.to_owned(),
            sequence: None,
            operation: entry.operation().to_owned(),
            sizes: entry.input_sizes.clone(),
            place: entry.place(),
            waiting: BTreeSet::from([rank]),
            missing: peer.map(|peer| (peer, None)).into_iter().collect(),
            different: BTreeMap::new(),
        })
    });
    lone.collect()
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}
