//! What recording adds to iterations, taken out of them: where the events lie that it spent the time on.

use crate::breakdown::{Iteration, RankBreakdown};
use crate::drift::Drift;
use crate::iterations::Markers;
use crate::operations::Operation;
use crate::sets::Sets;
use crate::state::Class;
use crate::threads::Stretch;
use perf4sight_base::stats::{mean, median};
use perf4sight_record::overhead::{DOUBTFUL, Overhead};
use perf4sight_record::recording::Recording;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Category, Event, Phase, Trace};
use std::collections::BTreeMap;

/// An iteration as it were without the profiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrected {
    /// Its nanoseconds.
    pub total: i64,
    /// Whose they are; none where the events do not tell it.
    pub divided: Option<Divided>,
}

/// Whose time a corrected iteration is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divided {
    /// By class; the accelerators are busy as long as measured.
    pub sets: Sets,
    /// The same by operation; they add up to all of it.
    pub operations: BTreeMap<Operation, Sets>,
}

impl Corrected {
    /// By class, where that is known.
    pub fn sets(&self) -> Option<&Sets> {
        self.divided.as_ref().map(|divided| &divided.sets)
    }
}

/// Costs of recording by the operation and the class that they fall into, the GPU idle.
type Costs = BTreeMap<Operation, [f64; Class::ALL.len()]>;

/// Microseconds that an event costs within itself: what its two looks at the clock take, as long as the shortest operators and calls are
/// recorded to last (`docs/recording.md`).
const WITHIN: f64 = 0.02;

/// Microseconds that one event costs, before it begins and after it ends but for [`WITHIN`], as five programs tell on one machine
/// (`docs/recording.md`). Only their proportions count, for all of them together take what the recording tells. Calls of a runtime and ranges
/// are taken for as much as operators.
fn cost(trace: &Trace, event: &Event) -> Option<f64> {
    match event.category {
        Category::Operator | Category::Runtime | Category::Annotation => Some(0.4),
        Category::Python if trace.name(event).starts_with('<') => Some(0.09),
        Category::Python => Some(0.24),
        Category::Kernel
        | Category::Copy
        | Category::Set
        | Category::DeviceAnnotation
        | Category::Synchronisation
        | Category::Overhead
        | Category::ForwardBackward
        | Category::Launch
        | Category::Other => None,
    }
}

/// What an event costs at the moments around its beginning and its end.
fn moments(event: &Event, cost: f64) -> [(i64, f64); 4] {
    let (within, around) = (WITHIN / 2.0, (cost - WITHIN) / 2.0);
    let (begin, end) = (event.start, event.end());
    [(begin.saturating_sub(1), around), (begin, within), (end.saturating_sub(1), within), (end, around)]
}

/// What is known of the time that recording took.
struct Added {
    /// Nanoseconds of the mean iteration, of those that were timed.
    timed: f64,
    /// Nanoseconds by which each window is longer than what was timed of it.
    untimed: Vec<f64>,
}

/// Events do not explain what costs more than so many times what they are known to: other machines and versions of PyTorch differ from
/// those of [`cost`], and even among these operators cost more in one program than in another.
const EXPLAINED: f64 = 4.0;
/// A range may be longer than what is timed within it by so many nanoseconds and such a share of that, which is more than
/// those of five programs are, of 0.1 to 50 ms (`docs/recording.md`).
const AROUND: (f64, f64) = (20_000.0, 0.05);
/// Nanoseconds by which two clocks may differ: a trace's own are whole microseconds in some versions.
const CLOCKS: f64 = 1000.0;

impl RankBreakdown {
    /// Takes what recording adds out ([`RankBreakdown::correct`]) by the file beside the trace, which it gives. The trace is as sound without
    /// that: where it cannot be read, a warning says so.
    pub fn correct_beside(&mut self, trace: &Trace) -> Option<Recording> {
        match Recording::beside(&trace.file) {
            Ok(recording) => {
                self.correct(trace, recording.as_ref());
                recording
            }
            Err(error) => {
                let why = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
                self.warnings.push(format!("these times are as recorded, and nothing is taken out of them: {why}"));
                None
            }
        }
    }

