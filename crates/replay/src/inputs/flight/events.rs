//! The operations of a dump as events, where the recorder noted when they took place.

use super::{FlightDump, FlightEntry};
use perf4sight_base::units::count_text;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{CollectiveArguments, EventCategory, NewEvent, RankTrace, TraceBuilder};
use std::collections::BTreeSet;

/// The operations of a rank whose times are known; none if there is no such.
pub(in crate::inputs) fn trace(dump: &FlightDump) -> Option<RankTrace> {
    let mut builder = TraceBuilder::new(&dump.file);
    builder.header().rank = Some(dump.rank);
    builder.header().world_size = dump.groups.values().map(BTreeSet::len).max().map(|ranks| ranks as u32);
    let mut untimed = 0u64;
    for entry in &dump.entries {
        match time(entry) {
            Some(time) => add(&mut builder, dump, entry, time),
            None => untimed += 1,
        }
    }
    if untimed > 0 {
        let operations = count_text(untimed, "operation");
        builder.damage().others.push(format!(
            "{operations} of the flight recorder without a time: not ended, or timing was off (TORCH_NCCL_ENABLE_TIMING=1 turns it on)"
        ));
    }
    let trace = builder.finish();
    (!trace.events.is_empty()).then_some(RankTrace { rank: dump.rank, trace })
}

/// From when until when it lasted. The recorder notices ends up to a second late; durations it measures.
fn time(entry: &FlightEntry) -> Option<Interval> {
    let end = Some(entry.time_discovered_completed_ns).filter(|end| *end > 0)?;
    let begin = match entry.duration_ms {
        Some(duration) if duration.is_finite() => end - (duration * 1e6) as i64,
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
