//! The breakdown of one run: its ranks, and their iterations.

use crate::correction::Corrected;
use crate::device::{Device, DeviceTime};
use crate::drift::Drift;
use crate::idle::{Causes, IdleTime};
use crate::iterations::{self, Mark, Markers};
use crate::latecomers;
use crate::main_thread;
use crate::operations::{self, Operation};
use crate::present::{self, Place};
use crate::recorded::Recorded;
use crate::sets::Sets;
use crate::threads::{Stretch, Thread, threads};
use crate::warnings::{self, Told};
use perf4sight_base::error::Result;
use perf4sight_base::stats;
use perf4sight_base::summary::Summary;
use perf4sight_record::overhead::Overhead;
use perf4sight_record::warm_up::WarmUp;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{Ranked, TrackId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a user may ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of the events that are the iterations: of a range, a function or an operator.
    pub iteration: Option<String>,
}

/// Where the iterations of a run spend their time.
#[derive(Debug, Clone)]
pub struct Breakdown {
    /// Every rank, in order.
    pub ranks: Vec<RankBreakdown>,
    /// What a reader should know of the run as a whole, in sentences.
    pub warnings: Vec<String>,
}

/// Where the iterations of one rank spend their time.
#[derive(Debug, Clone)]
pub struct RankBreakdown {
    /// Which one.
    pub rank: u32,
    /// Which one of how many it was when it was recorded.
    pub place: Place,
    /// What its trace tells.
    pub recorded: Recorded,
    /// What tells iterations apart.
    pub markers: Markers,
    /// The iterations, in order.
    pub iterations: Vec<Iteration>,
    /// How many of them are left out as warm-up.
    pub warm_up: WarmUp,
    /// The thread that runs the script; none where no thread has any events.
    pub main: Option<TrackId>,
    /// All threads, and what each does.
    pub threads: Vec<Thread>,
    /// What the process does at each moment as seen from its main thread, others standing in while that is blocked.
    pub timeline: Arc<Vec<Stretch>>,
    /// The operation that the script is in at each moment, where it is in any.
    pub operations: Vec<(Interval, Operation)>,
    /// When its accelerators work.
    pub device: Device,
    /// What recording adds to an iteration, where that was measured ([`RankBreakdown::correct`]).
    pub overhead: Option<Overhead>,
    /// How the machine's speed changed meanwhile, where that was measured ([`RankBreakdown::correct`]).
    pub drift: Option<Drift>,
    /// How processor time did.
    pub processor_drift: Option<Drift>,
    /// What a reader should know, in sentences.
    pub warnings: Vec<String>,
}

/// One iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// What the trace calls it, or its number.
    pub name: String,
    /// From when to when, on the trace's clock.
    pub window: Interval,
    /// From where it is marked to where its end is: longer than the window by what the recorder does in between.
    pub range: Interval,
    /// Whose time it is.
    pub sets: Sets,
    /// The same by operation; they add up to all of it.
    pub operations: BTreeMap<Operation, Sets>,
    /// What the accelerators do meanwhile.
    pub device: DeviceTime,
    /// Why no stream works; none where the trace has nothing of accelerators.
    pub idle: Option<IdleTime>,
    /// Whose time it were without recording; none where that is not known ([`RankBreakdown::correct`]).
    pub corrected: Option<Corrected>,
    /// Nanoseconds of processor time, all threads of the process together; none where that was not measured ([`RankBreakdown::correct`]).
    pub processor: Option<i64>,
    /// Whether it is left out of summaries as warm-up.
    pub warm_up: bool,
}

impl Breakdown {
    /// Breaks traces of a run down, one of each rank.
    ///
    /// # Errors
    /// Options that name what a trace does not have.
    pub fn of(ranks: &[Ranked], options: &Options) -> Result<Self> {
        let all_of_several = ranks.len() > 1 && present::are_all(ranks);
        let broken_down: Vec<RankBreakdown> =
            ranks.iter().map(|ranked| RankBreakdown::of(ranked, options, all_of_several)).collect::<Result<_>>()?;
        let mut run = Breakdown { ranks: broken_down, warnings: Vec::new() };
        let latecomers = if ranks.len() > 1 { latecomers::told(ranks, &run) } else { None };
        run.warnings = warnings::apart(ranks).into_iter().chain(warnings::uneven(&run)).chain(latecomers).collect();
        Ok(run)
    }

