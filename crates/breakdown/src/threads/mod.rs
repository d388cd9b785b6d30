//! Threads of a trace: the innermost event at each moment.

pub(crate) mod gradient_exchange;
pub(crate) mod main_thread;

use crate::categories::thread_state::{EventStates, ThreadState};
use perf4sight_traces::intervals::{Interval, Timed};
use perf4sight_traces::{Innermost, Trace, TrackId};
use std::sync::Arc;

/// A time in which one event is the innermost of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSpan {
    /// Its first nanosecond on the trace's clock.
    pub start: i64,
    /// The nanosecond after its last.
    pub end: i64,
    pub event: u32,
    pub state: ThreadState,
}

impl Timed for ThreadSpan {
    fn interval(&self) -> Interval {
        (self.start, self.end)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTimeline {
    pub track: TrackId,
    /// Its spans in order; time between them is not recorded. The process shares this list if no other thread counts
    /// instead of the main thread.
    pub spans: Arc<Vec<ThreadSpan>>,
    /// The number of events that end after the one around them; they are cut at that end.
    pub clipped: u64,
}

/// All threads with events that show their state, in the order of the trace's tracks.
pub fn threads(trace: &Trace) -> Vec<ThreadTimeline> {
    let mut states = EventStates::new(trace);
    let mut nests: Vec<Innermost<(u32, ThreadState)>> = trace.tracks.iter().map(|_| Innermost::default()).collect();
    for (place, event) in trace.events.iter().enumerate() {
        let (Some(state), true) = (states.get(event), event.duration > 0) else { continue };
        nests[event.track.index()].begin((event.start, event.end()), (place as u32, state));
    }
    let mut threads = Vec::new();
    for (track, nest) in trace.track_ids().zip(nests) {
        let (pieces, clipped) = nest.finish();
        if !pieces.is_empty() {
            let span = |((start, end), (event, state))| ThreadSpan { start, end, event, state };
            // A span is as large as a piece, so that the memory is reused.
            threads.push(ThreadTimeline { track, spans: Arc::new(pieces.into_iter().map(span).collect()), clipped });
        }
    }
    threads
}
