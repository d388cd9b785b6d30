//! Joins traces that one process wrote one after the other, as with a repeating schedule of the profiler.

use crate::intervals::Interval;
use crate::ranks::recording_of;
use crate::trace::{Trace, TraceEvent, TrackId};
use perf4sight_base::units::list_text;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A trace, perhaps from several files, with the data that shows whether another file belongs to the same process.
pub(crate) struct ProfilerCycles {
    trace: Trace,
    rank: Option<u32>,
    processes: BTreeSet<String>,
    /// Each file, with its first and last moment by the clock of the trace.
    parts: Vec<(PathBuf, Interval)>,
    /// Whether it belongs to a recording of `perf4sight record`, which writes one trace per process.
    recorded: bool,
}

impl ProfilerCycles {
    /// A trace from one file, with its rank if known.
    pub fn new(trace: Trace, rank: Option<u32>) -> Self {
        let host = trace.events.iter().filter(|event| !event.category.on_device()).map(|event| event.track);
        let tracks: BTreeSet<TrackId> = host.collect();
        let processes = tracks.into_iter().map(|track| trace.tracks[track.index()].process.clone());
        let processes = processes.filter(|process| process.parse::<u64>().is_ok()).collect();
        let parts = extent(&trace).map(|extent| (trace.file.clone(), extent)).into_iter().collect();
        let recorded = recording_of(&trace.file).is_some_and(|recording| recording.exists());
        ProfilerCycles { trace, rank, processes, parts, recorded }
    }

    pub fn file(&self) -> &Path {
        &self.trace.file
    }

    /// Whether both seem to be from one process and do not overlap in time. Processes in different containers may have
    /// the same small number, so [`ProfilerCycles::finish`] adds a warning that the trace was joined from several files.
    pub fn go_on_with(&self, other: &ProfilerCycles) -> bool {
        self.rank == other.rank
            && !self.recorded
            && !other.recorded
            && !self.processes.is_empty()
            && self.processes == other.processes
            && self.parts.iter().all(|part| other.parts.iter().all(|others| may_follow(part, others)))
    }

    /// Adds the parts of another trace; times are converted to the clock of the first.
    pub fn add(&mut self, other: ProfilerCycles) {
        self.parts.extend(other.parts);
        add(&mut self.trace, other.trace);
    }

    /// The whole trace, with a warning that lists its parts.
    pub fn finish(mut self) -> Trace {
        if self.parts.len() > 1 {
            self.trace.events.sort_by_key(|event| (event.start, Reverse(event.duration)));
            let warning = warning(&self);
            self.trace.damage.others.push(warning);
        }
        self.trace
    }
}

const NAMED: usize = 3;

fn warning(cycles: &ProfilerCycles) -> String {
    let files = list_text(cycles.parts.iter().map(|(file, _)| file.display()), NAMED);
    let processes = cycles.processes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "{files} are taken for one trace that process {processes} wrote in parts, for their times do not overlap; if they are of several runs, whose processes may have the same number in containers, break them down one by one"
    )
}

/// Whether one process may have written both files one after the other: PyTorch's trace handler puts the host into the
/// file name.
fn may_follow((file, own): &(PathBuf, Interval), (other, others): &(PathBuf, Interval)) -> bool {
    let apart = own.1 <= others.0 || others.1 <= own.0;
    let same_host = worker(file).zip(worker(other)).is_none_or(|(own, other)| own == other);
    apart && same_host
}

/// Host and process in a file name of `tensorboard_trace_handler`: `host_77` from
/// `host_77.1700000000000000000.pt.trace.json.gz`.
fn worker(file: &Path) -> Option<&str> {
    let name = file.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".pt.trace.json")?;
    let (worker, time) = name.rsplit_once('.')?;
    time.parse::<u64>().ok().map(|_| worker)
}

fn add(to: &mut Trace, other: Trace) {
    let later = other.header.base.saturating_sub(to.header.base);
    let names: Vec<_> = other.names.all().map(|(_, name)| to.names.intern(name)).collect();
    let tracks: Vec<Option<TrackId>> = other.tracks.iter().map(|track| track_of(to, track)).collect();
    let collectives = to.collectives.len() as u32;
    to.collectives.extend(other.collectives);
    let moved = |event: TraceEvent| {
        Some(TraceEvent {
            start: event.start.saturating_add(later),
            name: names[event.name.index()],
            track: tracks[event.track.index()]?,
            collective: if event.collective > 0 { event.collective + collectives } else { 0 },
            ..event
        })
    };
    to.events.extend(other.events.into_iter().filter_map(moved));
    let file = other.file.display();
    to.damage.others.extend(other.damage.warnings().into_iter().map(|warning| format!("{file}: {warning}")));
}

/// The track with the same process and thread, which is added if it is new; none if there are too many tracks.
fn track_of(trace: &mut Trace, track: &crate::trace::Track) -> Option<TrackId> {
    let known = trace.tracks.iter().position(|own| own.process == track.process && own.thread == track.thread);
    let place = known.unwrap_or_else(|| {
        trace.tracks.push(track.clone());
        trace.tracks.len() - 1
    });
    u16::try_from(place).ok().map(TrackId)
}

fn extent(trace: &Trace) -> Option<Interval> {
    let ends = trace.events.iter().map(TraceEvent::end).max()?;
    let base = trace.header.base;
    Some((trace.events.first()?.start.saturating_add(base), ends.saturating_add(base)))
}
