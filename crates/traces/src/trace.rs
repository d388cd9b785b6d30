//! A trace in memory: events of 40 bytes, and what they refer to.

use crate::category::Category;
use crate::damage::Damage;
use crate::intern::{NameId, Names};
use std::path::PathBuf;

/// A thread of a process, or a stream of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub(crate) u16);

/// Where events lie one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// The process, or the number of the device; as the trace writes it.
    pub process: String,
    /// The thread, or the stream; as the trace writes it.
    pub thread: String,
    /// What the trace calls the thread.
    pub thread_name: Option<String>,
    /// What the trace calls the process.
    pub process_name: Option<String>,
}

/// What an event marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Something with a beginning and a duration.
    Complete,
    /// The beginning of an arrow to another event; it has the same correlation as its end.
    FlowStart,
    /// The end of an arrow.
    FlowEnd,
    /// A moment.
    Instant,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds on the trace's clock.
    pub start: i64,
    /// Nanoseconds; not negative.
    pub duration: i64,
    /// What joins a call of the runtime with what it started, or the two ends of an arrow; 0 is nothing.
    pub correlation: u64,
    /// What it is called.
    pub name: NameId,
    /// The operator it belongs to, as numbered by the profiler; 0 is none.
    pub external: u32,
    /// Its place in [`Trace::collectives`], plus one; 0 is none.
    pub(crate) collective: u32,
    /// Where it lies.
    pub track: TrackId,
    /// What kind of thing it times.
    pub category: Category,
    /// What it marks.
    pub phase: Phase,
}

/// What a trace says of a collective operation beside its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collective {
    /// What it does: `allreduce`, `all_to_all`.
    pub operation: String,
    /// Elements sent and received by this rank, where the trace says so.
    pub elements: Option<[u64; 2]>,
    /// The type of an element, as PyTorch calls it.
    pub element_type: String,
    /// Ranks that take part.
    pub group_size: u32,
    /// The name of their group.
    pub group: String,
}

/// What a trace says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// The rank of the process, where it was one of several.
    pub rank: Option<u32>,
    /// How many ranks there were.
    pub world_size: Option<u32>,
    /// Names of the accelerators, in their order.
    pub devices: Vec<String>,
    /// Nanoseconds that its clock is behind the epoch's.
    pub base: i64,
    /// Whether Python's calls were recorded, where it says so.
    pub with_stack: Option<bool>,
}

/// A trace.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Where it was read from.
    pub file: PathBuf,
    /// What it says of itself.
    pub header: Header,
    /// By beginning, the longer first where they begin together.
    pub events: Vec<Event>,
    /// What they are called.
    pub names: Names,
    /// Where they lie.
    pub tracks: Vec<Track>,
    /// What was wrong with the file.
    pub damage: Damage,
    pub(crate) collectives: Vec<Collective>,
}

impl TrackId {
    /// Its place in [`Trace::tracks`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Event {
    /// Nanoseconds on the trace's clock; as late as can be said where that is later.
    pub fn end(&self) -> i64 {
        self.start.saturating_add(self.duration)
    }
}

impl Trace {
    /// The ids of its tracks, in their order.
    pub fn track_ids(&self) -> impl Iterator<Item = TrackId> + use<> {
        // There are no more tracks than ids: reading leaves out what lies on others.
        (0..self.tracks.len()).map(|track| TrackId(track as u16))
    }

    /// What it says of a collective operation.
    pub fn collective(&self, event: &Event) -> Option<&Collective> {
        event.collective.checked_sub(1).map(|place| &self.collectives[place as usize])
    }

    /// The text of an event's name.
    pub fn name(&self, event: &Event) -> &str {
        self.names.get(event.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_takes_forty_bytes() {
        assert_eq!(size_of::<Event>(), 40);
    }
}
