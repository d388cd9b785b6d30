//! The breakdown of one run: its ranks, and their iterations.

use crate::categories::category::TimeCategory;
use crate::categories::recorded::Recorded;
use crate::categories::sets::Sets;
use crate::correction::result::{Corrected, Correction};
use crate::gpu::device::{Device, DeviceTime};
use crate::gpu::idle::IdleTime;
use crate::iterations::marks::Markers;
use crate::operations::Operation;
use crate::threads::{Span, Thread};
use perf4sight_base::stats;
use perf4sight_base::summary::Summary;
use perf4sight_record::warm_up::WarmUp;
use perf4sight_traces::TrackId;
use perf4sight_traces::intervals::Interval;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A rank, and of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The one that its trace tells.
    pub rank: u32,
    /// Of how many, where the trace says it.
    pub of: Option<u32>,
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
    pub timeline: Arc<Vec<Span>>,
    /// The operation that the script is in at each moment, where it is in any.
    pub operations: Vec<(Interval, Operation)>,
    /// When its accelerators work.
    pub device: Device,
    /// What the file beside the trace adds ([`RankBreakdown::correct`]).
    pub correction: Correction,
    /// What a reader should know of its trace, in sentences; see [`RankBreakdown::all_warnings`].
    pub warnings: Vec<String>,
}

/// One iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// Its place in [`RankBreakdown::iterations`].
    pub number: usize,
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
    /// Whether it is left out of summaries as warm-up.
    pub warm_up: bool,
}

impl Breakdown {
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
    pub fn values(&self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<Vec<f64>> {
        let mean = |parts: Vec<&Iteration>| {
            let values = self.ranks.iter().zip(parts).map(|(rank, part)| number(rank, part));
            values.collect::<Option<Vec<f64>>>().map(|values| stats::mean(&values))
        };
        self.together().into_iter().map(mean).collect::<Option<Vec<f64>>>().filter(|values| !values.is_empty())
    }

    /// What a number comes to over the iterations that count on every rank. Ranks of a run wait for each other, so that each iteration is
    /// one value and not one of each rank.
    pub fn summary(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<Summary> {
        self.summary_of(|_, iteration| number(iteration))
    }

    /// The same of a number that the rank knows of its iteration.
    pub fn summary_of(&self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<Summary> {
        Summary::of(&self.values(number)?)
    }
}

impl RankBreakdown {
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
        self.summary_of(|_, iteration| number(iteration))
    }

    /// The same of a number that the rank knows of its iteration.
    pub fn summary_of(&self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<Summary> {
        let values = self.counted().map(|iteration| number(self, iteration));
        Summary::of(&values.collect::<Option<Vec<f64>>>()?)
    }

    /// An iteration without the profiler; none where that is not known.
    pub fn corrected(&self, iteration: &Iteration) -> Option<&Corrected> {
        self.correction.iterations.get(iteration.number)
    }

    /// Nanoseconds of processor time of an iteration, where that was measured.
    pub fn processor(&self, iteration: &Iteration) -> Option<u64> {
        self.correction.processor.get(iteration.number).copied()
    }

    /// Nanoseconds of an iteration in which the process cannot have had a processor, though it is in no call that is known to wait: what its
    /// processor time, which is of all its threads, leaves of the rest. None where that was not measured.
    pub fn not_running(&self, iteration: &Iteration) -> Option<i64> {
        let sets = &iteration.sets;
        let waits = sets.category(TimeCategory::Wait).unwrap_or(0) + sets.synchronising;
        Some((sets.total() - waits - self.processor(iteration)?.cast_signed()).max(0))
    }

    /// What a reader should know, in sentences.
    pub fn all_warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.correction.warnings)
    }
}
