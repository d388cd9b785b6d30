//! What was wrong with a trace and read around.

use perf4sight_base::units::counted;
use std::collections::BTreeMap;
use std::fmt;

/// What can be wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It is no JSON object with the fields of an event.
    Unreadable,
    /// It has no time, or one that is no number.
    Timeless,
    /// It ends before it begins; it is left out.
    NegativeDuration,
    /// It has no end: the profiler was stopped before it ended.
    Endless,
    /// It lies outside the years that nanoseconds can count.
    OutOfRange,
    /// It is longer than any event: a name of many megabytes, or nesting without end.
    TooLong,
    /// There are more threads and streams than a trace can have.
    TooManyTracks,
    /// Only its beginning or its end is told (phases `B` and `E`, `b` and `e`, and older ones), which no profiler of PyTorch does.
    Half,
}

/// All that was wrong with a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// How the trace ends before its end, in words.
    pub truncated: Option<String>,
    /// What else is worth telling, in sentences: a rank that is none, files beside it that are no traces.
    pub others: Vec<String>,
    /// Events left out: how many, and at which byte of the JSON the first lies, where they are of one.
    pub events: BTreeMap<Kind, (u64, Option<u64>)>,
}

impl Damage {
    pub(crate) fn note(&mut self, kind: Kind, at: Option<u64>) {
        self.events.entry(kind).or_insert((0, at)).0 += 1;
    }

    /// Whether there was none.
    pub fn is_none(&self) -> bool {
        self.truncated.is_none() && self.others.is_empty() && self.events.is_empty()
    }

    /// One sentence for everything that a reader of the trace should know.
    pub fn warnings(&self) -> Vec<String> {
        let event = |(kind, (count, at)): (&Kind, &(u64, Option<u64>))| {
            let place = at.map_or(String::new(), |at| format!(" (the first at byte {at} of the JSON)"));
            format!("{}: {kind}{place}", left_out(*count))
        };
        self.truncated.iter().chain(&self.others).cloned().chain(self.events.iter().map(event)).collect()
    }
}

/// "1 event was left out"
pub(crate) fn left_out(events: u64) -> String {
    let were = if events == 1 { "was" } else { "were" };
    format!("{} {were} left out", counted(events, "event"))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Unreadable => "not the JSON of an event",
            Kind::Timeless => "without a time",
            Kind::NegativeDuration => "with a negative duration",
            Kind::Endless => "without an end",
            Kind::OutOfRange => "at a time that no clock shows",
            Kind::TooLong => "longer than any event",
            Kind::TooManyTracks => "on more threads and streams than a trace can have",
            Kind::Half => "told in halves (phases B and E, b and e), where PyTorch's profiler tells whole ones (X)",
        })
    }
}
