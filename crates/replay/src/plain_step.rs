//! The time of a step without the profiler, from the files that `perf4sight record` writes next to traces.

use crate::ranks::{JobRank, TrainingJob};
use perf4sight_base::stats::{mean, median};
use perf4sight_record::Recording;

/// The time of a step without the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainStep {
    /// Nanoseconds: the median of steps.
    pub time: u64,
    /// Their mean, which counts where steps differ in what they do.
    pub mean: u64,
    /// The number of steps that were timed; none if the time was given, or is of some of the steps alone.
    pub steps: Option<usize>,
}

impl PlainStep {
    /// The given mean of many steps, in nanoseconds.
    pub fn from_mean(mean: u64) -> Self {
        PlainStep { time: mean, mean, steps: None }
    }
}

/// The median and the mean over the steps that were timed without the profiler, each `cycle` recorded ones and as long as on its slowest rank; none
/// if no rank has any, or if they have different numbers of them.
///
/// # Errors
/// Why a file next to a trace is of no use, in a sentence.
pub fn from_recording(job: &TrainingJob, cycle: usize) -> Result<Option<PlainStep>, String> {
    let next_to = |rank: &JobRank| Recording::next_to(&rank.trace.file).map_err(|error| error.to_string());
    let recordings: Vec<Option<Recording>> = job.ranks.iter().map(next_to).collect::<Result<_, _>>()?;
    let is_other = |(rank, own): &(&JobRank, &Recording)| own.wall.recorded.concat().len() != rank.steps.len();
    if let Some((rank, own)) =
        job.ranks.iter().zip(&recordings).filter_map(|(rank, own)| Some((rank, own.as_ref()?))).find(is_other)
    {
        return Err(format!(
            "the times next to the trace of rank {} are of {} recorded steps, the trace has {}",
            rank.number,
            own.wall.recorded.concat().len(),
            rank.steps.len()
        ));
    }
    let of_ranks: Vec<Vec<u64>> = recordings.iter().flatten().map(|own| own.wall.plain.concat()).collect();
    let Some(first) = of_ranks.first().filter(|first| !first.is_empty()) else { return Ok(None) };
    if of_ranks.len() < job.ranks.len() || of_ranks.iter().any(|own| own.len() != first.len()) {
        return Err("the ranks were not timed without the profiler in the same steps".to_owned());
    }
    let slowest = |step: usize| of_ranks.iter().map(|own| own[step]).max().unwrap_or(0) as f64;
    let recorded: Vec<f64> = (0..first.len()).map(slowest).collect();
    let steps: Vec<f64> = recorded.chunks_exact(cycle).map(|steps| steps.iter().sum()).collect();
    Ok((!steps.is_empty()).then(|| PlainStep {
        time: median(&steps) as u64,
        mean: mean(&steps) as u64,
        steps: Some(steps.len()),
    }))
}
