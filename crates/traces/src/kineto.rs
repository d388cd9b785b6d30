//! Chrome's trace format as written by PyTorch's profiler: an object with `traceEvents`, or only the array of events.

use crate::category::EventCategory;
use crate::collective::CollectiveArguments;
use crate::damage::{DamageKind, check_duration};
use crate::intern::printable;
use crate::nanoseconds::from_microseconds;
use crate::precision::bits;
use crate::raw::{AnyValue, EventsVisitor, OwnedValue, RawEvent, as_written, whole_number};
use crate::room;
use crate::trace::{EventPhase, StreamWait, Trace, TraceEvent, TraceHeader, Track, TrackId};
use crate::window::{JsonWindow, ParsedValue, STRIDE};
use hashbrown::HashMap;
use perf4sight_base::error::{Error, Result};
use serde_json::Value;
use std::path::Path;

/// Reads a trace, gzipped or not. Damaged or missing parts are left out and listed in [`Trace::damage`].
///
/// # Errors
/// A file that cannot be read, or that is no trace.
pub(crate) fn read(file: &Path) -> Result<Trace> {
    read_by(file, STRIDE, room::memory_limit(file))
}

/// The same up to the first event.
///
/// # Errors
/// A file that cannot be read, or that is no trace.
pub(crate) fn read_beginning(file: &Path) -> Result<Trace> {
    read_by(file, STRIDE, 0)
}

fn read_by(file: &Path, stride: usize, room: u64) -> Result<Trace> {
    let window = JsonWindow::open(file, stride)?;
    let mut reader = KinetoReader { window, trace: Trace::default(), tracks: TrackTable::default(), room, open: false };
    reader.trace.file = file.to_owned();
    reader.window.skip_mark();
    let found = match reader.window.peek() {
        Some(b'[') => {
            reader.events();
            true
        }
        Some(b'{') => reader.object(),
        _ => false,
    };
    if let Some(cause) = &reader.window.broken {
        reader.trace.damage.truncated =
            Some(format!("the file could be read up to byte {} only: {cause}", reader.window.position()));
    }
    if !found {
        return Err(no_trace(file, &reader));
    }
    reader.end();
    Ok(reader.finish())
}

fn no_trace(file: &Path, reader: &KinetoReader) -> Error {
    let problem = match (&reader.trace.damage.truncated, reader.window.position()) {
        (Some(truncated), _) => format!("is not a trace: {truncated}"),
        (None, 0) => "is not a trace: it is empty or no JSON".to_owned(),
        (None, _) => "is not a trace: it has no list of traceEvents".to_owned(),
    };
    Error::input(problem).file(file).expected(
        "what torch.profiler's export_chrome_trace writes, .json or .json.gz, or SQLite: of an .nsys-rep, what nsys export --type sqlite makes",
    )
}

struct KinetoReader {
    window: JsonWindow,
    trace: Trace,
    tracks: TrackTable,
    /// The memory limit for the trace in bytes.
    room: u64,
    /// Whether a value that is no event had no end. Its end is searched for only once, because each search may read the
    /// whole file.
    open: bool,
}

#[derive(Default)]
struct TrackTable {
    known: HashMap<Vec<u8>, TrackId>,
    key: Vec<u8>,
    /// The last track, because events of a thread often follow one another.
    last: Option<(Vec<u8>, TrackId)>,
}

impl KinetoReader {
    /// Reads the members of the outermost object; returns whether one was `traceEvents`.
    fn object(&mut self) -> bool {
        self.window.skip(1);
        let mut found = false;
        loop {
            match self.window.peek() {
                Some(b',') => self.window.skip(1),
                Some(b'"') => match self.member() {
                    Some(events) => found |= events,
                    None => {
                        self.cut();
                        return found;
                    }
                },
                Some(b'}') => {
                    self.window.skip(1);
                    return found;
                }
                _ => {
                    self.cut();
                    return found;
                }
            }
        }
    }

    /// Reads one member; returns whether it was `traceEvents`, or none if it cannot be read.
    fn member(&mut self) -> Option<bool> {
        let ParsedValue::Value(key) = self.window.value::<OwnedValue<String>, _>(String::clone) else { return None };
        if self.window.peek()? != b':' {
            return None;
        }
        self.window.skip(1);
        if key == "traceEvents" && self.window.peek()? == b'[' {
            self.events();
            return Some(true);
        }
        let wanted =
            ["distributedInfo", "deviceProperties", "baseTimeNanoseconds", "with_stack"].contains(&key.as_str());
        let Trace { header, damage, .. } = &mut self.trace;
        let take = |value: &Value| {
            header.take(&key, value);
            damage.others.extend(odd_numbers(&key, value));
        };
        let read = match wanted {
            true => self.window.value::<OwnedValue<Value>, _>(take),
            false => self.window.value::<AnyValue, _>(|_| ()),
        };
        matches!(read, ParsedValue::Value(())).then_some(false)
    }

