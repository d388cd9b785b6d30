//! Builds the graph of a job's step from the traces of its ranks.
//!
//! Every node has an end time in the traces. Its duration is the time from the last end of what it waits for until its
//! own end. Where the edges are true, a replay with the durations of one step ends when the step did. With the median
//! durations of the faster half of the steps it is a step that nothing disturbs; with the medians of all steps and the load
//! that was on each rank it is one as they were recorded. Where in each step something else takes long, as with batches
//! of different sizes, no step takes as long as its operations usually do: the one of median length is shown, and the mean of all
//! counts.

mod assembly;
mod backward;
mod dependencies;
mod distortion;
mod durations;
mod issuing;
mod joins;
mod left_out;
mod meeting;
mod memory;
mod overlaps;
mod passes;
mod rows;
mod slowdown;
mod stream_waits;
mod streams;
mod threads;
mod unlike;
mod varies;
mod waits;

pub use distortion::{RecordingDistortion, StepCorrection};
pub(crate) use distortion::{thread_nodes, with_threads};
pub use left_out::LeftOutStep;
pub use unlike::UnlikeSteps;

use super::queues::LaunchQueues;
use super::{CallTable, NodeId, StepGraph, WorkKind, available_memory};
use crate::clocks::RankClocks;
use crate::collectives::RankExchanges;
use crate::ranks::TrainingJob;
use crate::simulate::simulate;
use assembly::AssembledStep;
use perf4sight_base::error::Result;
use rayon::prelude::*;
use rows::RankStep;
use slowdown::{SlowdownFactors, WorkIndex};
use std::collections::{BTreeMap, BTreeSet};

/// The graph of a job's steps.
#[derive(Debug, Clone)]
pub struct RecordedSteps {
    /// The graph with the median durations over the faster half of [`RecordedSteps::steps`]; if steps differ in what takes long, with
    /// those of the step of median length.
    pub typical: StepGraph,
    /// Whether steps differ in what takes long, so that none is typical.
    pub varies: bool,
    /// The indices in [`TrainingJob::steps`] of the steps in which all ranks did the same operations in the same order.
    pub steps: Vec<usize>,
    /// The duration of every node in each of these steps, in nanoseconds.
    durations: Vec<Vec<u64>>,
    /// The transfers of each of these steps that began before all that ended earlier on their link had ended: together alone they show what
    /// they take.
    overlapping: Vec<BTreeSet<NodeId>>,
    /// The recorded time of each of these steps: the longest of the ranks', in nanoseconds.
    pub recorded: Vec<u64>,
    /// The steps that are not replayed; none if all are.
    pub unlike: Option<UnlikeSteps>,
    /// Whether the profiler's own work is still part of what threads that launch kernels took.
    pub is_slowed: bool,
}

impl RecordedSteps {
    /// Bytes that building the graph of a job's steps takes at most.
    pub fn memory_needed(job: &TrainingJob) -> u64 {
        memory::bytes_needed(job, &(0..job.steps.len()).collect::<Vec<_>>())
    }

    /// Builds the graph of the steps in which all ranks did most often the same.
    ///
    /// # Errors
    /// Traces whose operations wait for each other in a circle, or whose graph takes more memory than there is.
    pub fn build(job: &TrainingJob, exchanges: &RankExchanges, clocks: &RankClocks) -> Result<Self> {
        let all: Vec<usize> = (0..job.steps.len()).collect();
        RecordedSteps::of_steps(job, exchanges, clocks, &all)
    }

    /// The same with some of the steps, by their indices in [`TrainingJob::steps`].
    ///
    /// # Errors
    /// As for [`RecordedSteps::build`].
    pub fn of_steps(
        job: &TrainingJob,
        exchanges: &RankExchanges,
        clocks: &RankClocks,
        steps: &[usize],
    ) -> Result<Self> {
        Ok(StepRows::read(job, exchanges, clocks, steps)?.graph(job, exchanges, |_| true)?.0)
    }

