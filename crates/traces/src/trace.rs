//! A trace in memory: events of 40 bytes, and the tables they refer to.

use crate::category::EventCategory;
use crate::collective::CollectiveArguments;
use crate::damage::{DAY, DamageKind, TraceDamage};
use crate::intern::{NameId, NameTable};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A thread of a process, or a stream of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub(crate) u16);

/// A row of the timeline: the thread or stream whose events follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// The process, or the number of the device; as written in the trace.
    pub process: String,
    /// The thread, or the stream; as written in the trace.
    pub thread: String,
    pub thread_name: Option<String>,
    pub process_name: Option<String>,
}

/// The kind of mark of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventPhase {
    /// A span with a beginning and a duration.
    Complete,
    /// The beginning of a flow (arrow) to another event; it has the same correlation as its end.
    FlowStart,
    FlowEnd,
    Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// Nanoseconds on the trace's clock.
    pub start: i64,
    /// Nanoseconds; not negative.
    pub duration: i64,
    /// The number that links a runtime call with the work it launched, or the two ends of a flow; 0 is none.
    pub correlation: u64,
    pub name: NameId,
    /// The operator it belongs to, as numbered by the profiler; 0 is none.
    pub external: u32,
    /// Its index in [`Trace::collectives`], plus one; 0 is none.
    pub(crate) collective: u32,
    pub track: TrackId,
    pub category: EventCategory,
    pub phase: EventPhase,
}

/// A stream that waits for what another one had to do when an event was recorded on it (`cudaStreamWaitEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamWait {
    /// The stream that waits.
    pub track: TrackId,
    /// The correlation of the call that makes it wait.
    pub correlation: u64,
    /// The correlation of the call that recorded the event.
    pub recorded: u64,
    /// The number of the stream that it was recorded on.
    pub stream: u64,
}

/// Calls of an operator by the type of their first floating-point input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrecisionCounts {
    /// Of 8 bits or fewer.
    pub eight: u32,
    /// Of 16 bits.
    pub half: u32,
    /// Of 32 bits.
    pub full: u32,
    /// Of 64 bits.
    pub double: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceHeader {
    pub rank: Option<u32>,
    pub world_size: Option<u32>,
    /// The ranks of each process group that the rank knows of, if the trace contains them.
    pub groups: Vec<Vec<u32>>,
    /// Names of the accelerators, in their order.
    pub devices: Vec<String>,
    /// The offset of its clock from the Unix epoch, in nanoseconds.
    pub base: i64,
    /// Whether its times were calculated together with those of all other ranks, so that all have one clock.
    pub calculated: bool,
    /// Whether Python calls were recorded, if the trace contains it.
    pub with_stack: Option<bool>,
}

#[derive(Debug, Clone, Default)]
pub struct Trace {
    pub file: PathBuf,
    pub header: TraceHeader,
    /// Ordered by beginning; of events that begin together, the longer one comes first.
    pub events: Vec<TraceEvent>,
    pub names: NameTable,
    /// The threads and streams of the events.
    pub tracks: Vec<Track>,
    /// What streams wait for, if the trace contains it.
    pub stream_waits: Vec<StreamWait>,
    pub damage: TraceDamage,
    /// Events that wait for the end of another: the index of that one and their own. Profilers record none; they come
    /// from files that describe the graph.
    pub dependencies: Vec<[u32; 2]>,
    /// The precision of operators, by their names, where their inputs' types were recorded.
    pub precisions: BTreeMap<NameId, PrecisionCounts>,
    pub(crate) collectives: Vec<CollectiveArguments>,
}

/// The coarsest unit of a trace's times in nanoseconds: old profilers write whole microseconds.
const COARSEST: i64 = 1_000;
/// By how many nanoseconds two times that programs keep in floating-point numbers may differ: microseconds since 1970 are 0.25 µs apart, Python
/// prints them with one decimal, so that each is off by up to 125 + 50 ns, and durations are whole nanoseconds.
const FLOAT: i64 = 351;
/// Begins from which the unit is known.
const ENOUGH_BEGINS: usize = 1_000;

impl TrackId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl TraceEvent {
    /// Nanoseconds on the trace's clock, at most the largest `i64`.
    pub fn end(&self) -> i64 {
        self.start.saturating_add(self.duration)
    }
}

impl Trace {
    pub fn track_ids(&self) -> impl Iterator<Item = TrackId> + use<> {
        // There are no more tracks than ids: reading leaves out events on further tracks.
        (0..self.tracks.len()).map(|track| TrackId(track as u16))
    }

