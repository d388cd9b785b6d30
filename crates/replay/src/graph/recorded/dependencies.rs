//! Dependencies that the trace itself contains, as edges between rows.

use super::rows::RankStep;
use crate::collectives::Call;
use crate::ranks::Rank;
use perf4sight_traces::intervals::Interval;
use std::collections::HashMap;

/// Reads the dependencies between events of a step. On a CPU, an exchange has no rows: what depends on it waits for its
/// result.
pub(super) fn read(rank: &Rank, window: Interval, parts: &[(usize, &Call)], into: &mut RankStep) {
    let events = &rank.trace.events;
    let exchanges: HashMap<u32, usize> = parts.iter().map(|(exchange, call)| (call.event, *exchange)).collect();
    let is_inside = |event: &u32| (window.0..window.1).contains(&events[*event as usize].start);
    for [on, event] in rank.trace.dependencies.iter().filter(|pair| pair.iter().all(is_inside)) {
        let (done, waiting) = (&events[*on as usize], &events[*event as usize]);
        let Some(before) = into.before(waiting.track, waiting.start) else { continue };
        match into.before(done.track, done.end()) {
            Some(done) if done != before => into.dependencies.push((done, before)),
            Some(_) => {}
            None => {
                let part = exchanges.get(on).and_then(|exchange| into.parts.get_mut(exchange));
                part.into_iter().for_each(|part| part.wait = Some(part.wait.map_or(before, |known| known.min(before))));
            }
        }
    }
}
