//! The operations of dumps as events, where the recorder noted when they took place. It keeps only the last ones, and ranks are dumped at
//! different moments, so that of each process group those count that all dumps have.

use super::{FlightDump, FlightEntry};
use perf4sight_base::units::count_text;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{CollectiveArguments, EventCategory, NewEvent, RankTrace, TraceBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// A process group: its name and its ranks.
type GroupKey<'a> = (&'a str, Option<&'a BTreeSet<u32>>);

/// What the dumps of all ranks of a group have.
struct CommonOperations<'a> {
    /// The first and the last number of collective operations.
    numbers: BTreeMap<GroupKey<'a>, [u64; 2]>,
    /// Whether a recorder forgot operations.
    are_forgotten: bool,
}

/// The ranks whose operations have times and are in the dumps of all ranks of their group.
pub(in crate::inputs) fn traces(dumps: &[FlightDump]) -> Vec<RankTrace> {
    let common = CommonOperations::find(dumps);
    dumps.iter().filter_map(|dump| trace(dump, &common)).collect()
}

impl<'a> CommonOperations<'a> {
    fn find(dumps: &'a [FlightDump]) -> Self {
        let mut numbers: BTreeMap<GroupKey, [u64; 2]> = BTreeMap::new();
        for dump in dumps {
            let mut own: BTreeMap<GroupKey, [u64; 2]> = BTreeMap::new();
            for entry in dump.entries.iter().filter(|entry| !entry.is_p2p && time(entry).is_some()) {
                let number = entry.collective_seq_id;
                let [first, last] = own.entry(group_key(dump, entry)).or_insert([number; 2]);
                (*first, *last) = (number.min(*first), number.max(*last));
            }
            for (group, [first, last]) in own {
                let all = numbers.entry(group).or_insert([first, last]);
                *all = [first.max(all[0]), last.min(all[1])];
            }
        }
        CommonOperations { numbers, are_forgotten: dumps.iter().any(FlightDump::is_incomplete) }
    }

    /// Whether all ranks of its group have an operation. A send or receive is where its counterpart is: behind a collective that all have. `within`
    /// are the groups whose last collective was one.
    fn have(&self, group: GroupKey<'a>, entry: &FlightEntry, within: &mut BTreeSet<GroupKey<'a>>) -> bool {
        if entry.is_p2p {
            return !self.are_forgotten || within.contains(&group);
        }
        let numbers = self.numbers.get(&group);
        let is_common = numbers.is_some_and(|[first, last]| (*first..=*last).contains(&entry.collective_seq_id));
        match is_common {
            true => _ = within.insert(group),
            false => _ = within.remove(&group),
        }
        is_common
    }
}

fn group_key<'a>(dump: &'a FlightDump, entry: &'a FlightEntry) -> GroupKey<'a> {
    let name = &entry.process_group.0;
    (name, dump.groups.get(name))
}

/// The operations of a rank whose times are known; none if there is no such.
fn trace<'a>(dump: &'a FlightDump, common: &CommonOperations<'a>) -> Option<RankTrace> {
    let mut builder = TraceBuilder::new(&dump.file);
    builder.header().rank = Some(dump.rank);
    builder.header().world_size = dump.groups.values().map(BTreeSet::len).max().map(|ranks| ranks as u32);
    let (mut untimed, mut others, mut within) = (0u64, 0u64, BTreeSet::new());
    for entry in &dump.entries {
        match time(entry) {
            None => untimed += 1,
            Some(time) if common.have(group_key(dump, entry), entry, &mut within) => {
                add(&mut builder, dump, entry, time);
            }
            Some(_) => others += 1,
        }
    }
    if untimed > 0 {
        let operations = count_text(untimed, "operation");
        builder.damage().others.push(format!(
            "{operations} of the flight recorder without a time: not ended, or timing was off (TORCH_NCCL_ENABLE_TIMING=1 turns it on)"
        ));
    }
    if others > 0 {
        let operations = count_text(others, "operation");
        let are = if others == 1 { "is" } else { "are" };
        builder.damage().others.push(format!(
            "{operations} of the flight recorder {are} left out, for the dumps of other ranks lack them: it keeps only the last ones (TORCH_FR_BUFFER_SIZE), and ranks are dumped at different moments"
        ));
    }
    let trace = builder.finish();
    (!trace.events.is_empty()).then_some(RankTrace { rank: dump.rank, trace })
}

/// From when until when it lasted. The recorder notices ends up to a second late; durations it measures.
fn time(entry: &FlightEntry) -> Option<Interval> {
    let end = Some(entry.time_discovered_completed_ns).filter(|end| *end > 0)?;
    let begin = match entry.duration_ms {
        Some(duration) if duration.is_finite() => end.saturating_sub((duration * 1e6) as i64),
        _ => Some(entry.time_discovered_started_ns).filter(|begin| *begin > 0)?,
    };
    Some((begin, end))
}

fn add(builder: &mut TraceBuilder, dump: &FlightDump, entry: &FlightEntry, time: Interval) {
    let (group, description) = &entry.process_group;
    let members = dump.groups.get(group);
    let collective = CollectiveArguments {
        operation: entry.operation().to_owned(),
        elements: entry.elements(),
        element_type: entry.input_dtypes.first().cloned().unwrap_or_default(),
        group_size: members.map_or(0, |members| members.len() as u32),
        group: group.clone(),
        ranks: members.map_or_else(String::new, list),
        sequence: (!entry.is_p2p).then_some(entry.collective_seq_id),
        comms_id: None,
        peers: peers(entry, members),
    };
    let thread = if description.is_empty() { group } else { description };
    let track = ["process group", thread.as_str()];
    let name = &entry.profiling_name;
    builder.add(NewEvent { name, category: EventCategory::Kernel, track, time, collective: Some(collective) });
}

/// Ranks as PyTorch writes them.
fn list(ranks: &BTreeSet<u32>) -> String {
    let numbers: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

/// Sender and receiver by their numbers in the job.
fn peers(entry: &FlightEntry, members: Option<&BTreeSet<u32>>) -> [Option<u32>; 2] {
    let global = |own: u32| members.map_or(Some(own), |members| members.iter().nth(own as usize).copied());
    entry.peers().map_or([None; 2], |peers| peers.map(global))
}