    /// Takes what recording adds out of the iterations, into [`Iteration::corrected`], as far as what is told beside the trace allows it;
    /// where it does not, a warning says why.
    pub fn correct(&mut self, trace: &Trace, recording: Option<&Recording>) {
        match self.added(trace, recording) {
            Ok(added) => {
                self.take_out(&added, trace);
                self.check();
            }
            Err(why) => self.warnings.push(format!("what recording itself takes is in these times: {why}")),
        }
    }

    /// What to take out, or why that is not known. What is told of another trace leaves nothing here.
    fn added(&mut self, trace: &Trace, recording: Option<&Recording>) -> Result<Added, String> {
        let recording =
            recording.ok_or("nothing tells how long iterations take without it (perf4sight record does)")?;
        self.belongs(trace, recording)?;
        self.place.of = self.place.of.or(Some(recording.ranks).filter(|ranks| *ranks > 1));
        if self.markers != Markers::ProfilerSteps {
            self.drift = Drift::of(&recording.wall);
            return Err("these iterations are not those that were timed without it".to_owned());
        }
        let overhead = Overhead::of(recording).ok_or("no iterations were timed without it")?;
        let untimed = self.untimed(recording)?;
        self.drift = Drift::of(&recording.wall);
        self.told_by_processor(recording);
        self.warnings.extend(overhead.doubts.iter().cloned());
        let (timed, contradiction) = (overhead.taken(), overhead.contradiction());
        self.overhead = Some(overhead);
        contradiction.map_or(Ok(Added { timed, untimed }), Err)
    }

    /// Takes over the processor time of iterations, where it is told of all.
    fn told_by_processor(&mut self, recording: &Recording) {
        let Some(processor) = &recording.processor else { return };
        let times: Vec<u64> = processor.recorded.iter().flatten().copied().collect();
        if times.len() != self.iterations.len() {
            return;
        }
        self.processor_drift = Drift::of(processor);
        for iteration in &mut self.iterations {
            let number = number(&iteration.name);
            iteration.processor = number.and_then(|number| i64::try_from(*times.get(number)?).ok());
        }
    }

    /// Whether a recording says that it is of this trace.
    fn belongs(&self, trace: &Trace, recording: &Recording) -> Result<(), String> {
        let stem = |name: &str| name.trim_end_matches(".gz").trim_end_matches(".json").to_owned();
        let name = trace.file.file_name().map(|name| stem(&name.to_string_lossy()));
        if name.is_some_and(|name| name != stem(&recording.trace)) {
            return Err(format!("what lies beside this trace is told of {}", recording.trace));
        }
        let rank = trace.rank().unwrap_or(self.rank);
        if rank != recording.rank {
            return Err(format!("what lies beside the trace of rank {rank} is told of rank {}", recording.rank));
        }
        Ok(())
    }

    /// Nanoseconds by which each window is longer than what was timed of it: the range that marks an iteration begins before its time is
    /// taken, and ends afterwards. Less than none where the window is the script's alone and the recorder was timed with it.
    fn untimed(&self, recording: &Recording) -> Result<Vec<f64>, String> {
        let timed: Vec<u64> = recording.wall.recorded.iter().flatten().copied().collect();
        let of = |iteration: &Iteration| {
            let range = (iteration.range.1 - iteration.range.0) as f64;
            Some([range, iteration.sets.total() as f64, *timed.get(number(&iteration.name)?)? as f64])
        };
        let lengths: Option<Vec<[f64; 3]>> = self.iterations.iter().map(of).collect();
        let lengths = lengths.filter(|lengths| !lengths.is_empty() && lengths.len() == timed.len());
        let lengths = lengths.ok_or("its iterations are not those of the trace")?;
        let untimed: Vec<f64> = lengths.iter().map(|[_, window, timed]| window - timed).collect();
        let around = AROUND.0 + AROUND.1 * median(&lengths.iter().map(|[.., timed]| *timed).collect::<Vec<_>>());
        let torn = |[range, _, timed]: &[f64; 3]| range - timed < -CLOCKS;
        match lengths.iter().any(torn) || median(&untimed) > around {
            true => Err("the times that are told of recorded iterations contradict the trace".to_owned()),
            false => Ok(untimed),
        }
    }

