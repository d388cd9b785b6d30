//! Stacks of calls: what had the word in the iterations that count, and what had called it.

use crate::ancestry::Ancestry;
use crate::breakdown::RankBreakdown;
use crate::recorded::Recorded;
use crate::state::{Class, States};
use crate::threads::Stretch;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, NameId, Trace, TrackId};
use std::collections::HashMap;
use std::io::{self, Write};

/// A tree of calls, over all iterations that count. While the main thread waits for others, what stands in for it is called by what waits:
/// the backward pass by `run_backward`.
#[derive(Debug, Clone)]
pub struct Stacks {
    /// Every frame behind the one that calls it.
    frames: Vec<Frame>,
    /// What frames are called, by [`Frame::name`].
    names: Vec<String>,
    /// Nanoseconds of the iterations that count; what no frame holds of them is not recorded.
    pub window: i64,
    /// How many iterations count.
    pub iterations: usize,
    /// Events that lie too deep to be told apart, or came when there were too many frames; their time is that of what calls them.
    pub merged: usize,
}

/// Calls of one name that were made in one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The place of the frame that calls it; none for the outermost.
    pub parent: Option<u32>,
    /// The place of its name.
    pub(crate) name: u32,
    /// What kind of thing is called.
    pub category: Category,
    /// Who has the word while it is the innermost.
    pub class: Class,
    /// Nanoseconds while it was the innermost.
    pub own: i64,
    /// Nanoseconds with all that it calls.
    pub total: i64,
    /// How many calls.
    pub calls: u64,
}

/// Frames beyond this are not told apart.
const MOST: usize = 100_000;
/// Characters of a name that are kept.
const LONGEST: usize = 200;

impl Stacks {
    /// Of a rank, from its trace.
    pub fn of(trace: &Trace, rank: &RankBreakdown) -> Self {
        let windows: Vec<Interval> = rank.counted().map(|iteration| iteration.window).collect();
        let mut growing = Growing::new(trace, rank);
        let mut first = 0;
        for &(begin, end) in &windows {
            first += rank.timeline[first..].partition_point(|stretch| stretch.end <= begin);
            let within = rank.timeline[first..].iter().take_while(|stretch| stretch.start < end);
            within.for_each(|stretch| growing.add(stretch, stretch.end.min(end) - stretch.start.max(begin)));
        }
        growing.finish(windows.iter().map(|(begin, end)| end - begin).sum(), windows.len())
    }

    /// All frames, each behind the one that calls it.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// What a frame is called: the event's name without addresses and controls, at most 200 characters of it.
    pub fn name(&self, frame: &Frame) -> &str {
        &self.names[frame.name as usize]
    }

    /// Writes one line for each stack, as tools that draw flame graphs read them: its frames, the outermost first, with semicolons between
    /// them, and the nanoseconds that the innermost had the word.
    ///
    /// # Errors
    /// Those of `out`.
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

/// A tree that grows.
struct Growing<'a> {
    trace: &'a Trace,
    ancestry: Ancestry,
    main: Option<TrackId>,
    /// What the main thread does, others not standing in.
    own: &'a [Stretch],
    frames: Vec<Frame>,
    children: HashMap<(u32, u32, Category), u32>,
    /// The frame of each event, and the frame that what stands in for the main thread was called by; none of what was not placed yet.
    placed: Vec<Option<(u32, u32)>>,
    names: Vec<String>,
    known: HashMap<String, u32>,
    /// The place of each of the trace's names.
    labels: Vec<Option<u32>>,
    /// Whether there was no frame left for an event.
    refused: Vec<bool>,
    states: States<'a>,
    recorded: Recorded,
}

/// Stands for no frame.
const ROOT: u32 = u32::MAX;
/// Stands for the names that no frame has.
const UNNAMED: u32 = u32::MAX;

