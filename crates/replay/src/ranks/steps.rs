//! The steps of a rank: where each begins and ends.

use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, EventPhase, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, BTreeSet};

/// A step of a rank's training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingStep {
    /// Its name: `ProfilerStep#3`, that of a range such as `iteration 3`, or a number among the steps of the optimizer. The same on all ranks.
    pub name: String,
    /// The number in its name, else its place: larger than that of the step before. More than one larger where steps between were not recorded.
    pub(crate) number: i64,
    /// Its beginning and end on the thread that marks it, in nanoseconds on the clock of its trace.
    pub window: Interval,
    /// When its work is done: later than its window where the thread runs ahead of its GPU, behind the work of the step before.
    pub work: Interval,
}

impl TrainingStep {
    /// A step whose work is done within its window.
    fn new(name: String, number: i64, window: Interval) -> Self {
        TrainingStep { name, number, window, work: window }
    }
}

/// What marks the steps of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepMarks {
    /// PyTorch's profiler, by `prof.step()`.
    Profiler,
    /// The optimizer: steps are between the ends of its steps.
    Optimizer,
    /// Ranges of the script, such as `iteration 3`: steps are from the beginning of one to that of the next.
    Ranges,
    /// Nothing: the whole trace is one step.
    None,
}

/// Marks by what tells most of a step.
const MARKS: [StepMarks; 3] = [StepMarks::Profiler, StepMarks::Optimizer, StepMarks::Ranges];
/// What marks steps, by prefix of its name.
pub(super) const PROFILER: &str = "ProfilerStep#";
const OPTIMIZER: &str = "Optimizer.step#";
/// Nanoseconds by which marks may overlap: times are rounded to microseconds in some traces.
const ROUNDING: i64 = 1_000;

impl StepMarks {
    /// The best that all traces have of those that have any.
    pub(super) fn choose<'a>(traces: impl Iterator<Item = &'a Trace>) -> Self {
        let has = |marks: &StepMarks, trace: &Trace| !marks.steps(trace).0.is_empty();
        let marked: Vec<&Trace> = traces.filter(|trace| MARKS.iter().any(|marks| has(marks, trace))).collect();
        let of_all = MARKS.into_iter().find(|marks| marked.iter().all(|trace| has(marks, trace)));
        let of_some = || MARKS.into_iter().find(|marks| marked.iter().any(|trace| has(marks, trace)));
        of_all.filter(|_| !marked.is_empty()).or_else(of_some).unwrap_or(StepMarks::None)
    }

    /// The steps of a trace, which are one without such marks, and the thread that marks them.
    pub(super) fn read(self, trace: &Trace) -> (Vec<TrainingStep>, Option<TrackId>) {
        let (steps, track) = self.steps(trace);
        if steps.is_empty() { (whole_trace(trace).into_iter().collect(), None) } else { (steps, track) }
    }

    /// Whether a range with such a name is a step, and nothing else.
    pub(super) fn are(self, name: &str) -> bool {
        name.starts_with(PROFILER) || self == StepMarks::Ranges && script(name).is_some()
    }

    fn steps(self, trace: &Trace) -> (Vec<TrainingStep>, Option<TrackId>) {
        let by_name = |prefix: &'static str| marking_ranges(trace, |name| name.starts_with(prefix).then_some(prefix));
        let (track, marks) = match self {
            StepMarks::Profiler => by_name(PROFILER),
            StepMarks::Optimizer => by_name(OPTIMIZER).map(|(track, marks)| (track, first_of(marks))),
            StepMarks::Ranges => marking_ranges(trace, script).filter(|(_, marks)| are_steps(trace, marks)),
            StepMarks::None => None,
        }
        .unzip();
        let marks = marks.unwrap_or_default();
        let steps = match self {
            StepMarks::Profiler => ranges(trace, &marks),
            StepMarks::Ranges => from_each_to_the_next(trace, &marks),
            StepMarks::Optimizer => steps_between(&marks),
            StepMarks::None => Vec::new(),
        };
        (steps, track)
    }
}

/// Words in the names of a script's ranges that are steps.
const WORDS: [&str; 3] = ["step", "iter", "batch"];
/// Fewer ranges of a name begin no steps; nor do those whose numbers begin again and that do not cover more than this part of the time.
const FEWEST: usize = 3;
const COVERED: f64 = 0.5;

/// What the names of a script's ranges that may be steps begin with: `epoch ` of `epoch 0 batch 3`.
fn script(name: &str) -> Option<&str> {
    let lower = name.to_ascii_lowercase();
    let is_numbered = name.ends_with(|letter: char| letter.is_ascii_digit());
    let is_own = is_numbered && ![PROFILER, OPTIMIZER].iter().any(|prefix| name.starts_with(prefix));
    let is_step = is_own && WORDS.iter().any(|word| lower.contains(word));
    name.split(|letter: char| letter.is_ascii_digit()).next().filter(|_| is_step)
}