    /// Takes so much out of the mean iteration, and out of each by what it cost.
    fn take_out(&mut self, added: &Added, trace: &Trace) {
        let costs = costs(self, trace);
        let sums: Vec<f64> = costs.iter().map(|costs| costs.values().flatten().sum()).collect();
        let usual = self.usual(&sums);
        let (known, all) = (1000.0 * usual, added.timed + mean(&added.untimed));
        let explained = known * EXPLAINED >= all;
        if !explained {
            let percent = 100.0 * known / all;
            self.warnings.push(format!(
                "what recording takes is not told by class: by what events are known to cost, they explain {percent:.0} % of it"
            ));
        }
        let by_events = explained && usual > 0.0;
        for (index, (iteration, costs)) in self.iterations.iter_mut().zip(&costs).enumerate() {
            // Where events do not tell it, all iterations are alike.
            let timed = if by_events { added.timed / usual * sums[index] } else { added.timed };
            let nanoseconds = (timed + added.untimed[index]).round() as i64;
            let divided = Divided::of(iteration, costs, nanoseconds);
            iteration.corrected =
                Some(Corrected { total: divided.sets.total(), divided: explained.then_some(divided) });
        }
    }

    /// The mean of a number of each iteration, of those that tell what recording takes.
    fn usual(&self, numbers: &[f64]) -> f64 {
        let usual = self.overhead.iter().flat_map(|overhead| &overhead.usual);
        mean(&numbers.iter().zip(usual).filter(|(_, usual)| **usual).map(|(number, _)| *number).collect::<Vec<_>>())
    }

    /// Looks at the corrected iterations as they are shown, beside those without recording.
    fn check(&mut self) {
        let usual = self.overhead.iter().flat_map(|overhead| overhead.usual.clone());
        let counted = self.iterations.iter().zip(usual).filter(|(iteration, _)| !iteration.warm_up);
        let total = |iteration: &Iteration| Some(iteration.corrected.as_ref()?.total as f64);
        let totals: Vec<(f64, bool)> = counted.filter_map(|(one, usual)| Some((total(one)?, usual))).collect();
        let [all, usual] = [false, true].map(|only: bool| {
            totals.iter().filter(|(_, usual)| *usual || !only).map(|(total, _)| *total).collect::<Vec<f64>>()
        });
        let Some(overhead) = self.overhead.as_mut().filter(|_| !usual.is_empty()) else { return };
        let longer = mean(&all) / mean(&usual) - 1.0;
        if longer > DOUBTFUL {
            self.warnings.push(format!(
                "the mean of all iterations, which is shown, is {:.0} % above that of the {} of {} that did not take much longer than the \
                 others, which are held against those without recording",
                100.0 * longer,
                usual.len(),
                all.len()
            ));
        }
        let off = overhead.percent_off(mean(&usual));
        if overhead.off.is_some_and(|other| other.abs() >= off.abs()) {
            return;
        }
        overhead.off = Some(off);
        if off.abs() > 100.0 * DOUBTFUL {
            self.warnings.push(format!("corrected iterations are {off:+.0} % off those without recording"));
        }
    }
}

/// Which of the recorded iterations has a name.
fn number(name: &str) -> Option<usize> {
    name.strip_prefix("ProfilerStep#")?.parse().ok()
}

impl Divided {
    /// An iteration without so many nanoseconds, as they cost where the GPU is idle: what it does takes as long with a profiler or without.
    fn of(iteration: &Iteration, costs: &Costs, nanoseconds: i64) -> Self {
        let (mut sets, mut operations) = (iteration.sets, iteration.operations.clone());
        let cells: Vec<(Operation, Class)> =
            operations.keys().flat_map(|&operation| Class::ALL.map(|class| (operation, class))).collect();
        let cell = |(operation, class): &(Operation, Class)| Cell {
            holds: operations[operation].idle(*class),
            costs: costs.get(operation).map_or(0.0, |costs| costs[class.index()]),
        };
        let taken = take(nanoseconds, &cells.iter().map(cell).collect::<Vec<_>>());
        for ((operation, class), taken) in cells.into_iter().zip(taken) {
            sets.shorten(class, taken);
            if let Some(sets) = operations.get_mut(&operation) {
                sets.shorten(class, taken);
            }
        }
        Divided { sets, operations }
    }
}

/// A part of an iteration that time is taken from.
struct Cell {
    /// Nanoseconds that it has.
    holds: i64,
    /// What recording it cost beside others.
    costs: f64,
}

