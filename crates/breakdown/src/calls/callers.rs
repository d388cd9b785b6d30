//! Which call each event of a thread was made in.

use crate::categories::thread_state::States;
use perf4sight_traces::{Event, Trace};

/// Deeper calls count as the one at this depth that they are made in: what is drawn and written of stacks stays bounded, however deep a
/// script recurses.
const DEEPEST: usize = 128;

/// For each event of a trace the call that it was made in.
pub(crate) struct Callers {
    /// By place in [`Trace::events`]; [`Callers::NONE`] for the outermost.
    above: Vec<u32>,
    /// Whether it lies deeper than is told apart.
    deeper: Vec<bool>,
}

impl Callers {
    const NONE: u32 = u32::MAX;

    /// Of all events that tell what their thread does. One that ends after the one it begins in is taken to end with it, as for sets.
    pub fn of(trace: &Trace) -> Self {
        let mut states = States::of(trace);
        let mut open: Vec<Vec<(i64, u32)>> = vec![Vec::new(); trace.tracks.len()];
        let mut above = vec![Self::NONE; trace.events.len()];
        let mut deeper = vec![false; trace.events.len()];
        let mut tells = |event: &Event| event.duration > 0 && states.get(event).is_some();
        for (place, event) in trace.events.iter().enumerate().filter(|(_, event)| tells(event)) {
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
        Callers { above, deeper }
    }

    /// The event that stands for one: itself, or where that is too deep, the deepest that is told apart.
    pub fn shown(&self, event: u32) -> u32 {
        if self.deeper[event as usize] { self.above[event as usize] } else { event }
    }

    /// The call that an event was made in.
    pub fn above(&self, event: u32) -> Option<u32> {
        Some(self.above[event as usize]).filter(|above| *above != Self::NONE)
    }

    /// Events that lie deeper than is told apart.
    pub fn deeper(&self) -> usize {
        self.deeper.iter().filter(|deeper| **deeper).count()
    }
}