    /// Warns about data after the trace.
    fn end(&mut self) {
        if self.trace.damage.truncated.is_none() && self.window.peek().is_some() {
            let behind =
                format!("the trace ends at byte {} of the JSON, and the rest was not read", self.window.position());
            self.trace.damage.others.push(behind);
        }
    }

    fn cut(&mut self) {
        let at = self.window.position();
        self.trace.damage.truncated.get_or_insert_with(|| {
            format!("the trace is cut off or damaged at byte {at} of the JSON; everything before it was read")
        });
    }

    fn events(&mut self) {
        self.window.skip(1);
        loop {
            match self.window.peek() {
                Some(b',') => self.window.skip(1),
                Some(b']') => return self.window.skip(1),
                Some(b'{') if room::memory_used(&self.trace) > self.room => return self.fill(),
                Some(b'{') => self.event(),
                Some(_) => self.count_damaged(1),
                None => return self.cut(),
            }
        }
    }

    /// Stops reading because the memory limit is reached.
    fn fill(&mut self) {
        let at = self.window.position();
        let truncated = format!("the trace was read up to byte {at} of the JSON: {}", room::full_reason(self.room));
        self.trace.damage.truncated = Some(truncated);
    }

    fn event(&mut self) {
        let at = self.window.position();
        let (trace, tracks) = (&mut self.trace, &mut self.tracks);
        match self.window.value::<EventsVisitor, _>(|event| add(trace, tracks, event)) {
            ParsedValue::Value(Ok(())) => {}
            ParsedValue::Value(Err(kind)) => self.trace.damage.note(kind, Some(at)),
            ParsedValue::Wrong(bytes) => self.count_damaged(bytes),
            ParsedValue::Endless => {
                self.trace.damage.note(DamageKind::TooLong, Some(at));
                self.window.abandon();
                self.find_event();
            }
            ParsedValue::Cut => {
                self.cut();
                self.window.abandon();
            }
        }
    }

    /// Counts the data at the position as damaged: a whole value that is no event, or at least this many bytes.
    fn count_damaged(&mut self, bytes: usize) {
        let at = self.window.position();
        match if self.open { ParsedValue::Wrong(bytes) } else { self.window.value::<AnyValue, _>(|_| ()) } {
            ParsedValue::Value(()) => return self.trace.damage.note(DamageKind::Unreadable, Some(at)),
            ParsedValue::Wrong(_) => {}
            ParsedValue::Cut | ParsedValue::Endless => self.open = true,
        }
        self.lost(bytes);
    }

    /// Counts the data at the position as damaged, skips at least this many bytes, and continues at the next event.
    fn lost(&mut self, bytes: usize) {
        self.trace.damage.note(DamageKind::Unreadable, Some(self.window.position()));
        self.window.skip(bytes);
        self.find_event();
    }

    /// Moves to the next object that is an event, and counts damaged ones before it: array elements count, but not
    /// values of members, such as the arguments of a damaged event.
    fn find_event(&mut self) {
        let begin = self.window.position();
        while let Some(before) = self.window.next_object() {
            let at = self.window.position();
            match self.window.looks_like::<EventsVisitor>() {
                ParsedValue::Value(()) => return,
                ParsedValue::Endless | ParsedValue::Cut => self.window.abandon(),
                ParsedValue::Wrong(bytes) => {
                    if matches!(before, b',' | b'[') {
                        self.trace.damage.note(DamageKind::Unreadable, Some(at));
                    }
                    self.window.skip(bytes);
                }
            }
        }
        let unread = || format!("no event could be read from byte {begin} of the JSON on");
        self.trace.damage.truncated.get_or_insert_with(unread);
    }

    fn finish(self) -> Trace {
        let mut trace = self.trace;
        leave_out_before_zero(&mut trace);
        trace.put_in_order();
        trace
    }
}

/// Leaves out events at negative times that lie further before the others than these take: a clock whose zero is within the
/// recording has some before it, but no gap.
fn leave_out_before_zero(trace: &mut Trace) {
    let behind = trace.events.iter().filter(|event| event.start >= 0);
    let (first, last) =
        behind.fold((i64::MAX, 0), |(first, last), event| (first.min(event.start), last.max(event.end())));
    let is_far = |event: &TraceEvent| event.start < 0 && event.end() < first.saturating_sub(last.saturating_sub(first));
    let far = trace.events.iter().filter(|event| is_far(event)).count();
    if far > 0 && 2 * far < trace.events.len() {
        trace.events.retain(|event| !is_far(event));
        (0..far).for_each(|_| trace.damage.note(DamageKind::BeforeZero, None));
    }
}

