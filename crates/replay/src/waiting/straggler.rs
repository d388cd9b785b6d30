//! The ranks that others wait for, and what each of them does longer than the others.

use super::{Activity, Waiting};
use crate::ranks::Job;
use perf4sight_base::stats::median;
use perf4sight_base::summary::Summary;
use std::collections::{BTreeMap, BTreeSet};

/// A rank that others wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Straggler {
    /// Its index in [`Job::ranks`].
    pub rank: usize,
    /// Milliseconds of a step that the other ranks wait for it, on average over them; over the steps.
    pub caused: Summary,
    /// Its share of the longest rank's step, from 0 to 1.
    pub share: f64,
    /// The share of steps in which the others wait longest for this rank, from 0 to 1.
    pub steadiness: f64,
    /// Its share of all waiting in all steps, from 0 to 1.
    pub of_all: f64,
    /// Milliseconds that the others wait for it in each of the steps in which that is long and longer than for any other rank.
    pub occasions: Vec<f64>,
    /// What it does longer than the others, the largest difference first.
    pub excess: Vec<Excess>,
}

/// What a rank does longer than the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Excess {
    /// What it does.
    pub activity: Activity,
    /// Milliseconds of it in a step.
    pub own: f64,
    /// The same of the other ranks, their median.
    pub others: f64,
}

impl Excess {
    /// Milliseconds of a step that it takes longer.
    pub fn longer(&self) -> f64 {
        self.own - self.others
    }
}

/// Shorter differences are none to name: this share of the waiting that a rank causes; and so is shorter waiting, of a step.
const WORTH: f64 = 0.02;

/// The ranks of a job, the one that the others wait for longest first. `activities` are those of
/// [`super::activities`].
pub fn stragglers(job: &Job, waiting: &Waiting, activities: &[Vec<BTreeMap<Activity, i64>>]) -> Vec<Straggler> {
    let means: Vec<BTreeMap<&Activity, f64>> = activities.iter().map(|steps| typical(steps)).collect();
    let straggler = |rank: usize| {
        let length: Vec<f64> = waiting.steps.iter().map(|step| step.length as f64 / 1e6).collect();
        let summary = waiting.over_steps(|step| step.caused(rank))?;
        let most = |step: &&super::Matrix| {
            (0..job.ranks.len()).all(|other| step.caused(other) <= step.caused(rank)) && step.caused(rank) > 0.0
        };
        let steady = waiting.steps.iter().filter(most).count();
        let is_long = |step: &&super::Matrix| step.caused(rank) >= WORTH * step.length as f64;
        let occasions = waiting.steps.iter().filter(most).filter(is_long);
        let all: f64 = waiting.steps.iter().flat_map(|step| (0..job.ranks.len()).map(|one| step.caused(one))).sum();
        let own: f64 = waiting.steps.iter().map(|step| step.caused(rank)).sum();
        Some(Straggler {
            rank,
            share: summary.mean / perf4sight_base::stats::mean(&length).max(f64::MIN_POSITIVE),
            steadiness: steady as f64 / waiting.steps.len() as f64,
            of_all: own / all.max(f64::MIN_POSITIVE),
            occasions: occasions.map(|step| step.caused(rank) / 1e6).collect(),
            excess: excess(rank, &means, WORTH * summary.mean),
            caused: summary,
        })
    };
    let mut ranks: Vec<Straggler> = (0..job.ranks.len()).filter_map(straggler).collect();
    ranks.sort_by(|one, other| other.caused.mean.total_cmp(&one.caused.mean).then(one.rank.cmp(&other.rank)));
    ranks
}

/// Milliseconds of each activity in a step: the median over the steps, because the first ones are slow.
fn typical(steps: &[BTreeMap<Activity, i64>]) -> BTreeMap<&Activity, f64> {
    let all: BTreeSet<&Activity> = steps.iter().flat_map(BTreeMap::keys).collect();
    let of_step = |activity: &Activity| {
        let times: Vec<f64> =
            steps.iter().map(|step| step.get(activity).map_or(0.0, |time| *time as f64 / 1e6)).collect();
        median(&times)
    };
    all.into_iter().map(|activity| (activity, of_step(activity))).collect()
}

fn excess(rank: usize, means: &[BTreeMap<&Activity, f64>], least: f64) -> Vec<Excess> {
    let time = |rank: usize, activity: &Activity| means[rank].get(activity).copied().unwrap_or(0.0);
    let compared = |(activity, own): (&&Activity, &f64)| {
        let others: Vec<f64> =
            (0..means.len()).filter(|other| *other != rank).map(|other| time(other, activity)).collect();
        let others = if others.is_empty() { 0.0 } else { median(&others) };
        Excess { activity: (*activity).clone(), own: *own, others }
    };
    let mut excess: Vec<Excess> = means[rank].iter().map(compared).filter(|one| one.longer() > least).collect();
    excess.sort_by(|one, other| other.longer().total_cmp(&one.longer()).then(one.activity.cmp(&other.activity)));
    excess
}
