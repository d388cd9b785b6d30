//! The operations of a dump as events, where the recorder noted when they took place.

use super::{Dump, Entry};
use crate::inputs::last_number;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Builder, Category, Collective, Ranked, Span};
use std::collections::BTreeSet;

/// The operations of a rank whose times are known; none if there is no such.
pub(in crate::inputs) fn trace(dump: &Dump) -> Option<Ranked> {
    let mut builder = Builder::new(&dump.file);
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
        let sentence = "operations of the flight recorder have no times: they did not end, or timing was off (TORCH_NCCL_ENABLE_TIMING=1 turns it on)";
        builder.damage().others.push(format!("{untimed} {sentence}"));
    }
    let trace = builder.finish();
    (!trace.events.is_empty()).then_some(Ranked { rank: dump.rank, trace })
}

/// From when until when it lasted. The recorder notices ends up to a second late; durations it measures.
fn time(entry: &Entry) -> Option<Interval> {
    let end = Some(entry.time_discovered_completed_ns).filter(|end| *end > 0)?;
    let begin = match entry.duration_ms {
        Some(duration) if duration.is_finite() => end - (duration * 1e6) as i64,
        _ => Some(entry.time_discovered_started_ns).filter(|begin| *begin > 0)?,
    };
    Some((begin, end))
}

fn add(builder: &mut Builder, dump: &Dump, entry: &Entry, time: Interval) {
    let (group, description) = &entry.process_group;
    let members = dump.groups.get(group);
    let collective = Collective {
        operation: entry.operation().to_owned(),
        elements: elements(entry),
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
    builder.add(Span { name, category: Category::Kernel, track, time, collective: Some(collective) });
}

/// Ranks as PyTorch writes them.
fn list(ranks: &BTreeSet<u32>) -> String {
    let numbers: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

/// Elements sent and received.
fn elements(entry: &Entry) -> Option<[u64; 2]> {
    let sum = |sizes: &[Vec<u64>]| {
        sizes.iter().try_fold(0u64, |sum, size| {
            sum.checked_add(size.iter().try_fold(1u64, |product, one| product.checked_mul(*one))?)
        })
    };
    (!entry.input_sizes.is_empty()).then(|| Some([sum(&entry.input_sizes)?, sum(&entry.output_sizes)?]))?
}

/// Sender and receiver by their numbers in the job: names have those in the group, `send 1->2` and `recv 2<-1`.
fn peers(entry: &Entry, members: Option<&BTreeSet<u32>>) -> [Option<u32>; 2] {
    let global = |text: &str| {
        let own = last_number(text.as_ref())?;
        members.map_or(Some(own), |members| members.iter().nth(own as usize).copied())
    };
    let operation = entry.operation();
    match (operation.split_once("->"), operation.split_once("<-")) {
        (Some((source, destination)), _) => [global(source), global(destination)],
        (None, Some((destination, source))) => [global(source), global(destination)],
        (None, None) => [None; 2],
    }
}
