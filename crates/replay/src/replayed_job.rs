//! A job's steps as a graph, replayed: how far the replay is from the record, what decides the length of a step, and what
//! changes would bring.

use crate::Analysis;
use crate::communication::CommunicationCosts;
use crate::graph::recorded::{LeftOutStep, RecordedSteps, RecordingDistortion, StepCorrection, UnlikeSteps};
use crate::graph::{RankNodes, StepGraph, WorkKind};
use crate::plain_step::PlainStep;
use crate::ranks::JobRank;
use crate::request::{ReplayRequest, changes};
use crate::simulate::{CriticalShare, NodeSchedule, critical_path, of_names, shares, simulate};
use crate::waiting::LEAST_SHARE;
use crate::what_if::{StepChange, WhatIfOutcome, predict, ratio_of_work, still_unlike};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::{mean, median, percentile};

/// The replay of a job's steps.
#[derive(Debug, Clone)]
pub struct ReplayedJob {
    /// Each step, replayed with its own durations: equal to the record unless it contradicts an edge.
    pub steps: Vec<ReplayedStep>,
    /// The others, in which ranks do something else; none if all are replayed.
    pub unlike: Option<UnlikeSteps>,
    /// Each step as graphs predict it that were built without it.
    pub left_out: Vec<LeftOutStep>,
    /// Nanoseconds of the replayed typical step, without the distortion if it was taken out.
    pub typical: u64,
    /// Nanoseconds of a step that nothing disturbs, replayed with all that recording adds.
    pub undisturbed: u64,
    /// Nanoseconds of a step that takes as long as recorded ones, replayed.
    pub as_recorded: u64,
    /// Nanoseconds of the mean step, replayed, if steps differ in what takes long and none is typical.
    pub mean: Option<u64>,
    /// Nanoseconds from one step to the next on threads, if they run so far ahead that GPUs fall behind them in each step.
    pub ahead: Option<u64>,
    /// The step in which the rank that the others wait for longest is as they are; none if they do not wait for long, or no other does the same.
    pub without_straggler: Option<WhatIfOutcome>,
    /// Nanoseconds between which a step without recording is; none if its time is known.
    pub plain_bounds: Option<[u64; 2]>,
    /// The time on the critical path of the typical step by rank and kind, the largest first.
    pub critical: Vec<CriticalShare>,
    /// The same by the names of operations.
    pub names: Vec<(String, u64)>,
    /// The typical step, without the distortion if it was taken out.
    pub step: StepGraph,
    /// When each operation of it starts.
    pub schedule: NodeSchedule,
    /// Each rank's part of it.
    pub ranks: Vec<RankTime>,
    /// What communication costs.
    pub communication: CommunicationCosts,
    /// The names of the groups whose costs these are.
    pub groups: Vec<String>,
    /// How far the recorded step is from a plain one, if that is known, and what is known of the plain one.
    pub distortion: Option<(PlainStep, RecordingDistortion)>,
    /// What each requested scenario brings, or why it cannot be asked of these traces.
    pub what_ifs: Vec<(String, Result<WhatIfOutcome>)>,
}

/// A step, recorded and replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedStep {
    /// Its index in [`crate::ranks::TrainingJob::steps`].
    pub step: usize,
    /// Nanoseconds as recorded: the longest of the ranks'.
    pub recorded: u64,
    /// Nanoseconds of its replay for each rank.
    pub ranks: Vec<u64>,
}

/// A rank's part of the typical step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTime {
    /// The number of the rank.
    pub rank: u32,
    /// Nanoseconds.
    pub time: f64,
    /// Nanoseconds between which nine of ten steps are.
    pub interval: [f64; 2],
}

/// The percentiles over the steps that bound a rank's time.
const BOUNDS: [f64; 2] = [5.0, 95.0];

impl ReplayedStep {
    /// Nanoseconds of its replay: the longest of the ranks'.
    pub fn replayed(&self) -> u64 {
        self.ranks.iter().copied().max().unwrap_or(0)
    }

    /// By how much the replay is longer than the record, in percent.
    pub fn error(&self) -> f64 {
        100.0 * (self.replayed() as f64 / self.recorded.max(1) as f64 - 1.0)
    }
}

/// How far predictions of steps that were left out are from the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftOutError {
    /// The median of the differences without their signs, in percent.
    pub median: f64,
    /// The same of predictions under the load of each step, in percent.
    pub under_load: f64,
    /// The number of steps.
    pub steps: usize,
    /// How far the steps themselves are from their median: the median of the differences, in percent.
    pub spread: f64,
}

