//! Call stacks: the innermost frames in the iterations that count, and their callers.

use crate::breakdown::RankBreakdown;
use crate::calls::callers::EventCallers;
use crate::calls::{ScriptFunction, label};
use crate::categories::TimeCategory;
use crate::categories::recorded::RecordedKinds;
use crate::categories::thread_state::EventStates;
use crate::threads::ThreadSpan;
use perf4sight_traces::intervals::{Interval, clipped, length};
use perf4sight_traces::{EventCategory, NameId, Trace, TrackId};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

/// A tree of calls over all iterations that count. While the main thread waits for other threads, their calls appear
/// below the waiting call: the backward pass below `run_backward`.
#[derive(Debug, Clone)]
pub struct CallStacks {
    /// All frames, each after its caller.
    frames: Vec<StackFrame>,
    names: Vec<String>,
    /// Nanoseconds of the iterations that count; time outside of all frames is not recorded.
    pub window: i64,
    pub iterations: usize,
    /// The number of events without a frame of their own, because they are too deep or there are too many frames; their
    /// time belongs to their caller.
    pub merged: usize,
}

/// Calls with the same name and the same stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackFrame {
    /// The index of the caller's frame; none for the outermost.
    pub parent: Option<u32>,
    pub(crate) name: u32,
    pub kind: EventCategory,
    pub category: TimeCategory,
    /// Nanoseconds of self time.
    pub own: i64,
    /// Nanoseconds including callees.
    pub total: i64,
    pub calls: u64,
}

const MOST: usize = 100_000;

/// Functions that run when the recording begins are noted in one go, one about a microsecond after its caller.
const OPEN_TOGETHER: i64 = 20_000;

/// What runs for as long as a script, a module (`python -m`) or a thread does.
const OUTERMOST: [&str; 3] = ["<module>", "_run_module_as_main", "_bootstrap"];

impl CallStacks {
    pub fn from_trace(trace: &Trace, rank: &RankBreakdown) -> Self {
        let windows: Vec<Interval> = rank.counted_iterations().map(|iteration| iteration.window).collect();
        let mut growing = StacksBuilder::new(trace, rank);
        for (part, span) in windows.iter().flat_map(|window| clipped(&rank.timeline, *window)) {
            growing.add(span, part.1 - part.0);
        }
        growing.finish(length(&windows), windows.len())
    }

    pub fn frames(&self) -> &[StackFrame] {
        &self.frames
    }

    /// The name of a frame: the event's name without addresses, cut to 200 characters.
    pub fn name(&self, frame: &StackFrame) -> &str {
        &self.names[frame.name as usize]
    }

    /// Writes one line per stack in the format of flame graph tools: its frames, the outermost first, separated by
    /// semicolons, and the self time of the innermost in nanoseconds.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_folded(&self, out: &mut impl Write) -> io::Result<()> {
        for frame in self.frames.iter().filter(|frame| frame.own > 0) {
            let mut stack = vec![frame];
            while let Some(parent) = stack[stack.len() - 1].parent {
                stack.push(&self.frames[parent as usize]);
            }
            for (at, frame) in stack.iter().rev().enumerate() {
                let name = self.name(frame).replace(';', ":");
                write!(out, "{}{name}", if at == 0 { "" } else { ";" })?;
            }
            writeln!(out, " {}", frame.own)?;
        }
        Ok(())
    }
}

struct StacksBuilder<'a> {
    trace: &'a Trace,
    callers: EventCallers,
    main: Option<TrackId>,
    /// The spans of the main thread itself, without those of other threads.
    own: &'a [ThreadSpan],
    frames: Vec<StackFrame>,
    children: HashMap<(u32, u32, EventCategory), u32>,
    /// For each event its frame, and the frame above its outermost caller; none for events that were not placed yet.
    placed: Vec<Option<(u32, u32)>>,
    names: Vec<String>,
    known: HashMap<String, u32>,
    /// The index in `names` of each of the trace's names.
    labels: Vec<Option<u32>>,
    /// Whether an event got no frame because there are too many.
    refused: Vec<bool>,
    states: EventStates<'a>,
    recorded: RecordedKinds,
    /// The lines of definitions of functions that were called while it was recorded, by file and name.
    defined: HashMap<(&'a str, &'a str), BTreeSet<u64>>,
}

/// The index that means no frame.
const ROOT: u32 = u32::MAX;
/// The index of names that no frame has.
const UNNAMED: u32 = u32::MAX;

impl<'a> StacksBuilder<'a> {
    fn new(trace: &'a Trace, rank: &'a RankBreakdown) -> Self {
        let main = rank.threads.iter().find(|thread| Some(thread.track) == rank.main);
        let mut builder = StacksBuilder {
            trace,
            callers: EventCallers::from_trace(trace),
            main: rank.main,
            own: main.map_or(&[], |main| &main.spans),
            frames: Vec::new(),
            children: HashMap::new(),
            placed: vec![None; trace.events.len()],
            names: Vec::new(),
            known: HashMap::new(),
            labels: vec![None; trace.names.all().count()],
            refused: vec![false; trace.events.len()],
            states: EventStates::new(trace),
            recorded: rank.recorded,
            defined: HashMap::new(),
        };
        builder.defined = builder.definitions();
        builder
    }

