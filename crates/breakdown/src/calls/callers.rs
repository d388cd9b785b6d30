//! Finds the caller of each event of a thread.

use crate::categories::thread_state::EventStates;
use perf4sight_traces::{Trace, TraceEvent};

/// Deeper calls are merged into their caller at this depth, so that the size of stacks is bounded even for deep
/// recursion.
const DEEPEST: usize = 128;

pub(crate) struct EventCallers {
    /// By index in [`Trace::events`]; [`EventCallers::NONE`] for the outermost.
    above: Vec<u32>,
    /// Whether the event is below the maximum depth.
    deeper: Vec<bool>,
}

impl EventCallers {
    const NONE: u32 = u32::MAX;

    /// The callers of all events that show the state of their thread. An event that ends after its caller is cut at the
    /// caller's end, as for sets.
    pub fn from_trace(trace: &Trace) -> Self {
        let mut states = EventStates::new(trace);
        let mut open: Vec<Vec<(i64, u32)>> = vec![Vec::new(); trace.tracks.len()];
        let mut above = vec![Self::NONE; trace.events.len()];
        let mut deeper = vec![false; trace.events.len()];
        let mut has_state = |event: &TraceEvent| event.duration > 0 && states.get(event).is_some();
        for (place, event) in trace.events.iter().enumerate().filter(|(_, event)| has_state(event)) {
            let open = &mut open[event.track.index()];
            while open.last().is_some_and(|(end, _)| *end <= event.start) {
                open.pop();
            }
            let end = open.last().map_or(event.end(), |(end, _)| event.end().min(*end));
            deeper[place] = open.len() >= DEEPEST;
            above[place] =
                open.last().map_or(Self::NONE, |(_, nearest)| open.get(DEEPEST - 1).map_or(*nearest, |at| at.1));
            open.push((end, place as u32));
        }
        EventCallers { above, deeper }
    }

    /// The event that represents `event`: itself, or if it is too deep, its caller at the maximum depth.
    pub fn representative(&self, event: u32) -> u32 {
        if self.deeper[event as usize] { self.above[event as usize] } else { event }
    }

    pub fn above(&self, event: u32) -> Option<u32> {
        Some(self.above[event as usize]).filter(|above| *above != Self::NONE)
    }

    /// The number of events below the maximum depth.
    pub fn too_deep_count(&self) -> usize {
        self.deeper.iter().filter(|deeper| **deeper).count()
    }
}
