//! Threads of a trace: the innermost event at each moment.

pub(crate) mod gradient_exchange;
pub(crate) mod innermost;
pub(crate) mod main_thread;

use crate::categories::thread_state::{State, States};
use innermost::Innermost;
use perf4sight_traces::{Trace, TrackId};
use std::sync::Arc;

/// A time during which one event is the innermost of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first nanosecond on the trace's clock.
    pub start: i64,
    /// The nanosecond behind its last.
    pub end: i64,
    /// The event's place in [`Trace::events`].
    pub event: u32,
    /// What the thread does.
    pub state: State,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Which one.
    pub track: TrackId,
    /// What it does, in order; what lies between them is not recorded. Where no other thread stands in for the main one, the process does
    /// the same.
    pub spans: Arc<Vec<Span>>,
    /// Events that end after the one they began in; they are taken to end with it.
    pub clipped: u64,
}

/// All threads with events that tell what they do, in the order of the trace's tracks.
pub fn threads(trace: &Trace) -> Vec<Thread> {
    let mut states = States::of(trace);
    let mut nests: Vec<Innermost<(u32, State)>> = trace.tracks.iter().map(|_| Innermost::new()).collect();
    for (place, event) in trace.events.iter().enumerate() {
        let (Some(state), true) = (states.get(event), event.duration > 0) else { continue };
        nests[event.track.index()].begin((event.start, event.end()), (place as u32, state));
    }
    let mut threads = Vec::new();
    for (track, nest) in trace.track_ids().zip(nests) {
        let (pieces, clipped) = nest.finish();
        if !pieces.is_empty() {
            let span = |((start, end), (event, state))| Span { start, end, event, state };
            // As large as a piece, so that they take its place in memory.
            threads.push(Thread { track, spans: Arc::new(pieces.into_iter().map(span).collect()), clipped });
        }
    }
    threads
}
