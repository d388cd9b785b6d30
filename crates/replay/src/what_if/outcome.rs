//! The time of a step with changes, compared with the step as it is.

use super::unprofiled::without_profiler;
use super::unseen_waits::{unawaited, until_all_are_done, without_assumed_waits, without_threads};
use super::{Scenario, StepChange, one_rank, variations};
use crate::communication::{CommunicationCosts, GroupCost, OverlapSlowDown};
use crate::graph::queues::LaunchQueues;
use crate::graph::recorded::{RecordedSteps, UnlikeSteps};
use crate::graph::{NodeId, StepGraph, WorkKind};
use crate::simulate::{CriticalShare, NodeSchedule, critical_path, shares, simulate};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::{mean, median, percentile, spearman};
use perf4sight_base::summary::{MISSES, quantile};
use perf4sight_base::units::Milliseconds;
use perf4sight_traces::rank_list;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// A predicted time in nanoseconds, with the interval over the recorded steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepPrediction {
    /// Of the typical step, or the mean of all if none is typical.
    pub time: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl StepPrediction {
    /// Widens the bounds to hold a time.
    pub fn include(&mut self, time: f64) {
        self.low = self.low.min(time);
        self.high = self.high.max(time);
    }

    /// Multiplies the bounds: by how much shorter and longer the step without the changes may be.
    pub(crate) fn widen(&mut self, [shorter, longer]: [f64; 2]) {
        self.low *= shorter;
        self.high *= longer;
    }
}

/// What changes bring.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIfOutcome {
    /// The step as it is, in nanoseconds: the typical one, or the mean of all if none is typical.
    pub before: u64,
    /// The step with the changes.
    pub after: StepPrediction,
    /// What a replay of the first rank by itself takes it for, in nanoseconds, for comparison (see [`one_rank`]); none if the
    /// change cannot be made to one rank.
    pub alone: Option<f64>,
    /// The time on the critical path after the changes, by rank and kind.
    pub critical: Vec<CriticalShare>,
    /// What is assumed beyond the traces.
    pub assumptions: Vec<String>,
    /// Nanoseconds of a message from which the step gets longer, if that was asked and is all that makes a shorter step uncertain.
    pub longer_from: Option<f64>,
}

impl WhatIfOutcome {
    /// The same with the sentence that both steps are the mean of all, since the changes bring more to some than to others.
    pub(crate) fn of_mean(mut self) -> Self {
        let before = Milliseconds(self.before as f64 / 1e6);
        self.assumptions.push(format!(
            "it brings some steps more than others: both steps are the mean of all, {before} without the change"
        ));
        self
    }
}

/// The percentiles over the recorded steps that bound a prediction.
const BOUNDS: [f64; 2] = [5.0, 95.0];

/// What the model itself is off by, as a share: nine of ten predictions of measured steps were within this much
/// (`docs/accuracy/replay.md`).
const MODEL: f64 = 0.04;