    /// The iterations that count on every rank, each as its parts by rank, in order. One is the same on several ranks where they call it
    /// the same, and as often before.
    pub fn together(&self) -> Vec<Vec<&Iteration>> {
        let Some((first, others)) = self.ranks.split_first() else { return Vec::new() };
        let others: Vec<HashMap<(&str, usize), &Iteration>> =
            others.iter().map(|rank| rank.counted_by_name().collect()).collect();
        let everywhere = |(key, own)| {
            let parts = others.iter().map(|other| other.get(&key).copied());
            std::iter::once(Some(own)).chain(parts).collect::<Option<Vec<&Iteration>>>()
        };
        first.counted_by_name().filter_map(everywhere).collect()
    }

    /// A number of each iteration of [`Breakdown::together`], the mean of the ranks; none where one lacks it, or no iteration is on all.
    pub fn values(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<Vec<f64>> {
        let mean = |parts: Vec<&Iteration>| {
            let values: Option<Vec<f64>> = parts.into_iter().map(&number).collect();
            values.map(|values| stats::mean(&values))
        };
        self.together().into_iter().map(mean).collect::<Option<Vec<f64>>>().filter(|values| !values.is_empty())
    }

    /// What a number comes to over the iterations that count on every rank. Ranks of a run wait for each other, so that each iteration is
    /// one value and not one of each rank.
    pub fn summary(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<Summary> {
        Summary::of(&self.values(number)?)
    }
}

impl RankBreakdown {
    /// Of a trace, beside those of all other ranks or without some of them.
    fn of(ranked: &Ranked, options: &Options, all_of_several: bool) -> Result<Self> {
        let trace = &ranked.trace;
        let threads = threads(trace);
        let likely = main_thread::find(trace, &threads, None).map(|thread| threads[thread].track);
        let found = iterations::find(trace, options.iteration.as_deref(), likely)?;
        let main = main_thread::find(trace, &threads, found.track);
        let python = main.is_some_and(|main| main_thread::has_python(trace, &threads[main]));
        let recorded = Recorded::of(trace, python);
        let device = if recorded.gpu { Device::of(trace) } else { Device::default() };
        let timeline = main.map_or_else(Arc::default, |main| main_thread::timeline(trace, &threads, main));
        let durations: Vec<i64> = found.marks.iter().map(|mark| mark.window.1 - mark.window.0).collect();
        let warm_up = WarmUp::of(&durations);
        let (operations, merged) =
            main.map_or_else(Default::default, |main| operations::find(trace, threads[main].track, &found, python));
        let causes = Causes::of(trace, &timeline, main.map(|main| threads[main].track));
        let told_of_ranks = all_of_several && recorded.cpp;
        let split = |window| Sets::split(window, &timeline, &device.busy, recorded);
        let iteration = |(at, mark): (usize, &Mark)| Iteration {
            name: mark.name.clone(),
            window: mark.window,
            range: mark.range,
            sets: split(mark.window),
            operations: operations::split(mark.window, &operations, split),
            device: device.within(mark.window),
            idle: device.is_recorded().then(|| causes.within(mark.window, &device, told_of_ranks)),
            corrected: None,
            processor: None,
            warm_up: at < warm_up.iterations,
        };
        let told = Told { trace, found: &found, threads: &threads, main, recorded, merged }.warnings(&warm_up);
        Ok(RankBreakdown {
            rank: ranked.rank,
            place: Place::of(ranked),
            recorded,
            iterations: found.marks.iter().enumerate().map(iteration).collect(),
            warm_up,
            main: main.map(|main| threads[main].track),
            warnings: told,
            markers: found.markers,
            threads,
            timeline,
            operations,
            device,
            overhead: None,
            drift: None,
            processor_drift: None,
        })
    }

    /// Those that count by their names, and how often the name came before.
    fn counted_by_name(&self) -> impl Iterator<Item = ((&str, usize), &Iteration)> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let key = move |iteration| {
            let iteration: &Iteration = iteration;
            let times = seen.entry(&iteration.name).or_default();
            *times += 1;
            ((iteration.name.as_str(), *times), iteration)
        };
        self.iterations.iter().map(key).filter(|(_, iteration)| !iteration.warm_up)
    }

    /// The iterations that count: all but the warm-up.
    pub fn counted(&self) -> impl Iterator<Item = &Iteration> {
        self.iterations.iter().filter(|iteration| !iteration.warm_up)
    }

    /// What a number comes to over the iterations that count; none where any of them lacks it.
    pub fn summary(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<Summary> {
        Summary::of(&self.counted().map(number).collect::<Option<Vec<f64>>>()?)
    }
}
