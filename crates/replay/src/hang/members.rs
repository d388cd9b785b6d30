//! Which ranks a process group has, as far as dumps tell it.

use crate::inputs::{FlightDump, FlightEntry};
use std::collections::BTreeSet;

/// The ranks of a group, and whether these are all.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KnownMembers {
    pub ranks: BTreeSet<u32>,
    pub all_known: bool,
}

/// The group of an operation: as configured in the dump or in that of another of its ranks. Of the group of all ranks
/// without any configuration those that anything names.
pub(super) fn find_members(dumps: &[FlightDump], dump: &FlightDump, entry: &FlightEntry) -> KnownMembers {
    let (name, description) = &entry.process_group;
    let has_own = |members: &&BTreeSet<u32>| members.contains(&dump.rank);
    let others = dumps.iter().filter_map(|dump| dump.groups.get(name));
    if let Some(ranks) = dump.groups.get(name).into_iter().chain(others).find(has_own) {
        return KnownMembers { ranks: ranks.clone(), all_known: true };
    }
    if description == ALL_RANKS { all_ranks(dumps) } else { KnownMembers::default() }
}

/// The description of the group that `init_process_group` makes.
pub(super) const ALL_RANKS: &str = "default_pg";

/// All ranks of the job that have a dump, are in any group, or are known by the sizes of what all ranks gather.
fn all_ranks(dumps: &[FlightDump]) -> KnownMembers {
    let named = dumps.iter().flat_map(|dump| dump.groups.values().flatten().copied().chain([dump.rank]));
    let mut ranks: BTreeSet<u32> = named.collect();
    let entries = dumps.iter().flat_map(|dump| &dump.entries);
    let gathered = entries.filter(|entry| entry.process_group.1 == ALL_RANKS).filter_map(gathered_ranks).next();
    ranks.extend(0..gathered.unwrap_or_default());
    KnownMembers { all_known: gathered.is_some_and(|count| count as usize == ranks.len()), ranks }
}

/// The number of ranks whose inputs make up the output of an operation that gathers those of all. Larger ones than any job
/// has are of a damaged dump.
fn gathered_ranks(entry: &FlightEntry) -> Option<u32> {
    if !entry.operation().contains("all_gather") {
        return None;
    }
    let [input, output] = entry.elements()?;
    (input > 0 && output % input == 0).then_some(output / input).filter(|count| *count <= MOST)?.try_into().ok()
}

const MOST: u64 = 1_000_000;

/// Ranks of groups that are in use, and have no dump.
pub(super) fn ranks_without_dump(dumps: &[FlightDump]) -> BTreeSet<u32> {
    let mut silent = BTreeSet::new();
    for dump in dumps {
        let mut seen = BTreeSet::new();
        for entry in dump.entries.iter().filter(|entry| seen.insert(&entry.process_group)) {
            silent.extend(find_members(dumps, dump, entry).ranks);
        }
    }
    dumps.iter().for_each(|dump| _ = silent.remove(&dump.rank));
    silent
}
