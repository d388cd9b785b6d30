//! Dependencies that the trace itself contains, as edges between rows.

use super::rows::{PartRows, RankStep, RowEdge};
use crate::collectives::CollectiveCall;
use crate::graph::EdgeKind;
use crate::ranks::JobRank;
use perf4sight_traces::intervals::Interval;
use std::collections::HashMap;

/// Reads the dependencies between events of a step. An exchange on a CPU has no rows: it begins when the last of what it
/// depends on is done, and the first of what depends on it waits for its result.
pub(super) fn read(rank: &JobRank, window: Interval, parts: &[(usize, &CollectiveCall)], into: &mut RankStep) {
    let events = &rank.trace.events;
    let exchanges: HashMap<u32, usize> = parts.iter().map(|(exchange, call)| (call.event, *exchange)).collect();
    let is_inside = |event: &u32| (window.0..window.1).contains(&events[*event as usize].start);
    for [on, event] in rank.trace.dependencies.iter().filter(|pair| pair.iter().all(is_inside)) {
        let (done, waiting) = (&events[*on as usize], &events[*event as usize]);
        let rows = (into.last_row_before(done.track, done.end()), into.last_row_before(waiting.track, waiting.start));
        let part = |exchange: &u32| exchanges.get(exchange).and_then(|exchange| into.parts.get(exchange).copied());
        let end = |row: usize| into.rows[row].end;
        match (rows, part(on), part(event)) {
            ((Some(done), Some(before)), _, _) if done != before => {
                into.edges.push(RowEdge { awaited: done, waiting: before, kind: EdgeKind::Data });
            }
            ((Some(done), None), _, Some(part)) if end(done) > end(part.launch) => {
                into.parts.insert(exchanges[event], PartRows { launch: done, ..part });
            }
            ((None, Some(before)), Some(part), _) if part.wait.is_none_or(|wait| end(before) < end(wait)) => {
                into.parts.insert(exchanges[on], PartRows { wait: Some(before), ..part });
            }
            _ => {}
        }
    }
}
