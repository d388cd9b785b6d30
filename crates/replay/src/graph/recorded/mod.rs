//! Builds the graph of a job's step from the traces of its ranks.
//!
//! Every node has an end time in the traces. Its duration is the time from the last end of what it waits for until its
//! own end. Where the edges are true, a replay with the durations of one step ends when the step did; with the median
//! durations of the faster half of the steps it is a typical step.

mod assembly;
mod dependencies;
mod distortion;
mod durations;
mod memory;
mod rows;
mod streams;
mod threads;
mod waits;

pub use distortion::{Correction, Distortion};

use super::StepGraph;
use crate::clocks::Clocks;
use crate::collectives::Exchanges;
use crate::ranks::Job;
use assembly::Assembly;
use perf4sight_base::error::Result;
use perf4sight_machine::description::Description;
use rows::RankStep;
use std::collections::BTreeMap;

/// The graph of a job's steps.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The graph with the median durations over the faster half of [`Recorded::steps`].
    pub typical: StepGraph,
    /// The indices in [`Job::steps`] of the steps in which all ranks did the same operations in the same order.
    pub steps: Vec<usize>,
    /// The duration of every node in each of these steps, in nanoseconds.
    durations: Vec<Vec<u64>>,
    /// The recorded time of each of these steps: the longest of the ranks', in nanoseconds.
    pub recorded: Vec<u64>,
}

impl Recorded {
    /// Builds the graph of the steps in which all ranks did most often the same.
    ///
    /// # Errors
    /// Traces whose operations wait for each other in a circle, or whose graph takes more memory than there is.
    pub fn of(job: &Job, exchanges: &Exchanges, clocks: &Clocks) -> Result<Self> {
        let all: Vec<usize> = (0..job.steps.len()).collect();
        Recorded::of_steps(job, exchanges, clocks, &all)
    }

    /// The same with some of the steps, by their indices in [`Job::steps`].
    ///
    /// # Errors
    /// As for [`Recorded::of`].
    pub fn of_steps(job: &Job, exchanges: &Exchanges, clocks: &Clocks, steps: &[usize]) -> Result<Self> {
        memory::check(job, steps, Description::here().available().0)?;
        let mut calls = super::Calls::default();
        let read = |step: &usize| (*step, rows::read(job, exchanges, clocks, *step, &mut calls));
        let read: Vec<(usize, Vec<RankStep>)> = steps.iter().map(read).collect();
        let alike = alike(&read);
        let alike: Vec<(usize, Vec<RankStep>)> = read.into_iter().filter(|(step, _)| alike.contains(step)).collect();
        let assembly = Assembly::build(job, exchanges, &alike, calls)?;
        let durations = durations::compute(&assembly, &alike);
        let mut typical = assembly.step;
        let recorded: Vec<u64> =
            alike.iter().map(|(_, ranks)| ranks.iter().map(RankStep::time).max().unwrap_or(0)).collect();
        let undisturbed = undisturbed(&recorded);
        durations::set_medians(&mut typical.graph, &durations, &undisturbed);
        Ok(Recorded { typical, steps: alike.into_iter().map(|(step, _)| step).collect(), durations, recorded })
    }

    /// The graph with the durations of one of [`Recorded::steps`], by its index there.
    pub fn step(&self, index: usize) -> StepGraph {
        let mut step = self.typical.clone();
        let ids: Vec<super::NodeId> = step.graph.ids().collect();
        ids.into_iter().for_each(|id| step.graph.set_duration(id, self.durations[index][id.index()]));
        step
    }

    /// The durations of a node in each of [`Recorded::steps`], in nanoseconds.
    pub fn durations(&self, id: super::NodeId) -> impl Iterator<Item = u64> + '_ {
        self.durations.iter().map(move |step| step[id.index()])
    }
}

/// The indices of the faster half of the steps. Other programs make steps longer, never shorter: the median of the faster
/// half is the lower quartile of all.
fn undisturbed(times: &[u64]) -> Vec<usize> {
    let mut by_time: Vec<usize> = (0..times.len()).collect();
    by_time.sort_by_key(|index| times[*index]);
    by_time.truncate(times.len().div_ceil(2));
    by_time
}

/// The steps in which all ranks did the same as in most steps; of equally many the earliest.
fn alike(read: &[(usize, Vec<RankStep>)]) -> Vec<usize> {
    let mut groups: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
    for (step, ranks) in read {
        groups.entry(ranks.iter().map(RankStep::signature).collect()).or_default().push(*step);
    }
    let most = groups.into_values().max_by_key(|steps| (steps.len(), std::cmp::Reverse(steps[0])));
    most.unwrap_or_default()
}