impl ReplayedJob {
    /// Replays the steps of a job.
    ///
    /// # Errors
    /// Traces whose operations wait for each other in a circle, a table of costs that cannot be read.
    pub fn replay(analysis: &Analysis, request: &ReplayRequest) -> Result<Self> {
        let Analysis { job, exchanges, clocks, .. } = analysis;
        let (recorded, left_out) = RecordedSteps::with_left_out(job, exchanges, clocks)?;
        let known = request.known_of(job)?;
        let straggler = without_straggler(analysis);
        let texts: Vec<String> = request.what_ifs.iter().cloned().chain(straggler.clone()).collect();
        let depend = request.depend_on_step(&texts, &recorded, &known)?;
        let of_all = depend.contains(&true).then(|| recorded.clone());
        let steps = steps(&recorded);
        let [undisturbed, as_recorded] =
            [recorded.typical.clone(), recorded.as_recorded()].map(|step| step.time(&simulate(&step.graph)));
        request.check_plain(&recorded)?;
        let ahead = lead_of_threads(analysis, &recorded);
        let usual = StepBaseline::new(analysis, request, recorded)?;
        let of_all = of_all.map(|mut recorded| {
            recorded.take_mean_of_all();
            StepBaseline::new(analysis, request, recorded)
        });
        let of_all = of_all.transpose()?;
        let predicted = |(text, depends): (&String, bool)| -> Result<WhatIfOutcome> {
            job.doubtful_launches().map_or(Ok(()), Err)?;
            let changes = changes(text, &known)?;
            match of_all.as_ref().filter(|_| depends) {
                Some(of_all) => Ok(of_all.predict(analysis, &changes)?.of_mean()),
                None => usual.predict(analysis, &changes),
            }
        };
        let mut what_ifs: Vec<(String, Result<WhatIfOutcome>)> =
            texts.into_iter().zip(depend).map(|(text, depends)| (text.clone(), predicted((&text, depends)))).collect();
        let without_straggler = straggler.and_then(|_| what_ifs.pop()?.1.ok());
        let StepBaseline { recorded, communication, distortion, plain_bounds, .. } = usual;
        let before = recorded.typical.time(&simulate(&recorded.typical.graph));
        let mean = recorded.varies.then(|| recorded.mean());
        let step = recorded.typical;
        let schedule = simulate(&step.graph);
        let path = critical_path(&step.graph, &schedule);
        let names = of_names(&step.graph, &path, before);
        Ok(ReplayedJob {
            ranks: ranks(&step, &schedule, &steps),
            steps,
            unlike: recorded.unlike,
            left_out,
            typical: before,
            undisturbed,
            as_recorded,
            mean,
            ahead,
            without_straggler,
            plain_bounds,
            critical: shares(&step.graph, &path, before),
            names: names.into_iter().map(|(name, time)| (name.to_owned(), time)).collect(),
            groups: step.groups.iter().map(|group| group.name.clone()).collect(),
            step,
            schedule,
            communication,
            distortion,
            what_ifs,
        })
    }

    /// The scenarios with what they bring.
    pub fn answered_scenarios(&self) -> impl Iterator<Item = (&str, &WhatIfOutcome)> {
        self.what_ifs.iter().filter_map(|(text, outcome)| Some((text.as_str(), outcome.as_ref().ok()?)))
    }

    /// The scenarios that cannot be asked of these traces, with the reason.
    pub fn unanswered_scenarios(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.what_ifs.iter().filter_map(|(text, outcome)| Some((text.as_str(), outcome.as_ref().err()?)))
    }

    /// How far predictions of steps that were left out are from the record, in percent; none with one step alone.
    pub fn error(&self) -> Option<LeftOutError> {
        let lengths: Vec<f64> = self.left_out.iter().map(|step| step.recorded as f64).collect();
        let errors: Vec<f64> = self.left_out.iter().map(|step| step.error().abs()).collect();
        if errors.is_empty() {
            return None;
        }
        let middle = median(&lengths);
        let off: Vec<f64> = lengths.iter().map(|length| 100.0 * (length / middle - 1.0).abs()).collect();
        let under_load: Vec<f64> = self.left_out.iter().map(|step| step.error_under_load().abs()).collect();
        Some(LeftOutError {
            median: median(&errors),
            under_load: median(&under_load),
            steps: errors.len(),
            spread: median(&off),
        })
    }

    /// The largest difference of a step, replayed with its own durations, from the record, in percent.
    pub fn worst(&self) -> f64 {
        self.steps.iter().map(|step| step.error().abs()).fold(0.0, f64::max)
    }
}

/// The steps that changes are compared with, and what makes predictions less certain than these show.
struct StepBaseline {
    recorded: RecordedSteps,
    communication: CommunicationCosts,
    distortion: Option<(PlainStep, RecordingDistortion)>,
    /// Nanoseconds of a step, replayed.
    own: u64,
    /// Nanoseconds between which a step without recording is; none if its time is known.
    plain_bounds: Option<[u64; 2]>,
}

