//! Builds the traces of a SQLite file, one per process.

use crate::category::EventCategory;
use crate::damage::{DamageKind, check_duration, left_out};
use crate::room;
use crate::trace::{EventPhase, Trace, TraceEvent, TraceHeader, Track, TrackId};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

pub(super) struct ProcessTraces {
    file: PathBuf,
    traces: BTreeMap<i64, ProcessTrace>,
    header: TraceHeader,
    /// Warnings about the file as a whole, in sentences.
    warnings: Vec<String>,
    /// The memory limit in bytes, and the memory used.
    room: u64,
    taken: u64,
    /// The number of events left out because of the memory limit.
    left_out: u64,
    strange: u64,
}

#[derive(Default)]
struct ProcessTrace {
    trace: Trace,
    tracks: HashMap<TrackPlace, TrackId>,
}

/// The thread or stream of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TrackPlace {
    Thread(i64),
    Stream(i64, i64),
}

/// Processes beyond this number get no trace: nsys records all processes of a machine, but no training has so many on
/// one.
const MOST: usize = 1024;
/// The approximate memory of a track in addition to its own size, in bytes: its texts and its hash table entry.
const TRACK: usize = 100;

/// An event: its time, its name, and its correlation.
pub(super) struct SqliteEvent<'a> {
    pub category: EventCategory,
    pub name: &'a str,
    pub times: [Option<i64>; 2],
    pub correlation: i64,
}

impl ProcessTraces {
    pub fn new(file: &Path) -> Self {
        ProcessTraces {
            file: file.to_owned(),
            traces: BTreeMap::new(),
            header: TraceHeader::default(),
            warnings: Vec::new(),
            room: room::memory_limit(file),
            taken: 0,
            left_out: 0,
            strange: 0,
        }
    }

    /// The metadata that all traces share.
    pub fn header(&mut self) -> &mut TraceHeader {
        &mut self.header
    }

    /// Adds a warning about the file as a whole.
    pub fn warn(&mut self, sentence: String) {
        self.warnings.push(sentence);
    }

    /// Adds an event to the trace of process `of`; `number` is the process number in the output. The event is left out
    /// if the memory limit is reached.
    pub fn add(&mut self, of: i64, number: i64, place: TrackPlace, happening: &SqliteEvent) {
        if self.traces.len() >= MOST && !self.traces.contains_key(&of) {
            self.strange += 1;
            return;
        }
        if self.taken > self.room {
            self.left_out += 1;
            return;
        }
        let process = self.traces.entry(of).or_default();
        let before = process.memory_used();
        process.add(number, place, happening);
        self.taken += process.memory_used() - before;
    }

    pub fn name(&mut self, process: i64, thread: i64, name: &str) {
        if let Some(process) = self.traces.get_mut(&process) {
            process.name(thread, name);
        }
    }

    /// The traces, ordered by process number.
    pub fn finish(mut self) -> Vec<Trace> {
        if self.left_out > 0 {
            self.warnings.push(format!("{}: {}", left_out(self.left_out), room::full_reason(self.room)));
        }
        if self.strange > 0 {
            self.warnings.push(format!("{}: of processes beyond the first {MOST}", left_out(self.strange)));
        }
        let on_device = |process: &ProcessTrace| process.trace.events.iter().any(|event| event.category.on_device());
        let any_on_device = self.traces.values().any(on_device);
        let kept = self.traces.into_values().filter(|process| match any_on_device {
            true => on_device(process),
            false => !process.trace.events.is_empty(),
        });
        let finish = |process: ProcessTrace| {
            let mut trace = Trace { file: self.file.clone(), header: self.header.clone(), ..process.trace };
            trace.put_in_order();
            trace.damage.others.extend(self.warnings.iter().cloned());
            trace
        };
        kept.map(finish).collect()
    }
}

impl ProcessTrace {
    /// Adds an event. One without a time, or that ends before it begins, is damaged. An NVTX range without an end is an
    /// instant, like an NVTX mark; work and calls without an end are damaged.
    fn add(&mut self, number: i64, place: TrackPlace, happening: &SqliteEvent) {
        let [start, end] = happening.times;
        let times = match (start, end) {
            (None, _) => Err(DamageKind::Timeless),
            (Some(start), None) if happening.category == EventCategory::Annotation => {
                Ok((start, 0, EventPhase::Instant))
            }
            (Some(_), None) => Err(DamageKind::Endless),
            (Some(start), Some(end)) => {
                check_duration(end.checked_sub(start)).map(|duration| (start, duration, EventPhase::Complete))
            }
        };
        let added = times.and_then(|times| Ok((times, self.track(number, place)?)));
        let ((start, duration, phase), track) = match added {
            Ok(added) => added,
            Err(kind) => return self.trace.damage.note(kind, None),
        };
        self.trace.events.push(TraceEvent {
            start,
            duration,
            correlation: u64::try_from(happening.correlation).unwrap_or(0),
            name: self.trace.names.intern(happening.name),
            external: 0,
            collective: 0,
            track,
            category: happening.category,
            phase,
        });
    }

    fn name(&mut self, thread: i64, name: &str) {
        if let Some(track) = self.tracks.get(&TrackPlace::Thread(thread)) {
            self.trace.tracks[track.index()].thread_name = Some(name.to_owned());
        }
    }

    /// The approximate memory used in bytes; zero if it has no events.
    fn memory_used(&self) -> u64 {
        let tracks = self.tracks.len() * (size_of::<Track>() + TRACK);
        let own = if tracks > 0 { size_of::<ProcessTrace>() } else { 0 };
        room::memory_used(&self.trace) + (own + tracks) as u64
    }

    fn track(&mut self, number: i64, place: TrackPlace) -> Result<TrackId, DamageKind> {
        if let Some(track) = self.tracks.get(&place) {
            return Ok(*track);
        }
        let track = TrackId(u16::try_from(self.trace.tracks.len()).map_err(|_| DamageKind::TooManyTracks)?);
        let [process, thread] = match place {
            TrackPlace::Thread(thread) => [number, thread],
            TrackPlace::Stream(device, stream) => [device, stream],
        };
        let (process, thread) = (process.to_string(), thread.to_string());
        self.trace.tracks.push(Track { process, thread, thread_name: None, process_name: None });
        self.tracks.insert(place, track);
        Ok(track)
    }
}
