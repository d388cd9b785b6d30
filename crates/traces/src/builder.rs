//! Makes traces of what other programs than profilers recorded: events on named threads and streams, and which of them
//! wait for each other.

use crate::category::EventCategory;
use crate::collective::CollectiveArguments;
use crate::damage::{DamageKind, TraceDamage, check_duration};
use crate::intervals::Interval;
use crate::room;
use crate::trace::{EventPhase, Trace, TraceEvent, TraceHeader, Track, TrackId};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

/// A trace that is being made.
#[derive(Debug)]
pub struct TraceBuilder {
    trace: Trace,
    tracks: HashMap<(String, String), TrackId>,
    /// Pairs of numbers of events, in the order of adding.
    dependencies: Vec<[u32; 2]>,
    room: u64,
}

/// An event to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent<'a> {
    pub name: &'a str,
    /// What kind of event it is.
    pub category: EventCategory,
    /// The process or device, and the thread or stream.
    pub track: [&'a str; 2],
    /// Beginning and end, in nanoseconds.
    pub time: Interval,
    /// The arguments of an exchange with other ranks.
    pub collective: Option<CollectiveArguments>,
}

impl TraceBuilder {
    /// A trace of a file without events.
    pub fn new(file: &Path) -> Self {
        let trace = Trace { file: file.to_owned(), ..Trace::default() };
        TraceBuilder { trace, tracks: HashMap::new(), dependencies: Vec::new(), room: room::memory_limit(file) }
    }

    /// The rank, the number of ranks, the clock.
    pub fn header(&mut self) -> &mut TraceHeader {
        &mut self.trace.header
    }

    /// Problems of the file.
    pub fn damage(&mut self) -> &mut TraceDamage {
        &mut self.trace.damage
    }

    /// Adds an event; returns its number, by which events depend on it. One that ends before it begins is left out and
    /// counted as damage.
    pub fn add(&mut self, span: NewEvent<'_>) -> Option<u32> {
        let duration = check_duration(span.time.1.checked_sub(span.time.0));
        match duration.and_then(|duration| Ok((duration, self.track(span.track)?))) {
            Ok((duration, track)) if self.has_room() => Some(self.push(&span, duration, track)),
            Ok(_) => None,
            Err(kind) => {
                self.trace.damage.note(kind, None);
                None
            }
        }
    }

    /// Makes an event wait for the end of another.
    pub fn depend(&mut self, on: u32, event: u32) {
        self.dependencies.push([on, event]);
    }

    fn push(&mut self, span: &NewEvent<'_>, duration: i64, track: TrackId) -> u32 {
        let collective = span.collective.clone().map_or(0, |collective| {
            self.trace.collectives.push(collective);
            self.trace.collectives.len() as u32
        });
        self.trace.events.push(TraceEvent {
            start: span.time.0,
            duration,
            correlation: 0,
            name: self.trace.names.intern(span.name),
            external: 0,
            collective,
            track,
            category: span.category,
            phase: EventPhase::Complete,
        });
        self.trace.events.len() as u32 - 1
    }

    fn has_room(&mut self) -> bool {
        let full = room::memory_used(&self.trace) > self.room;
        if full {
            self.trace.damage.truncated.get_or_insert_with(|| room::full_reason(self.room));
        }
        !full
    }

    fn track(&mut self, [process, thread]: [&str; 2]) -> Result<TrackId, DamageKind> {
        let key = (process.to_owned(), thread.to_owned());
        if let Some(track) = self.tracks.get(&key) {
            return Ok(*track);
        }
        let track = TrackId(u16::try_from(self.trace.tracks.len()).map_err(|_| DamageKind::TooManyTracks)?);
        let (process, thread) = key.clone();
        self.trace.tracks.push(Track { process, thread, thread_name: None, process_name: None });
        self.tracks.insert(key, track);
        Ok(track)
    }

    /// The trace, its events in order.
    pub fn finish(self) -> Trace {
        let TraceBuilder { mut trace, mut dependencies, .. } = self;
        let mut order: Vec<u32> = (0..trace.events.len() as u32).collect();
        order.sort_by_key(|event| {
            let event = &trace.events[*event as usize];
            (event.start, Reverse(event.duration))
        });
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, event)| places[*event as usize] = place as u32);
        trace.events = order.iter().map(|event| trace.events[*event as usize]).collect();
        dependencies.iter_mut().flatten().for_each(|event| *event = places[*event as usize]);
        trace.dependencies = dependencies;
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, time: Interval) -> NewEvent<'_> {
        NewEvent { name, category: EventCategory::Kernel, track: ["0", "compute"], time, collective: None }
    }

    #[test]
    fn dependencies_follow_their_events_into_order() {
        let mut builder = TraceBuilder::new("x".as_ref());
        let late = builder.add(span("late", (20, 30))).unwrap();
        let early = builder.add(span("early", (0, 10))).unwrap();
        assert_eq!(builder.add(span("backwards", (10, 0))), None);
        builder.depend(early, late);
        let trace = builder.finish();
        assert_eq!(trace.events.iter().map(|event| trace.name(event)).collect::<Vec<_>>(), ["early", "late"]);
        assert_eq!(trace.dependencies, [[0, 1]]);
        assert!(trace.damage.warnings()[0].contains("negative duration"));
    }
}