impl StepBaseline {
    /// Takes out what recording added, where that is known.
    fn new(analysis: &Analysis, request: &ReplayRequest, mut recorded: RecordedSteps) -> Result<Self> {
        let [least, as_recorded] =
            [recorded.least(), recorded.as_recorded()].map(|step| step.time(&simulate(&step.graph)));
        let distortion =
            request.plain_step(analysis, &recorded.steps).map(|plain| (plain, recorded.take_out_distortion(plain)));
        let communication = request.communication(&recorded)?;
        let own = recorded.usual_time();
        if own == 0 {
            return Err(nothing_to_replay());
        }
        let is_known = distortion.as_ref().is_some_and(|(_, distortion)| distortion.correction != StepCorrection::None);
        let longest = if recorded.varies { own } else { as_recorded.max(own) };
        let plain_bounds = (!is_known).then(|| [least.min(own), longest]);
        Ok(StepBaseline { recorded, communication, distortion, own, plain_bounds })
    }

    fn predict(&self, analysis: &Analysis, changes: &[Box<dyn StepChange>]) -> Result<WhatIfOutcome> {
        let StepBaseline { recorded, communication, .. } = self;
        let mut outcome = predict(recorded, communication, changes)?;
        if !analysis.job.missing().is_empty() || analysis.unknown_waiting().is_some() {
            // As long as all wait for a rank without a trace, what the others do changes nothing; or it does the same.
            let alike = ratio_of_work(recorded, communication, changes)?.unwrap_or(1.0);
            [1.0, alike].iter().for_each(|ratio| outcome.after.include(ratio * outcome.before as f64));
        }
        if let Some(bounds) = self.plain_bounds {
            outcome.after.widen(bounds.map(|bound| bound as f64 / self.own as f64));
        }
        if let Some(unlike) = still_unlike(recorded, changes) {
            // Of steps that are not replayed it is known how long they take, and not what changes bring to them.
            let [shorter, longer] = unlike.bounds().map(|bound| bound / outcome.before.max(1) as f64);
            outcome.after.widen([shorter.min(1.0), longer.max(1.0)]);
        }
        if let Some((_, distortion)) = &self.distortion {
            outcome.after.widen(distortion.unexplained_range(outcome.after.time));
        }
        Ok(outcome)
    }
}

/// From this ratio of a step on GPUs to one on threads on, GPUs fall behind.
const FALLS_BEHIND: f64 = 1.1;

/// Nanoseconds from one step to the next on threads, if they run so far ahead that GPUs fall behind them in each step.
pub fn lead_of_threads(analysis: &Analysis, recorded: &RecordedSteps) -> Option<u64> {
    let job = &analysis.job;
    if recorded.typical.graph.nodes().iter().all(|node| node.kind != WorkKind::Kernel) {
        return None;
    }
    let of_rank = |(index, rank): (usize, &JobRank)| {
        let windows = recorded.steps.iter().map(|step| rank.steps[job.steps[*step].of[index]].window);
        let lengths = windows.map(|(begin, end)| (end - begin) as f64);
        mean(&lengths.collect::<Vec<_>>())
    };
    let on_threads = job.ranks.iter().enumerate().map(of_rank).fold(0.0, f64::max);
    let step = mean(&recorded.recorded.iter().map(|time| *time as f64).collect::<Vec<_>>());
    (step > FALLS_BEHIND * on_threads).then_some(on_threads as u64)
}

fn nothing_to_replay() -> Error {
    let error = Error::input("no step has an operation on a thread or stream that takes time");
    error.expected("traces of a profiler, with the operations of each rank")
}

fn steps(recorded: &RecordedSteps) -> Vec<ReplayedStep> {
    let step = |(index, time): (usize, &u64)| {
        let step = recorded.step(index);
        let ranks = step.rank_times(&simulate(&step.graph));
        ReplayedStep { step: recorded.steps[index], recorded: *time, ranks }
    };
    recorded.recorded.iter().enumerate().map(step).collect()
}

/// The scenario in which the rank that the others wait for longest is as they are; none if they do not wait for long.
fn without_straggler(analysis: &Analysis) -> Option<String> {
    let first = analysis.first_straggler().filter(|first| first.share >= LEAST_SHARE)?;
    Some(format!("rank {} as the others", analysis.job.ranks[first.rank].number))
}

/// Each rank's part of the typical step; its interval is as wide as its parts of the recorded steps differ.
fn ranks(typical: &StepGraph, schedule: &NodeSchedule, steps: &[ReplayedStep]) -> Vec<RankTime> {
    let times = typical.rank_times(schedule).into_iter();
    let rank = |(place, (rank, time)): (usize, (&RankNodes, u64))| {
        let of_steps: Vec<f64> = steps.iter().map(|step| step.ranks[place] as f64).collect();
        let middle = median(&of_steps).max(1.0);
        let interval = BOUNDS.map(|bound| time as f64 * percentile(&of_steps, bound) / middle);
        RankTime { rank: rank.number, time: time as f64, interval }
    };
    typical.ranks.iter().zip(times).enumerate().map(rank).collect()
}