/// Nanoseconds to take from each of some cells, so many together: as they cost, never more than one has, and what those that cost do not
/// have, from all as they hold.
fn take(nanoseconds: i64, cells: &[Cell]) -> Vec<i64> {
    let mut taken = vec![0; cells.len()];
    let mut left = nanoseconds.clamp(0, cells.iter().map(|cell| cell.holds).sum());
    while left > 0 {
        let open = |costly: bool| {
            let open =
                cells.iter().zip(&taken).map(move |(cell, taken)| cell.holds > *taken && (!costly || cell.costs > 0.0));
            open.collect::<Vec<bool>>()
        };
        let costly = open(true).contains(&true);
        let weight = |(cell, open): (&Cell, bool)| match (open, costly) {
            (false, _) => 0.0,
            (true, true) => cell.costs,
            (true, false) => cell.holds as f64,
        };
        let weights: Vec<f64> = cells.iter().zip(open(costly)).map(weight).collect();
        let (share, before) = (left as f64 / weights.iter().sum::<f64>(), left);
        for ((cell, taken), weight) in cells.iter().zip(&mut taken).zip(&weights) {
            let more = ((share * weight) as i64).min(cell.holds - *taken).min(left);
            *taken += more;
            left -= more;
        }
        // Less than a nanosecond for each: the one that costs most gives one.
        let most = (0..cells.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]).then(b.cmp(&a)));
        if let Some(most) = most.filter(|_| left == before) {
            taken[most] += 1;
            left -= 1;
        }
    }
    taken
}

/// What recording each iteration cost, by where it did.
fn costs(rank: &RankBreakdown, trace: &Trace) -> Vec<Costs> {
    let seen = trace.events.iter().filter(|event| event.phase == Phase::Complete && is_seen(rank, trace, event));
    let costly = seen.filter_map(|event| Some(moments(event, cost(trace, event)?)));
    let mut moments: Vec<(i64, f64)> = costly.flatten().collect();
    moments.sort_by_key(|(moment, _)| *moment);
    let mut timeline = Cursor { spans: &rank.timeline, interval: |stretch: &Stretch| (stretch.start, stretch.end) };
    let mut operations = Cursor { spans: &rank.operations, interval: |(interval, _)| *interval };
    let mut busy = Cursor { spans: &rank.device.busy, interval: |interval| *interval };
    let mut costs_of = |iteration: &Iteration| {
        let (begin, end) = iteration.window;
        let first = moments.partition_point(|(moment, _)| *moment < begin);
        let recorded = iteration.sets.recorded;
        let mut costs = Costs::new();
        for &(moment, cost) in moments[first..].iter().take_while(|(moment, _)| *moment < end) {
            if busy.at(moment).is_none() {
                let operation = operations.at(moment).map_or(Operation::Other, |(_, operation)| *operation);
                let state = timeline.at(moment).map_or(recorded.unrecorded(), |stretch| stretch.state);
                costs.entry(operation).or_default()[recorded.class(state).index()] += cost;
            }
        }
        costs
    };
    rank.iterations.iter().map(&mut costs_of).collect()
}

/// Whether recording an event made the iteration longer: it is of the main thread, or of one that stands in for it.
fn is_seen(rank: &RankBreakdown, trace: &Trace, event: &Event) -> bool {
    let stands_in = || {
        let shown = rank.timeline.partition_point(|stretch| stretch.end <= event.start);
        let shown = rank.timeline.get(shown).filter(|stretch| stretch.start <= event.start);
        shown.is_some_and(|shown| trace.events[shown.event as usize].track == event.track)
    };
    Some(event.track) == rank.main || stands_in()
}

/// Spans in order that do not overlap, asked for moments in order.
struct Cursor<'a, T> {
    spans: &'a [T],
    interval: fn(&T) -> Interval,
}

impl<'a, T> Cursor<'a, T> {
    /// The one that holds a moment.
    fn at(&mut self, moment: i64) -> Option<&'a T> {
        while let [first, later @ ..] = self.spans
            && (self.interval)(first).1 <= moment
        {
            self.spans = later;
        }
        self.spans.first().filter(|span| (self.interval)(span).0 <= moment)
    }
}