impl TraceHeader {
    fn take(&mut self, key: &str, value: &Value) {
        let number =
            |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        match key {
            "distributedInfo" => {
                self.rank = number(value.get("rank"));
                self.world_size = number(value.get("world_size"));
                let groups = value.get("pg_config").and_then(Value::as_array).into_iter().flatten();
                let ranks = groups.filter_map(|group| group.get("ranks")?.as_array());
                self.groups = ranks.map(|ranks| ranks.iter().filter_map(|rank| number(Some(rank))).collect()).collect();
            }
            "deviceProperties" => {
                let devices = value.as_array().into_iter().flatten();
                self.devices = devices.filter_map(|device| Some(printable(device.get("name")?.as_str()?))).collect();
            }
            "baseTimeNanoseconds" => self.base = value.as_i64().unwrap_or(0),
            _ => self.with_stack = Some(value.as_bool().unwrap_or(value.as_u64() == Some(1))),
        }
    }
}

/// The numbers that a trace has of its rank and of all ranks, and what is done without them.
const NUMBERS: [(&str, &str); 2] = [
    ("rank", "not a rank; the rank is taken from the name or place of its file"),
    ("world_size", "not a number of ranks; how many there are is not known from it"),
];

/// Warnings if the rank in the trace, or the number of ranks, is invalid.
fn odd_numbers(key: &str, value: &Value) -> Vec<String> {
    let odd = |(name, remedy): (&str, &str)| {
        let number = value.get(name).filter(|number| key == "distributedInfo" && !number.is_null())?;
        let is_valid = number.as_u64().is_some_and(|number| u32::try_from(number).is_ok());
        let text: String = number.to_string().chars().take(100).collect();
        (!is_valid).then(|| format!("the trace names {name} {text}, which is {remedy}"))
    };
    NUMBERS.into_iter().filter_map(odd).collect()
}

fn add(trace: &mut Trace, tracks: &mut TrackTable, event: &RawEvent) -> std::result::Result<(), DamageKind> {
    let phase = match event.ph.as_deref().unwrap_or_default() {
        b"X" => EventPhase::Complete,
        b"s" => EventPhase::FlowStart,
        b"f" => EventPhase::FlowEnd,
        b"i" | b"I" => EventPhase::Instant,
        b"M" => {
            let track = tracks.track_of(trace, event)?;
            name_track(&mut trace.tracks[track.index()], event);
            return Ok(());
        }
        b"B" | b"E" | b"b" | b"e" | b"S" | b"F" | b"T" | b"p" => return Err(DamageKind::Half),
        // Counters, samples and the like, which take no time.
        _ => return Ok(()),
    };
    let (start, duration) = times(event, phase)?;
    let correlation = match phase {
        EventPhase::FlowStart | EventPhase::FlowEnd => whole_number(event.id),
        EventPhase::Complete | EventPhase::Instant => whole_number(event.args.correlation),
    };
    let collective = CollectiveArguments::from_event(event).map_or(0, |collective| {
        trace.collectives.push(collective);
        trace.collectives.len() as u32
    });
    let track = tracks.track_of(trace, event)?;
    let recorded = whole_number(event.args.event_recorded_by);
    if recorded > 0 && event.cat.as_deref().map(EventCategory::from_spelling) == Some(EventCategory::Synchronisation) {
        let stream = whole_number(event.args.event_on_stream);
        trace.stream_waits.push(StreamWait { track, correlation, recorded, stream });
    }
    let name = trace.names.intern(event.name.as_deref().unwrap_or_default());
    if let Some(bits) = bits(&event.args) {
        trace.precisions.entry(name).or_default().count(bits);
    }
    trace.events.push(TraceEvent {
        start,
        duration,
        correlation,
        name,
        external: u32::try_from(whole_number(event.args.external.or(event.args.external_of_old))).unwrap_or(0),
        collective,
        track,
        category: category(event),
        phase,
    });
    Ok(())
}

fn category(event: &RawEvent) -> EventCategory {
    let name = event.name.as_deref().unwrap_or_default();
    match event.cat.as_deref() {
        None => without_category(event),
        // Kineto has one category for all that an MTIA does (`MTIA_CCP_EVENTS`), its copies included.
        Some(cat) if cat.starts_with(b"mtia_ccp") && name.to_ascii_lowercase().starts_with(b"dma") => {
            EventCategory::Copy
        }
        Some(cat) => EventCategory::from_spelling(cat),
    }
}