    /// Puts the events in order, and leaves out those that lie further from the one in the middle than a recording lasts.
    pub(crate) fn put_in_order(&mut self) {
        self.events.sort_by_key(|event| (event.start, Reverse(event.duration)));
        let Some(middle) = self.events.get(self.events.len() / 2).map(|event| event.start) else { return };
        let all = self.events.len();
        self.events.retain(|event| event.start.saturating_sub(middle).saturating_abs() <= DAY);
        (self.events.len()..all).for_each(|_| self.damage.note(DamageKind::Far, None));
        self.events.shrink_to_fit();
        self.end_before_next();
    }

    /// By how many nanoseconds two times may differ that are the same but for rounding: what all times of threads are multiples of, after
    /// the first, and more where programs kept them in floating-point numbers.
    pub fn unit(&self) -> i64 {
        let mut begins = self.events.iter().filter(|event| event.category.on_thread()).map(|event| event.start);
        let first = begins.next().unwrap_or(0);
        let begins = begins.take(ENOUGH_BEGINS).map(|begin| begin.saturating_sub(first));
        match begins.fold(0, greatest_common_divisor) {
            exact @ 0..=1 => exact,
            rounded => rounded.clamp(FLOAT, COARSEST),
        }
    }

    /// Ends what a thread does where the next thing begins, if the two overlap in part by no more than the unit that
    /// begin and duration were rounded to, each on its own. If the second reaches less far beyond the first than into
    /// it, it is rather its end that was rounded.
    fn end_before_next(&mut self) {
        let unit = self.unit();
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); self.tracks.len()];
        for index in 0..self.events.len() {
            let event = self.events[index];
            if event.phase != EventPhase::Complete || !event.category.on_thread() {
                continue;
            }
            let own = &mut open[event.track.index()];
            while let Some(&last) = own.last() {
                let before = &mut self.events[last];
                let overlap = before.end().saturating_sub(event.start);
                let is_rounding = overlap <= unit && overlap < event.end().saturating_sub(before.end());
                if overlap > 0 && !is_rounding {
                    break;
                }
                before.duration = before.duration.min(event.start - before.start);
                own.pop();
            }
            own.push(index);
        }
    }

    pub fn collective(&self, event: &TraceEvent) -> Option<&CollectiveArguments> {
        self.arguments(event).filter(|arguments| !arguments.is_gradient())
    }

    /// The arguments of an event that exchanges data or adds a gradient up.
    pub(crate) fn arguments(&self, event: &TraceEvent) -> Option<&CollectiveArguments> {
        event.collective.checked_sub(1).map(|place| &self.collectives[place as usize])
    }

    pub fn name(&self, event: &TraceEvent) -> &str {
        self.names.get(event.name)
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator from 0 to 100 µs, one in it from 50 to 100, one from 100 to 180 and one in that. If the third begins too early by one unit, the
    /// first two end there: by 1 ns where times are whole nanoseconds, by 1 µs where they are whole microseconds, by 300 ns where
    /// they are multiples of 100 ns, as floating-point numbers with one decimal. More is no rounding, and kernels
    /// of a stream may overlap. What begins one unit before another's end and reaches no further beyond it is within it.
    #[test]
    fn what_overlaps_by_rounding_follows_each_other() {
        let ends = |category: EventCategory, shift: i64, third: i64| {
            let times = [(0, 100_000), (50_000, 50_000), (100_000 - shift, third), (170_000, 5_000)];
            let event = |(start, duration)| TraceEvent {
                start,
                duration,
                correlation: 0,
                name: NameId(0),
                external: 0,
                collective: 0,
                track: TrackId(0),
                category,
                phase: EventPhase::Complete,
            };
            let track = Track { process: String::new(), thread: String::new(), thread_name: None, process_name: None };
            let events = times.map(event).to_vec();
            let mut trace = Trace { events, tracks: vec![track], ..Trace::default() };
            trace.put_in_order();
            trace.events.iter().map(TraceEvent::end).collect::<Vec<i64>>()
        };
        let whole = [100_000, 100_000];
        for (shift, third, first, last) in [
            (1, 80_000, [99_999; 2], 179_999),
            (1_000, 80_000, [99_000; 2], 179_000),
            (300, 80_000, [99_700; 2], 179_700),
            (0, 80_000, whole, 180_000),
            (801, 80_000, whole, 179_199),
            (2_000, 80_000, whole, 178_000),
            (1_000, 2_000, whole, 101_000),
        ] {
            assert_eq!(ends(EventCategory::Operator, shift, third), [first[0], first[1], last, 175_000], "{shift}");
        }
        assert_eq!(ends(EventCategory::Kernel, 1, 80_000), [100_000, 100_000, 179_999, 175_000]);
    }

    #[test]
    fn an_event_takes_forty_bytes() {
        assert_eq!(size_of::<TraceEvent>(), 40);
    }
}