impl<'a> Growing<'a> {
    fn new(trace: &'a Trace, rank: &'a RankBreakdown) -> Self {
        let main = rank.threads.iter().find(|thread| Some(thread.track) == rank.main);
        Growing {
            trace,
            ancestry: Ancestry::of(trace),
            main: rank.main,
            own: main.map_or(&[], |main| &main.stretches),
            frames: Vec::new(),
            children: HashMap::new(),
            placed: vec![None; trace.events.len()],
            names: Vec::new(),
            known: HashMap::new(),
            labels: vec![None; trace.names.all().count()],
            refused: vec![false; trace.events.len()],
            states: States::of(trace),
            recorded: rank.recorded,
        }
    }

    /// Adds nanoseconds of a stretch; later ones follow.
    fn add(&mut self, stretch: &Stretch, nanoseconds: i64) {
        let event = stretch.event;
        let under = if Some(self.trace.events[event as usize].track) == self.main {
            ROOT
        } else {
            let waits = self.waiting(stretch.start);
            waits.map_or(ROOT, |waits| self.place(waits, ROOT))
        };
        let frame = self.place(event, under);
        if let Some(frame) = self.frames.get_mut(frame as usize) {
            frame.own += nanoseconds;
        }
    }

    /// The event of the main thread at a moment.
    fn waiting(&mut self, moment: i64) -> Option<u32> {
        let behind = self.own.partition_point(|stretch| stretch.end <= moment);
        self.own = &self.own[behind..];
        self.own.first().filter(|stretch| stretch.start <= moment).map(|stretch| stretch.event)
    }

    /// The frame of an event whose outermost call was made by another frame.
    fn place(&mut self, event: u32, under: u32) -> u32 {
        let mut chain = Vec::new();
        let mut at = Some(self.ancestry.shown(event));
        let mut frame = under;
        while let Some(call) = at {
            // What has no frame of its own, not even above it, is placed as well: without that each of a million calls would be looked for
            // again in each that it makes.
            if let Some((placed, placed_under)) = self.placed[call as usize]
                && placed_under == under
            {
                frame = placed;
                break;
            }
            chain.push(call);
            at = self.ancestry.above(call);
        }
        for call in chain.into_iter().rev() {
            frame = self.call(frame, call);
            self.placed[call as usize] = Some((frame, under));
        }
        frame
    }

    /// Counts a call that a frame makes; its frame, or that which calls it where there are too many.
    fn call(&mut self, parent: u32, event: u32) -> u32 {
        let event_of = &self.trace.events[event as usize];
        let Event { name, category, .. } = *event_of;
        let key = (parent, self.label(name), category);
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
                let class = self.states.get(event_of).map_or(Class::Wait, |state| self.recorded.class(state));
                self.frames.push(Frame { parent, name: key.1, category, class, own: 0, total: 0, calls: 0 });
                frame
            }
        };
        self.frames[frame as usize].calls += 1;
        frame
    }

    /// The place of a name; [`UNNAMED`] for a new one where there are no more frames to have it.
    fn label(&mut self, name: NameId) -> u32 {
        if let Some(label) = self.labels[name.index()] {
            return label;
        }
        let text = label(self.trace.names.get(name));
        let label = match self.known.get(&text) {
            Some(&label) => label,
            None if self.frames.len() >= MOST => UNNAMED,
            None => {
                let label = self.names.len() as u32;
                self.names.push(text.clone());
                self.known.insert(text, label);
                label
            }
        };
        self.labels[name.index()] = Some(label);
        label
    }

    fn finish(mut self, window: i64, iterations: usize) -> Stacks {
        for at in (0..self.frames.len()).rev() {
            self.frames[at].total += self.frames[at].own;
            let Frame { parent, total, .. } = self.frames[at];
            if let Some(parent) = parent {
                self.frames[parent as usize].total += total;
            }
        }
        let merged = self.refused.iter().filter(|refused| **refused).count() + self.ancestry.deeper();
        Stacks { frames: self.frames, names: self.names, window, iterations, merged }
    }
}

/// A name as it is shown: without the addresses of objects, which differ from call to call, and without controls; cut where it is longer
/// than anybody reads.
pub(crate) fn label(name: &str) -> String {
    let mut text: String = name.chars().take(LONGEST + 40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    while let Some(at) = text.find(" at 0x") {
        let digits = text[at + 6..].chars().take_while(char::is_ascii_hexdigit).count();
        text.replace_range(at..at + 6 + digits, "");
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