    fn definitions(&self) -> HashMap<(&'a str, &'a str), BTreeSet<u64>> {
        let mut seen = vec![false; self.labels.len()];
        let mut defined: HashMap<(&str, &str), BTreeSet<u64>> = HashMap::new();
        for (place, event) in self.trace.events.iter().enumerate() {
            let known = seen[event.name.index()] || event.category != EventCategory::Python;
            if known || self.is_open_at_start(place as u32) {
                continue;
            }
            seen[event.name.index()] = true;
            let Some(function) = ScriptFunction::parse(self.trace.name(event)) else { continue };
            let line = function.line.and_then(|line| line.parse().ok());
            defined.entry((function.file, function.function)).or_default().extend::<Option<u64>>(line);
        }
        defined
    }

    /// Adds time of a span; calls must be in the order of time.
    fn add(&mut self, span: &ThreadSpan, nanoseconds: i64) {
        let event = span.event;
        let under = if Some(self.trace.events[event as usize].track) == self.main {
            ROOT
        } else {
            let waits = self.waiting(span.start);
            waits.map_or(ROOT, |waits| self.add_event(waits, ROOT))
        };
        let frame = self.add_event(event, under);
        if let Some(frame) = self.frames.get_mut(frame as usize) {
            frame.own += nanoseconds;
        }
    }

    fn waiting(&mut self, moment: i64) -> Option<u32> {
        let behind = self.own.partition_point(|span| span.end <= moment);
        self.own = &self.own[behind..];
        self.own.first().filter(|span| span.start <= moment).map(|span| span.event)
    }

    /// The frame of an event; the outermost call of its stack is placed below the frame `under`.
    fn add_event(&mut self, event: u32, under: u32) -> u32 {
        let mut chain = Vec::new();
        let mut at = Some(self.callers.representative(event));
        let mut frame = under;
        while let Some(call) = at {
            // Events without a frame of their own are recorded as placed, too. Otherwise each of a million calls would
            // be searched for again from each of its callees.
            if let Some((placed, placed_under)) = self.placed[call as usize]
                && placed_under == under
            {
                frame = placed;
                break;
            }
            chain.push(call);
            at = self.callers.above(call);
        }
        for call in chain.into_iter().rev() {
            frame = self.call(frame, call);
            self.placed[call as usize] = Some((frame, under));
        }
        frame
    }

    /// Counts a call; returns its frame, or the caller's frame if there are too many frames.
    fn call(&mut self, parent: u32, event: u32) -> u32 {
        let event_of = &self.trace.events[event as usize];
        let kind = event_of.category;
        let label =
            if self.is_open_at_start(event) { self.label_of_open(event_of.name) } else { self.label(event_of.name) };
        let key = (parent, label, kind);
        let frame = match self.children.get(&key) {
            Some(&frame) => frame,
            None if self.frames.len() >= MOST => {
                self.refused[event as usize] = true;
                return parent;
            }
            None => {
                let frame = self.frames.len() as u32;
                self.children.insert(key, frame);
                let parent = Some(parent).filter(|parent| *parent != ROOT);
                let category =
                    self.states.get(event_of).map_or(TimeCategory::Wait, |state| self.recorded.category(state));
                self.frames.push(StackFrame { parent, name: key.1, kind, category, own: 0, total: 0, calls: 0 });
                frame
            }
        };
        self.frames[frame as usize].calls += 1;
        frame
    }

    /// Whether a function ran before the recording began. PyTorch names it by the line where it was then, and all others by the line of their
    /// definition (`torch/csrc/autograd/profiler_python.cpp`).
    fn is_open_at_start(&self, event: u32) -> bool {
        let of = |event: u32| &self.trace.events[event as usize];
        of(event).category == EventCategory::Python
            && match self.callers.above(event) {
                None => ScriptFunction::parse(self.trace.name(of(event)))
                    .is_some_and(|outermost| OUTERMOST.contains(&outermost.function)),
                Some(caller) => of(event).start - of(caller).start < OPEN_TOGETHER && self.is_open_at_start(caller),
            }
    }

    /// The same for a function that ran before the recording began: by the line of its definition, if it is called later, too; else by no line.
    fn label_of_open(&mut self, name: NameId) -> u32 {
        let Some(function) = ScriptFunction::parse(self.trace.names.get(name)) else { return self.label(name) };
        match self.defined.get(&(function.file, function.function)).and_then(|lines| function.defined_at(lines)) {
            Some(defined) => self.text_label(label(&function.at_line(defined))),
            None => self.text_label(label(&function.without_line())),
        }
    }

    /// The index of a name; [`UNNAMED`] for a new name if there are too many frames.
    fn label(&mut self, name: NameId) -> u32 {
        if let Some(label) = self.labels[name.index()] {
            return label;
        }
        let label = self.text_label(label(self.trace.names.get(name)));
        self.labels[name.index()] = Some(label);
        label
    }

    fn text_label(&mut self, text: String) -> u32 {
        match self.known.get(&text) {
            Some(&label) => label,
            None if self.frames.len() >= MOST => UNNAMED,
            None => {
                let label = self.names.len() as u32;
                self.names.push(text.clone());
                self.known.insert(text, label);
                label
            }
        }
    }

    fn finish(mut self, window: i64, iterations: usize) -> CallStacks {
        for at in (0..self.frames.len()).rev() {
            self.frames[at].total += self.frames[at].own;
            let StackFrame { parent, total, .. } = self.frames[at];
            if let Some(parent) = parent {
                self.frames[parent as usize].total += total;
            }
        }
        let merged = self.refused.iter().filter(|refused| **refused).count() + self.callers.too_deep_count();
        CallStacks { frames: self.frames, names: self.names, window, iterations, merged }
    }
}
