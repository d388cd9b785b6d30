//! Problems in a trace that did not prevent reading it.

use perf4sight_base::units::count_text;
use std::collections::BTreeMap;

perf4sight_base::words! {
    pub enum DamageKind {
        /// It is not a JSON object with the fields of an event.
        Unreadable = "not the JSON of an event",
        Timeless = "without a time",
        NegativeDuration = "with a negative duration",
        /// All others of its trace are after the zero of the clock, and near to each other.
        BeforeZero = "at a negative time",
        /// It has no end: the profiler was stopped before it ended.
        Endless = "without an end",
        /// Its time does not fit in 64 bits of nanoseconds.
        OutOfRange = "at a time that no clock shows",
        LongerThanADay = "longer than a day, as no recording is",
        Far = "more than a day from most others, as no recording takes",
        /// It is longer than a real event: a name of many megabytes, or endless nesting.
        TooLong = "longer than any event",
        TooManyTracks = "on more threads and streams than a trace can have",
        /// It is only the beginning or end of a span (phases `B` and `E`, `b` and `e`, and older ones), which no profiler
        /// of PyTorch writes.
        Half = "written in halves (phases B and E, b and e), where PyTorch's profiler writes whole ones (X)",
    }
}

/// A day in nanoseconds. A profiler keeps all events in memory and writes gigabytes for minutes, so no recording takes
/// that long; sums of shorter times fit in 64 bits.
pub(crate) const DAY: i64 = 86_400_000_000_000;

/// A duration that an event can have; `None` stands for one that does not fit in 64 bits.
pub(crate) fn check_duration(duration: Option<i64>) -> Result<i64, DamageKind> {
    match duration {
        None => Err(DamageKind::OutOfRange),
        Some(..0) => Err(DamageKind::NegativeDuration),
        Some(duration) if duration > DAY => Err(DamageKind::LongerThanADay),
        Some(duration) => Ok(duration),
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceDamage {
    /// How the trace is truncated, in words.
    pub truncated: Option<String>,
    /// Other problems, in sentences: an invalid rank, times that were calculated.
    pub others: Vec<String>,
    /// Problems of other files, in sentences that name them.
    pub of_other_files: Vec<String>,
    /// Events left out: their number, and the byte of the JSON at which the first of them begins, if the trace is JSON.
    pub events: BTreeMap<DamageKind, (u64, Option<u64>)>,
}

impl TraceDamage {
    /// Counts an event that is left out; `at` is the byte of the JSON at which it begins.
    pub fn note(&mut self, kind: DamageKind, at: Option<u64>) {
        self.events.entry(kind).or_insert((0, at)).0 += 1;
    }

    pub fn is_none(&self) -> bool {
        self.truncated.is_none() && self.others.is_empty() && self.of_other_files.is_empty() && self.events.is_empty()
    }

    /// Whether events are missing: the trace is cut off, or some were left out.
    pub fn lacks_events(&self) -> bool {
        self.truncated.is_some() || !self.events.is_empty()
    }

    pub fn warnings(&self) -> Vec<String> {
        self.of_other_files.iter().cloned().chain(self.of_trace()).collect()
    }

    /// The warnings that are about the trace itself.
    pub fn of_trace(&self) -> Vec<String> {
        let event = |(kind, (count, at)): (&DamageKind, &(u64, Option<u64>))| {
            let place = at.map_or(String::new(), |at| format!(" (the first at byte {at} of the JSON)"));
            format!("{}: {kind}{place}", left_out(*count))
        };
        self.truncated.iter().chain(&self.others).cloned().chain(self.events.iter().map(event)).collect()
    }
}

pub(crate) fn left_out(events: u64) -> String {
    let were = if events == 1 { "was" } else { "were" };
    format!("{} {were} left out", count_text(events, "event"))
}