/// The category of an event without one. PyTorch built without Kineto, such as Debian's, distinguishes host and
/// accelerator only by the process (torch/autograd/profiler_util.py); on the host, operators are recognised by their
/// names.
fn without_category(event: &RawEvent) -> EventCategory {
    let name = event.name.as_deref().unwrap_or_default();
    match event.pid {
        Some(br#""CPU functions""#) if is_operator(name) => EventCategory::Operator,
        Some(br#""CPU functions""#) => EventCategory::Annotation,
        Some(br#""CUDA functions""#) => EventCategory::Kernel,
        _ => EventCategory::Other,
    }
}

/// `aten::conv2d`, `autograd::engine::evaluate_function: AddBackward0`, `AddBackward0`; not `ProfilerStep#3`.
fn is_operator(name: &[u8]) -> bool {
    let last = name.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    name[..last].ends_with(b"Backward") || name.windows(2).any(|pair| pair == b"::")
}

fn times(event: &RawEvent, phase: EventPhase) -> std::result::Result<(i64, i64), DamageKind> {
    let nanoseconds = |number: Option<&[u8]>| number.map(from_microseconds);
    let start = nanoseconds(event.ts).ok_or(DamageKind::Timeless)?.ok_or(DamageKind::OutOfRange)?;
    let duration = match (phase, nanoseconds(event.dur)) {
        (EventPhase::Complete, Some(duration)) => check_duration(duration)?,
        (EventPhase::Complete, None) => return Err(DamageKind::Timeless),
        (EventPhase::FlowStart | EventPhase::FlowEnd | EventPhase::Instant, _) => 0,
    };
    Ok((start, duration))
}

fn name_track(track: &mut Track, event: &RawEvent) {
    let name = || Some(as_written(event.args.name)).filter(|name| !name.is_empty());
    match event.name.as_deref() {
        Some(b"thread_name") => track.thread_name = name(),
        Some(b"process_name") => track.process_name = name(),
        _ => {}
    }
}

impl TrackTable {
    /// The track of an event, which is added if it is new.
    fn track_of(&mut self, trace: &mut Trace, event: &RawEvent) -> std::result::Result<TrackId, DamageKind> {
        let [process, thread] = [event.pid, event.tid].map(|id| id.unwrap_or_default());
        self.key.clear();
        self.key.extend_from_slice(process);
        self.key.push(0);
        self.key.extend_from_slice(thread);
        if let Some((_, id)) = self.last.as_ref().filter(|(key, _)| *key == self.key) {
            return Ok(*id);
        }
        let id = match self.known.get(&self.key) {
            Some(&id) => id,
            None => {
                let id = TrackId(u16::try_from(trace.tracks.len()).map_err(|_| DamageKind::TooManyTracks)?);
                let [process, thread] = [event.pid, event.tid].map(as_written);
                trace.tracks.push(Track { process, thread, thread_name: None, process_name: None });
                self.known.insert(self.key.clone(), id);
                id
            }
        };
        self.last = Some((self.key.clone(), id));
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any split of the file gives the same events, including splits inside numbers, strings and escapes.
    #[test]
    fn pieces_of_any_size_give_the_same_events() {
        let event = |number: u32| {
            format!(
                r#"{{"ph": "X", "cat": "cpu_op", "name": "op \"{number}\" \u00e9é", "pid": {number}, "tid": "a",
                "ts": 10{number}.75, "dur": -0.0, "args": {{"External id": {number}, "x": [1.5e-3, true, null, {{"y": "}}"}}]}}}}"#
            )
        };
        let events: Vec<String> = (0..20).map(event).collect();
        let text =
            format!(r#"{{"schemaVersion": 1.25, "traceEvents": [{}], "displayTimeUnit": "ms"}}"#, events.join(",\n"));
        let folder = std::env::temp_dir().join(format!("perf4sight-traces-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("pieces.json");
        std::fs::write(&file, text).unwrap();
        let whole = read_by(&file, STRIDE, room::memory_limit(&file)).unwrap();
        assert_eq!((whole.events.len(), whole.damage.is_none()), (20, true));
        assert_eq!((whole.name(&whole.events[0]), whole.events[0].start), ("op \"0\" éé", 100_750));
        for stride in 1..80 {
            let pieces = read_by(&file, stride, room::memory_limit(&file)).unwrap();
            assert_eq!((pieces.events, pieces.damage), (whole.events.clone(), whole.damage.clone()), "{stride}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
