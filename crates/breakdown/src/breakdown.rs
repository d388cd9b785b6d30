//! The breakdown of one run: its ranks, and their iterations.

use crate::categories::TimeCategory;
use crate::categories::recorded::RecordedKinds;
use crate::categories::sets::TimeSets;
use crate::correction::result::{BreakdownCorrection, CorrectedIteration};
use crate::gpu::device::{DeviceTime, GpuActivity};
use crate::gpu::idle::IdleTime;
use crate::iterations::marks::IterationMarkers;
use crate::operations::TrainingOperation;
use crate::ranks::stragglers::ExchangeWaits;
use crate::threads::{ThreadSpan, ThreadTimeline};
use perf4sight_base::stats;
use perf4sight_base::summary::ValueSummary;
use perf4sight_record::WarmUp;
use perf4sight_traces::TrackId;
use perf4sight_traces::intervals::Interval;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPlace {
    pub rank: u32,
    /// The number of ranks, if the trace contains it.
    pub of: Option<u32>,
}

/// Where the iterations of a run spend their time.
#[derive(Debug, Clone)]
pub struct Breakdown {
    pub ranks: Vec<RankBreakdown>,
    /// How long ranks are in exchanges with others; none if nothing shows any.
    pub waits: Option<ExchangeWaits>,
    /// Warnings about the run as a whole, in sentences.
    pub warnings: Vec<String>,
}

/// Where the iterations of one rank spend their time.
#[derive(Debug, Clone)]
pub struct RankBreakdown {
    pub rank: u32,
    pub place: RankPlace,
    /// The kinds of events in its trace.
    pub recorded: RecordedKinds,
    pub markers: IterationMarkers,
    pub iterations: Vec<Iteration>,
    pub warm_up: WarmUp,
    /// The thread that runs the script; none if no thread has any events.
    pub main: Option<TrackId>,
    pub threads: Vec<ThreadTimeline>,
    /// The state of the process at each moment as seen from its main thread; while that is blocked, other threads count
    /// instead.
    pub timeline: Arc<Vec<ThreadSpan>>,
    /// The operation that the script is in at each moment, if any.
    pub operations: Vec<(Interval, TrainingOperation)>,
    /// The busy times of its accelerators.
    pub device: GpuActivity,
    /// The correction from the file next to the trace ([`RankBreakdown::correct`]).
    pub correction: BreakdownCorrection,
    /// Warnings about its trace, in sentences; see [`RankBreakdown::all_warnings`].
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// Its index in [`RankBreakdown::iterations`].
    pub number: usize,
    /// Its name in the trace, or its number.
    pub name: String,
    /// Its beginning and end on the trace's clock.
    pub window: Interval,
    /// The whole range of its mark: longer than the window by the recorder's own work.
    pub range: Interval,
    pub sets: TimeSets,
    /// The same by operation; the parts add up to the whole.
    pub operations: BTreeMap<TrainingOperation, TimeSets>,
    /// The activity of the accelerators in the window.
    pub device: DeviceTime,
    /// The idle time by cause; none if the trace has no accelerators.
    pub idle: Option<IdleTime>,
    pub warm_up: bool,
}

impl Breakdown {
    /// The iterations that count on every rank, each as its parts by rank, in order. Iterations of several ranks belong
    /// together if they have the same name and the same number of earlier iterations with that name.
    pub fn iterations_on_all_ranks(&self) -> Vec<Vec<&Iteration>> {
        let Some((first, others)) = self.ranks.split_first() else { return Vec::new() };
        let others: Vec<HashMap<(&str, usize), &Iteration>> =
            others.iter().map(|rank| rank.counted_by_name().collect()).collect();
        let everywhere = |(key, own)| {
            let parts = others.iter().map(|other| other.get(&key).copied());
            std::iter::once(Some(own)).chain(parts).collect::<Option<Vec<&Iteration>>>()
        };
        first.counted_by_name().filter_map(everywhere).collect()
    }

    /// The number of each iteration of [`Breakdown::iterations_on_all_ranks`], averaged over the ranks; none if any part lacks it, or
    /// if no iteration is on all ranks.
    pub fn values(&self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<Vec<f64>> {
        let mean = |parts: Vec<&Iteration>| {
            let values = self.ranks.iter().zip(parts).map(|(rank, part)| number(rank, part));
            values.collect::<Option<Vec<f64>>>().map(|values| stats::mean(&values))
        };
        self.iterations_on_all_ranks()
            .into_iter()
            .map(mean)
            .collect::<Option<Vec<f64>>>()
            .filter(|values| !values.is_empty())
    }

    /// The summary of a number over the iterations that count on every rank. The ranks of a run wait for each other, so
    /// each iteration is one value rather than one per rank.
    pub fn summary(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<ValueSummary> {
        self.summary_of(|_, iteration| number(iteration))
    }

    pub fn summary_of(&self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<ValueSummary> {
        ValueSummary::compute(&self.values(number)?)
    }
}

impl RankBreakdown {
    /// The counted iterations by name and by how often the name occurred up to them.
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
    pub fn counted_iterations(&self) -> impl Iterator<Item = &Iteration> {
        self.iterations.iter().filter(|iteration| !iteration.warm_up)
    }

    /// The summary of a number over the iterations that count; none if any of them lacks it.
    pub fn summary(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<ValueSummary> {
        self.summary_of(|_, iteration| number(iteration))
    }

    pub fn summary_of(&self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<ValueSummary> {
        let values = self.counted_iterations().map(|iteration| number(self, iteration));
        ValueSummary::compute(&values.collect::<Option<Vec<f64>>>()?)
    }

    /// The iteration without the overhead of the profiler; none if that is unknown.
    pub fn corrected(&self, iteration: &Iteration) -> Option<&CorrectedIteration> {
        self.correction.iterations.get(iteration.number)
    }

    /// Nanoseconds of processor time of an iteration, if measured.
    pub fn processor(&self, iteration: &Iteration) -> Option<u64> {
        self.correction.processor.get(iteration.number).copied()
    }

    /// Nanoseconds of an iteration in which the process had no processor although it was in no call that waits: the
    /// time outside waiting calls minus the processor time of all threads. None if processor time was not measured.
    pub fn not_running(&self, iteration: &Iteration) -> Option<i64> {
        let sets = &iteration.sets;
        let waits = sets.category(TimeCategory::Wait).unwrap_or(0) + sets.synchronising;
        Some((sets.total() - waits - self.processor(iteration)?.cast_signed()).max(0))
    }

    /// Nanoseconds of an iteration in which other threads of the process ran and the main thread did not, if measured.
    pub fn held_up(&self, iteration: &Iteration) -> Option<u64> {
        self.correction.held_up.get(iteration.number).copied()
    }

    pub fn all_warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.correction.warnings)
    }
}
