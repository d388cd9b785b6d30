//! Traces that one process wrote one after the other, as a schedule of the profiler that repeats: parts of one trace.

use crate::intervals::Interval;
use crate::trace::{Event, Trace, TrackId};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Whether both are of one process and one of them ended before the other began.
pub(crate) fn are_cycles(one: &Trace, other: &Trace) -> bool {
    let (Some(own), Some(others)) = (extent(one), extent(other)) else { return false };
    let apart = own.1 <= others.0 || others.1 <= own.0;
    let process = processes(one);
    apart && one.rank() == other.rank() && !process.is_empty() && process == processes(other)
}

/// Adds a trace of the same process; times are on the clock of the first.
pub(crate) fn add(to: &mut Trace, other: Trace) {
    let later = other.header.base.saturating_sub(to.header.base);
    let names: Vec<_> = other.names.all().map(|(_, name)| to.names.intern(name)).collect();
    let tracks: Vec<Option<TrackId>> = other.tracks.iter().map(|track| track_of(to, track)).collect();
    let collectives = to.collectives.len() as u32;
    to.collectives.extend(other.collectives);
    let moved = |event: Event| {
        Some(Event {
            start: event.start.saturating_add(later),
            name: names[event.name.index()],
            track: tracks[event.track.index()]?,
            collective: if event.collective > 0 { event.collective + collectives } else { 0 },
            ..event
        })
    };
    to.events.extend(other.events.into_iter().filter_map(moved));
    to.events.sort_by_key(|event| (event.start, Reverse(event.duration)));
    let file = other.file.display();
    to.damage.others.extend(other.damage.warnings().into_iter().map(|told| format!("{file}: {told}")));
}

/// The track of that name, new or known; none where there are as many as there can be.
fn track_of(trace: &mut Trace, track: &crate::trace::Track) -> Option<TrackId> {
    let known = trace.tracks.iter().position(|own| own.process == track.process && own.thread == track.thread);
    let place = known.unwrap_or_else(|| {
        trace.tracks.push(track.clone());
        trace.tracks.len() - 1
    });
    u16::try_from(place).ok().map(TrackId)
}

/// From the first to the last moment, by the clock that the trace tells.
fn extent(trace: &Trace) -> Option<Interval> {
    let ends = trace.events.iter().map(Event::end).max()?;
    let base = trace.header.base;
    Some((trace.events.first()?.start.saturating_add(base), ends.saturating_add(base)))
}

/// The processes that do anything but on an accelerator.
fn processes(trace: &Trace) -> BTreeSet<&str> {
    let host = trace.events.iter().filter(|event| !event.category.on_device());
    let told = host.map(|event| trace.tracks[event.track.index()].process.as_str());
    told.filter(|process| process.parse::<u64>().is_ok()).collect()
}
