//! Time in which the main thread did not run while other threads of its process did, as where they hold Python's interpreter lock.

use crate::breakdown::{Iteration, RankBreakdown};
use crate::categories::thread_state::ThreadState;
use crate::correction::take_out::WAITS;
use perf4sight_traces::Trace;
use perf4sight_traces::intervals::clipped;

/// Nanoseconds of each iteration in which the main thread was in calls that are not known to wait and had no processor, at most as
/// many as the other threads had: by the processor time of the main thread and of all threads, which are empty if they were not
/// measured. The trace counts this time as that of the call, such as an operator that waits for the interpreter lock at its end.
pub(super) fn held_up(rank: &RankBreakdown, trace: &Trace, thread: &[u64], processor: &[u64]) -> Vec<u64> {
    let of = |one: &Iteration| {
        let (own, all) = (*thread.get(one.number)?, *processor.get(one.number)?);
        let sets = &one.sets;
        let waits =
            WAITS.map(|category| sets.get(category, false).unwrap_or(0) + sets.get(category, true).unwrap_or(0));
        let known = waits.into_iter().sum::<i64>() + sets.synchronising + by_others(rank, trace, one);
        let stood = (sets.total() - known).saturating_sub_unsigned(own);
        Some(u64::try_from(stood).unwrap_or(0).min(all.saturating_sub(own)))
    };
    rank.iterations.iter().map(of).collect::<Option<Vec<u64>>>().unwrap_or_default()
}

/// Nanoseconds in which another thread counts instead of the main thread, which waits for it; also between the calls of that one.
fn by_others(rank: &RankBreakdown, trace: &Trace, one: &Iteration) -> i64 {
    let (mut others, mut delegates) = (0, 0);
    for ((start, end), span) in clipped(&rank.timeline, one.window) {
        match (Some(trace.events[span.event as usize].track) == rank.main, span.state) {
            (false, _) => others += end - start,
            (true, ThreadState::Delegates) => delegates += end - start,
            (true, _) => {}
        }
    }
    if others > 0 { others + delegates } else { 0 }
}