    /// The same as [`RecordedSteps::build`], and steps as graphs predict them that were built without them.
    ///
    /// # Errors
    /// As for [`RecordedSteps::build`].
    pub fn with_left_out(
        job: &TrainingJob,
        exchanges: &RankExchanges,
        clocks: &RankClocks,
    ) -> Result<(Self, Vec<LeftOutStep>)> {
        let all: Vec<usize> = (0..job.steps.len()).collect();
        let rows = StepRows::read(job, exchanges, clocks, &all)?;
        let (recorded, _) = rows.graph(job, exchanges, |_| true)?;
        Ok((recorded, left_out::predict(&rows, job, exchanges)?))
    }

    /// A step as they were recorded, with what disturbed them: operations take their medians under the load of the step of
    /// median length, or that between the two in the middle.
    pub fn as_recorded(&self) -> StepGraph {
        self.as_recorded_by(&self.median_step())
    }

    /// A step in which every operation takes its median.
    fn median_step(&self) -> StepGraph {
        self.with(durations::median)
    }

    /// [`RecordedSteps::as_recorded`] by the step in which every operation takes its median.
    fn as_recorded_by(&self, usual: &StepGraph) -> StepGraph {
        if self.varies {
            return self.typical.clone();
        }
        let works = WorkIndex::from_step(usual);
        let mut by_time: Vec<usize> = (0..self.steps.len()).collect();
        by_time.sort_by_key(|index| self.recorded[*index]);
        let middle = [by_time.len().saturating_sub(1) / 2, by_time.len() / 2].map(|place| {
            by_time
                .get(place)
                .map(|index| SlowdownFactors::compute(usual, &works, &self.durations[*index]))
                .unwrap_or_default()
        });
        let mut loaded = usual.clone();
        let queues = middle[0].mean_with(&middle[1]).apply_to(&mut loaded, &works);
        loaded.with_queues(&queues)
    }

    /// Takes no step for typical: the one of median length is shown, and the mean of all counts.
    pub(crate) fn take_mean_of_all(&mut self) {
        self.varies = true;
        let middle = middle(&self.recorded).into_iter();
        middle.for_each(|step| durations::set(&mut self.typical.graph, &self.durations, &[step], durations::median));
    }

    /// The indices in [`RecordedSteps::steps`] of the steps that other programs did not disturb by far.
    pub(crate) fn quiet(&self) -> Vec<usize> {
        quiet(&self.recorded)
    }

    /// A step in which every operation is as short as it ever was; if steps differ in what takes long, the shortest one.
    pub fn least(&self) -> StepGraph {
        if self.varies {
            let shortest = (0..self.recorded.len()).min_by_key(|index| self.recorded[*index]);
            return shortest.map_or_else(|| self.typical.clone(), |index| self.step(index)).without_backlog();
        }
        self.with(durations::least)
    }

    /// The delays before kernels in the steps that nothing disturbs.
    fn queues(&self, of: fn(&mut [u64]) -> u64) -> LaunchQueues {
        let steps = undisturbed_steps(&self.recorded);
        let apart = steps.len().div_ceil(QUEUED);
        LaunchQueues::of_several(steps.into_iter().step_by(apart.max(1)).map(|index| self.step(index)), of)
    }

    fn with(&self, of: fn(&mut [u64]) -> u64) -> StepGraph {
        let mut step = self.typical.clone();
        durations::set(&mut step.graph, &self.durations, &(0..self.steps.len()).collect::<Vec<_>>(), of);
        step.with_queues(&self.queues(of))
    }

    /// The graph with the durations of one of [`RecordedSteps::steps`], by its index there.
    pub fn step(&self, index: usize) -> StepGraph {
        let mut step = self.typical.clone();
        let ids: Vec<NodeId> = step.graph.ids().collect();
        ids.into_iter().for_each(|id| step.graph.set_duration(id, self.durations[index][id.index()]));
        step
    }

