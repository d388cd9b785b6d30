//! Threads of a trace: the innermost event at each moment.

use crate::state::{State, States};
use perf4sight_traces::{Trace, TrackId};

/// A time during which one event is the innermost of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its first nanosecond on the trace's clock.
    pub start: i64,
    /// The nanosecond behind its last.
    pub end: i64,
    /// The event's place in [`Trace::events`]; none where nothing is recorded.
    pub event: Option<u32>,
    /// What the thread does.
    pub state: State,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Which one.
    pub track: TrackId,
    /// What it does, in order; what lies between them is not recorded.
    pub stretches: Vec<Stretch>,
    /// Events that end after the one they began in; they are taken to end with it.
    pub clipped: u64,
}

/// All threads with events that tell what they do, in the order of the trace's tracks.
pub fn threads(trace: &Trace) -> Vec<Thread> {
    let mut states = States::of(trace);
    let mut nests: Vec<Nest> = trace.tracks.iter().map(|_| Nest::new()).collect();
    for (place, event) in trace.events.iter().enumerate() {
        let (Some(state), true) = (states.get(event), event.duration > 0) else { continue };
        nests[event.track.index()].begin(event.start, Open { end: event.end(), event: place as u32, state });
    }
    let mut threads = Vec::new();
    for (track, nest) in trace.track_ids().zip(nests) {
        let (stretches, clipped) = nest.finish();
        if !stretches.is_empty() {
            threads.push(Thread { track, stretches, clipped });
        }
    }
    threads
}

/// An event that has begun and not ended.
#[derive(Clone, Copy)]
struct Open {
    end: i64,
    event: u32,
    state: State,
}

/// The events of a thread that are open, the innermost last, and what it did before.
struct Nest {
    open: Vec<Open>,
    /// Up to where is known what the thread did.
    at: i64,
    stretches: Vec<Stretch>,
    clipped: u64,
}

impl Nest {
    fn new() -> Self {
        Nest { open: Vec::new(), at: i64::MIN, stretches: Vec::new(), clipped: 0 }
    }

    /// Begins an event; they come by their beginnings, the longer first.
    fn begin(&mut self, start: i64, mut event: Open) {
        self.go_on(start);
        if let Some(parent) = self.open.last()
            && parent.end < event.end
        {
            event.end = parent.end;
            self.clipped += 1;
        }
        self.open.push(event);
    }

    /// Moves to a moment: ends what ends until then.
    fn go_on(&mut self, moment: i64) {
        while let Some(&innermost) = self.open.last() {
            self.add(innermost, innermost.end.min(moment));
            if innermost.end > moment {
                break;
            }
            self.open.pop();
        }
        self.at = self.at.max(moment);
    }

    fn add(&mut self, innermost: Open, end: i64) {
        if self.at < end {
            let Open { event, state, .. } = innermost;
            self.stretches.push(Stretch { start: self.at, end, event: Some(event), state });
            self.at = end;
        }
    }

    fn finish(mut self) -> (Vec<Stretch>, u64) {
        self.go_on(i64::MAX);
        (self.stretches, self.clipped)
    }
}