/// The name of a range without the numbers that a script gives to its steps, which are other ones in each: `batch` of `batch 3`.
pub(crate) fn unnumbered(name: &str) -> &str {
    script(name).map(str::trim_end).filter(|prefix| !prefix.is_empty()).unwrap_or(name)
}

fn are_steps(trace: &Trace, marks: &[&TraceEvent]) -> bool {
    let Some((last, rest)) = marks.split_last() else { return false };
    let covered: i64 = rest.iter().map(|mark| mark.duration).sum();
    let names: Vec<&str> = marks.iter().map(|mark| trace.name(mark)).collect();
    let time = last.start - rest.first().map_or(last.start, |first| first.start);
    marks.len() >= FEWEST && (do_numbers_grow(&names) || covered as f64 > COVERED * time as f64)
}

/// Whether each name has larger numbers than the one before, as of `epoch 0 batch 9` and `epoch 1 batch 0`. Ranges of steps may be short, as a
/// thread may only launch kernels in them.
fn do_numbers_grow(names: &[&str]) -> bool {
    let numbers = |name: &&str| -> Vec<u64> {
        name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    names.iter().map(numbers).is_sorted_by(|one, next| one < next)
}

/// The ranges of one kind that do not begin within each other, on the thread that has most of them.
fn marking_ranges(trace: &Trace, kind: impl Fn(&str) -> Option<&str>) -> Option<(TrackId, Vec<&TraceEvent>)> {
    let mut all: BTreeMap<(TrackId, &str), Vec<&TraceEvent>> = BTreeMap::new();
    let is_mark = |event: &&TraceEvent| {
        event.category == EventCategory::Annotation && event.phase == EventPhase::Complete && event.duration > 0
    };
    for event in trace.events.iter().filter(is_mark) {
        let Some(kind) = kind(trace.name(event)) else { continue };
        let marks = all.entry((event.track, kind)).or_default();
        if marks.last().is_none_or(|last| last.end() <= event.start + ROUNDING) {
            marks.push(event);
        }
    }
    all.into_iter().rev().max_by_key(|(_, marks)| marks.len()).map(|((track, _), marks)| (track, marks))
}

/// The steps that ranges are, each from the end of the one before if they overlap.
fn ranges(trace: &Trace, marks: &[&TraceEvent]) -> Vec<TrainingStep> {
    let mut at = i64::MIN;
    let step = |(event, number): (&&TraceEvent, i64)| {
        let window = (event.start.max(at), event.end());
        at = window.1;
        TrainingStep::new(trace.name(event).to_owned(), number, window)
    };
    marks.iter().zip(numbers(trace, marks)).map(step).collect()
}

/// The steps that begin with ranges of a script, which may load data or validate between one range and the next. The end of the last step is
/// not recorded. Where the numbers jump, steps between are not in the trace, and a step ends with its own range.
fn from_each_to_the_next(trace: &Trace, marks: &[&TraceEvent]) -> Vec<TrainingStep> {
    let numbers = numbers(trace, marks);
    let usual = numbers.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(1);
    let step = |(pair, numbers): (&[&TraceEvent], &[i64])| {
        let end = if numbers[1] - numbers[0] > usual { pair[0].end() } else { pair[1].start };
        TrainingStep::new(trace.name(pair[0]).to_owned(), numbers[0], (pair[0].start, end))
    };
    marks.windows(2).zip(numbers.windows(2)).map(step).collect()
}

/// The numbers at the ends of the names of marks if they grow, else their places: a script may count anew in each epoch.
fn numbers(trace: &Trace, marks: &[&TraceEvent]) -> Vec<i64> {
    let number = |mark: &&TraceEvent| {
        let name = trace.name(mark);
        name[name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len()..].parse().ok()
    };
    let named: Option<Vec<i64>> = marks.iter().map(number).collect();
    named.filter(|numbers| numbers.is_sorted_by(|one, next| one < next)).unwrap_or((0..marks.len() as i64).collect())
}

/// The names of steps that others have and a rank lacks between its own, in the order of their numbers.
pub(super) fn lost<'a>(own: &[TrainingStep], others: impl Iterator<Item = &'a TrainingStep>) -> Vec<&'a str> {
    let [Some(first), Some(last)] = [own.first(), own.last()] else { return Vec::new() };
    let names: BTreeSet<&str> = own.iter().map(|step| step.name.as_str()).collect();
    let is_lost = |step: &&TrainingStep| {
        (first.number..last.number).contains(&step.number) && !names.contains(step.name.as_str())
    };
    let lost: BTreeMap<i64, &str> = others.filter(is_lost).map(|step| (step.number, step.name.as_str())).collect();
    lost.into_values().collect()
}

/// The marks of the first of several optimizers.
fn first_of(marks: Vec<&TraceEvent>) -> Vec<&TraceEvent> {
    let name = marks.first().map(|first| first.name);
    marks.into_iter().filter(|mark| Some(mark.name) == name).collect()
}