    /// The transfers of one of [`RecordedSteps::steps`], by its index there, that ran while others of their link did.
    pub(crate) fn overlapping(&self, step: usize) -> &BTreeSet<NodeId> {
        &self.overlapping[step]
    }

    /// Nanoseconds of a node in one of [`RecordedSteps::steps`], by index.
    pub(crate) fn duration(&self, step: usize, id: NodeId) -> u64 {
        self.durations[step][id.index()]
    }

    /// The mean of [`RecordedSteps::steps`] in nanoseconds, each as it follows others like it.
    pub fn mean(&self) -> u64 {
        let time = |index| {
            let step = self.step(index).without_backlog();
            step.time(&simulate(&step.graph))
        };
        (0..self.steps.len()).into_par_iter().map(time).sum::<u64>() / self.steps.len().max(1) as u64
    }

    /// Nanoseconds of the typical step as it is replayed; if steps differ in what takes long, the mean.
    pub fn usual_time(&self) -> u64 {
        if self.varies { self.mean() } else { self.typical.time(&simulate(&self.typical.graph)) }
    }

    /// The durations of a node in each of [`RecordedSteps::steps`], in nanoseconds.
    pub fn durations(&self, id: NodeId) -> impl Iterator<Item = u64> + '_ {
        self.durations.iter().map(move |step| step[id.index()])
    }
}

/// The rows of the steps in which all ranks did most often the same.
struct StepRows {
    calls: CallTable,
    alike: Vec<(usize, Vec<RankStep>)>,
    unlike: Option<UnlikeSteps>,
}

impl StepRows {
    fn read(job: &TrainingJob, exchanges: &RankExchanges, clocks: &RankClocks, steps: &[usize]) -> Result<Self> {
        memory::check(job, steps, available_memory())?;
        let mut calls = CallTable::default();
        let read = |step: &usize| (*step, rows::read(job, exchanges, clocks, *step, &mut calls));
        let mut read: Vec<(usize, Vec<RankStep>)> = steps.iter().map(read).collect();
        let alike = alike(&read);
        let unlike = UnlikeSteps::find(job, &read, &alike);
        read.retain(|(step, _)| alike.contains(step));
        Ok(StepRows { calls, alike: read, unlike })
    }

    /// The graph of those steps whose position in [`StepRows::alike`] is chosen, and how long its nodes took in the others.
    fn graph(
        &self,
        job: &TrainingJob,
        exchanges: &RankExchanges,
        chosen: impl Fn(usize) -> bool,
    ) -> Result<(RecordedSteps, Vec<Vec<u64>>)> {
        let split = |own: bool| -> Vec<(usize, &[RankStep])> {
            let steps = self.alike.iter().enumerate().filter(|(position, _)| chosen(*position) == own);
            steps.map(|(_, (step, ranks))| (*step, ranks.as_slice())).collect()
        };
        let (steps, others) = (split(true), split(false));
        let assembly = AssembledStep::build(job, exchanges, &steps, self.calls.clone())?;
        let [durations, of_others] = [&steps, &others].map(|steps| durations::compute(&assembly, steps));
        let overlapping = overlaps::find(&assembly, &steps);
        let mut typical = assembly.step;
        let recorded: Vec<u64> = steps.iter().map(|(_, ranks)| longest_rank(ranks)).collect();
        durations::set(&mut typical.graph, &durations, &undisturbed_steps(&recorded), durations::median);
        let steps = steps.iter().map(|(step, _)| *step).collect();
        let is_slowed = typical.graph.nodes().iter().any(|node| node.kind == WorkKind::Kernel);
        let unlike = self.unlike.clone();
        let mut all =
            RecordedSteps { typical, varies: false, steps, durations, overlapping, recorded, unlike, is_slowed };
        // One step alone is typical as it was recorded.
        if all.recorded.len() > 1 {
            all.typical = all.typical.clone().with_queues(&all.queues(durations::median));
            let usual = all.typical.time(&simulate(&all.typical.graph));
            let is_longer = mean_but_longest(&all.recorded) > VARIES * usual as f64;
            if is_longer && varies::explains_variation(&all.typical.graph, &all.durations, &all.recorded, usual) {
                all.take_mean_of_all();
            }
        }
        Ok((all, of_others))
    }
}