/// Predicts the typical step with changes, made one after the other. The interval holds the relative changes of nine of ten
/// recorded steps, each with its own durations, or, of a mean over all of them, the mean with 95 %; those with other costs of communication that fit the traces as well, and those
/// of changes at the bounds of what they rest on, widened by what predictions of measured steps were off by.
///
/// # Errors
/// A change that cannot be made to the step.
pub fn predict(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[Box<dyn StepChange>],
) -> Result<WhatIfOutcome> {
    let all = &references(changes);
    let ([settled, changed_time], changed) = compared(recorded.typical.clone(), communication.clone(), all)?;
    let schedule = simulate(&changed.step.graph);
    let critical = shares(&changed.step.graph, &critical_path(&changed.step.graph, &schedule), changed_time as u64);
    let of_steps = times_of_all(recorded, communication, all)?;
    let usual = changed_time / settled;
    let before = recorded.usual_time() as f64;
    let time = before * if recorded.varies { ratio_of_means(&of_steps) } else { usual };
    let ratios: Vec<f64> = of_steps.iter().map(|[before, after]| after / before).collect();
    // What is asked of the step that is shown is told of the mean of all, if none is typical.
    let scale = time / before / usual;
    let of_latencies: Vec<f64> =
        with_other_latencies(recorded, communication, all)?.into_iter().map(|ratio| scale * ratio).collect();
    let of_recorded = match recorded.varies {
        true => of_mean(&of_steps),
        false => BOUNDS.map(|bound| percentile(&ratios, bound)),
    };
    let unprofiled = unprofiled(recorded, communication, all)?;
    let unwaiting = unwaiting(recorded, communication, all)?;
    let unslowed = unslowed(recorded, communication, all)?;
    let of_bounds = at_bounds(&recorded.typical, communication, all)?.into_iter();
    let of_bounds = of_bounds.chain(unprofiled.iter().chain(&unwaiting).chain(&unslowed).copied());
    let others = of_bounds.map(|ratio| scale * ratio).chain(of_latencies.iter().copied());
    let [low, high] =
        others.fold(of_recorded, |[low, high], ratio| [low.min(ratio), high.max(ratio)]).map(|ratio| ratio * before);
    let mut after = StepPrediction { time, low: (1.0 - MODEL) * low.min(time), high: (1.0 + MODEL) * high.max(time) };
    if let Some(step) = without_threads(&recorded.typical) {
        let least = with(Scenario { step, communication: communication.clone() }, all)?.step;
        after.include((1.0 - MODEL) * length(&least, &simulate(&least.graph))?);
    }
    let awaited = awaited(&recorded.typical, &changed.step, &schedule);
    if let Some(longer) = awaited {
        after.include((1.0 + MODEL) * time * longer);
    }
    let latency =
        assumed_latency(communication, time, &of_latencies.iter().map(|ratio| ratio * before).collect::<Vec<_>>());
    let assumptions = changes
        .iter()
        .flat_map(|change| change.assumption().into_iter().chain(change.doubts(&recorded.typical)))
        .chain(latency)
        .chain(becomes_alike(recorded, changes))
        .chain(slowed(time, before * scale, &unprofiled))
        .chain(assumed_waits(time, before * scale, unwaiting))
        .chain(awaited.map(|longer| nothing_waits(&changed.step, time * longer)))
        .chain(slowed_by_communication(communication, time, before * scale, unslowed))
        .collect();
    let alone = replay_single_rank(recorded, communication, all).ok().flatten();
    let before = made_alike(recorded, changes).map_or(before, |unlike| unlike.mean_of_all().max(before));
    Ok(WhatIfOutcome { before: before as u64, after, alone, critical, assumptions, longer_from: None })
}

/// The steps that are not replayed, if they become like the others with changes.
fn made_alike<'a>(recorded: &'a RecordedSteps, changes: &[Box<dyn StepChange>]) -> Option<&'a UnlikeSteps> {
    recorded.unlike.as_ref().filter(|_| still_unlike(recorded, changes).is_none())
}

/// The steps that are not replayed, unless they are like the others with changes: those make the ranks that do something else in them do as the others do.
pub(crate) fn still_unlike<'a>(
    recorded: &'a RecordedSteps,
    changes: &[Box<dyn StepChange>],
) -> Option<&'a UnlikeSteps> {
    let as_others: BTreeSet<u32> = changes.iter().filter_map(|change| change.rank_as_others()).collect();
    recorded.unlike.as_ref().filter(|unlike| unlike.ranks.is_empty() || !unlike.ranks.is_subset(&as_others))
}

/// Says that steps which are not replayed are taken to become like the others.
fn becomes_alike(recorded: &RecordedSteps, changes: &[Box<dyn StepChange>]) -> Option<String> {
    let unlike = made_alike(recorded, changes)?;
    Some(format!(
        "{} alone {} something else in the steps that are not replayed: without that these take as long as the others, and the step is compared with the mean of all recorded ones, {}",
        rank_list(&unlike.ranks),
        if unlike.ranks.len() == 1 { "does" } else { "do" },
        Milliseconds(unlike.mean_of_all() / 1e6)
    ))
}