/// The steps between the ends of marks.
fn steps_between(marks: &[&TraceEvent]) -> Vec<TrainingStep> {
    let ends: Vec<i64> = marks.iter().map(|mark| mark.end()).collect();
    let step = |(number, pair): (usize, &[i64])| {
        TrainingStep::new(format!("step {number}"), number as i64, (pair[0], pair[1]))
    };
    ends.windows(2).enumerate().map(step).collect()
}

fn whole_trace(trace: &Trace) -> Option<TrainingStep> {
    let timed = trace.events.iter().filter(|event| event.phase == EventPhase::Complete);
    let timed = timed.filter(|event| event.category != EventCategory::Other);
    let window =
        timed.map(|event| (event.start, event.end())).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))?;
    Some(TrainingStep::new(WHOLE.to_owned(), 0, window))
}

/// The step of a trace without marks.
const WHOLE: &str = "whole trace";

/// Whether the trace marks its steps.
pub(super) fn are_marked(steps: &[TrainingStep]) -> bool {
    steps.first().is_some_and(|step| step.name != WHOLE)
}

/// Steps in words, by their names.
pub(super) fn range(steps: &[TrainingStep]) -> String {
    match steps {
        [] => "none".to_owned(),
        [alone] if alone.name == WHOLE => "no marked step".to_owned(),
        [alone] => format!("{} alone", alone.name),
        [first, .., last] => format!("{} to {}", first.name, last.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_traces::{NewEvent, TraceBuilder};

    /// A trace of ranges of the main thread: names, and when they begin and end, in nanoseconds.
    fn trace(ranges: &[(&str, [i64; 2])]) -> Trace {
        let mut builder = TraceBuilder::new("rank0.json".as_ref());
        for (name, [start, end]) in ranges {
            let (category, time) = (EventCategory::Annotation, (*start, *end));
            builder.add(NewEvent { name, category, track: ["1", "1"], time, collective: None });
        }
        builder.finish()
    }

    fn windows(traces: &[Trace], place: usize) -> Vec<Interval> {
        let (steps, _) = StepMarks::choose(traces.iter()).read(&traces[place]);
        steps.iter().map(|step| step.window).collect()
    }

    /// Marks of the profiler overlap by 400 ns, as where clocks are brought together; no step goes for that.
    #[test]
    fn marks_that_overlap_a_little_are_steps_all_the_same() {
        let traces = [trace(&[0, 1, 2].map(|step| ("ProfilerStep#1", [10_000 * step, 10_000 * step + 10_400])))];
        assert_eq!(windows(&traces, 0), [(0, 10_400), (10_400, 20_400), (20_400, 30_400)]);
    }

    /// Three ranks; the second has no marks of the profiler, but all have an optimizer, and the third nothing at all.
    #[test]
    fn steps_are_by_what_all_traces_have() {
        let optimizer = [("Optimizer.step#SGD.step", [8_000, 9_000]), ("Optimizer.step#SGD.step", [18_000, 19_000])];
        let both = [("ProfilerStep#1", [0, 9_500]), optimizer[0], ("ProfilerStep#2", [9_500, 19_500]), optimizer[1]];
        let traces = [trace(&both), trace(&optimizer), trace(&[("forward", [0, 100])])];
        assert_eq!([0, 1].map(|place| windows(&traces, place)), [[(9_000, 19_000)]; 2]);
        assert_eq!(windows(&traces[..1], 0), [(0, 9_500), (9_500, 19_500)]);
    }

    /// Ranges of the script begin steps if they are one behind another; two alone, and the layers of a network, do not.
    #[test]
    fn ranges_of_the_script_are_steps() {
        let iterations = ["iteration 5", "iteration 6", "iteration 7"];
        let ranges = |names: &[&'static str], length: i64| -> Vec<(&'static str, [i64; 2])> {
            (0..).zip(names).map(|(nth, name)| (*name, [1_000 * nth, 1_000 * nth + length])).collect()
        };
        for names in [iterations, ["epoch 0 batch 1", "epoch 0 batch 2", "epoch 1 batch 1"]] {
            assert_eq!(windows(&[trace(&ranges(&names, 950))], 0), [(0, 1_000), (1_000, 2_000)]);
        }
        assert_eq!(windows(&[trace(&ranges(&iterations, 100))], 0), [(0, 1_000), (1_000, 2_000)]);
        // The range of iteration 7 was lost: what ran in it is not of iteration 6.
        let lost = ranges(&["iteration 5", "iteration 6", "", "iteration 8", "iteration 9"], 950);
        assert_eq!(windows(&[trace(&lost)], 0), [(0, 1_000), (1_000, 1_950), (3_000, 4_000)]);
        // Two iterations, the updates of a network within each step, and its layers.
        let updates = ["update_iter_0", "update_iter_1", "update_iter_0", "update_iter_1"];
        let layers = ["layer 1", "layer 2", "layer 3"];
        for none in [ranges(&iterations[..2], 950), ranges(&updates, 500), ranges(&layers, 950)] {
            assert_eq!(windows(&[trace(&none)], 0).len(), 1);
        }
    }
}