/// Steps in which delays before kernels are looked for at most: medians of more are the same, and each is a replay.
const QUEUED: usize = 32;

/// From this ratio of the mean step to one in which each operation takes as long as usual, steps may differ in what takes long.
const VARIES: f64 = 1.03;

/// The mean of the steps without the longest, which may be the first one, or chance.
fn mean_but_longest(times: &[u64]) -> f64 {
    let longest = times.iter().max().filter(|_| times.len() > 1);
    let others = times.iter().map(|time| *time as f64).sum::<f64>() - longest.map_or(0.0, |time| *time as f64);
    others / (times.len() - usize::from(longest.is_some())).max(1) as f64
}

/// The index of the step of median length, or of the shorter one of the two in the middle.
fn middle(times: &[u64]) -> Option<usize> {
    let mut by_time: Vec<usize> = (0..times.len()).collect();
    by_time.sort_by_key(|index| times[*index]);
    by_time.get(times.len().saturating_sub(1) / 2).copied()
}

/// Nanoseconds of a step: the longest of the ranks'.
fn longest_rank(ranks: &[RankStep]) -> u64 {
    ranks.iter().map(RankStep::time).max().unwrap_or(0)
}

/// From this ratio to the next shorter step on, other programs began or ended between a step and the shorter ones.
const APART: f64 = 1.1;
/// Fewer short steps than this are chance.
const SHORT: usize = 3;

/// The indices of the faster half of the steps, or of those that are shorter by far than the others. Other programs make steps
/// longer, never shorter: the median of the faster half is the lower quartile of all.
fn undisturbed_steps(times: &[u64]) -> Vec<usize> {
    let mut by_time = quiet(times);
    by_time.truncate(by_time.len().div_ceil(2));
    by_time
}

/// The indices of the steps before which none is longer by far than the next shorter one, the shortest first.
fn quiet(times: &[u64]) -> Vec<usize> {
    let mut by_time: Vec<usize> = (0..times.len()).collect();
    by_time.sort_by_key(|index| times[*index]);
    let is_apart = |place: &usize| times[by_time[*place]] as f64 > APART * times[by_time[place - 1]] as f64;
    by_time.truncate((SHORT..times.len()).find(is_apart).unwrap_or(times.len()));
    by_time
}

/// The steps in which all ranks did the same as in most steps, of those that exchange anything if there are such; of equally
/// many the earliest.
fn alike(read: &[(usize, Vec<RankStep>)]) -> Vec<usize> {
    let mut groups: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
    for (step, ranks) in read {
        groups.entry(ranks.iter().map(RankStep::signature).collect()).or_default().push(*step);
    }
    // With steps that exchange nothing, as where gradients are accumulated over several, the others decide what communication costs.
    let exchanges = |step: usize| {
        read.iter().any(|(index, ranks)| *index == step && ranks.iter().any(|rank| !rank.parts.is_empty()))
    };
    let most = |steps: &[usize]| (exchanges(steps[0]), steps.len());
    let Some(best) = groups.values().map(|steps| most(steps)).max() else { return Vec::new() };
    // Where each step is of another kind, that of median length stands for them.
    let length =
        |step: usize| read.iter().find(|(index, _)| *index == step).map_or(0, |(_, ranks)| longest_rank(ranks));
    let mut equal: Vec<Vec<usize>> = groups.into_values().filter(|steps| most(steps) == best).collect();
    equal.sort_by_key(|steps| (length(steps[0]), steps[0]));
    equal.swap_remove((equal.len() - 1) / 2)
}