/// The relative times of a step with changes where messages take no time, and where they take the most that they may: no such
/// where the latency is known.
fn with_other_latencies(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<Vec<f64>> {
    let with = |groups: &Vec<Option<GroupCost>>| {
        let other = CommunicationCosts { groups: groups.clone(), ..communication.clone() };
        ratio(recorded.typical.clone(), other, changes)
    };
    communication.alternatives.iter().map(with).collect()
}

/// An assumed latency rests on no trace, which is said where it changes the answer by this share.
const RESTS_ON_LATENCY: f64 = 0.005;

/// Says that a latency was assumed, if the predicted time depends on it.
fn assumed_latency(communication: &CommunicationCosts, time: f64, others: &[f64]) -> Option<String> {
    let rests_on_it = others.iter().any(|other| (other / time - 1.0).abs() > RESTS_ON_LATENCY);
    let assumed = communication.groups.iter().flatten().filter_map(|cost| Some((cost.latency, cost.unknown_latency?)));
    let longest = assumed.max_by(|(one, _), (other, _)| one.value.total_cmp(&other.value));
    let (assumed, unknown) = longest.filter(|_| rests_on_it)?;
    let operations = unknown.operations();
    let [value, high] = [assumed.value, assumed.high].map(|latency| Milliseconds(latency / 1e6));
    let [least, most] = others.iter().fold([time; 2], |[least, most], other| [least.min(*other), most.max(*other)]);
    let [least, most] = [least, most].map(|step| Milliseconds(step / 1e6));
    Some(format!(
        "it rests on how long a message takes, which {operations} do not show: {value} is assumed, and with 0 to {high} the step takes {least} to {most}"
    ))
}

/// The relative time of a step with changes where streams wait for each other only as far as that is known; none where nothing was assumed.
fn unwaiting(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<Option<f64>> {
    let step = without_assumed_waits(&recorded.typical)?;
    step.map(|step| ratio(step, communication.clone(), changes)).transpose()
}

/// Which streams wait for each other is not known without a record, which is said where it changes the answer by this share.
const RESTS_ON_STREAMS: f64 = 0.01;

/// Says that streams were taken to wait for each other, if the predicted time depends on it.
fn assumed_waits(time: f64, before: f64, unwaiting: Option<f64>) -> Option<String> {
    let unwaiting = before * unwaiting?;
    let rests_on_it = (unwaiting / time - 1.0).abs() > RESTS_ON_STREAMS;
    let unwaiting = Milliseconds(unwaiting / 1e6);
    rests_on_it.then(|| format!("which stream waits for which is not in the traces (the profiler records it with enable_cuda_sync_events), and is taken from the order of the calls; without these waits the step takes {unwaiting}"))
}

/// How much longer a step with changes is if it waits for exchanges that nothing is seen to wait for; none where they take as long as before.
fn awaited(before: &StepGraph, changed: &StepGraph, schedule: &NodeSchedule) -> Option<f64> {
    let taken = |step: &StepGraph| unawaited(step).map(|transfer| step.graph.node(transfer.node).duration).sum::<u64>();
    let time = changed.time(schedule).max(1) as f64;
    let is_any = unawaited(changed).next().is_some();
    (is_any && taken(before) != taken(changed)).then(|| until_all_are_done(changed, schedule) as f64 / time)
}

/// Says that exchanges are taken to make no difference because nothing is seen to wait for them.
fn nothing_waits(step: &StepGraph, awaited: f64) -> String {
    let (unawaited, all) = (unawaited(step).count(), step.transfers.len());
    let awaited = Milliseconds(awaited / 1e6);
    format!(
        "no thread is seen to wait for {unawaited} of {all} exchanges, so that what they take makes no difference; if the step waits for them before it ends, it takes {awaited}"
    )
}

/// The relative time of a step with changes where communication slows nothing down; none where it does not seem to. Operations of one name that run during
/// communication may do other work than those that do not, which traces do not tell.
fn unslowed(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<Option<f64>> {
    let slow_down = OverlapSlowDown { factor: 1.0, ..communication.slow_down };
    let unslowed =
        (communication.slow_down != slow_down).then(|| CommunicationCosts { slow_down, ..communication.clone() });
    unslowed.map(|communication| ratio(recorded.typical.clone(), communication, changes)).transpose()
}

/// That operations seem to be slower during communication is said where it changes the answer by this share.
const RESTS_ON_SLOW_DOWN: f64 = 0.01;

/// Says that communication was taken to slow operations down, if the predicted time depends on it.
fn slowed_by_communication(
    communication: &CommunicationCosts,
    time: f64,
    before: f64,
    unslowed: Option<f64>,
) -> Option<String> {
    let unslowed = before * unslowed?;
    let rests_on_it = (unslowed / time - 1.0).abs() > RESTS_ON_SLOW_DOWN;
    let (factor, unslowed) = (communication.slow_down.factor, Milliseconds(unslowed / 1e6));
    rests_on_it.then(|| format!("operations take {factor:.2} times as long while their rank communicates as others of their name at other times, which is taken for slow-down by the communication; if they have more to do instead, the step takes {unslowed}"))
}

/// Without the profiler a step may take something else, which is said where it changes the answer by this share.
const RESTS_ON_PROFILER: f64 = 0.05;

/// The relative times of a step with changes where threads take the least that they may without the profiler, first without bounds.
fn unprofiled(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<Vec<f64>> {
    let Some(step) = without_profiler(recorded) else { return Ok(Vec::new()) };
    let of_bounds = at_bounds(&step, communication, changes)?;
    let own = ratio(step, communication.clone(), changes)?;
    Ok(std::iter::once(own).chain(of_bounds).collect())
}

/// Says that the profiler slows threads down, if the predicted time depends on it.
fn slowed(time: f64, before: f64, unprofiled: &[f64]) -> Option<String> {
    let unprofiled = before * unprofiled.first()?;
    let rests_on_it = (unprofiled / time - 1.0).abs() > RESTS_ON_PROFILER;
    let unprofiled = Milliseconds(unprofiled / 1e6);
    rests_on_it.then(|| format!("the profiler slows the threads that launch kernels down, by how much is not known; without it the step may take {unprofiled}"))
}

pub(super) fn references(changes: &[Box<dyn StepChange>]) -> Vec<&dyn StepChange> {
    changes.iter().map(AsRef::as_ref).collect()
}

/// The step with changes by a replay of the first rank by itself.
fn replay_single_rank(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<Option<f64>> {
    let Some(first) = recorded.typical.ranks.first() else { return Ok(None) };
    let step = one_rank(&recorded.typical, first.number)?;
    let changed = with(Scenario { step, communication: communication.clone() }, changes)?;
    length(&changed.step, &simulate(&changed.step.graph)).map(Some)
}

/// The typical step with changes, made one after the other: that of which [`predict`] gives the time.
///
/// # Errors
/// A change that cannot be made to the step.
pub fn changed_step(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[Box<dyn StepChange>],
) -> Result<StepGraph> {
    let typical = Scenario { step: recorded.typical.clone(), communication: communication.clone() };
    Ok(with(typical, &references(changes))?.step)
}

/// Nanoseconds of each recorded step without changes and with them.
fn times_of_all(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<Vec<[f64; 2]>> {
    let drawn = RankDraws::find(recorded, changes);
    let times = |index| times_of_recorded(recorded, index, (communication, changes), drawn.as_ref());
    (0..recorded.steps.len()).into_par_iter().map(times).collect()
}

/// A rank that does as the others do, and varies from step to step by itself.
struct RankDraws {
    rank: u32,
}

/// Ranks vary together where the correlation of their work over the steps is this high: they train on alike samples, or wait for one machine.
const TOGETHER: f64 = 0.5;
/// Fewer steps show no correlation.
const FEWEST_DRAWS: usize = 6;

impl RankDraws {
    /// None where ranks vary together, or too few steps show whether they do.
    fn find(recorded: &RecordedSteps, changes: &[&dyn StepChange]) -> Option<Self> {
        let rank = changes.iter().find_map(|change| change.rank_as_others())?;
        let numbers: Vec<u32> = recorded.typical.ranks.iter().map(|rank| rank.number).collect();
        let work = |of: u32| -> Vec<f64> { (0..recorded.steps.len()).map(|step| work(recorded, step, of)).collect() };
        let others: Vec<Vec<f64>> =
            numbers.iter().filter(|number| **number != rank).map(|number| work(*number)).collect();
        let middle = |step: usize| median(&others.iter().map(|other| other[step]).collect::<Vec<_>>());
        let middle: Vec<f64> = (0..recorded.steps.len()).map(middle).collect();
        let correlation = spearman(&work(rank), &middle);
        (recorded.steps.len() >= FEWEST_DRAWS && correlation < TOGETHER).then_some(RankDraws { rank })
    }
}

/// Nanoseconds that the threads and streams of a rank work in a recorded step.
fn work(recorded: &RecordedSteps, step: usize, rank: u32) -> f64 {
    let graph = &recorded.typical.graph;
    let works = |id: &NodeId| {
        matches!(graph.node(*id).kind, WorkKind::Operation | WorkKind::Kernel)
            && graph.resource_of(*id).rank == Some(rank)
    };
    graph.ids().filter(works).map(|id| recorded.duration(step, id) as f64).sum()
}

/// Nanoseconds of a recorded step without changes and with them. A rank that does as the others do would vary as they do, but not in the same steps: it
/// takes what they took in the next one.
fn times_of_recorded(
    recorded: &RecordedSteps,
    index: usize,
    (communication, changes): (&CommunicationCosts, &[&dyn StepChange]),
    drawn: Option<&RankDraws>,
) -> Result<[f64; 2]> {
    let Some(RankDraws { rank }) = drawn else { return times(recorded.step(index), communication.clone(), changes) };
    let step = recorded.step((index + 1) % recorded.steps.len());
    let mut next = Scenario { step, communication: communication.clone() };
    changes.iter().try_for_each(|change| change.apply(&mut next))?;
    let work = WorkOfStep::of_rank(&next.step, *rank);
    let all: Vec<&dyn StepChange> = changes.iter().copied().chain([&work as &dyn StepChange]).collect();
    times(recorded.step(index), communication.clone(), &all)
}

/// A rank's work that takes as long as in another step.
#[derive(Debug)]
struct WorkOfStep {
    nodes: usize,
    durations: Vec<(NodeId, u64)>,
}

impl WorkOfStep {
    fn of_rank(step: &StepGraph, rank: u32) -> Self {
        let graph = &step.graph;
        let is_own =
            |id: &NodeId| graph.resource_of(*id).rank == Some(rank) && graph.node(*id).kind != WorkKind::Launch;
        let durations = graph.ids().filter(is_own).map(|id| (id, graph.node(id).duration)).collect();
        WorkOfStep { nodes: graph.nodes().len(), durations }
    }
}

impl StepChange for WorkOfStep {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        // Steps that are not the same after their changes have no work in common.
        if graph.nodes().len() == self.nodes {
            self.durations.iter().for_each(|(id, time)| graph.set_duration(*id, *time));
        }
        Ok(())
    }
}

/// The means over steps, without changes and with them.
fn means(of_steps: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|place| mean(&of_steps.iter().map(|times| times[place]).collect::<Vec<f64>>()))
}

/// The mean over steps with changes as a multiple of that without.
fn ratio_of_means(of_steps: &[[f64; 2]]) -> f64 {
    let [before, after] = means(of_steps);
    after / before
}

/// The 95 % interval of the mean step with changes as a multiple of that without them, from both of each step: that of the ratio of two
/// means by Student's t (W. G. Cochran, "Sampling Techniques", 1977, section 6.4). One step shows no spread.
fn of_mean(of_steps: &[[f64; 2]]) -> [f64; 2] {
    let [before, after] = means(of_steps);
    let (ratio, freedom) = (after / before, of_steps.len() as f64 - 1.0);
    let squares: f64 = of_steps.iter().map(|[before, after]| (after - ratio * before).powi(2)).sum();
    let error = (squares / freedom.max(1.0) / of_steps.len().max(1) as f64).sqrt() / before;
    let half = error * quantile(freedom, MISSES).unwrap_or(0.0);
    [(ratio - half).max(0.0), ratio + half]
}

/// The relative times of a step with changes at the bounds of what they rest on.
fn at_bounds(step: &StepGraph, communication: &CommunicationCosts, changes: &[&dyn StepChange]) -> Result<Vec<f64>> {
    let varied = variations(changes);
    let ratio = |own: &Vec<Option<Box<dyn StepChange>>>| {
        let all = changes.iter().zip(own).map(|(change, bound)| bound.as_deref().unwrap_or(*change));
        ratio(step.clone(), communication.clone(), &all.collect::<Vec<_>>())
    };
    varied.iter().map(ratio).collect()
}

/// From this share on, what changes bring to the typical step and to all recorded ones is not the same. In recordings that other programs
/// disturbed, both differed by up to 0.078 (`docs/accuracy/replay.md`).
const DIFFERS: f64 = 0.08;

/// Whether changes bring something else to the typical step than to all recorded ones together that nothing disturbed, as where they are
/// about a rank that the others wait for in some of the steps alone. The step that differs most may be chance.
///
/// # Errors
/// A change that cannot be made to the step.
pub(crate) fn depends_on_step(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[Box<dyn StepChange>],
) -> Result<bool> {
    let all = &references(changes);
    let usual = ratio(recorded.typical.clone(), communication.clone(), all)?;
    let drawn = RankDraws::find(recorded, all);
    let times = |index| times_of_recorded(recorded, index, (communication, all), drawn.as_ref());
    let mut of_steps: Vec<[f64; 2]> = recorded.quiet().into_par_iter().map(times).collect::<Result<_>>()?;
    let off = |[before, after]: &[f64; 2]| (after - usual * before).abs();
    of_steps.sort_by(|one, other| off(one).total_cmp(&off(other)));
    of_steps.truncate(of_steps.len().saturating_sub(1).max(1));
    let sum = |place: usize| of_steps.iter().map(|times| times[place]).sum::<f64>();
    Ok((sum(1) / sum(0).max(1.0) / usual - 1.0).abs() > DIFFERS)
}

/// The time of a step with changes as a multiple of that without where no transfer takes any: as of a rank without a trace that the others
/// wait for, whose work changes as theirs does. None for changes that make transfers.
///
/// # Errors
/// A change that cannot be made to the step.
pub(crate) fn ratio_of_work(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[Box<dyn StepChange>],
) -> Result<Option<f64>> {
    let mut step = recorded.typical.clone();
    let transfers: Vec<NodeId> =
        step.graph.ids().filter(|id| step.graph.node(*id).kind == WorkKind::Transfer).collect();
    transfers.into_iter().for_each(|id| step.graph.set_duration(id, 0));
    let before = step.time(&simulate(&step.graph)).max(1) as f64;
    let changed = with(Scenario { step, communication: communication.clone() }, &references(changes))?.step;
    let has_transfers = changed.graph.nodes().iter().any(|node| node.kind == WorkKind::Transfer && node.duration > 0);
    let after = length(&changed, &simulate(&changed.graph))?;
    Ok((!has_transfers).then_some(after / before))
}

/// The time of a step with changes as a multiple of that without.
pub(super) fn ratio(step: StepGraph, communication: CommunicationCosts, changes: &[&dyn StepChange]) -> Result<f64> {
    times(step, communication, changes).map(|[before, after]| after / before)
}

/// The time of a step without changes and with them, in nanoseconds.
fn times(step: StepGraph, communication: CommunicationCosts, changes: &[&dyn StepChange]) -> Result<[f64; 2]> {
    compared(step, communication, changes).map(|(times, _)| times)
}

/// The same, and the changed step. Both times are of steps that were computed in the same way, so that changes that change nothing bring nothing.
fn compared(
    step: StepGraph,
    communication: CommunicationCosts,
    changes: &[&dyn StepChange],
) -> Result<([f64; 2], Scenario)> {
    let before = Scenario { step: step.without_backlog(), communication };
    let time = |scenario: &Scenario| length(&scenario.step, &simulate(&scenario.step.graph));
    let [before, changed] = [with(before.clone(), &[])?, with(before, changes)?];
    Ok(([time(&before)?.max(1.0), time(&changed)?], changed))
}

/// A step of more than 100 days, in nanoseconds, is no answer.
const LONGEST: u64 = 100 * 86_400 * 1_000_000_000;

/// Nanoseconds of a changed step.
fn length(step: &StepGraph, schedule: &NodeSchedule) -> Result<f64> {
    let time = step.time(schedule);
    let too_long =
        || Error::usage("a step would take more than 100 days").expected("changes after which a step is shorter");
    (time <= LONGEST).then_some(time as f64).ok_or_else(too_long)
}

/// A scenario with changes, in which kernels wait for their launch or in a queue, and operations are as slow as the communication during them makes them then.
fn with(mut scenario: Scenario, changes: &[&dyn StepChange]) -> Result<Scenario> {
    let (before, queues) =
        (scenario.communication.slow_down.overlap(&scenario.step), LaunchQueues::from_step(&scenario.step));
    changes.iter().try_for_each(|change| change.apply(&mut scenario))?;
    let Scenario { step, communication } = &mut scenario;
    let queues = queues.in_changed_step(step);
    queues.fit(step);
    communication.slow_down.adjust(step, &before);
    Ok(Scenario { step: scenario.step.settled_with(&queues), ..scenario })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes of -40 % and 0 % in turns: -20 % on average; the standard error of eight is 20 / sqrt(7), Student's t of 7 is 2.365.
    #[test]
    fn the_mean_of_steps_is_known_better_than_a_step() {
        let steps: Vec<[f64; 2]> = (0..8).map(|index| [100.0, if index % 2 == 0 { 60.0 } else { 100.0 }]).collect();
        let [low, high] = of_mean(&steps);
        assert!((low - (0.8 - 0.17877)).abs() < 1e-4 && (high - (0.8 + 0.17877)).abs() < 1e-4, "{low} {high}");
        assert_eq!(of_mean(&steps[1..2]), [1.0, 1.0]);
    }
}
